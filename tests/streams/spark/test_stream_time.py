"""Stream time at each record of a windowed aggregate: read off its place where that tells it, else put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from raw_rows import raw_rows, rule_of, taken_in

from streams.nodes import Materialized, Node, StreamSource, WindowedAggregate
from streams.spark.flow import PLACE, SCOPE, US, Bounds, Flow, has_null_key
from streams.spark.intake import maxima_before
from streams.spark.operator import Batch
from streams.spark.places import Order
from streams.spark.source import valid_records
from streams.spark.time_windows import TimeWindowsOperator
from streams.topology import StreamsBuilder
from suppress.windows import TimeWindows
from versioned.durations import Resolution
from versioned.identifiers import TableRef

_MAXIMA = {0: 5_000_500, 1: 1_000_000}


@dataclass(frozen=True)
class Case:
    """A windowed aggregate, and what it and its source saw before the batch."""

    stored: Materialized
    seen: Mapping[int, int]
    null_keys: bool = False
    order: Order = "arrival"
    grouped_anew: bool = False


_STORE = Materialized(name="counts")
_BY_PLACE = {
    "one time per partition": Case(_STORE, _MAXIMA),
    "one time for all": Case(replace(_STORE, time_scope="store"), {0: 5_000_500}),
    "in milliseconds": Case(replace(_STORE, time_resolution=Resolution.MILLISECOND), {0: 5_000_000, 1: 1_000_000}),
}
_BY_ORDER = {
    "it came later than its source": Case(_STORE, {0: 5_000_500}),
    "it was behind its source": Case(_STORE, {0: 5_000_500, 1: 999_999}),
    "some records have no key": Case(_STORE, _MAXIMA, null_keys=True),
    "places are sequences": Case(_STORE, _MAXIMA, order="sequence"),
    "another key": Case(_STORE, {0: 5_000_500}, grouped_anew=True),
}


def _aggregate(case: Case) -> tuple[StreamSource, WindowedAggregate]:
    builder = StreamsBuilder()
    stream = builder.stream("in", key="k", value=["v"], name="stream")
    grouped = stream.group_by(lambda key, value: {"k": value.v}) if case.grouped_anew else stream.group_by_key()
    grouped.windowed_by(TimeWindows.of("1 second")).count(name="counts", materialized=case.stored)
    nodes: dict[str, Node] = {node.name: node for node in builder.build()}
    source, counts = nodes["stream"], nodes["counts"]
    assert isinstance(source, StreamSource)
    assert isinstance(counts, WindowedAggregate)
    return source, counts


def _flow(spark: SparkSession, batch: Batch, case: Case, source: StreamSource) -> Flow:
    rule = rule_of(source, case.order, "part", "seq")
    records, surveyed = taken_in(raw_rows(spark, case.null_keys), rule, _MAXIMA)
    return valid_records(batch, source, Flow(records, maxima_before=maxima_before(surveyed, case.order, _MAXIMA)))


def _by_the_rule(seen: Mapping[int, int], records: DataFrame) -> list[int]:
    """Stream time after each record, one by one in order of place: the newest of those that came so far."""
    times = dict(seen)
    told: list[int] = []
    for row in records.sort(SCOPE, PLACE).collect():
        times[row[SCOPE]] = max(times.get(row[SCOPE], row[US]), row[US])
        told.append(times[row[SCOPE]])
    return told


def _look(spark: SparkSession, case: Case) -> tuple[DataFrame, list[int]]:
    """The records that reach the windows with ``time`` as the operator tells it; and as the rule does, in order."""
    source, node = _aggregate(case)
    batch = Batch(spark, "app", TableRef.parse("/nowhere"), 1, 1, 0, {node.name: case.seen})
    operator = TimeWindowsOperator(node)
    operator._batch = batch
    flow = _flow(spark, batch, case, source)
    keyed = operator._keyed(flow.frame)
    valid = keyed.where(~has_null_key(keyed))
    return valid.withColumn("time", operator.stream_time(flow)), _by_the_rule(case.seen, valid)


def _is_put_in_order(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    frame.explain()
    return "Sort" in capsys.readouterr().out


def _told(timed: DataFrame) -> list[int]:
    return [row["time"] for row in timed.sort(SCOPE, PLACE).collect()]


@pytest.mark.rule("R10", "R11")
@pytest.mark.parametrize("case", _BY_PLACE.values(), ids=_BY_PLACE)
def test_stream_time_is_read_off_the_place_of_records_that_all_came(
    case: Case, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    timed, by_the_rule = _look(spark, case)
    assert not _is_put_in_order(timed, capsys)
    assert len(set(by_the_rule)) > 10
    assert _told(timed) == by_the_rule


@pytest.mark.rule("R10", "R11")
@pytest.mark.parametrize("case", _BY_ORDER.values(), ids=_BY_ORDER)
def test_stream_time_is_the_newest_so_far_where_places_tell_of_other_records(
    case: Case, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    timed, by_the_rule = _look(spark, case)
    assert _is_put_in_order(timed, capsys)
    assert len(set(by_the_rule)) > 10
    assert _told(timed) == by_the_rule


@pytest.mark.parametrize(
    ("change", "stays"),
    [(Flow.map, None), (Flow.in_one_scope, None), (Flow.map_each, _MAXIMA)],
    ids=["fewer records", "one scope", "every record"],
)
def test_only_a_flow_of_the_same_records_keeps_what_places_tell(
    change: Callable[[Flow, Callable[[DataFrame], DataFrame]], Flow], stays: object, spark: SparkSession
) -> None:
    flow = Flow(spark.range(0), {0: Bounds(1, 2, 3)}, _MAXIMA)
    assert change(flow, lambda frame: frame).maxima_before == stays


@pytest.mark.rule("R10", "R13")
def test_a_record_is_late_by_its_instant_in_the_resolution_of_the_store(spark: SparkSession) -> None:
    # In milliseconds the second one lies in a window that the first one has closed.
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(microseconds=1_500))
    stored = replace(_STORE, time_resolution=Resolution.MILLISECOND)
    builder.stream("in", key="k", value=["v"]).group_by_key().windowed_by(windows).count(materialized=stored)
    (node,) = (node for node in builder.build() if isinstance(node, WindowedAggregate))
    operator = TimeWindowsOperator(node)
    operator._batch = Batch(spark, "app", TableRef.parse("/nowhere"), 1, 1, 0, {})
    rows = [(("a",), ("x",), us, 0, [place]) for place, us in enumerate((2_000, 1_600))]
    schema = f"_key STRUCT<k: STRING>, _value STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<LONG>"
    flow = Flow(spark.createDataFrame(rows, schema), {0: Bounds(1_600, 2_000, 2)})
    assigned = operator._assign(operator._keyed(flow.frame), flow)
    assert sorted((row[US], row["_late"]) for row in assigned.collect()) == [(1_000, True), (2_000, False)]
