"""Folding groups of records in Python: what goes in comes out as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, StructType

from streams.spark.flow import KEY, PLACE, SCOPE
from streams.spark.kernel import EVENT, OUT, STATE, TOLD, PlainRow, Told, _runner, fold_groups
from versioned.errors import ConfigurationError

#: The last microsecond of the year 9999, and the first of the year 1.
_INSTANTS = (253_402_300_799_999_999, -62_135_596_800_000_000)


def _echo(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
    list(states)
    yield from (("out", event) for event in events)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_a_fold_tells_maps_lists_and_instants_of_the_whole_calendar_as_they_came(zone: str) -> None:
    instant = pa.timestamp("us", zone)
    kind = pa.struct(
        [
            ("at", instant),
            ("all", pa.list_(instant)),
            ("of", pa.map_(pa.string(), pa.int64())),
            ("in", pa.struct([("at", instant)])),
        ]
    )
    rows = [{"at": us, "all": [us, None], "of": [("a", 1), ("b", None)], "in": {"at": us}} for us in _INSTANTS]
    events = pa.array(rows, kind)
    group = pa.array([{"g": 1}] * len(rows))
    batch = pa.RecordBatch.from_arrays([group, events, pa.nulls(len(rows))], names=["_group", EVENT, STATE])
    told = pa.Table.from_batches(_runner(_echo, pa.schema([(TOLD, pa.string()), (OUT, kind)]))([batch]))
    assert told[OUT].combine_chunks().equals(events)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_null_struct_of_fields_that_are_never_null_goes_in(zone: str) -> None:
    state = pa.struct([pa.field("at", pa.timestamp("us", zone), nullable=False)])
    columns = [pa.array([{"g": 1}]), pa.array([{"n": 1}]), pa.nulls(1, state)]
    batch = pa.RecordBatch.from_arrays(columns, names=["_group", EVENT, STATE])
    schema = pa.schema([(TOLD, pa.string()), (OUT, columns[1].type)])
    assert [row[OUT] for told in _runner(_echo, schema)([batch]) for row in told.to_pylist()] == [{"n": 1}]


def test_a_key_that_is_compared_by_a_collation_is_refused(spark: SparkSession) -> None:
    events = spark.range(1).selectExpr(
        f"named_struct('k', 'a' COLLATE UTF8_LCASE) AS {KEY}", f"0 AS {SCOPE}", f"array(1L) AS {PLACE}"
    )
    with pytest.raises(ConfigurationError, match="UTF8_LCASE"):
        fold_groups(events, None, [KEY], _echo, StructType().add("n", LongType()), StructType())


def _first_and_last(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
    held = [row["n"] for row in states]
    yield "out", {"scope": group[SCOPE], "seen": [*held, *(row["n"] for row in events)]}


def test_each_scope_comes_once_states_first_and_records_in_order_of_place_whatever_the_numbers(
    spark: SparkSession,
) -> None:
    far = 2**51
    scopes = [-1, 0, 1, 2_047, 2_048, 70_000]
    # First parts of places before all time, beyond what a rough order tells apart, and equal ones.
    places = [[-far, 1], [-5, 2], [0, 0], [3, 1], [3, 2], [far - 1, 1], [far, 1], [4 * far, 0]]
    rows = [(n, scope, place) for scope in scopes for n, place in enumerate(places)]
    events = spark.createDataFrame(rows[::-1], f"n LONG, {SCOPE} INT, {PLACE} ARRAY<LONG>")
    states = spark.createDataFrame([(100, scope) for scope in scopes], f"n LONG, {SCOPE} INT")
    out = StructType().add("scope", LongType()).add("seen", ArrayType(LongType()))
    told = fold_groups(events, states, [SCOPE], _first_and_last, out, states.schema).select(f"{OUT}.*").collect()
    assert sorted(map(tuple, told)) == [(scope, [100, *range(len(places))]) for scope in scopes]
