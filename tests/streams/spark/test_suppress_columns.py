"""A buffer on columns and the same buffer row by row, fed the same batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.spark import kernel, suppress_columns
from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.suppress_columns import SuppressColumns
from streams.spark.suppress_fold import ARRIVED_US, BUFFER_US, FIRST_US, PRIOR, SIZE, SuppressFold
from suppress.buffer_rules import BufferRule
from suppress.sizes import logical_size
from versioned.spec import PRESENT

_CLOCK_US = 1_700_000_000_000_000
_INT, _TEXT, _BYTES = pa.int64(), pa.string(), pa.binary()
_KEYS = pa.struct([("place", _TEXT), ("id", pa.int32())])
_VALUES = pa.struct([("n", pa.float64()), ("text", _TEXT), ("raw", _BYTES), ("on", pa.bool_()), ("day", pa.date32())])
_GROUP = pa.struct([(SCOPE, pa.int32())])
_STATE = pa.struct(
    [
        (KEY, _KEYS), (VALUE, _VALUES), (OLD, _VALUES), (PRIOR, _VALUES), (US, _INT), (BUFFER_US, _INT),
        (FIRST_US, _INT), (ARRIVED_US, _INT), (SIZE, _INT), (SCOPE, pa.int32()),
    ]
)  # fmt: skip
_PLACES = pa.list_(_INT)
_EVENT = pa.struct([(KEY, _KEYS), (VALUE, _VALUES), (OLD, _VALUES), (US, _INT), (PLACE, _PLACES)])
_OUT = pa.struct(
    [
        (KEY, _KEYS), (VALUE, _VALUES), (OLD, _VALUES), (LATEST, pa.bool_()), (US, _INT), (SCOPE, pa.int32()),
        (PLACE, _PLACES),
    ]
)  # fmt: skip
_TOLD = pa.schema(
    [(kernel.TOLD, _TEXT), (kernel.OUT, _OUT), (kernel.STATE, _STATE), (kernel.WHAT, _TEXT), (kernel.COUNT, _INT)]
)
_ROWS = pa.schema([("_group", _GROUP), (kernel.EVENT, _EVENT), (kernel.STATE, _STATE)])

_eager = st.builds(
    BufferRule,
    node=st.just("held"),
    wait_us=st.integers(0, 12),
    max_records=st.none() | st.integers(1, 4),
    max_bytes=st.none() | st.integers(20, 120),
    when_full=st.just("emit_early"),
)
_rules = _eager | st.builds(BufferRule, node=st.just("held"), wait_us=st.integers(0, 12))
_keys = st.builds(dict, place=st.sampled_from([None, "", "a", "é", "z"]), id=st.none() | st.integers(-1, 1))
_values = st.none() | st.builds(
    dict,
    n=st.none() | st.floats(allow_nan=False),
    text=st.none() | st.text(max_size=4),
    raw=st.none() | st.binary(max_size=3),
    on=st.none() | st.booleans(),
    day=st.none() | st.dates(),
)
_update = st.tuples(_keys, _values, _values, st.integers(-20, 40))
_batch = st.lists(st.tuples(st.integers(0, 1), st.lists(_update, max_size=12)), max_size=2)


def _events(batch: list[tuple[int, list[Any]]]) -> Iterator[dict[str, Any]]:
    for scope, updates in sorted(batch, key=lambda each: each[0]):
        for number, (key, value, old, us) in enumerate(updates):
            event = {KEY: key, VALUE: value, OLD: old, US: us, PLACE: [number, 7]}
            yield {"_group": {SCOPE: scope}, kernel.EVENT: event}


def _fed(fold: Any, states: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    held = [{"_group": {SCOPE: state[SCOPE]}, kernel.STATE: state} for state in states]
    rows = sorted([*held, *events], key=lambda row: (row["_group"][SCOPE], kernel.EVENT in row))
    runner = kernel._column_runner if isinstance(fold, SuppressColumns) else kernel._runner
    # Batches of three rows: chunks begin and end anywhere, also between two scopes.
    batches = pa.Table.from_pylist(rows, schema=_ROWS).combine_chunks().to_batches(max_chunksize=3)
    return [row for told in runner(fold, _TOLD)(batches) for row in told.to_pylist()]


def _of(told: list[dict[str, Any]], kind: str, column: str) -> list[Any]:
    return [row[column] for row in told if row[kernel.TOLD] == kind]


def _counts(told: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row[kernel.WHAT], row[kernel.COUNT]) for row in told if row[kernel.TOLD] == "count"]


@pytest.mark.slow
@pytest.mark.rule("R92")
@settings(max_examples=300, deadline=None)
@given(
    rule=_rules,
    size_of=st.sampled_from(["record", "value"]),
    batches=st.lists(_batch, min_size=1, max_size=3),
    drains=st.booleans(),
    chunk=st.sampled_from([1, 4, 100]),
)
def test_on_columns_the_same_rows_leave_stay_and_are_counted(
    rule: BufferRule, size_of: Any, batches: list[Any], drains: bool, chunk: int
) -> None:
    states: list[dict[str, Any]] = []
    times: dict[int, int] = {}
    for number, batch in enumerate(batches):
        events, last = list(_events(batch)), drains and number == len(batches) - 1
        clock_us = _CLOCK_US + number
        by_row = _fed(SuppressFold(rule, size_of, None, clock_us, times, last), states, events)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "_CHUNK_ROWS", chunk)
            on_columns = _fed(SuppressColumns(rule, size_of, clock_us, times, last), states, events)
        assert _of(on_columns, "out", kernel.OUT) == _of(by_row, "out", kernel.OUT)
        assert _of(on_columns, "state", kernel.STATE) == _of(by_row, "state", kernel.STATE)
        assert _counts(on_columns) == _counts(by_row)
        states = _of(by_row, "state", kernel.STATE)
        for event in events:
            scope, us = event["_group"][SCOPE], event[kernel.EVENT][US]
            times[scope] = max(us, times.get(scope, us))


@pytest.mark.rule("R86")
def test_a_value_without_columns_counts_nothing_on_columns_either() -> None:
    values = pa.array([{PRESENT: True}, None])
    assert suppress_columns._struct_size(values).tolist() == [logical_size(value) for value in values.to_pylist()]


def _waiting(number: int) -> list[dict[str, Any]]:
    value = {"n": 1.0, "text": "x" * 100, "raw": b"y" * 100, "on": True, "day": None}
    updates = [({"place": f"k{each:03}", "id": 1}, value, None, each) for each in range(number)]
    return list(_events([(0, updates)]))


def _columns() -> SuppressColumns:
    return SuppressColumns(BufferRule("held", wait_us=10**9), "record", _CLOCK_US, {})


def test_all_that_waits_in_a_scope_may_be_more_than_two_gigabytes_of_text() -> None:
    rows = pa.Table.from_pylist(_waiting(3), schema=_ROWS)
    of_texts = {
        part.type
        for table in _columns()._split(rows)
        for field in table.select([KEY, VALUE, OLD, PRIOR]).schema
        for part in field.type
        if part.name in ("place", "text", "raw")
    }
    assert of_texts == {pa.large_string(), pa.large_binary()}


def test_what_is_told_comes_in_batches_that_types_of_32_bits_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _fed(_columns(), [], _waiting(50))
    monkeypatch.setattr(suppress_columns, "_BYTES_AT_ONCE", 5_000)
    batches = kernel._column_runner(_columns(), _TOLD)(pa.Table.from_pylist(_waiting(50), schema=_ROWS).to_batches())
    cut = list(batches)
    assert max(batch.nbytes for batch in cut) < 10_000
    assert [row for batch in cut for row in batch.to_pylist()] == whole
