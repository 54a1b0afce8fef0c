"""Sums, means, least and greatest values in the driver take what they take on Spark, and end where those end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows
from versioned.errors import RecordError

Grouped = Callable[[StreamsBuilder], Any]
_LARGE = "99999999999999999999999999.99"


def _of_stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key="k", value="v").group_by_key()


def _of_hours(builder: StreamsBuilder) -> Any:
    return _of_stream(builder).windowed_by(TimeWindows.of("1 hour"))


def _of_sessions(builder: StreamsBuilder) -> Any:
    return _of_stream(builder).windowed_by(SessionWindows.of("1 hour"))


def _of_table(builder: StreamsBuilder) -> Any:
    table = builder.table("in", Materialized.key_value("rows"), key="k", value="v")
    return table.group_by(lambda value: "all")


_GROUPED = [_of_stream, _of_hours, _of_sessions, _of_table]


def _last(grouped: Grouped, kind: str, values: list[Any]) -> Row | None:
    builder = StreamsBuilder()
    getattr(grouped(builder), kind)(lambda value: value.v, name="node", output="x").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for ts, value in enumerate(values):
        # Another key each in the table, where a record replaces the one before.
        driver.pipe_input("in", str(ts) if grouped is _of_table else "a", {"v": value}, ts)
    value: Row | None = driver.read_output("out")[-1].value
    return value


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([2**63 - 2, 1], 2**63 - 1),
        ([1 - 2**63, -1], -(2**63)),
        (["1", " 2.5 "], 3.5),
        (["1e3", None], 1000.0),
        ([0.1, 0.2], 0.1 + 0.2),
        ([1e308, 1e308], float("inf")),
        ([Decimal("0.10"), Decimal("-0.03")], Decimal("0.07")),
        # As wide as a column, however many digits Python's arithmetic keeps.
        ([Decimal(_LARGE), Decimal("0.02")], Decimal("100000000000000000000000000.01")),
    ],
)
def test_a_sum_is_that_of_sql(grouped: Grouped, values: list[Any], total: Any) -> None:
    assert _last(grouped, "sum", values) == Row(x=total)


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([2**63 - 1, 1], "node: 9223372036854775807 [+] 1 does not fit in 64 bits"),
        ([-(2**63), -1], "node: -9223372036854775808 [+] -1 does not fit in 64 bits"),
        ([Decimal("9e37"), Decimal("9e37")], "does not fit in 64 bits or 38 digits"),
        (["one"], r"node: 'one' \(text\): sum takes numbers; cast it"),
        ([True], r"node: True \(boolean\): sum takes numbers"),
        ([date(2013, 1, 1)], r"\(date\): sum takes numbers"),
        ([[1]], r"\(row\): sum takes numbers"),
    ],
)
def test_a_sum_that_sql_does_not_have_is_an_error_of_the_record(grouped: Grouped, values: list[Any], told: str) -> None:
    with pytest.raises(RecordError, match=told):
        _last(grouped, "sum", values)


def test_what_leaves_a_sum_of_decimals_leaves_it_exactly() -> None:
    builder = StreamsBuilder()
    _of_table(builder).sum(lambda value: value.v, name="sum").to_changelog("sums")
    driver = TopologyTestDriver(builder.build())
    for ts, (key, amount) in enumerate([("a", _LARGE), ("b", "0.02"), ("a", "0")]):
        driver.pipe_input("in", key, {"v": Decimal(amount)}, ts)
    assert driver.read_output("sums")[-1].value == Row(sum=Decimal("0.02"))


def test_a_mean_without_windows_is_that_of_the_exact_sum() -> None:
    assert _last(_of_stream, "avg", [Decimal(amount) for amount in ("1E+20", "3E-9", "-1E+20")]) == Row(x=1e-9)


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize("values", [["1", "2"], [1, 2], [Decimal(1), Decimal(2)]])
def test_a_mean_is_that_of_sql(grouped: Grouped, values: list[Any]) -> None:
    assert _last(grouped, "avg", values) == Row(x=1.5)


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize("value", ["one", False])
def test_a_mean_that_sql_does_not_have_is_an_error_of_the_record(grouped: Grouped, value: Any) -> None:
    with pytest.raises(RecordError, match="avg takes numbers"):
        _last(grouped, "avg", [value])


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize("kind", ["sum", "avg", "min", "max"])
def test_durations_are_refused_as_no_table_on_spark_keeps_them(grouped: Grouped, kind: str) -> None:
    with pytest.raises(RecordError, match=f"node: 1 day, 0:00:00: {kind} takes no durations.*Take seconds"):
        _last(grouped, kind, [timedelta(1)])


@pytest.mark.parametrize(("before", "after"), [("5", "7"), (5.0, 7.0)])
def test_what_a_table_replaces_leaves_its_sum_as_a_number(before: Any, after: Any) -> None:
    builder = StreamsBuilder()
    _of_table(builder).sum(lambda value: value.v, name="node", output="x").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for ts, value in enumerate((before, after)):
        driver.pipe_input("in", "a", {"v": value}, ts)
    assert driver.read_output("out")[-1].value == Row(x=7.0)


def test_a_table_that_takes_away_beyond_64_bits_is_an_error_of_the_record() -> None:
    builder = StreamsBuilder()
    _of_table(builder).sum(lambda value: value.v, name="node").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for ts, (key, value) in enumerate([("a", 5), ("b", -(2**63)), ("c", -3)]):
        driver.pipe_input("in", key, {"v": value}, ts)
    with pytest.raises(RecordError, match="node: -9223372036854775806 - 5 does not fit in 64 bits"):
        driver.pipe_input("in", "a", {"v": 6}, 3)


_NAN = float("nan")
#: In Spark's order: a null before any value, the end of an array before what goes on, NaN behind all numbers.
_IN_ORDER = [
    [[], [None], [None, 9], [1], [1, None], [1, 0], [2], [_NAN]],
    [Row(a=None, n=9), Row(a=[], n=1), Row(a=["x"], n=None), Row(a=["x"], n=1.0), Row(a=["x"], n=_NAN)],
    [[Row(n=None)], [Row(n=1)], [Row(n=1), None], [Row(n=2)]],
]


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize("values", _IN_ORDER, ids=["arrays", "structs_of_arrays", "arrays_of_structs"])
def test_arrays_and_structs_are_in_the_order_of_sql(grouped: Grouped, values: list[Any]) -> None:
    for smaller, larger in pairwise(values):
        for pair in ([smaller, None, larger], [larger, smaller]):
            # As text, for no NaN is equal to another one.
            assert repr(_last(grouped, "min", pair)) == repr(Row(x=smaller))
            assert repr(_last(grouped, "max", pair)) == repr(Row(x=larger))


@pytest.mark.parametrize("grouped", _GROUPED)
@pytest.mark.parametrize("value", [{"a": 1}, Row(tags={"a": 1}), [{}]])
def test_maps_are_refused_where_an_order_is_needed(grouped: Grouped, value: Any) -> None:
    with pytest.raises(RecordError, match=r"node: .*: max takes no maps, which have no order. Take one of its values"):
        _last(grouped, "max", [value])
