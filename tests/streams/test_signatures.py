"""Which arguments of a function are rows: what has a default keeps it, in traced functions and in plain ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from streams.expressions import trace
from streams.graph import plain_function
from streams.rows import Row
from streams.signatures import row_arguments
from streams.testing import TopologyTestDriver
from streams.topology import KStream, StreamsBuilder
from versioned.errors import ConfigurationError

_LIMITED: list[Callable[..., Any]] = [
    lambda value, limit=3: {"v": value["v"], "limit": limit},
    lambda key, value, limit=3: {"v": value["v"], "limit": limit},
    lambda value, *, limit=3: {"v": value["v"], "limit": limit},
    lambda value, limit=3, *rest, **more: {"v": value["v"], "limit": limit},
    lambda value=None, /: {"v": value["v"], "limit": 3},
    partial(lambda value, limit: {"v": value["v"], "limit": limit}, limit=3),
    partial(lambda limit, value: {"v": value["v"], "limit": limit}, 3),
    lambda *rows: {"v": rows[-1]["v"], "limit": 5 - len(rows)},
]


def _valued(use: Callable[[KStream], KStream]) -> list[Any]:
    builder = StreamsBuilder()
    use(builder.stream("s", key="k", value="v")).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("s", "a", 7, 0)
    return [record.value for record in driver.read_output("out")]


@pytest.mark.parametrize("function", _LIMITED)
@pytest.mark.parametrize(
    "use",
    [
        lambda stream, function: stream.map_values(function),
        lambda stream, function: stream.transform_values(function, "v bigint, limit bigint"),
    ],
    ids=["traced", "plain"],
)
def test_an_argument_with_a_default_keeps_it(use: Any, function: Callable[..., Any]) -> None:
    assert _valued(lambda stream: use(stream, function)) == [Row(v=7, limit=3)]


def test_the_filters_of_a_loop_have_their_limits_as_defaults() -> None:
    filters = [lambda value, limit=limit: value.v > limit for limit in (6, 7)]
    assert [_valued(lambda stream, passes=passes: stream.filter(passes)) for passes in filters] == [[Row(v=7)], []]


def test_a_joiner_gets_both_sides_whatever_has_a_default() -> None:
    joined = trace(lambda left, right, unit="km": {"a": left.a, "b": right.b, "unit": unit}, "key", "left", "right")
    assert repr(joined) == "{a: left.a, b: right.b, unit: 'km'}"


def test_all_are_rows_where_all_have_a_default() -> None:
    assert row_arguments(lambda key=1, value=2: value, 2) == ("key", "value")


@pytest.mark.parametrize("function", [lambda value, *, limit: value, lambda *rows, limit: rows])
@pytest.mark.parametrize(
    "use", [lambda function: trace(function, "key", "value"), lambda function: plain_function(function, "double")]
)
def test_an_argument_that_nothing_gives_is_refused_with_what_to_do(use: Any, function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"limit is given by its name only.*partial\(function, limit=\.\.\.\)"):
        use(function)
