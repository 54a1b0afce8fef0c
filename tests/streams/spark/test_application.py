"""The first law: any cut into batches gives the tables of one uninterrupted run."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from small_app import BATCHES, SCHEMAS, TABLES, application, write_input

from streams.nodes import ChangelogSink, Materialized, Node, StreamSource, TableSource, Topology
from streams.spark import SparkSource, StreamingApplication
from versioned import faults
from versioned.errors import CheckpointMismatchError, ConfigurationError, SchemaError
from versioned.identifiers import TableRef
from versioned.table_log import history, own_details


def _rows(spark: SparkSession, folder: Path, out: str) -> dict[str, Counter[str]]:
    """Every row of every table as text, without what a cut may change."""
    told = {}
    for table in TABLES:
        frame = spark.read.format("delta").load(str(folder / out / table)).drop("_batch_id")
        told[table] = Counter(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())
    return told


def _differences(spark: SparkSession, folder: Path, out: str, wanted: dict[str, Counter[str]]) -> dict[str, Any]:
    got = _rows(spark, folder, out)
    return {
        table: {"lost": list(wanted[table] - got[table])[:3], "more": list(got[table] - wanted[table])[:3]}
        for table in TABLES
        if got[table] != wanted[table]
    }


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Counter[str]]]:
    """A folder with input, and the tables of an uninterrupted run over it."""
    folder = tmp_path_factory.mktemp("small")
    write_input(spark, folder)
    application(spark, folder).run()
    return folder, _rows(spark, folder, "out")


def test_the_run_fills_every_table(whole: tuple[Path, dict[str, Counter[str]]]) -> None:
    assert all(whole[1].values())


def test_a_table_sink_of_a_versioned_table_holds_its_current_rows(
    spark: SparkSession, whole: tuple[Path, dict[str, Counter[str]]]
) -> None:
    out = whole[0] / "out"
    now = spark.read.format("delta").load(str(out / "weather_now")).selectExpr("origin", "temp", "ts")
    current = spark.read.format("delta").load(str(out / "weather")).where("_current")
    assert sorted(map(tuple, now.collect())) == sorted(
        map(tuple, current.selectExpr("origin", "temp", "validFrom").collect())
    )


@pytest.mark.parametrize(("table", "partitions"), [("enriched", 1), ("hourly", 2), ("weather", 2), ("rejects", 1)])
def test_a_small_batch_writes_one_file_to_each_partition_of_a_table(
    spark: SparkSession, whole: tuple[Path, dict[str, Counter[str]]], table: str, partitions: int
) -> None:
    commits = history(spark, TableRef.parse(str(whole[0] / "out" / table)), 100)
    files = [int(row["operationMetrics"]["numFiles"]) for row in commits if row["operation"] == "WRITE"]
    assert files
    assert max(files) <= partitions


def _tables(folder: Path) -> set[str]:
    """The tables in a folder."""
    return {path.name for path in folder.iterdir() if (path / "_delta_log").is_dir()}


def _ledger_versions(spark: SparkSession, out: Path) -> list[tuple[int, dict[str, int]]]:
    """Batch by batch, the version of each table that the ledger names."""
    ledger = spark.read.format("delta").load(str(out / "ledger")).orderBy("batch_id")
    return [(batch_id, dict(versions)) for batch_id, versions in ledger.select("batch_id", "versions").collect()]


def _log_versions(spark: SparkSession, out: Path, batch_id: int) -> dict[str, int]:
    """The newest version of each table that is of a batch by the commits of the table itself."""
    newest = {}
    for table in _tables(out) - {"ledger"}:
        commits = history(spark, TableRef.parse(str(out / table)), 100)
        said = [(row["version"], own_details(row)) for row in commits]
        own = [version for version, details in said if details and details["versioned"].get("batch") == batch_id]
        newest |= {table: max(own)} if own else {}
    return newest


@pytest.mark.rule("R190")
def test_the_ledger_names_the_version_of_each_table_that_a_batch_wrote(
    spark: SparkSession, whole: tuple[Path, dict[str, Counter[str]]]
) -> None:
    out = whole[0] / "out"
    named = _ledger_versions(spark, out)
    assert len(named) == BATCHES
    assert named == [(batch_id, _log_versions(spark, out, batch_id)) for batch_id in range(BATCHES)]


@pytest.mark.rule("R190")
@pytest.mark.parametrize("table", ["enriched", "hourly_final"])
def test_at_the_version_that_the_ledger_names_the_newest_rows_are_of_its_batch(
    spark: SparkSession, whole: tuple[Path, dict[str, Counter[str]]], table: str
) -> None:
    out = whole[0] / "out"
    found = [
        spark.read.format("delta")
        .option("versionAsOf", versions[table])
        .load(str(out / table))
        .agg({"_batch_id": "max"})
        for _, versions in _ledger_versions(spark, out)
    ]
    assert [frame.collect()[0][0] for frame in found] == list(range(BATCHES))


@pytest.mark.slow
@pytest.mark.rule("R190")
def test_the_ledger_calls_a_store_by_the_name_of_its_table_and_not_by_its_node(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_input(spark, tmp_path, batches=1)
    stored = Materialized.versioned("1 day", name="weather_store")
    weather = TableSource("weather", topic="weather", key=("origin",), materialized=stored)
    plan = Topology((weather, ChangelogSink("weather_out", (weather,))))
    sources = {"weather": SparkSource("parquet", {"path": str(tmp_path / "weather")}, SCHEMAS["weather"])}
    StreamingApplication(spark, "named", plan, str(tmp_path / "out"), sources).run()
    named = [set(versions) for _, versions in _ledger_versions(spark, tmp_path / "out")]
    assert named == [{"weather_store", "weather_out"}]
    assert named[0] <= _tables(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.rule("R3")
def test_any_cut_into_batches_gives_the_same_tables(
    spark: SparkSession, tmp_path: Path, whole: tuple[Path, dict[str, Counter[str]]]
) -> None:
    ends = sorted(random.Random(7).sample(range(1, 600), 4))
    write_input(spark, tmp_path, ends=[*ends, 600])
    application(spark, tmp_path).run()
    assert _differences(spark, tmp_path, "out", whole[1]) == {}


def test_input_is_accepted_rejected_or_dropped_and_nothing_else(
    spark: SparkSession, whole: tuple[Path, dict[str, Counter[str]]]
) -> None:
    ledger = spark.read.format("delta").load(str(whole[0] / "out" / "ledger")).select("counts").collect()
    assert len(ledger) == BATCHES
    nodes = ("flights", "weather", "last_airport", "hourly")
    came = [{node: counts[f"{node}.input"] for node in nodes} for (counts,) in ledger]
    assert min(min(inputs.values()) for inputs in came) > 0
    parts = ("accepted", "dropped")
    assert came == [
        {node: sum(counts.get(f"{node}.{part}", 0) for part in parts) for node in nodes} for (counts,) in ledger
    ]


def _grown(spark: SparkSession, folder: Path, topics: tuple[str, ...]) -> StreamingApplication:
    nodes: list[Node] = []
    for topic in topics:
        source = StreamSource(f"{topic}_in", topic=topic, key=("origin",))
        nodes += [source, ChangelogSink(f"{topic}_out", (source,))]
    sources = {topic: SparkSource("parquet", {"path": str(folder / topic)}, SCHEMAS[topic]) for topic in topics}
    return StreamingApplication(spark, "grown", Topology(tuple(nodes)), str(folder / "out"), sources)


@pytest.mark.slow
@pytest.mark.parametrize("first_dies", [False, True], ids=["after a batch", "after a first batch that died"])
def test_a_source_can_be_added_to_a_running_application(spark: SparkSession, tmp_path: Path, first_dies: bool) -> None:
    write_input(spark, tmp_path, batches=1)
    if first_dies:
        with faults.armed(crash_at("before:weather_out/main")), pytest.raises(StreamingQueryException):
            _grown(spark, tmp_path, ("weather",)).run()
    else:
        _grown(spark, tmp_path, ("weather",)).run()
    # "flights" sorts before "weather", and its rows must not be taken for weather.
    _grown(spark, tmp_path, ("flights", "weather")).run()
    counts = [
        spark.read.format("delta").load(str(tmp_path / "out" / f"{topic}_out")).count()
        for topic in ("flights", "weather")
    ]
    rejected = spark.read.format("delta").load(str(tmp_path / "out" / "rejects")).count()
    assert counts[0] + rejected == 300
    assert counts[1] == 60
    with pytest.raises(CheckpointMismatchError, match="weather"):
        _grown(spark, tmp_path, ("flights",)).run()


@pytest.mark.parametrize("name", ["ledger", "rejects", "_checkpoint", "held"])
def test_a_table_name_that_is_taken_is_refused(name: str, spark: SparkSession, tmp_path: Path) -> None:
    weather = TableSource("weather", topic="weather", key=("origin",), materialized=Materialized(name="held"))
    plan = Topology((weather, ChangelogSink(name, (weather,))))
    sources = {"weather": SparkSource("parquet", {"path": str(tmp_path / "weather")}, SCHEMAS["weather"])}
    with pytest.raises(ConfigurationError, match=f'"{name}" is reserved or used twice'):
        StreamingApplication(spark, "taken", plan, str(tmp_path / "out"), sources)


@pytest.mark.parametrize(
    ("told", "options"),
    [
        ('order must be arrival or sequence; got "sequenced"', {"order": "sequenced"}),
        ('metrics_level must be info or debug; got "DEBUG"', {"metrics_level": "DEBUG"}),
        ('guards must be none, warn or fail; got "failing"', {"guards": "failing"}),
    ],
)
def test_a_word_that_an_application_does_not_take_is_refused(
    told: str, options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    weather = TableSource("weather", topic="weather", key=("origin",))
    sources = {"weather": SparkSource("parquet", {"path": str(tmp_path / "weather")}, SCHEMAS["weather"])}
    with pytest.raises(ConfigurationError, match=told):
        StreamingApplication(spark, "wrong", Topology((weather,)), str(tmp_path / "out"), sources, **options)


@pytest.mark.slow
def test_a_topic_whose_columns_were_refused_can_be_taken_out_again(spark: SparkSession, tmp_path: Path) -> None:
    write_input(spark, tmp_path, batches=1)
    _grown(spark, tmp_path, ("weather",)).run()
    wrong = StreamSource("flights_in", topic="flights", key=("no_such_column",))
    nodes = (wrong, ChangelogSink("flights_out", (wrong,)), *_grown(spark, tmp_path, ("weather",)).topology)
    sources = {
        topic: SparkSource("parquet", {"path": str(tmp_path / topic)}, SCHEMAS[topic])
        for topic in ("flights", "weather")
    }
    grown = StreamingApplication(spark, "grown", Topology(nodes), str(tmp_path / "out"), sources)
    with pytest.raises(SchemaError, match="no_such_column"):
        grown.run()
    _grown(spark, tmp_path, ("weather",)).run()
