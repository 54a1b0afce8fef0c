"""The job's program: what is wrong is told before Spark starts, with an exit code."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import plan_functions
import pytest
import yaml

from jobs.quickstart import submit_command
from jobs.run import application, main, plan_of, source_of
from jobs.settings import SourceSettings, load, parse
from streams.spark import BatchReport
from versioned.errors import ConfigurationError

_PROJECT = Path(__file__).parents[2]
_CONFIG = _PROJECT / "conf" / "quickstart.yaml"


def _said(**changes: Any) -> dict[str, Any]:
    said: dict[str, Any] = yaml.safe_load(_CONFIG.read_text(encoding="utf-8"))
    return said | changes


def test_the_quickstarts_plan_reads_the_topics_that_its_settings_name() -> None:
    settings = load(_CONFIG)
    described = plan_of(settings).describe()
    assert [topic for topic in settings.sources if topic not in described] == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"plan": "jobs.no_such_plan:build"}, "jobs.no_such_plan"),
        ({"plan": "jobs.quickstart_plan:no_such_function"}, "no_such_function"),
        ({"plan_settings": {"grace": "6 hours"}}, "history_retention"),
        ({"plan_settings": {"grace": "6 hours", "history": "3 days"}}, "takes: grace, history_retention"),
    ],
)
def test_a_plan_that_is_not_there_or_takes_other_settings_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        plan_of(parse(_said(**changes)))


@pytest.mark.parametrize(
    ("changes", "told"), [({"tigger": "x"}, "tigger"), ({"plan": "jobs.no_such_plan:build"}, "jobs.no_such_plan")]
)
def test_wrong_settings_end_the_program_with_code_2_and_their_path(
    changes: dict[str, Any],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text(yaml.safe_dump(_said(**changes)), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["run.py", "--config", str(config), "--work", str(tmp_path)])
    assert main() == 2
    assert told in capsys.readouterr().err


def test_the_job_is_a_plain_spark_submit_with_the_settings_of_conf() -> None:
    command = submit_command(Path("work"), _CONFIG)
    assert Path(command[0]).name == "spark-submit"
    assert command[command.index("--properties-file") + 1] == str(_PROJECT / "conf" / "spark-defaults.conf")
    assert command[-5:] == [str(_PROJECT / "jobs" / "run.py"), "--config", str(_CONFIG), "--work", "work"]


@pytest.mark.parametrize(("version", "code"), [("17.0.12", 0), ("21.0.4", 0), ("11.0.2", 1), ("1.8.0_402", 1)])
def test_java_is_checked_before_anything_is_fetched(version: str, code: int, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-07-16' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    environment = {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    script = ["bash", str(_PROJECT / "tools" / "check_java.sh")]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code


def test_without_java_one_line_says_what_to_install_on_each_system(tmp_path: Path) -> None:
    script = ["bash", str(_PROJECT / "tools" / "check_java.sh")]
    environment = {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert [system for system in ("Debian/Ubuntu", "macOS", "Windows") if system not in lines[0]] == []


def test_the_program_takes_settings_from_its_command_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--config", str(_CONFIG), "--set", "tigger=5 s"])
    assert main() == 2
    assert 'tigger: unknown key; did you mean "trigger"?' in capsys.readouterr().err


def test_every_setting_of_a_run_reaches_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("jobs.run.StreamingApplication", lambda *args, **options: given.update(options))
    said = {"suppressed.record.retention.ms": 90_000, "keys_cross_partitions": False, "checkpoint": "state/checkpoint"}
    settings = parse(_said(**said))
    spark: Any = None
    application(spark, settings, plan_of(settings), tmp_path)
    assert (given["suppressed_record_retention"], given["keys_cross_partitions"]) == (timedelta(seconds=90), False)
    assert given["checkpoint"] == str(tmp_path / "state" / "checkpoint")


def test_a_checkpoint_that_climbs_out_of_the_work_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"checkpoint: .*\.\."):
        parse(_said(checkpoint="../../elsewhere"))


def test_a_source_is_read_through_its_transform(tmp_path: Path) -> None:
    said = SourceSettings(format="kafka", options={"subscribe": "clicks"}, transform="plan_functions:decoded")
    assert source_of("clicks", said, tmp_path).transform is plan_functions.decoded


def test_the_metrics_of_the_settings_reach_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("jobs.run.StreamingApplication", lambda *args, **options: given.update(options))
    settings = parse(_said(metrics={"level": "debug", "prometheus": "told/metrics.prom"}))
    heard: list[BatchReport] = []
    spark: Any = None
    application(spark, settings, plan_of(settings), tmp_path, heard.append)
    report = BatchReport(0, datetime(2026, 1, 1, tzinfo=timezone.utc), {}, {}, 0, 0, 1.0)
    given["on_batch"](report)
    assert (given["metrics_level"], heard) == ("debug", [report])
    assert (tmp_path / "told" / "metrics.prom").exists()
