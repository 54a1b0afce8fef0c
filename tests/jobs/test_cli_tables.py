"""Commands that need Spark: tables, upkeep, and a whole run by spark-submit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from jobs.cli import app
from jobs.quickstart import submit_command
from versioned import VersionedTable

_PROJECT = Path(__file__).parents[2]
_MAINTAIN = str(_PROJECT / "conf" / "maintain.yaml")


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def _lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture(scope="module")
def prices(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table made by the command line, with three versions of tea, one of them late, and one of rice."""
    target = f"{tmp_path_factory.mktemp('cli')}/tables/prices"
    schema = "item STRING, size INT, price DOUBLE"
    ended = _run("table", "create", target, "--schema", schema, "--keys", "item,size", "--history-retention", "30 days")
    assert ended.exit_code == 0, ended.output
    changes = """VALUES ('tea', 1, 10D, TIMESTAMP '2026-01-01'), ('tea', 1, 12D, TIMESTAMP '2026-01-05'),
        ('tea', 1, 11D, TIMESTAMP '2026-01-03'), ('rice', 2, 4D, TIMESTAMP '2026-01-02') AS t(item, size, price, ts)"""
    VersionedTable.open(spark, target).put(spark.sql(f"SELECT * FROM {changes}"))
    return target


def test_a_dry_run_of_create_tells_the_promise_and_makes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    target = f"{tmp_path}/t"
    asked = ["table", "create", target, "--schema", "k STRING, v INT", "--keys", "k", "--history-retention", "90 min"]
    told = json.loads(_run(*asked, "--grace", "1 h", "--time-scope", "key", "--dry-run", "--json").stdout)
    assert told == {
        "table": target, "keys": ["k"], "values": ["v"], "history_retention": "1 hour 30 minutes", "grace": "1 hour",
        "valid_from": "validFrom", "valid_to": "validTo", "time_scope": "key", "time_resolution": "microsecond",
        "system_history": False, "created": False,
    }  # fmt: skip
    assert not Path(target).exists()


def test_a_table_gets_a_column_by_the_command_line_unless_it_is_only_asked_what_would_be(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = f"{tmp_path}/t"
    VersionedTable.create(spark, target, "k STRING, v INT", keys="k", history_retention="1 day")
    asked = ["table", "add-columns", target, "--schema", "w STRING", "--json"]
    for extra, added in ((["--dry-run"], False), ([], True)):
        told = json.loads(_run(*asked, *extra).stdout)
        assert (told["values"], told["added"]) == (["v", "w"], added)
        assert VersionedTable.open(spark, target).spec.values == (("v", "w") if added else ("v",))
    assert _run("table", "add-columns", target, "--schema", "v STRING").exit_code != 0


@pytest.mark.parametrize("schema", ["k STRIN", "k STRING,, v INT", "k"])
def test_a_schema_that_is_no_ddl_is_wrong_usage(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    ended = _run("table", "create", f"{tmp_path}/t", "--schema", schema, "--keys", "k", "--history-retention", "1 day")
    assert ended.exit_code == 2
    assert f"--schema {schema}: " in ended.stderr


@pytest.mark.parametrize(
    ("schema", "keys", "told"),
    [
        ("item STRING, v INT", "itm", 'Key column "itm" is not in the schema'),
        ("item MAP<STRING, INT>, v INT", "item", 'Key column "item" has type map'),
        ("item STRING, v VARCHAR(3)", "item", "bounded length"),
        ("item STRING, item STRING, v INT", "item", 'Column "item" is named twice'),
        ("Item STRING, v INT", "item", 'keys has "item", which the schema calls "Item"'),
    ],
)
def test_a_dry_run_of_create_refuses_what_create_refuses(
    spark: SparkSession, schema: str, keys: str, told: str, tmp_path: Path
) -> None:
    asked = ["table", "create", f"{tmp_path}/t", "--schema", schema, "--keys", keys, "--history-retention", "1 day"]
    for ended in (_run(*asked, "--dry-run"), _run(*asked)):
        assert (ended.exit_code, told in ended.stderr) == (2, True), ended.output


def test_a_dry_run_of_create_tells_that_a_table_is_there_already(prices: str) -> None:
    asked = ["table", "create", prices, "--schema", "k STRING", "--keys", "k", "--history-retention", "1 day"]
    ended = _run(*asked, "--dry-run")
    assert (ended.exit_code, "exists already" in ended.stderr) == (2, True)


def test_describe_tells_what_a_table_promises_and_holds(prices: str) -> None:
    told = json.loads(_run("table", "describe", prices, "--json").stdout)
    assert (told["keys"], told["versions"], told["current"]) == (["item", "size"], 4, 2)
    assert (told["history_retention"], told["horizon"]) == ("30 days", "2025-12-06T00:00:00+00:00")


@pytest.mark.parametrize(
    ("instant", "rows"),
    [
        ("2026-01-01T12:00:00Z", [("tea", 10.0)]),
        ("2026-01-04", [("rice", 4.0), ("tea", 11.0)]),
        ("2026-01-04T23:00:00-02:00", [("rice", 4.0), ("tea", 12.0)]),
    ],
)
def test_as_of_gives_the_versions_valid_at_an_instant(prices: str, instant: str, rows: list[Any]) -> None:
    told = _lines(_run("table", "as-of", prices, instant, "--json").stdout)
    assert [(row["item"], row["price"]) for row in told] == rows


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--key", "item=tea", "--key", "size=1"], [10.0, 11.0, 12.0]),
        (["--key", "item=tea", "--key", "size=2"], []),
        (["--key", "item=tea", "--key", "size=1", "--from", "2026-01-04"], [11.0, 12.0]),
        (["--key", "item=tea", "--key", "size=1", "--until", "2026-01-02"], [10.0]),
        (["--key", "item=tea", "--key", "size=1", "--limit", "2"], [10.0, 11.0]),
    ],
)
def test_history_gives_the_versions_of_a_key_in_order(prices: str, options: list[str], expected: list[float]) -> None:
    told = _lines(_run("table", "history", prices, *options, "--json").stdout)
    assert [row["price"] for row in told] == expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["describe", "no/such/table"], f"There is no table {os.path.abspath('no/such/table')}"),
        (["history", "PRICES", "--key", "itme=tea"], 'did you mean "item"'),
        (["as-of", "PRICES", "2026-01-01", "--limit", "2147483648"], "2147483647"),
        (["history", "PRICES", "--key", "item=tea"], "missing size"),
        (["history", "PRICES", "--key", "item=tea", "--key", "size=large"], "--key size: the value is no int"),
        (["history", "PRICES", "--from", "2026-01-05", "--until", "2026-01-01"], "start"),
    ],
)
def test_a_wrong_question_ends_with_code_2(prices: str, arguments: list[str], told: str) -> None:
    ended = _run("table", *(prices if part == "PRICES" else part for part in arguments))
    assert (ended.exit_code, told in ended.stderr) == (2, True), ended.stderr


def test_a_path_may_start_in_the_current_folder(prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(prices).parents[1])
    assert json.loads(_run("table", "describe", "tables/prices", "--json").stdout)["versions"] == 4


def test_a_table_that_is_there_already_is_not_made_again(prices: str) -> None:
    asked = ["--schema", "item STRING, price DOUBLE", "--keys", "item", "--history-retention", "1 day"]
    ended = _run("table", "create", prices, *asked)
    assert (ended.exit_code, "exists already" in ended.stderr) == (2, True)


def test_maintenance_looks_after_every_table_below_the_root(prices: str, spark: SparkSession) -> None:
    work = Path(prices).parents[1]
    spark.range(3).write.format("delta").mode("overwrite").save(str(work / "tables" / "counts"))
    ended = _run("maintain", "--config", _MAINTAIN, "--work", str(work), "--json")
    told = {said["table"]: said for said in _lines(ended.stdout)}
    assert ended.exit_code == 0
    assert (told["prices"]["rows"], told["prices"]["broken"], told["prices"]["done"]) == (4, {}, ["optimized"])
    assert (told["counts"]["versioned"], told["counts"]["done"]) == (False, [])


def test_a_table_that_is_being_made_does_not_end_maintenance(prices: str, tmp_path: Path) -> None:
    shutil.copytree(prices, tmp_path / "tables" / "prices")
    (tmp_path / "tables" / "begun" / "_delta_log").mkdir(parents=True)
    ended = _run("maintain", "--config", _MAINTAIN, "--work", str(tmp_path), "--json")
    told = {said["table"]: said["done"] for said in _lines(ended.stdout)}
    assert (ended.exit_code, told) == (0, {"begun": [], "prices": ["optimized"]})


def test_a_dry_run_of_maintenance_names_the_tables(prices: str) -> None:
    work = str(Path(prices).parents[1])
    told = _lines(_run("maintain", "-c", _MAINTAIN, "-w", work, "--set", "tables=prices", "--dry-run", "--json").stdout)
    assert told == [{"table": "prices"}]


def test_maintenance_is_not_disturbed_by_variables_about_the_job(prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSIONED_JOB__SOURCES__CLICKS__OPTIONS__KAFKA_SASL_JAAS_CONFIG", "secret")
    monkeypatch.setenv("VERSIONED_JOB__TABLES", "prices")
    work = str(Path(prices).parents[1])
    assert _lines(_run("maintain", "-c", _MAINTAIN, "-w", work, "--dry-run", "--json").stdout) == [{"table": "prices"}]


def test_printed_rows_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    target = f"{tmp_path}/t"
    table = VersionedTable.create(
        spark, target, "k STRING, v DECIMAL(38, 18), d DOUBLE", keys="k", history_retention="1 day"
    )
    rows = "('a', 12345678901234567.891, 0.1D, TIMESTAMP '2026-01-01 00:00:00.000001'), "
    rows += "('a', 2, 2D, TIMESTAMP '2026-01-01 00:00:00.000002') AS t(k, v, d, ts)"
    table.put(spark.sql(f"SELECT * FROM VALUES {rows}"))
    first, second = _lines(_run("table", "history", target, "--json").stdout)
    assert (first["validFrom"], first["validTo"]) == ("2026-01-01T00:00:00.000001Z", second["validFrom"])
    assert (first["v"], first["d"]) == ("12345678901234567.891000000000000000", 0.1)


def test_too_short_a_retention_of_files_is_refused(prices: str) -> None:
    work = str(Path(prices).parents[1])
    options = ["--set", "vacuum=true", "--set", "retain=1 hour", "--set", "tables=prices"]
    ended = _run("maintain", "-c", _MAINTAIN, "-w", work, *options)
    assert (ended.exit_code, "retain: give at least 7 days" in ended.stderr) == (2, True)


def test_a_broken_table_ends_maintenance_with_code_3_and_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    target = f"{tmp_path}/tables/broken"
    table = VersionedTable.create(spark, target, "k STRING, v INT", keys="k", history_retention="1 day")
    table.put(spark.sql("SELECT 'a' AS k, 1 AS v, TIMESTAMP '2026-01-01' AS ts"))
    spark.read.format("delta").load(target).write.format("delta").mode("append").save(target)
    versions = spark.sql(f"DESCRIBE HISTORY delta.`{target}`").count()
    ended = _run("maintain", "-c", _MAINTAIN, "-w", str(tmp_path), "--json")
    assert ended.exit_code == 3
    assert _lines(ended.stdout)[0]["broken"]["several_current"] == 2
    assert spark.sql(f"DESCRIBE HISTORY delta.`{target}`").count() == versions


_KEYLESS = """
application: keyless
root: tables
sources:
  s: {format: json, path: input/s, schema: "ts TIMESTAMP, k STRING, v INT"}
plan:
  s: {op: stream, key: k, value: v}
  t: {op: to_table, from: s, store: {kind: versioned, history_retention: 1 day}}
  joined: {op: left_join, from: s, with: t, grace: 1 minute, value: {v: left.v, stored: right.v}}
  out: {op: to_changelog, from: joined}
"""


def test_a_fault_in_a_batch_ends_with_code_3_and_the_librarys_own_words(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "keyless.yaml"
    config.write_text(_KEYLESS, encoding="utf-8")
    folder = tmp_path / "input" / "s"
    folder.mkdir(parents=True)
    (folder / "0.json").write_text('{"ts": "2026-01-01T00:00:00Z", "v": 1}\n', encoding="utf-8")
    ended = _run("run", "-c", str(config), "-w", str(tmp_path))
    assert ended.exit_code == 3
    told = ended.stderr.strip()
    assert told.startswith("Problem in the data: joined: 1 records of the batch have no key")
    assert "Traceback" not in told


def _submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = submit_command(Path(), Path())
    program = command.index(str(_PROJECT / "jobs" / "run.py"))
    return subprocess.run(
        [*command[:program], str(_PROJECT / "jobs" / "cli.py"), *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_PROJECT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_an_application_runs_and_is_looked_after_by_spark_submit(tmp_path: Path) -> None:
    events = tmp_path / "input" / "events"
    events.mkdir(parents=True)
    rows = [("08:05", "d1"), ("10:30", "d1")]
    said = [{"seq": n, "ts": f"2026-01-01T{clock}:00Z", "device": d, "kind": "x"} for n, (clock, d) in enumerate(rows)]
    (events / "0.json").write_text("\n".join(map(json.dumps, said)) + "\n", encoding="utf-8")
    config = str(_PROJECT / "conf" / "alert_few_events.yaml")
    ran = _submit("run", "--config", config, "--work", str(tmp_path), "--json")
    assert ran.returncode == 0, ran.stderr[-3_000:]
    batch, end = _lines(ran.stdout)
    assert (batch["input"], batch["emitted"]) == ({"events": 2}, {"alerts": 1})
    assert end["tables"]["alerts"] == 1
    kept = _submit("maintain", "--config", _MAINTAIN, "--work", str(tmp_path), "--json")
    assert kept.returncode == 0, kept.stderr[-3_000:]
    assert "alerts" in {line["table"] for line in _lines(kept.stdout)}
