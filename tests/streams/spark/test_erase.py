"""Erasing a subject from every table of an application."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from two_tables import application, commits, write_batch

from streams.spark.doctor import examine
from streams.spark.erase import ErasureReceipt, erase
from versioned.errors import ConfigurationError
from versioned.table import VersionedTable

_TABLES = ("prices", "priced_orders", "rejects")


def _rows(spark: SparkSession, out: Path, table: str) -> DataFrame:
    return spark.read.format("delta").load(str(out / table))


def _of(spark: SparkSession, out: Path, table: str, item: str) -> int:
    rows = _rows(spark, out, table)
    return rows.where(f"record LIKE '%{item}%'" if table == "rejects" else f"item = '{item}'").count()


@pytest.fixture(scope="module")
def erased(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ErasureReceipt]:
    """An application with several versions of two items and a late price of each; then tea is erased."""
    folder = tmp_path_factory.mktemp("erase")
    for number in (0, 9, 1):
        # The third file's prices are older than history.
        write_batch(folder / "input", number)
        application(spark, folder / "input", folder / "out").run()
    assert [_of(spark, folder / "out", table, "tea") for table in _TABLES] == [2, 3, 1]
    keys = spark.createDataFrame([("tea",), ("coffee",), (None,)], "item STRING")
    return folder, erase(application(spark, folder / "input", folder / "out"), keys)


def test_every_table_loses_the_rows_of_the_key_and_keeps_the_others(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    out = erased[0] / "out"
    assert [_of(spark, out, table, "tea") for table in _TABLES] == [0, 0, 0]
    assert [_of(spark, out, table, "rice") for table in _TABLES] == [2, 3, 1]


def test_the_receipt_tells_tables_rows_versions_and_the_day_but_no_values(erased: tuple[Path, ErasureReceipt]) -> None:
    receipt = erased[1]
    assert {table.table: table.rows for table in receipt.tables} == {"prices": 2, "priced_orders": 3, "rejects": 1}
    assert receipt.rows == 6
    assert all(table.version is not None for table in receipt.tables)
    assert receipt.files_gone == (receipt.at + timedelta(days=8)).date()
    assert "tea" not in str(receipt.to_json())


def test_what_is_left_is_sound_and_goes_on(spark: SparkSession, erased: tuple[Path, ErasureReceipt]) -> None:
    folder = erased[0]
    table = VersionedTable.open(spark, str(folder / "out" / "prices"))
    assert table.verify().is_sound
    assert table.stream_times()
    app = application(spark, folder / "input", folder / "out")
    assert examine(app).findings == ()
    again = erase(app, spark.createDataFrame([("tea",)], "item STRING"))
    assert (again.rows, again.files_gone) == (0, None)


def test_a_vacuum_then_leaves_no_file_with_the_rows(spark: SparkSession, erased: tuple[Path, ErasureReceipt]) -> None:
    out = erased[0] / "out"
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        for table in _TABLES:
            spark.sql(f"VACUUM delta.`{out / table}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    for table in _TABLES:
        for file in (out / table).rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                told = spark.read.parquet(str(file)).selectExpr("to_json(struct(*)) AS row")
                assert told.where("row LIKE '%tea%'").count() == 0, file


def test_a_name_that_no_table_has_is_refused_and_nothing_goes(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    folder = erased[0]
    before = commits(folder / "out")
    with pytest.raises(ConfigurationError, match=r"No table of shop has fields \['itme'\]"):
        erase(application(spark, folder / "input", folder / "out"), spark.createDataFrame([("x",)], "itme STRING"))
    assert commits(folder / "out") == before
