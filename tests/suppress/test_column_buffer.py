"""The buffer on columns: which rules it takes, and that it does what ``SuppressBuffer`` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suppress.buffer_rules import BufferRule, SuppressBuffer, Update
from suppress.column_buffer import Columns, Folded, Observed, fits_columns, fold_columns

MANY = settings(max_examples=200)
BOUNDS = st.fixed_dictionaries(
    {"max_records": st.none() | st.integers(0, 3), "max_bytes": st.none() | st.integers(0, 9)}
)
RULES = st.one_of(
    st.builds(BufferRule, st.just("n"), st.integers(0, 8)),
    st.builds(lambda wait, bounds: BufferRule("n", wait, when_full="emit_early", **bounds), st.integers(0, 8), BOUNDS),
)
#: Key, instant and size.
UPDATES = st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 30), st.integers(1, 4)), max_size=25)
CUTS = st.integers(0, 25)

Updates = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    ("bounds", "fits"),
    [
        ({}, True),
        ({"max_records": 2, "when_full": "emit_early"}, True),
        ({"max_records": 2}, False),
        ({"max_bytes": 2}, False),
        ({"max_records": 2, "when_full": "spill"}, False),
        ({"clock": "window_start"}, False),
        ({"timer": "record"}, False),
        ({"final": True}, False),
        ({"retention_us": 5}, False),
    ],
)
def test_only_an_event_time_limit_of_first_updates_that_lets_out_early_is_for_columns(
    bounds: dict[str, Any], fits: bool
) -> None:
    assert fits_columns(BufferRule("n", wait_us=5, **bounds), "record") == fits


@pytest.mark.parametrize(("size_of", "fits"), [("record", True), ("value", True), (lambda row: 1, False)])
def test_a_size_that_a_function_tells_is_not_for_columns(size_of: Any, fits: bool) -> None:
    assert fits_columns(BufferRule("n", wait_us=5), size_of) == fits


@dataclass
class _Batch:
    """The updates behind a cut, fed as columns and as rows to a buffer that holds what the updates before it left."""

    told: Folded
    seen: Observed
    #: Which update each row of the columns is, and which one was the first of its key then.
    origin: list[int]
    first: list[int]
    buffer: SuppressBuffer
    #: What left as rows: after which update, which one was the first of its key, and which one it is.
    emitted: list[tuple[int, int, int]]
    #: Records and bytes that were held at the start, and after each update.
    levels: list[tuple[int, int]]


def _fed(
    buffer: SuppressBuffer, updates: Updates, first: int
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    emitted, levels = [], []
    for at, (key, ts_us, size) in enumerate(updates, first):
        left = buffer.put(Update(key, bytes([key]), (at, size), at, ts_us), now_us=0)
        emitted += [(at, emission.row.prior, emission.row.value[0]) for emission in left]
        levels.append((buffer.records, buffer.bytes))
    return emitted, levels


def _both(rule: BufferRule, updates: Updates, cut: int) -> _Batch:
    buffer = SuppressBuffer(rule, size_of=lambda row: int(row.value[1]))
    _fed(buffer, updates[:cut], 0)
    # Rows that are held may come in any order.
    start, held = (buffer.records, buffer.bytes), list(buffer.rows())[::-1]
    fed = [*((row.order[0], row.buffer_us, row.size) for row in held), *updates[cut:]]
    columns, seen = Columns(*([row[part] for row in fed] for part in range(3))), Observed()
    told = fold_columns(columns, len(held), rule, buffer.stream_time_us, seen)
    emitted, levels = _fed(buffer, updates[cut:], cut)
    new = range(cut, len(updates))
    origin, first = [*(row.value[0] for row in held), *new], [*(row.prior for row in held), *new]
    return _Batch(told, seen, origin, first, buffer, emitted, [start, *levels])


@pytest.mark.rule("R35", "R92")
@MANY
@given(rule=RULES, updates=UPDATES, cut=CUTS)
def test_of_columns_the_same_leaves_and_stays_as_of_rows(rule: BufferRule, updates: Updates, cut: int) -> None:
    batch = _both(rule, updates, cut)
    out = batch.told.emissions
    left = zip(out.after, out.first, out.latest, strict=True)
    assert [(batch.origin[at], batch.first[first], batch.origin[latest]) for at, first, latest in left] == batch.emitted
    held = [(batch.first[first], batch.origin[latest]) for first, latest in batch.told.held]
    assert held == [(row.prior, row.value[0]) for row in batch.buffer.rows()]
    assert batch.told.stream_time_us == batch.buffer.stream_time_us


@pytest.mark.rule("R70", "R73")
@MANY
@given(rule=RULES, updates=UPDATES, cut=CUTS)
def test_a_buffer_on_columns_is_observed_at_its_start_and_after_each_update(
    rule: BufferRule, updates: Updates, cut: int
) -> None:
    batch = _both(rule, updates, cut)
    records, sizes = zip(*batch.levels, strict=True)
    new = records[-1] - records[0] + len(batch.emitted)
    samples = len(batch.levels) - 1
    assert batch.seen == Observed(
        samples - new, samples, max(records), max(sizes), sum(records[1:]), sum(sizes[1:]), records[-1], sizes[-1]
    )
