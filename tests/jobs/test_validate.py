"""Great Expectations over every kind of stored table: a fault per invariant is found, and counted to the row."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import stored_tables
import yaml
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from stored_tables import FAULTS, Heard, expected
from typer.testing import CliRunner

from jobs.cli import app as command_line
from jobs.exit_codes import BAD_DATA, DONE, FAILED, exit_code, reason
from jobs.quickstart import submit_command
from jobs.validate import ledger_facts, settings_of
from streams.spark import BatchReport, StreamingApplication
from streams.spark.guards import BatchGuard, counts
from streams.spark.invariants import Facts, invariants_of, with_facts
from streams.spark.operator import Batch
from streams.spark.stored_kinds import StoredTable, stored_table
from versioned.durations import instant_us
from versioned.errors import InvariantError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable
from versioned.table_details import properties_of

#: An application with every kind of table, judged three times: more than a minute.
pytestmark = pytest.mark.slow

_KINDS = {
    "prices": "versions",
    "counts": "windows",
    "held": "buffer",
    "prices_waiting": "waiting",
    "met": "join",
    "answers": "answers",
    "ledger": "ledger",
    "rejects": "rejects",
    "items_now": "sink",
    "items": "table",
}


@dataclass
class Run:
    """What happened, in this order: a run that failed, one that went well, validations, faults, a validation."""

    work: Path
    application: StreamingApplication
    failed: Exception
    left_by_failed: list[str]
    reports: list[BatchReport]
    logged: list[tuple[str, str]]
    rejected: list[str]
    sound: Any = None
    unsure: Any = None
    broken: Any = None


def _validated(work: Path, name: str, **settings: Any) -> Any:
    config = work / f"{name}.yaml"
    config.write_text(yaml.safe_dump({"root": "tables", "docs": f"pages_{name}", **settings}), encoding="utf-8")
    return CliRunner().invoke(command_line, ["validate", "-c", str(config), "-w", str(work), "--json"])


def test_a_variable_sets_the_validation_and_the_job_that_it_names_each_where_it_has_such_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.yaml").write_text(yaml.safe_dump({"root": "r", "docs": "d", "job": _job(tmp_path)}), "utf-8")
    monkeypatch.setenv("VERSIONED_JOB__EXAMPLES", "3")
    monkeypatch.setenv("VERSIONED_JOB__SOURCES__PRICES__PATH", "elsewhere")
    monkeypatch.setenv("VERSIONED_JOB__SUPPRESSED_RECORD_RETENTION_MS", "1500")
    settings, job = settings_of(tmp_path / "v.yaml")
    assert job is not None
    assert (settings.examples, job.sources["prices"].path) == (3, "elsewhere")
    assert job.suppressed_record_retention == timedelta(seconds=1.5)


def _job(work: Path) -> str:
    said = {
        "application": "shop",
        "root": "tables",
        "plan": {"prices": {"op": "stream", "key": "item"}},
        "sources": {
            topic: {
                "format": "json",
                "path": f"input/{topic}",
                "schema": f"seq BIGINT, ts TIMESTAMP, item STRING, {stored_tables.COLUMNS[topic]}",
                "quality": quality,
            }
            for topic, quality in (("prices", stored_tables.PRICES), ("orders", stored_tables.ORDERS))
        },
    }
    (work / "job.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    return "job.yaml"


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    work = tmp_path_factory.mktemp("validate")
    stored_tables.written(work / "input")
    reports: list[BatchReport] = []
    strict = stored_tables.ORDERS | {"policy": "fail"}
    with pytest.raises(PySparkException) as failed:
        stored_tables.application(spark, work, strict, reports).run()
    left = [row["application"] for row in spark.read.format("delta").load(f"{work}/tables/ledger").collect()]
    heard = Heard()
    logging.getLogger("jobs").addHandler(heard)
    try:
        application = stored_tables.application(spark, work, stored_tables.ORDERS, reports)
        application.run()
    finally:
        logging.getLogger("jobs").removeHandler(heard)
    rejected = [row["reason"] for row in spark.read.format("delta").load(f"{work}/tables/rejects").collect()]
    made = Run(work, application, failed.value, left, reports, heard.said, rejected)
    made.sound = _validated(work, "sound", tables=["items"])
    made.unsure = _validated(work, "unsure", tables=["items_now"], job=_job(work))
    for table in FAULTS:
        path = f"{work}/tables/{table}"
        if table == "prices":
            stored_tables.unguard(spark, path)
        stored_tables.inject(spark, path, table, "item = 'tea'" if table in ("counts", "held") else "true")
    made.broken = _validated(work, "broken", examples=2)
    return made


def _told(ended: Any) -> dict[str, dict[str, Any]]:
    return {said["name"]: said for said in map(json.loads, ended.stdout.splitlines())}


def _table(spark: SparkSession, run: Run, name: str) -> tuple[StoredTable, DataFrame]:
    rows = spark.read.format("delta").load(f"{run.work}/tables/{name}")
    target = TableRef.parse(f"{run.work}/tables/{name}")
    return stored_table(name, rows.columns, properties_of(spark, target)), rows


def test_every_kind_of_table_is_told_from_what_is_stored(run: Run) -> None:
    told = _told(run.broken)
    assert {name: told[name]["kind"] for name in _KINDS} == _KINDS


@pytest.mark.parametrize("table", FAULTS)
def test_every_injected_fault_is_found_and_no_sound_row_with_it(run: Run, table: str) -> None:
    said = _told(run.broken)[table]
    assert said["errors"] == {}
    assert said["broken"] == expected(table)


@pytest.mark.parametrize("table", FAULTS)
def test_there_is_a_fault_for_every_invariant(spark: SparkSession, run: Run, table: str) -> None:
    names = [rule.name for rule in invariants_of(_table(spark, run, table)[0])]
    assert sorted(names) == sorted(expected(table))


def test_one_aggregate_counts_what_great_expectations_counts(spark: SparkSession, run: Run) -> None:
    facts = ledger_facts(spark, TableRef.parse(f"{run.work}/tables/ledger"))
    nodes = {"prices_waiting": "prices:reorder"}
    frames = []
    for name in FAULTS:
        table, rows = _table(spark, run, name)
        frames.append(
            counts(with_facts(rows, table, facts.get(nodes.get(name, name), Facts())), invariants_of(table), name)
        )
    found = {row["rule"]: row["n"] for row in reduce(DataFrame.unionByName, frames).collect()}
    wrong = {rule: n for rule, n in found.items() if n and not rule.endswith(".rows")}
    assert wrong == {f"{name}.{rule}": n for name in FAULTS for rule, n in expected(name).items()}


def test_broken_tables_end_with_code_3_and_sound_ones_with_0(run: Run) -> None:
    assert (run.broken.exit_code, run.sound.exit_code) == (BAD_DATA, DONE)
    assert _told(run.sound)["items"] | {"seconds": 0, "version": 0} == {
        "name": "items", "kind": "table", "version": 0, "rows": 2, "rules": 3, "broken": {}, "errors": {},
        "decides": True, "seconds": 0,
    }  # fmt: skip


def test_what_great_expectations_cannot_judge_is_an_error_and_no_broken_rule(run: Run) -> None:
    said = _told(run.unsure)["sources.prices"]
    assert run.unsure.exit_code == FAILED
    assert list(said["errors"]) == ["no_such_column_to_not_be_null"]
    assert "no_such_column" in said["errors"]["no_such_column_to_not_be_null"]
    assert said["broken"] == {"cheap": 2, "letters": 2}


def test_rules_of_a_source_that_only_warn_or_reject_do_not_decide_the_code(run: Run) -> None:
    told = _told(run.unsure)
    assert told["sources.orders"]["broken"] == {"amount_to_be_between": 1, "paid_at_most_amount": 1}
    assert not told["sources.orders"]["decides"]


def test_the_pages_tell_every_table_and_rule(run: Run) -> None:
    pages = run.work / "pages_broken"
    index = (pages / "index.html").read_text(encoding="utf-8")
    assert all(table in index for table in FAULTS)
    (prices,) = (page for page in (pages / "validations" / "prices").rglob("*.html"))
    text = prices.read_text(encoding="utf-8")
    assert "A tombstone has no values." in text
    assert "A version ends before the next one of its key begins, or just then." in text


def test_values_are_shown_in_the_pages_only_if_asked_for(run: Run) -> None:
    def pages(name: str) -> str:
        return "".join(page.read_text(encoding="utf-8") for page in (run.work / name / "validations").rglob("*.html"))

    assert "NONSENSE" in pages("pages_broken")
    assert "price" in pages("pages_unsure")
    assert "xylo" not in pages("pages_unsure")


def test_with_policy_fail_nothing_of_the_batch_is_written(run: Run) -> None:
    assert exit_code(run.failed) == BAD_DATA
    assert "paid_at_most_amount" in reason(run.failed)
    assert run.left_by_failed == []


def test_rejected_rows_are_kept_with_their_rule_and_counted(run: Run) -> None:
    (report,) = run.reports
    assert sorted(run.rejected) == ["NULL_TS", "QUALITY:amount_to_be_between", "QUALITY:paid_at_most_amount"]
    counted = {what.removeprefix("orders."): n for what, n in report.counts.items() if what.startswith("orders.")}
    assert (counted["input"], counted["accepted"], counted["dropped"], counted["skipped"]) == (5, 2, 3, 3)
    assert report.rejected == 3


def test_with_policy_warn_broken_rules_and_errors_are_logged_apart(run: Run) -> None:
    levels = dict(run.logged)
    assert "'cheap': 2" in levels["WARNING"]
    assert "no_such_column" not in levels["WARNING"]
    assert "no_such_column" in levels["ERROR"]


def _batch(spark: SparkSession, run: Run) -> Batch:
    root = TableRef.parse(f"{run.work}/tables")
    clock_us = instant_us(run.reports[0].clock)
    times = {
        node: facts.stream_times
        for node, facts in ledger_facts(spark, TableRef.parse(f"{run.work}/tables/ledger")).items()
    }
    return Batch(spark, "shop", root, 1, run.reports[0].batch_id, clock_us, times)


def test_a_guard_finds_what_a_batch_left_broken_and_ends_the_run(spark: SparkSession, run: Run) -> None:
    batch = _batch(spark, run)
    owned = {name: [batch.root.child(name)] for name in ("prices", "counts", "held", "met", "items_now")}
    guard = BatchGuard(owned, batch.root.child("rejects"), "fail")
    with pytest.raises(InvariantError, match=r"prices\.several_current': 4.*counts\.newest_after.*held\.overdue"):
        guard.look(batch, dict.fromkeys((*owned, "rejects"), 2), {})
    warned = BatchGuard(owned, batch.root.child("rejects"), "warn").look(batch, {"items_now": 2, "unknown": 1}, {})
    assert warned == {"items_now.null_ts": 1, "items_now.null_scope": 1, "items_now.null_seq": 1}


def test_without_guards_nothing_is_read(spark: SparkSession, run: Run) -> None:
    guard = BatchGuard({"gone": [TableRef.parse("/no/such/table")]}, TableRef.parse("/no/such/rejects"), "none")
    assert guard.look(_batch(spark, run), {"table": 1}, {}) == {}


@pytest.mark.slow
def test_by_spark_submit_sound_tables_end_with_0_and_a_page(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/tables/t", "k STRING, v INT", keys="k", history_retention="1 day")
    table.put(spark.sql("SELECT 'a' AS k, 1 AS v, TIMESTAMP '2020-01-01' AS ts"))
    config = tmp_path / "validate.yaml"
    config.write_text("root: tables\ndocs: pages\n", encoding="utf-8")
    command = submit_command(Path(), Path())
    program = next(place for place, word in enumerate(command) if word.endswith("run.py"))
    project = Path(command[program]).parents[1]
    done = subprocess.run(
        [*command[:program], str(project / "jobs" / "validate.py"), "--config", str(config), "--work", str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == DONE, done.stdout + done.stderr[-3_000:]
    assert "11 rules hold" in done.stdout
    assert (tmp_path / "pages" / "index.html").is_file()
