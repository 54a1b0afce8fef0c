"""Folding groups of records in Python: what goes in comes out as it was."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Iterable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, StructType

from streams.rows import Row
from streams.spark.flow import KEY, PLACE, SCOPE
from streams.spark.kernel import (
    COUNT,
    EVENT,
    OUT,
    STATE,
    TOLD,
    WHAT,
    PlainRow,
    Told,
    _arrow_schema,
    _pieces,
    _runner,
    fold_groups,
)
from versioned.errors import ConfigurationError, RecordError

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


def _kinds(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
    list(states)
    for event in events:
        value, key = event["_value"], group[KEY]
        inner = (key["s"], value["s"], value["s"]["t"], value["a"][0], value["m"]["k"])
        yield "out", {"kinds": [type(part).__name__ for part in (*inner, value["m"])]}


def test_a_fold_gets_structs_within_keys_and_values_as_rows_and_maps_as_dictionaries() -> None:
    flat = pa.struct([("x", pa.float64())])
    nested = pa.struct([("x", pa.int64()), ("t", flat)])
    value = pa.struct([("s", nested), ("a", pa.list_(flat)), ("m", pa.map_(pa.string(), flat))])
    group = pa.array([{KEY: {"s": {"x": 0.5}}}], pa.struct([(KEY, pa.struct([("s", flat)]))]))
    row = {"s": {"x": 1, "t": {"x": 2.0}}, "a": [{"x": 3.0}], "m": [("k", {"x": 4.0})]}
    events = pa.array([{"_value": row}], pa.struct([("_value", value)]))
    batch = pa.RecordBatch.from_arrays([group, events, pa.nulls(1)], names=["_group", EVENT, STATE])
    schema = pa.schema([(TOLD, pa.string()), (OUT, pa.struct([("kinds", pa.list_(pa.string()))]))])
    (told,) = [row[OUT] for batch in _runner(_kinds, schema)([batch]) for row in batch.to_pylist()]
    assert told == {"kinds": ["Row"] * 5 + ["dict"]}


def _number(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
    list(states)
    yield "out", {"n": len({Row(event[KEY]) for event in events})}


@pytest.mark.parametrize("groups", [[{"x": math.nan}] * 2, [{"x": [math.nan]}] * 2, [{"x": {"y": math.nan}}] * 2])
def test_keys_that_are_not_a_number_make_one_group_and_are_one_key_in_it(groups: list[PlainRow]) -> None:
    columns = [pa.array(groups), pa.array([{KEY: {"k": math.nan}}] * 2), pa.nulls(2)]
    batch = pa.RecordBatch.from_arrays(columns, names=["_group", EVENT, STATE])
    schema = pa.schema([(TOLD, pa.string()), (OUT, pa.struct([("n", pa.int64())]))])
    assert [row[OUT] for told in _runner(_number, schema)([batch]) for row in told.to_pylist()] == [{"n": 1}]


def _pieces_of_numbers(numbers: list[float]) -> list[int]:
    columns = [pa.array([{"x": number} for number in numbers]), pa.array(range(len(numbers))), pa.nulls(len(numbers))]
    batch = pa.RecordBatch.from_arrays(columns, names=["_group", EVENT, STATE])
    return [len(piece) for _, piece in _pieces(batch)]


def test_a_fold_on_columns_gets_a_group_that_is_not_a_number_in_one_piece() -> None:
    assert _pieces_of_numbers([1.0, math.nan, math.nan, math.nan]) == [1, 3]


@pytest.mark.parametrize(
    ("kind", "pairs", "seen"),
    [
        (pa.string(), [("a", 1)], {"a": 1}),
        (pa.struct([("x", pa.int64())]), [({"x": 1}, 1)], {Row(x=1): 1}),
        (pa.list_(pa.int64()), [([1, 2], 1)], {(1, 2): 1}),
    ],
    ids=["text", "struct", "array"],
)
def test_a_map_is_a_mapping_to_a_fold_whatever_its_keys(kind: pa.DataType, pairs: list[Any], seen: Any) -> None:
    of_maps = pa.struct([("own", pa.map_(kind, pa.int64())), ("more", pa.list_(pa.map_(kind, pa.int64())))])
    got: list[PlainRow] = []

    def fold(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        list(states)
        for event in events:
            got.append(event)
            yield "out", event

    events = pa.array([{"own": pairs, "more": [pairs, None]}], of_maps)
    batch = pa.RecordBatch.from_arrays([pa.array([{"g": 1}]), events, pa.nulls(1)], names=["_group", EVENT, STATE])
    told = pa.Table.from_batches(_runner(fold, pa.schema([(TOLD, pa.string()), (OUT, of_maps)]))([batch]))
    assert got == [{"own": seen, "more": [seen, None]}]
    assert told[OUT].combine_chunks().equals(events)


def _structs(**fields: Any) -> Row:
    return Row(own=Row(**fields), many=[Row(**fields), None], named={"a": Row(**fields)}, keyed={Row(x=1): 2})


@pytest.mark.parametrize("of", [_structs, lambda **fields: dict(_structs(**fields))], ids=["rows", "dictionaries"])
def test_what_a_fold_tells_as_rows_is_what_arrow_takes_however_deep_and_its_rows_stay_as_they_are(of: Any) -> None:
    flat = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])
    keyed = pa.map_(pa.struct([("x", pa.int64())]), pa.int64())
    kind = pa.struct([("own", flat), ("many", pa.list_(flat)), ("named", pa.map_(pa.string(), flat)), ("keyed", keyed)])
    told = of(x=1, y=Row(z="a"))

    def fold(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        yield "out", told

    batch = pa.RecordBatch.from_arrays([pa.array([{"g": 1}]), pa.nulls(1), pa.nulls(1)], names=["_group", EVENT, STATE])
    (row,) = pa.Table.from_batches(_runner(fold, pa.schema([(TOLD, pa.string()), (OUT, kind)]))([batch])).to_pylist()
    inner = {"x": 1, "y": {"z": "a"}}
    assert row[OUT] == {"own": inner, "many": [inner, None], "named": [("a", inner)], "keyed": [({"x": 1}, 2)]}
    assert told == of(x=1, y=Row(z="a"))


def test_sums_are_told_once_a_task_and_counts_by_each_group() -> None:
    def fold(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        yield "sum", ("seen", group["g"])
        yield "count", ("newest", group["g"])

    groups = pa.array([{"g": number} for number in (1, 2, 3)])
    batch = pa.RecordBatch.from_arrays([groups, pa.nulls(3), pa.nulls(3)], names=["_group", EVENT, STATE])
    schema = pa.schema([(TOLD, pa.string()), (WHAT, pa.string()), (COUNT, pa.int64())])
    rows = pa.Table.from_batches(_runner(fold, schema)([batch])).to_pylist()
    assert [(row[TOLD], row[WHAT], row[COUNT]) for row in rows] == [
        *(("count", "newest", number) for number in (1, 2, 3)), ("count", "seen", 6)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "result"),
    [(pa.int64(), 2**63), (pa.decimal128(38, 38), Decimal("1.5"))],
    ids=["beyond 64 bits", "beyond its digits"],
)
def test_a_result_that_does_not_fit_its_type_is_told_with_its_node_and_what_to_do(
    kind: pa.DataType, result: Any
) -> None:
    def fold(group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        yield "out", {"sum": result}

    batch = pa.RecordBatch.from_arrays([pa.array([{"g": 1}]), pa.nulls(1), pa.nulls(1)], names=["_group", EVENT, STATE])
    schema = pa.schema([(TOLD, pa.string()), (OUT, pa.struct([("sum", kind)]))])
    with pytest.raises(RecordError, match=r"^totals: a result does not fit its type \(.*\)\. Cast what it is made of"):
        list(_runner(fold, schema, "totals")([batch]))


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


_ARROW = pa.schema([("n", pa.int64())])


class _Session:
    """Another object of a session, as each batch has one; it counts how often Arrow types are asked for."""

    def __init__(self, **settings: str) -> None:
        self.planned = 0
        self.conf = SimpleNamespace(get=lambda name, default: settings.get(name.rpartition(".")[2], default))

    def createDataFrame(self, rows: list[Any], schema: StructType) -> Any:
        self.planned += 1
        return SimpleNamespace(toArrow=lambda: pa.Table.from_pylist(rows, _ARROW))


@pytest.mark.parametrize(
    ("settings", "planned"), [({}, 0), ({"timeZone": "Asia/Tokyo"}, 1), ({"useLargeVarTypes": "true"}, 1)]
)
def test_the_arrow_types_of_a_schema_are_asked_for_once_whichever_object_of_the_session_comes_with_a_batch(
    settings: dict[str, str], planned: int
) -> None:
    schema = StructType().add(f"n of {settings}", LongType())
    sessions: list[Any] = [_Session(), _Session(), _Session(**settings)]
    assert [_arrow_schema(session, schema) for session in sessions] == [_ARROW] * 3
    assert [session.planned for session in sessions] == [1, 0, planned]


def test_the_kept_arrow_types_keep_no_session_alive() -> None:
    session: Any = _Session()
    _arrow_schema(session, StructType().add("kept", LongType()))
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
