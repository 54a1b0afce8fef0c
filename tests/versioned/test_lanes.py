"""Rows in lanes: one per key, in order of time, with the time between versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import pytest

from versioned.errors import InvariantError, RecordError, SchemaError
from versioned.lanes import Columns, lanes_of

_COLUMNS = Columns(("item",))


def _row(start: Any, end: Any, price: Any = 1, item: str = "tea", **others: Any) -> dict[str, Any]:
    return {"item": item, "price": price, "validFrom": start, "validTo": end, **others}


class _Collected:
    """A row as Spark collects it."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def asDict(self) -> dict[str, Any]:
        return self._fields


def _spans(*rows: Any, columns: Columns = _COLUMNS) -> list[tuple[int, int | None, str | None]]:
    (lane,) = lanes_of(rows, columns)
    return [(s.from_us, s.to_us, s.label if s.values is not None else "†" if s.deleted else None) for s in lane.spans]


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        ([_row(0, 5, "a"), _row(5, None, "b")], [(0, 5, "a"), (5, None, "b")]),
        ([_row(5, None, "b"), _row(0, 5, "a")], [(0, 5, "a"), (5, None, "b")]),
        ([_row(0, 3, "a"), _row(5, None, "b")], [(0, 3, "a"), (3, 5, None), (5, None, "b")]),
        ([_row(0, 3, "a")], [(0, 3, "a"), (3, None, None)]),
        ([_row(0, 3, "a"), _row(3, None, deleted=True)], [(0, 3, "a"), (3, None, "†")]),
        ([_row(0, 3, deleted=False)], [(0, 3, "1"), (3, None, None)]),
        ([_row(0, 3, deleted=None), _row(3, None, 2, deleted=float("nan"))], [(0, 3, "1"), (3, None, "2")]),
        ([_row(0, pd.NA, deleted=pd.NA)], [(0, None, "1")]),
        ([_row(0, None, None)], [(0, None, "null")]),
        ([_row(2, 2, "a"), _row(2, None, "b")], [(2, 2, "a"), (2, None, "b")]),
    ],
)
def test_a_lane_has_each_version_and_the_time_without_one(rows: list[Any], spans: list[Any]) -> None:
    assert _spans(*rows) == spans


def test_rows_may_be_as_spark_collects_them() -> None:
    assert _spans(_Collected(**_row(datetime(1970, 1, 1), None, "a"))) == [(0, None, "a")]


def test_rows_may_come_from_pandas() -> None:
    frame = pd.DataFrame([_row(datetime(1970, 1, 1), datetime(1970, 1, 2), "a"), _row(datetime(1970, 1, 2), None, "b")])
    assert _spans(*frame.to_dict("records")) == [(0, 86_400_000_000, "a"), (86_400_000_000, None, "b")]


def test_lanes_come_in_the_order_of_their_first_rows() -> None:
    rows = [_row(0, 1, item="b"), _row(0, 1, item="a"), _row(1, None, item="b")]
    assert [lane.key for lane in lanes_of(rows, _COLUMNS)] == ["b", "a"]


def test_an_empty_text_as_a_key_is_seen() -> None:
    [lane] = lanes_of([_row(0, None, item="")], _COLUMNS)
    assert (lane.key, lane.names) == ('""', ("",))


def test_a_key_of_several_columns_is_one_lane() -> None:
    rows = [_row(0, None, item="tea", shop=shop) for shop in (1, 2)]
    assert [lane.key for lane in lanes_of(rows, Columns(("item", "shop")))] == ["tea · 1", "tea · 2"]


@pytest.mark.parametrize(
    ("values", "label"), [(None, "1 · x"), (("unit",), "x"), (("unit", "price"), "x · 1"), ((), "")]
)
def test_values_are_all_other_columns_or_those_asked_for(values: tuple[str, ...] | None, label: str) -> None:
    row = _row(0, None, 1, unit="x", _batch_id=7)
    assert _spans(row, columns=Columns(("item",), values)) == [(0, None, label)]


def test_time_columns_may_have_other_names() -> None:
    row = {"item": "tea", "price": 1, "since": 0, "until": None}
    assert _spans(row, columns=Columns(("item",), valid_from="since", valid_to="until")) == [(0, None, "1")]


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([{"item": "tea"}], SchemaError, "validFrom.*validTo"),
        ([_row(None, 1)], RecordError, "validFrom is null"),
        ([_row("now", 1)], RecordError, "validFrom is 'now'"),
        ([_row(5, 1)], InvariantError, "ends before"),
        ([_row(0, None), _row(5, None)], InvariantError, "overlap.*Name every key column"),
        ([_row(0, 6), _row(5, None)], InvariantError, "overlap"),
    ],
    ids=["no column", "no start", "no instant", "ends first", "two open", "overlap"],
)
def test_rows_that_no_table_holds_are_refused(rows: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lanes_of(rows, _COLUMNS)


def test_no_rows_have_no_lanes() -> None:
    assert lanes_of([], _COLUMNS) == ()
