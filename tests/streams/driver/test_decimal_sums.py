"""Sums of decimals are exact: as wide as a column, however many digits Python's arithmetic keeps."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from suppress.windows import SessionWindows

_LARGE = "99999999999999999999999999.99"


def _of_stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key="k", value="v").group_by_key()


def _of_sessions(builder: StreamsBuilder) -> Any:
    return _of_stream(builder).windowed_by(SessionWindows.of("1 hour"))


def _of_table(builder: StreamsBuilder) -> Any:
    table = builder.table("in", Materialized.key_value("rows"), key="k", value="v")
    return table.group_by(lambda value: "all")


@pytest.mark.parametrize("grouped", [_of_stream, _of_sessions, _of_table])
def test_a_sum_of_decimals_keeps_every_digit(grouped: Callable[[StreamsBuilder], Any]) -> None:
    builder = StreamsBuilder()
    grouped(builder).sum(lambda value: value.v, name="sum").to_changelog("sums")
    driver = TopologyTestDriver(builder.build())
    for ts, amount in enumerate([_LARGE, "0.02"]):
        # Another key each in the table, where a record replaces the one before.
        driver.pipe_input("in", ts if grouped is _of_table else "a", {"v": Decimal(amount)}, ts)
    assert driver.read_output("sums")[-1].value == Row(sum=Decimal("100000000000000000000000000.01"))


def test_what_leaves_a_sum_of_decimals_leaves_it_exactly() -> None:
    builder = StreamsBuilder()
    _of_table(builder).sum(lambda value: value.v, name="sum").to_changelog("sums")
    driver = TopologyTestDriver(builder.build())
    for ts, (key, amount) in enumerate([("a", _LARGE), ("b", "0.02"), ("a", "0")]):
        driver.pipe_input("in", key, {"v": Decimal(amount)}, ts)
    assert driver.read_output("sums")[-1].value == Row(sum=Decimal("0.02"))


def test_a_mean_without_windows_is_that_of_the_exact_sum() -> None:
    builder = StreamsBuilder()
    _of_stream(builder).avg(lambda value: value.v, name="mean").to_changelog("means")
    driver = TopologyTestDriver(builder.build())
    for ts, amount in enumerate(["1E+20", "3E-9", "-1E+20"]):
        driver.pipe_input("in", "a", {"v": Decimal(amount)}, ts)
    assert driver.read_output("means")[-1].value == Row(avg=1e-9)
