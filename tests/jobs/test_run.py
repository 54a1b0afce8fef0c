"""The job's program: what is wrong is told before Spark starts, with an exit code."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import plan_functions
import pytest
import yaml
from typer.testing import CliRunner

from jobs.ask import main as asked
from jobs.cli import app
from jobs.dry_run import dry_run
from jobs.maintenance import MaintainSettings, maintain
from jobs.progress import Progress
from jobs.quickstart import main as quickstarted
from jobs.quickstart import submit_command
from jobs.run import application, main, plan_of, print_summary, source_of
from jobs.settings import MetricsSettings, SourceSettings, load, parse
from jobs.strict import Strict, validated
from jobs.validate_settings import ValidateSettings
from streams.spark import BatchReport, StreamingApplication
from streams.spark.trigger import trigger_of
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
        (
            {"plan_settings": {"grace": "6 hours", "history": "3 days"}},
            'plan_settings.history: .* no such argument; did you mean "history_retention"',
        ),
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


def test_addresses_of_object_stores_reach_spark_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = _said(root="s3a://bucket/t", checkpoint="dbfs:/mnt/checkpoint")
    said["sources"]["flights"]["path"] = "abfss://in@store/flights"
    said["sources"]["weather"]["path"] = "in/weather"
    settings = parse(said)
    assert "s3a://bucket/t/ledger" in dry_run(settings, plan_of(settings), tmp_path).tables
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "jobs.run.StreamingApplication", lambda *args, **options: given.update(options, root=args[3], sources=args[4])
    )
    spark: Any = None
    application(spark, settings, plan_of(settings), tmp_path)
    assert (given["root"], given["checkpoint"]) == ("s3a://bucket/t", "dbfs:/mnt/checkpoint")
    paths = [given["sources"][topic].options["path"] for topic in ("flights", "weather")]
    assert paths == ["abfss://in@store/flights", str(tmp_path / "in" / "weather")]


def test_a_work_folder_with_a_scheme_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--config", str(_CONFIG), "--work", "s3://b/w"])
    assert main() == 2
    assert "the work folder is one of this machine" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["ask.py", "--work", "s3://b/w", "SELECT 1"])
    assert asked() == 2
    assert "the work folder is one of this machine" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["quickstart.py", "--work", "s3://b/w"])
    with pytest.raises(SystemExit, match="2"):
        quickstarted()
    assert '--work begins with "s3:", and the work folder is one of this machine' in capsys.readouterr().err
    for command in ("run", "maintain", "validate", "doctor"):
        ended = CliRunner().invoke(app, [command, "-c", str(_CONFIG), "-w", "s3://b/w"])
        assert (ended.exit_code, "the work folder is one of this machine" in ended.stderr) == (2, True)


@pytest.mark.parametrize("every", [None, "1 second"])
def test_upkeep_of_a_work_folder_with_a_scheme_is_refused_even_if_it_is_repeated(every: str | None) -> None:
    settings, stop = validated(MaintainSettings, {"root": "t", "every": every}), Event()
    stop.set()
    with pytest.raises(ConfigurationError, match="the work folder is one of this machine"):
        maintain(_NOWHERE, settings, Path("s3://b/w"), stop=stop)


@pytest.mark.parametrize(
    ("model", "said", "path"),
    [
        (ValidateSettings, {"root": "t", "docs": "dbfs:/pages"}, "docs"),
        (MetricsSettings, {"prometheus": "s3://b/x.prom"}, "prometheus"),
    ],
)
def test_an_address_is_refused_where_a_program_looks_into_the_folder_itself(
    model: type[Strict], said: dict[str, Any], path: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{path}: .*of this machine, without a scheme"):
        validated(model, said)


_NOWHERE: Any = None


def _shop(tmp_path: Path) -> StreamingApplication:
    said = _said(
        plan={"s": {"op": "stream"}}, sources={"s": {"format": "rate", "sequence_by": "value"}}, plan_settings={}
    )
    settings = parse(said)
    return application(_NOWHERE, settings, plan_of(settings), tmp_path)


@pytest.mark.parametrize("trigger", ["now and then", "0 seconds", "-5 s", "999 us"])
def test_a_trigger_that_is_none_is_refused_before_anything_is_written(trigger: str, tmp_path: Path) -> None:
    # Without a session: whatever is asked of Spark first would fail otherwise.
    with pytest.raises(ConfigurationError, match=trigger):
        _shop(tmp_path).start(trigger)


@pytest.mark.parametrize(
    ("trigger", "told"),
    [
        ("10s", "10000 milliseconds"),
        ("10 s", "10000 milliseconds"),
        ("5 min", "300000 milliseconds"),
        ("1 h", "3600000 milliseconds"),
        ("500 ms", "500 milliseconds"),
        ("1 d", "86400000 milliseconds"),
        ("10 seconds", "10000 milliseconds"),
    ],
)
def test_spark_is_told_an_interval_in_a_form_that_it_reads(trigger: str, told: str) -> None:
    assert trigger_of(trigger) == {"processingTime": told}
    assert trigger_of("available_now") == {"availableNow": True}


@pytest.mark.parametrize(
    ("form", "name", "is_there", "path"),
    [
        ("json", "orders [1]", True, r"orders \[1\]"),
        ("json", "orders*", False, "orders*"),
        ("delta", "orders [1]", True, "orders [1]"),
    ],
    ids=["a folder by its name", "a pattern", "a table"],
)
def test_a_folder_that_is_there_is_meant_by_its_name_and_not_as_a_pattern(
    tmp_path: Path, form: str, name: str, is_there: bool, path: str
) -> None:
    if is_there:
        (tmp_path / name).mkdir()
    said = SourceSettings(format=form, path=name, schema="k STRING")
    assert source_of("s", said, tmp_path).options["path"] == f"{tmp_path}/{path}"


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


class _Finished:
    """An application without tables."""

    def tables(self) -> list[str]:
        return []

    def __str__(self) -> str:
        return "app"


@pytest.mark.parametrize(
    ("draw", "shown", "err"),
    [
        ("def draw(app, work): return f'{app}.png'", "  picture: app.png\n", ""),
        ("def draw(app, work, size=3): return size", "  picture: 3\n", ""),
        ("def draw(card): raise AssertionError", "", ""),
        ("def draw(app, work, size): raise AssertionError", "", ""),
        ("draw = 7", "", ""),
        ("draw = range", "", ""),
        ("def draw(app, work): return work / 1", "", "  no picture: draw of {name}:build fails: TypeError: "),
    ],
)
def test_a_finished_run_is_drawn_by_a_function_for_it_and_done_even_if_that_fails(
    draw: str, shown: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"drawn_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(draw, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("jobs.run.application_frames", lambda app: {})
    monkeypatch.setattr("jobs.run.summary", lambda *_: "summary")
    app: Any = _Finished()
    print_summary(app, parse(_said(plan=f"{name}:build")), tmp_path, Progress())
    printed = capsys.readouterr()
    assert printed.out == f"summary\n{shown}"
    assert printed.err.startswith(err.format(name=name))
    assert bool(printed.err) == bool(err)


@pytest.mark.parametrize(
    "said",
    [
        {"format": "rate"},
        {"table": "main.shop.prices"},
        {"kafka": {"servers": "host:9092", "topic": "prices", "value": "price DOUBLE"}},
    ],
    ids=["a format", "a table", "kafka"],
)
@pytest.mark.parametrize(("skew", "ahead_us"), [("90 days", 90 * 86_400_000_000), ("0 seconds", 0), (None, 7)])
def test_a_source_says_how_far_ahead_its_records_may_be_or_leaves_it_to_the_job(
    said: dict[str, Any], skew: str | None, ahead_us: int
) -> None:
    settings = validated(SourceSettings, said | ({} if skew is None else {"max_future_skew": skew}))
    assert source_of("prices", settings, Path()).max_future_us(7) == ahead_us
