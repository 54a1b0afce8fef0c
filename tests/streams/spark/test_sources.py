"""Any Spark streaming source feeds an application: Delta tables, and Spark's own rate source with a running query."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import Materialized, Topology
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from versioned.errors import ConfigurationError, TopologyError


def _copied(key: str, value: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=key, value=value, name="stream").to_changelog("out")
    return builder.build()


def _out(spark: SparkSession, app: StreamingApplication) -> DataFrame:
    return spark.read.format("delta").load(str(app.table("out")))


def test_a_delta_table_is_read_as_it_grows(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "events")
    rows = spark.range(6).selectExpr("id AS seq", "id % 2 AS k", "id * 10 AS v", "timestamp_seconds(id) AS ts")
    source = SparkSource("delta", {"path": table}, sequence_by="seq")
    app = StreamingApplication(spark, "delta", _copied("k", "v"), str(tmp_path / "out"), {"in": source})
    with pytest.raises(ConfigurationError, match=r'Source "in" reads .*/events, where there is no Delta table'):
        app.run()
    rows.where("seq < 3").write.format("delta").save(table)
    app.run()
    rows.where("seq >= 3").write.format("delta").mode("append").save(table)
    app.run()
    told = _out(spark, app).groupBy("_batch_id").agg(F.sort_array(F.collect_list("v")).alias("v")).orderBy("_batch_id")
    assert [row["v"] for row in told.collect()] == [[0, 10, 20], [30, 40, 50]]


@pytest.fixture
def events(spark: SparkSession) -> Iterator[str]:
    """A table of a catalog with three events, which its owner may update."""
    spark.sql("CREATE DATABASE sales")
    rows = spark.range(3).selectExpr("id AS seq", "id % 2 AS k", "id * 10 AS v", "timestamp_seconds(id) AS ts")
    rows.write.format("delta").saveAsTable("sales.events")
    yield "sales.events"
    spark.sql("DROP DATABASE sales CASCADE")


def _grow(spark: SparkSession, events: str) -> None:
    spark.sql(f"INSERT INTO {events} VALUES (3, 1, 30, timestamp_seconds(3)), (4, 0, 40, timestamp_seconds(4))")


def _values(spark: SparkSession, app: StreamingApplication) -> list[int]:
    return [row["v"] for row in _out(spark, app).orderBy("_batch_id", "_scope", "_seq").collect()]


def test_a_table_of_a_catalog_is_read_by_its_name_with_the_options_of_its_source(
    spark: SparkSession, tmp_path: Path, events: str
) -> None:
    source = SparkSource(table=events, options={"skipChangeCommits": "true"}, sequence_by="seq")
    app = StreamingApplication(spark, "named", _copied("k", "v"), str(tmp_path / "out"), {"in": source})
    app.run()
    spark.sql(f"UPDATE {events} SET v = v + 1")
    _grow(spark, events)
    app.run()
    assert _values(spark, app) == [0, 10, 20, 30, 40]
    assert source.read_all(spark).count() == 5


def test_of_a_change_feed_everything_is_the_table_with_each_row_inserted(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(path)
    feed = SparkSource(
        options={"path": path, "readChangeFeed": "true"},
        transform=lambda rows: rows.where("_change_type = 'insert' AND _commit_version IS NOT NULL").select("id"),
    )
    assert sorted(row["id"] for row in feed.read_all(spark).collect()) == [0, 1, 2]


@pytest.mark.slow
def test_a_source_goes_on_where_it_was_when_the_path_of_its_table_becomes_the_name(
    spark: SparkSession, tmp_path: Path, events: str
) -> None:
    path = spark.sql(f"DESCRIBE DETAIL {events}").collect()[0]["location"]
    for source in (SparkSource("delta", {"path": path}), SparkSource(table=f"spark_catalog.{events}")):
        app = StreamingApplication(spark, "renamed", _copied("k", "v"), str(tmp_path / "out"), {"in": source})
        app.run()
        _grow(spark, events)
    assert _values(spark, app) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"format": "delta"}, "path or table is missing"),
        ({"table": "a.b", "options": {"PATH": "in"}}, "path: a table of a catalog has its own"),
        ({"table": "a.b", "schema": "v LONG"}, "schema: a table of a catalog has its own"),
        ({"table": "a.b", "format": "json"}, "format: a table of a catalog is read as delta"),
        ({"table": "in/events"}, "table: with a / it is a folder"),
    ],
)
def test_a_source_with_two_places_or_none_is_refused_where_it_is_made(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{told}"):
        SparkSource(**said)


@pytest.mark.parametrize("by", [None, "offset"])
def test_offsets_of_kafka_are_no_sequence_of_several_sources(by: str | None) -> None:
    builder = StreamsBuilder()
    for topic in ("orders", "prices"):
        builder.stream(topic, key="k").to_changelog(f"{topic}_out")
    sources = {
        "orders": SparkSource("kafka", {"subscribe": "orders"}, sequence_by=by),
        "prices": SparkSource("rate", sequence_by="value"),
    }
    with pytest.raises(ConfigurationError, match="orders goes by the offsets of its topic"):
        StreamingApplication(Mock(), "shop", builder.build(), "/out", sources, order="sequence")


@pytest.mark.slow
def test_a_file_without_rows_ends_no_query(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, text in enumerate(('{"k": 1, "v": 2, "ts": "2026-01-01T00:00:00Z"}', "", '{"k": 3, "v": 4}')):
        file = tmp_path / "in" / f"{number}.json"
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    options = {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "1"}
    source = SparkSource("json", options, "k LONG, v LONG, ts TIMESTAMP")
    app = StreamingApplication(spark, "gaps", _copied("k", "v"), str(tmp_path / "out"), {"in": source})
    app.run()
    rejected = spark.read.format("delta").load(str(app.table("rejects"))).select("reason").collect()
    assert ([row["v"] for row in _out(spark, app).collect()], [row[0] for row in rejected]) == ([2], ["NULL_TS"])


def test_one_column_may_be_spelt_in_several_ways_by_those_who_read_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"ID": 1, "v": 2, "ts": "2026-01-01T00:00:00Z"}', encoding="utf-8")
    builder = StreamsBuilder()
    builder.stream("in", key="id", value="v").to_changelog("out")
    builder.stream("in", key="Id", value="V", timestamp="Ts", name="again").to_changelog("more")
    source = SparkSource("json", {"path": str(tmp_path / "in")}, "ID LONG, v LONG, ts TIMESTAMP", sequence_by="TS")
    app = StreamingApplication(spark, "spelt", builder.build(), str(tmp_path / "out"), {"in": source})
    app.run()
    assert [(row["id"], row["v"]) for row in _out(spark, app).collect()] == [(1, 2)]
    more = spark.read.format("delta").load(str(app.table("more")))
    assert [(row["Id"], row["V"]) for row in more.collect()] == [(1, 2)]


def test_a_field_that_the_sink_needs_for_itself_is_refused_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"k": 1, "v": 2, "ts": "2026-01-01T00:00:00Z"}', encoding="utf-8")
    builder = StreamsBuilder()
    stream = builder.stream("in", key="k", value="v")
    # Of a type with a collation only Spark tells the field; else the plan would be refused.
    stream.transform_values(lambda value: str(value.v), "_SEQ STRING COLLATE UTF8_BINARY").to_changelog("out")
    source = SparkSource("json", {"path": str(tmp_path / "in")}, "k LONG, v LONG, ts TIMESTAMP")
    app = StreamingApplication(spark, "twice", builder.build(), str(tmp_path / "out"), {"in": source})
    with pytest.raises(StreamingQueryException, match=r"\['_SEQ', '_seq'\] would stand twice"):
        app.run()


@pytest.mark.parametrize(
    ("key", "value", "twice"),
    [("v", "v", r"\['v'\]"), ("K", "k", r"\['K', 'k'\]"), ("k", "Ts", r"\['Ts', 'ts'\]")],
    ids=["a field that became the key as well", "by case alone", "the time"],
)
def test_it_is_refused_before_the_first_batch_where_the_plan_tells(
    key: str, value: str, twice: str, spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key="id", value="n").map_values(lambda _, row: {value: row.n})
    stream.select_key(lambda id_, row: {key: id_.id}).to_changelog("out")
    with pytest.raises(TopologyError, match=f"^out: {twice} would stand twice in its rows.* Rename the value's field"):
        StreamingApplication(spark, "twice", builder.build(), str(tmp_path / "out"), {"in": SparkSource(table="t")})
    assert not (tmp_path / "out").exists()


def _joined_reason(stream: KStream, table: KTable) -> None:
    stream.join(table, lambda left, _: {"reason": left.n}).filter(lambda _, row: row.reason > 0).to_changelog("out")


def _mapped_correction(table: KTable, field: str, materialized: Materialized | None = None) -> KTable:
    both = table.join(table, lambda left, _: {"n": left.n}, history="complete")
    return both.map_values(lambda _, row: {field: row.n}, materialized=materialized)


def _corrected(field: str) -> Callable[[KStream, KTable], None]:
    def plan(_: KStream, table: KTable) -> None:
        table.join(table, lambda left, _: {field: left.n}, history="complete").to_changelog("out")

    return plan


@pytest.mark.parametrize(
    ("plan", "twice"),
    [
        (_joined_reason, "reason"),
        (_corrected("op"), "op"),
        (_corrected("old"), "old"),
        (_corrected("Cause"), "Cause"),
        (lambda _, table: _mapped_correction(table, "op").to_changelog("out"), "op"),
        (lambda _, table: _mapped_correction(table, "old").to_changelog("out"), "old"),
        (lambda _, table: _mapped_correction(table, "cause").to_stream().to_changelog("out"), "cause"),
        (lambda _, table: table.map_values(lambda _, row: {"deleted": row.n}).to_changelog("out"), "deleted"),
    ],
    ids=[
        "a join",
        "a correction",
        "what it replaces",
        "its cause",
        "a view of a correction",
        "what that replaces",
        "a stream of that",
        "a change of a table",
    ],
)
def test_so_is_one_that_its_sink_tells_of_what_stands_before_it(
    plan: Callable[[KStream, KTable], None], twice: str, spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.versioned("1 day", name="stored"), key="id", value="n")
    plan(builder.stream("more", key="id", value="n"), table)
    sources = {"in": SparkSource(table="t"), "more": SparkSource(table="m")}
    with pytest.raises(TopologyError, match=rf"^out: \['{twice}'.*\] would stand twice in its rows"):
        StreamingApplication(spark, "twice", builder.build(), str(tmp_path / "out"), sources)


@pytest.mark.parametrize("field", ["reason", "op", "deleted"])
def test_fields_of_these_names_may_stand_where_their_sink_does_not_tell_them(
    field: str, spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key="id", value="n").map_values(lambda _, row: {field: row.n}).to_changelog("out")
    if field != "deleted":
        # A store with versions tells changes of its own, not those of the correction before it.
        table = builder.table("in", Materialized.versioned("1 day", name="stored"), key="id", value="n", name="table")
        kept = Materialized.versioned("1 day", name="kept")
        _mapped_correction(table, field, kept).to_changelog("kept_out")
    StreamingApplication(spark, "once", builder.build(), str(tmp_path / "out"), {"in": SparkSource(table="t")})


@pytest.mark.slow
def test_a_running_query_takes_each_record_of_a_rate_source_once_across_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    def keyed(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("value % 3 AS k", "value AS v", "timestamp AS ts")

    source = SparkSource("rate", {"rowsPerSecond": "20", "numPartitions": "1"}, transform=keyed)
    app = StreamingApplication(spark, "rate", _copied("k", "v"), str(tmp_path / "out"), {"in": source})
    for rows in (1, 100):
        query = app.start("1 second")
        deadline = time.monotonic() + 120
        while _count(spark, app) < rows and time.monotonic() < deadline:
            time.sleep(1)
        query.stop()
    told = _out(spark, app).agg(
        F.count("*").alias("n"), F.count_distinct("v").alias("different"), F.max("v").alias("max")
    )
    (row,) = told.collect()
    assert row["n"] == row["different"] == row["max"] + 1 >= 100


def _count(spark: SparkSession, app: StreamingApplication) -> int:
    try:
        return _out(spark, app).count()
    except Exception:  # The table is not there before the first batch.
        return 0


@pytest.mark.parametrize("written", ["kafka", "Kafka", "KAFKA"])
def test_kafka_has_partitions_as_scopes_and_offsets_as_the_sequence_in_whatever_case_it_is_written(
    written: str,
) -> None:
    source = SparkSource(written, {"subscribe": "clicks"})
    assert (source.scope_column, source.order_column) == ("partition", "offset")
