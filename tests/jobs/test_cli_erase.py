"""``versioned erase``: what it removes, what it prints, and how it ends."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pytest
from command_line import run
from pyspark.sql import SparkSession

from jobs.cli_erase import _tell
from streams.spark.erase import ErasedTable, ErasureReceipt

_CONFIG = """
application: shop
root: tables
pii_columns: customer
sources: {orders: {format: json, path: input, schema: "ts TIMESTAMP, customer STRING, amount LONG"}}
plan:
  orders: {op: stream, key: customer, value: amount}
  renamed: {op: map_values, from: orders, value: {buyer: key.customer, amount: value.amount}}
  single: {op: select_key, from: renamed, key: {number: value.amount}}
  sales: {op: to_changelog, from: single}
  bought: {op: to_changelog, from: orders}
"""
_ORDERS = [("ann", 1), ("bob", 2), ("ann", 3)]


@pytest.fixture(scope="module")
def work(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with an application that ran."""
    folder = tmp_path_factory.mktemp("erase_cli")
    (folder / "input").mkdir()
    rows = [{"ts": f"2026-01-01T00:0{n}:00Z", "customer": who, "amount": n} for who, n in _ORDERS]
    (folder / "input" / "0.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    assert run(folder, "run").exit_code == 0
    return folder


def _customers(spark: SparkSession, work: Path) -> list[tuple[str, str]]:
    told = []
    for table, column in (("bought", "customer"), ("sales", "buyer")):
        rows = spark.read.format("delta").load(str(work / "tables" / table)).select(column).collect()
        told += [(table, row[0]) for row in rows]
    return sorted(told)


@pytest.mark.slow
def test_a_subject_goes_from_every_table_under_all_its_names_and_the_receipt_tells_it(
    spark: SparkSession, work: Path
) -> None:
    tried = json.loads(
        run(work, "erase", "--key", "customer=ann", "--also", "customer=buyer", "--dry-run", "--json").stdout
    )
    assert (tried["dry_run"], tried["rows"], tried["files_gone"]) == (True, 4, None)
    assert (tried["subjects"], tried["subjects_found"]) == (1, 1)
    assert len(_customers(spark, work)) == 6
    (work / "subjects.csv").write_text("customer\nann\nnobody\n", encoding="utf-8")
    done = run(work, "erase", "--keys", str(work / "subjects.csv"), "--also", "customer=buyer")
    assert done.exit_code == 0
    assert "4 rows of shop are gone, by customer." in done.stdout
    assert "1 of 2 subjects have no row in any of the tables" in done.stdout
    assert "ann" not in done.stdout
    assert _customers(spark, work) == [("bought", "bob"), ("sales", "bob")]
    again = json.loads(run(work, "erase", "--key", "customer=ann", "--json").stdout)
    assert (again["rows"], again["names"]) == (0, ["customer"])
    assert again["files_gone"] is not None


@pytest.mark.parametrize(
    ("rows", "them"), [(2, "them"), (0, "rows that were removed before")], ids=["of this one", "of one before"]
)
def test_whose_files_a_vacuum_removes_is_told(capsys: pytest.CaptureFixture[str], rows: int, them: str) -> None:
    table = ErasedTable("bought", ("customer",), rows, files_gone=date(2026, 1, 10))
    _tell(ErasureReceipt("shop", datetime(2026, 1, 1), ("customer",), (table,), 1, min(rows, 1)))
    assert f"From 2026-01-10 on a vacuum leaves no file with {them}:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("customer\ntea\nSmith,John 1970-01-01 secret@mail.example\n", 3, "has not the fields of the header"),
        ("customer\n", 2, "there is no subject in it"),
        ("", 2, "there is no subject in it"),
    ],
)
def test_a_file_that_is_malformed_or_names_nobody_is_refused_before_spark_starts_without_its_values(
    tmp_path: Path, text: str, code: int, told: str
) -> None:
    (tmp_path / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    (tmp_path / "wrong.csv").write_text(text, encoding="utf-8")
    ended = run(tmp_path, "erase", "--keys", str(tmp_path / "wrong.csv"))
    assert (ended.exit_code, told in ended.stderr, "Smith" in ended.output) == (code, True, False), ended.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Say whom"),
        (["--key", "customer=ann", "--keys", "x.csv"], "Say whom"),
        (["--key", "customer"], "write it as name=value"),
        (["--key", "customer=17", "--key", "customer=18"], "--key customer: it is given twice"),
        (["--key", "customer=17", "--key", "customer=18"], "--keys FILE"),
        (["--keys", "none.csv"], "there is no such file"),
        (["--key", "customer=ann", "--also", "buyer"], "write it as name=value"),
    ],
)
def test_wrong_usage_ends_with_code_2_before_spark_starts(tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    ended = run(tmp_path, "erase", *arguments)
    assert (ended.exit_code, told in ended.stderr) == (2, True), ended.stderr
