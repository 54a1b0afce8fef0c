"""Canaries: secrets of the settings and values of rows, and everywhere that they must never be found."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from byte_search import hits
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from jobs.cli import app
from versioned.identifiers import TableRef
from versioned.session_settings import session_settings

_ROOT = Path(__file__).parents[2]
#: Only in the settings.
_SECRETS = ("canary-sesame", "canary-tiger", "canary-sas-signature")
#: Only in rows: of good, late, rejected and cut ones.
_VALUES = ("canary-ann", "canary-late", "canary-bad-number", "canary-without-time", "canary-large")


def _settings(**contract: Any) -> dict[str, Any]:
    secrets = {
        "kafka.sasl.jaas.config": f'required password="{_SECRETS[0]}";',
        "url": f"jdbc:x://scott:{_SECRETS[1]}@db/x",
        "fs.azure.account.key.x": _SECRETS[2],
    }
    return {
        "application": "shop",
        "root": "tables",
        "pii_columns": "who",
        "metrics": {"level": "debug", "prometheus": "told/metrics.prom"},
        "sources": {
            "orders": {
                "format": "json",
                "path": "input",
                "schema": "ts TIMESTAMP, who STRING, amount STRING, seq LONG",
                "sequence_by": "seq",
                "options": secrets,
                "contract": {
                    "types": "ts TIMESTAMP, who STRING, amount LONG, seq LONG",
                    "max_bytes": 10_000,
                    **contract,
                },
            }
        },
        "plan": {
            "orders": {"op": "stream", "key": "who"},
            "known": {
                "op": "to_table",
                "from": "orders",
                "store": {"kind": "versioned", "history_retention": "1 day", "late_policy": "side_table"},
            },
            "hourly": {"op": "count", "from": "orders", "windowed_by": {"kind": "tumbling", "size": "1 hour"}},
            "calm": {"op": "suppress", "from": "hourly", "until": "time_limit", "wait": "2 hours"},
            "out": {"op": "to_changelog", "from": "calm"},
        },
    }


def _write(folder: Path, **contract: Any) -> None:
    (folder / "input").mkdir(parents=True, exist_ok=True)
    rows = [
        {"ts": "2026-01-05T00:00:00Z", "who": _VALUES[0], "amount": "1"},
        {"ts": "2026-01-01T00:00:00Z", "who": _VALUES[1], "amount": "2"},
        {"ts": "2026-01-05T00:00:00Z", "who": "x", "amount": _VALUES[2]},
        {"ts": None, "who": _VALUES[3], "amount": "3"},
        {"ts": "2026-01-05T01:00:00Z", "who": "y" * 20_000 + _VALUES[4], "amount": "4"},
        {"ts": "2026-01-05T03:00:00Z", "who": _VALUES[0], "amount": "5"},
    ]
    lines = [json.dumps({**row, "seq": number}) for number, row in enumerate(rows)]
    (folder / "input" / "0.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "shop.yaml").write_text(yaml.safe_dump(_settings(**contract)), encoding="utf-8")


def _found(text: str) -> list[str]:
    return [canary for canary in (*_SECRETS, *_VALUES) if canary in text]


def _run(folder: Path, *arguments: str) -> Any:
    told = [*arguments, "-c", str(folder / "shop.yaml")]
    where = [] if arguments[0] in ("conf", "describe") else ["-w", str(folder)]
    return CliRunner().invoke(app, [*told, *where], catch_exceptions=False)


def _told_by_files(work: Path) -> dict[str, str]:
    """What the application keeps about itself: its ledger, what its commits say, its checkpoint, its metrics."""
    told = {}
    for file in work.rglob("*"):
        parts = file.relative_to(work).parts
        if not file.is_file() or parts[0] in ("input", "shop.yaml"):
            continue
        if parts[1:2] == ("ledger",) or parts[1:2] == ("_checkpoint",) or parts[0] == "told":
            told[str(file.relative_to(work))] = file.read_bytes().decode("utf-8", "replace")
        elif "_delta_log" in parts and file.suffix == ".json":
            actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
            told[str(file.relative_to(work))] = json.dumps([a for a in actions if "add" not in a])
    return told


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A work folder with an application that ran, and what the commands and Python's own log told meanwhile."""
    folder = tmp_path_factory.mktemp("canary")
    _write(folder)
    lines: list[str] = []
    log = logging.Handler(logging.DEBUG)
    log.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    try:
        runs = [_run(folder, "run", "--json"), _run(folder, "conf", "show")]
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    assert [run.exit_code for run in runs] == [0, 0], [run.stderr for run in runs]
    return folder, [*(run.stdout + run.stderr for run in runs), "\n".join(lines)]


@pytest.mark.slow
def test_no_secret_and_no_value_reaches_output_logs_commits_ledger_metrics_or_checkpoint(
    spark: SparkSession, told: tuple[Path, list[str]]
) -> None:
    folder, outputs = told
    assert [_found(text) for text in outputs] == [[], [], []]
    files = _told_by_files(folder)
    assert {"told", "tables"} == {name.split("/")[0] for name in files}
    assert {name: found for name, text in files.items() if (found := _found(text))} == {}
    # Rejects hold the records themselves, or the test would prove nothing.
    rejects = spark.read.format("delta").load(str(folder / "tables" / "rejects"))
    records = " ".join(row["record"] for row in rejects.collect())
    assert set(_found(records)) == {*_VALUES[1:4]}


@pytest.mark.slow
def test_after_erase_and_vacuum_no_byte_below_the_root_has_a_value_of_the_subjects(
    spark: SparkSession, told: tuple[Path, list[str]]
) -> None:
    folder, root = told[0], told[0] / "tables"
    subjects = (_VALUES[0], _VALUES[1], _VALUES[3])
    tables = {log.parent.name for log in root.glob("*/_delta_log")} - {"ledger"}
    assert hits(root, subjects) == tables  # Else the search below would prove nothing.
    (folder / "subjects.csv").write_text("\n".join(("who", *subjects)), encoding="utf-8")
    erased = _run(folder, "erase", "--keys", str(folder / "subjects.csv"))
    assert (erased.exit_code, _found(erased.stdout + erased.stderr)) == (0, [])
    with session_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        for table in tables:
            spark.sql(f"VACUUM {TableRef.parse(str(root / table)).sql} RETAIN 0 HOURS")
    assert hits(root, subjects) == set()


@pytest.mark.parametrize(
    "text",
    [
        "application: shop\nsources: {s: {format: kafka, options: {password: [canary-sesame]}}}\n",
        "application: shop\nsources: {s: {format: kafka, options: {password: 'canary-sesame}}}\n",
        "application: shop\nsources: {s: {format: kafka, options: {password: canary-sesame: x}}}\n",
        "application: shop\nsources: {s: {format: kafka, options: canary-sesame}}\n",
    ],
)
def test_settings_that_are_refused_do_not_tell_their_secrets(tmp_path: Path, text: str) -> None:
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    ended = _run(tmp_path, "run")
    assert (ended.exit_code, _found(ended.stdout + ended.stderr)) == (2, [])


def test_a_setting_below_a_secret_is_refused_without_telling_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path)
    monkeypatch.setenv("VERSIONED_JOB__SOURCES__ORDERS__OPTIONS__URL__X", "1")
    ended = _run(tmp_path, "run", "--set", "sources.orders.options.fs.azure.account.key.x.y=1")
    assert (ended.exit_code, _found(ended.stdout + ended.stderr)) == (2, [])


_LOUD = """
status = error
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""
_PROGRAM = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO)
from jobs.job_plan import plan_of
from jobs.run import application
from jobs.session import build_session
from jobs.settings import load
work = Path(sys.argv[1])
settings = load(work / "shop.yaml")
java = f"-Dlog4j2.configurationFile={(work / 'loud.properties').as_uri()}"
spark = build_session("canary", {"spark.driver.extraJavaOptions": java})
application(spark, settings, plan_of(settings), work).run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("action", ["fail", "reject"])
def test_no_secret_and_no_value_reaches_spark_s_own_log_at_level_info(tmp_path: Path, action: str) -> None:
    _write(tmp_path, on_invalid={"BAD_TYPE": action})
    (tmp_path / "loud.properties").write_text(_LOUD, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "SPARK_LOCAL_DIRS": str(tmp_path / "local")}
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ended.returncode == (1 if action == "fail" else 0), ended.stderr[-2_000:]
    assert "INFO" in ended.stderr
    assert _found(ended.stdout + ended.stderr) == []


@pytest.mark.slow
def test_a_rule_that_fails_at_a_row_tells_no_value_of_it_on_the_console_or_a_page(
    told: tuple[Path, list[str]], tmp_path: Path
) -> None:
    said = _settings()
    said["sources"]["orders"]["quality"] = {
        "expectations": [{"expect_rows_to_satisfy": {"condition": "cast(amount AS BIGINT) > 0", "name": "above"}}]
    }
    (told[0] / "judged.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    judging = {"root": "tables", "tables": ["out"], "docs": str(tmp_path / "pages"), "job": "judged.yaml"}
    (told[0] / "validate.yaml").write_text(yaml.safe_dump(judging), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "SPARK_LOCAL_DIRS": str(tmp_path / "local")}
    arguments = ["validate", "-c", str(told[0] / "validate.yaml"), "-w", str(told[0])]
    command = [sys.executable, "-c", "from jobs.cli import main; main()", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert "above: NOT JUDGED, CAST_INVALID_INPUT. " in ended.stdout, ended.stderr[-2_000:]
    pages = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "pages").rglob("*.html"))
    assert _found(ended.stdout + ended.stderr + pages) == []
