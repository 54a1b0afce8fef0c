"""The least and the greatest array or struct is that of Spark's order on both engines; what has none is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import in_two_batches, unwrapped
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from streams.expressions import Expr, as_expr
from streams.nodes import Aggregation, Materialized, Topology
from streams.rows import Row
from streams.spark import SparkSource, StreamingApplication
from streams.spark.aggregate_types import result_type
from streams.spark.flow import KEY, VALUE
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows
from versioned.errors import TopologyError

_FIELDS: Final = "stops ARRAY<BIGINT>, trip STRUCT<codes: ARRAY<STRING>, n: DOUBLE>"
_SCHEMA: Final = f"k STRING, {_FIELDS}, tags MAP<STRING, BIGINT>, ts TIMESTAMP, seq LONG"
_VALUES: Final = ("stops", "trip")
_NAN: Final = float("nan")
_RECORDS: Final = (
    ([2, 1], (["x"], 1.0)),
    ([2], (["x", None], 2.0)),
    ([None, 9], (None, _NAN)),
    (None, None),
    ([2, 1, 0], (["x"], _NAN)),
    ([], ([], None)),
    ([None], (["x"], None)),
    ([3], (["y"], None)),
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("s", key="k", value=_VALUES, name="s").group_by_key()
    rows = builder.table("s", Materialized.key_value("rows"), key="seq", value=_VALUES, name="rows_table")
    groups = {
        "stream": stream,
        "hours": stream.windowed_by(TimeWindows.of("1 hour").grace("1 day")),
        "visits": stream.windowed_by(SessionWindows.of("1 hour").grace("1 day")),
        "table": rows.group_by(lambda value: {"all": 1}),
    }
    for name, group in groups.items():
        group.min("trip", name=f"{name}_least").to_changelog(f"{name}_min")
        group.max("stops", name=f"{name}_most").to_changelog(f"{name}_max")
    return builder.build()


_SINKS: Final = tuple(f"{group}_{kind}" for group in ("stream", "hours", "visits", "table") for kind in ("min", "max"))


def _on_driver() -> dict[str, list[Any]]:
    driver = TopologyTestDriver(_topology())
    for number, (stops, trip) in enumerate(_RECORDS):
        value = {"stops": stops, "trip": None if trip is None else Row(codes=trip[0], n=trip[1])}
        driver.pipe_input("s", {"k": "a", "seq": number}, value, number * 1_000)
    return {sink: [unwrapped((r.value or {}).get(sink[-3:])) for r in driver.read_output(sink)] for sink in _SINKS}


def _written(spark: SparkSession, folder: Path) -> SparkSource:
    """The records as two batches."""
    rows = [("a", *record, {"x": number}, number, number) for number, record in enumerate(_RECORDS)]
    return in_two_batches(spark, folder, rows, _SCHEMA, 4)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, Sequence[Any]], ...]:
    """What the sinks of the test driver got, and those of Spark."""
    folder = tmp_path_factory.mktemp("least")
    sources = {"s": _written(spark, folder)}
    app = StreamingApplication(spark, "least", _topology(), str(folder / "out"), sources, order="sequence")
    app.run()
    return _on_driver(), {sink: _read(spark, app, sink) for sink in _SINKS}


def _read(spark: SparkSession, app: StreamingApplication, sink: str) -> list[Any]:
    frame = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_seq", "_scope")
    return [row.asDict(recursive=True)[sink[-3:]] for row in frame.collect()]


@pytest.mark.slow
@pytest.mark.parametrize("sink", _SINKS)
def test_the_least_and_greatest_arrays_and_structs_are_the_same_on_both_engines(
    told: tuple[Mapping[str, Sequence[Any]], ...], sink: str
) -> None:
    driver, spark = told
    # As text, for no NaN is equal to another one.
    assert repr(spark[sink]) == repr(driver[sink])
    assert len(set(map(repr, spark[sink]))) > 1


def _frame(spark: SparkSession) -> DataFrame:
    value = "named_struct('tags', map('a', 1L), 'row', named_struct('tags', map('a', 1L)), 'took', INTERVAL '1' HOUR)"
    return spark.sql(f"SELECT named_struct('k', 'a') AS {KEY}, {value} AS {VALUE}")


@pytest.mark.parametrize(
    ("kind", "field", "told"),
    [
        ("min", "tags", r"node: min is given map<string,bigint>, and maps, .* have no order. Take a field or one of"),
        ("max", "row", r"node: max is given struct<tags:map<string,bigint>>, and maps"),
        *((kind, "took", f"node: {kind} takes no durations, which no table keeps. Take seconds")
          for kind in ("sum", "avg", "min", "max")),
    ],
)  # fmt: skip
def test_what_has_no_order_or_is_kept_by_no_table_is_refused_by_its_type(
    spark: SparkSession, kind: Any, field: str, told: str
) -> None:
    aggregation = Aggregation(kind, kind, as_expr(Expr("ref", "value")[field]))
    with pytest.raises(TopologyError, match=told):
        result_type("node", aggregation, _frame(spark))


@pytest.mark.slow
def test_the_greatest_map_of_a_window_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    hours = builder.stream("s", key="k", value="tags").group_by_key().windowed_by(TimeWindows.of("1 hour"))
    hours.max("tags", name="most").to_changelog("out")
    sources = {"s": _written(spark, tmp_path)}
    app = StreamingApplication(spark, "maps", builder.build(), str(tmp_path / "out"), sources, order="sequence")
    with pytest.raises(StreamingQueryException, match=r"most: max is given map<string,bigint>, and maps"):
        app.run()
    assert not (tmp_path / "out" / "most").exists()
