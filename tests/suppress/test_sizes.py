"""Sizes of buffered rows, and the order of their keys."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suppress.buffer_rules import BufferedRow
from suppress.order import canonical_order
from suppress.sizes import logical_size, sizer
from versioned.errors import ConfigurationError, RecordError
from versioned.spec import PRESENT

ROW = BufferedRow((7,), b"", {"name": "Zoë", "ok": True}, None, None, 5, 5, 5, 0)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 0),
        (True, 1),
        (7, 8),
        (1.5, 8),
        ("Zoë", 4),
        (b"abc", 3),
        (Decimal("1.50"), 16),
        (date(2024, 1, 1), 4),
        (datetime(2024, 1, 1), 8),
        (timedelta(1), 8),
        (["a", "bc"], 3),
        ({"a": "xy", "b": {"c": 1}}, 10),
        ([["a", "bc"], ["d", "e"]], 5),
        ([("a", "bc", "d"), ("e",)], 5),
    ],
)
def test_a_value_counts_its_logical_size(value: Any, size: int) -> None:
    assert logical_size(value) == size


@pytest.mark.rule("R86")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.map_(pa.string(), pa.int64()), {}),
        (pa.map_(pa.string(), pa.int64()), {"a long key": 1, "another": None}),
        (pa.map_(pa.string(), pa.map_(pa.int64(), pa.string())), {"a long key": {1: "xy", 2: "é"}}),
        (pa.list_(pa.map_(pa.string(), pa.string())), [{"a long key": "xy"}, {"b": "z"}]),
    ],
    ids=["none", "two", "nested", "listed"],
)
def test_a_map_counts_on_spark_what_it_counts_in_the_test_driver(kind: pa.DataType, value: Any) -> None:
    (of_arrow,) = pa.array([_pairs(value)], kind).to_pylist()
    assert of_arrow != value or not value
    assert logical_size(of_arrow) == logical_size(value)


@pytest.mark.rule("R86")
def test_a_value_without_columns_counts_nothing_as_in_the_test_driver() -> None:
    assert logical_size({PRESENT: True}) == logical_size({}) == 0


def _pairs(value: Any) -> Any:
    if isinstance(value, list):
        return [_pairs(part) for part in value]
    return [(key, _pairs(part)) for key, part in value.items()] if isinstance(value, dict) else value


@pytest.mark.rule("R86")
@pytest.mark.parametrize(("size_of", "size"), [("record", 8 + 5 + 8), ("value", 5), (lambda row: row.ts_us, 5)])
def test_a_row_is_measured_as_asked(size_of: Any, size: int) -> None:
    assert sizer(size_of)(ROW) == size


def test_an_unknown_measure_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ConfigurationError, match='"record", "value", or a function'):
        sizer("bytes")  # type: ignore[arg-type]


def test_a_value_that_no_column_holds_has_no_size() -> None:
    with pytest.raises(RecordError, match="function"):
        logical_size(len)


@pytest.mark.parametrize("value", [2**63, {1, 2}, len])
def test_a_key_without_an_order_is_refused(value: Any) -> None:
    with pytest.raises(RecordError, match="part of a key"):
        canonical_order(value)


SORTED = [
    [None, "", "a", "a\x00", "a\x00b", "ab", "b", "é", "日", "😀"],
    [None, -(2**63), -10, -9, 0, 9, 10, 2**63 - 1],
    [None, float("-inf"), -1.5, -1.0, 0.0, 1e-300, 2.0, float("inf"), float("nan")],
    [
        None,
        Decimal("-100"),
        Decimal("-10.5"),
        Decimal("-10"),
        Decimal(0),
        Decimal("0.001"),
        Decimal("9"),
        Decimal("10"),
        Decimal("NaN"),
    ],
    [None, False, True],
    [None, date(1960, 1, 1), date(1970, 1, 1), date(2024, 2, 29)],
    [
        None,
        datetime(1960, 1, 1),
        datetime(1970, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 1, 1),
        datetime(2024, 1, 1, 0, 0, 0, 1),
    ],
    [None, b"", b"\x00", b"\x00\x01", b"\x7f", b"\x80", b"\xff"],
    [{"a": None, "b": 9}, {"a": 1, "b": 2}, {"a": 1, "b": 10}, {"a": 2, "b": 0}],
    [[], [None], [1], [1, 1], [2]],
    [timedelta(-1), timedelta(0), timedelta(1)],
]


@pytest.mark.parametrize("values", SORTED, ids=lambda values: type(values[-1]).__name__)
def test_keys_are_ordered_as_sql_orders_them(values: list[Any]) -> None:
    backwards = values[::-1]
    assert sorted(backwards, key=canonical_order) == values


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (float("nan"), -float("nan")), (Decimal(0), Decimal("-0.00")), (Decimal("1.5"), Decimal("1.500"))],
)
def test_what_sql_takes_for_one_key_has_one_order(one: Any, other: Any) -> None:
    assert canonical_order(one) == canonical_order(other)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_floats_compare_as_their_order_does(left: float, right: float) -> None:
    assert (canonical_order(left) < canonical_order(right)) == (left < right)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_compare_as_their_order_does(left: Decimal, right: Decimal) -> None:
    assert (canonical_order(left) < canonical_order(right)) == (left < right)


@pytest.mark.parametrize("digits", ["1" * 37, "-" + "1" * 38, "0." + "1" * 37], ids=["whole", "negative", "fraction"])
def test_decimals_that_differ_in_their_last_digit_only_have_orders_of_their_own(digits: str) -> None:
    values = {Decimal(digits + last) for last in "123"}
    assert sorted(values, key=canonical_order) == sorted(values)


@given(st.text(), st.text())
def test_texts_compare_by_their_utf8_bytes(left: str, right: str) -> None:
    assert (canonical_order(left) < canonical_order(right)) == (left.encode() < right.encode())


def test_a_buffered_row_can_be_kept_in_a_file() -> None:
    assert pickle.loads(pickle.dumps(ROW)) == ROW
