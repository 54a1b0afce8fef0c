"""Which tables below a root an application may have written, though its plan does not."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
from pyspark.sql import SparkSession

from streams.spark import tables_below
from streams.spark.tables_below import left_behind
from versioned.identifiers import TableRef

#: What the newest commit of each table says of itself.
_TABLES = {
    "Known": {"txn": "shop/known/main", "epoch": 1, "batch": 0},
    "ours": {"txn": "shop/ours/main", "epoch": 1, "batch": 0},
    "other": {"txn": "other/other/main", "epoch": 1, "batch": 0},
    "upkeep": {},
    "nobodys": None,
}


def _make(spark: SparkSession, root: TableRef) -> None:
    for name, said in _TABLES.items():
        writer = spark.range(1).write.format("delta")
        if said is not None:
            writer = writer.option("userMetadata", json.dumps({"versioned": said, "details": {}}))
        target = root.child(name)
        if target.path is not None:
            writer.save(target.path)
            continue
        # As batches do: what makes a table says nothing.
        spark.sql(f"CREATE TABLE {target.sql} (id LONG) USING DELTA")
        writer.mode("append").saveAsTable(target.sql)


def test_below_a_folder_those_that_no_one_else_is_known_to_own_are_told(spark: SparkSession, tmp_path: Path) -> None:
    root = TableRef.parse(str(tmp_path))
    _make(spark, root)
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / f"{0:020}.json").write_text("{", encoding="utf-8")
    (tmp_path / "_checkpoint" / "offsets").mkdir(parents=True)
    spark.sql(f"CREATE TABLE {root.child('clone').sql} SHALLOW CLONE {root.child('ours').sql}")
    assert left_behind(spark, root, "shop", [root.child("Known")]) == ("broken", "clone", "ours", "upkeep")


@pytest.mark.parametrize(
    ("properties", "commit", "named"),
    [
        pytest.param({}, {"operation": "CLONE"}, True, id="a clone"),
        pytest.param({"versioned.spec": "{}"}, None, True, id="what is left says what it is"),
        pytest.param({"delta.appendOnly": "true"}, None, False, id="nobody's"),
        pytest.param({"versioned.spec": "{}"}, {"operation": "WRITE", "app": "other"}, False, id="another one's"),
        pytest.param({}, {"operation": "WRITE", "app": "shop"}, True, id="its own"),
    ],
)
def test_a_table_of_which_no_commit_tells_whose_it_is_is_told_if_it_may_be_a_copy(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], commit: dict[str, str] | None, named: bool
) -> None:
    rows = []
    if commit is not None:
        said = (
            {"versioned": {"txn": f"{commit.get('app')}/t/main", "epoch": 1, "batch": 0}} if "app" in commit else None
        )
        rows = [{"version": 3, "operationParameters": {}, "userMetadata": said and json.dumps(said), **commit}]
    monkeypatch.setattr(tables_below, "names_below", lambda *_: ["copy"])
    monkeypatch.setattr(tables_below, "detail_of", lambda *_: {"format": "delta", "properties": properties})
    monkeypatch.setattr(tables_below, "history", lambda *_: rows)
    monkeypatch.setattr(tables_below, "F", MagicMock())
    told = left_behind(Mock(), TableRef.parse("/data/tables"), "shop", [])
    assert told == (("copy",) if named else ())


@pytest.mark.slow
def test_in_a_schema_so_they_are_and_no_view_and_no_table_of_another_format(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE left_behind")
    root = TableRef.parse("spark_catalog.left_behind")
    _make(spark, root)
    spark.sql("CREATE TABLE spark_catalog.left_behind.files (id LONG) USING PARQUET")
    spark.sql("CREATE VIEW spark_catalog.left_behind.seen AS SELECT * FROM spark_catalog.left_behind.ours")
    try:
        assert left_behind(spark, root, "shop", [root.child("Known")]) == ("ours", "upkeep")
    finally:
        spark.sql("DROP DATABASE left_behind CASCADE")


def test_where_nothing_can_be_listed_everything_else_is_told_and_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tables_below, "names_below", Mock(side_effect=RuntimeError("Access denied\n\tat java")))
    with caplog.at_level(logging.WARNING):
        assert left_behind(Mock(), TableRef.parse("s3a://bucket/tables"), "shop", []) == ("*",)
    assert caplog.messages == [
        "The tables below s3a://bucket/tables cannot be listed, so look for others there yourself: Access denied"
    ]
