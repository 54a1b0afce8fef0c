"""Fields within structs that a plan names are refused before the first batch, as those of the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.kstream import KStream
from streams.nodes import Materialized
from streams.struct_checks import Shape, check_within
from streams.topology import StreamsBuilder
from versioned.errors import TopologyError

_SHAPE: Shape = {"st": {"a": None, "deep": {"x": None}}, "n": None}
_Plan = Callable[[StreamsBuilder, KStream], Any]


def _check(plan: _Plan) -> None:
    builder = StreamsBuilder()
    plan(builder, builder.stream("s", key="k", value=("st", "n"), name="s"))
    check_within(builder.build(), {"s": _SHAPE, "t": _SHAPE})


def _table(builder: StreamsBuilder) -> Any:
    return builder.table("t", Materialized.key_value("t"), key="k", value=("st", "n"), name="t")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (lambda b, s: s.filter(lambda value: value.st.c > 1), r'value.st has no field "c".* It has: a, deep'),
        (lambda b, s: s.filter(lambda value: value.st.deep.y > 1), r'value.st.deep has no field "y".* It has: x'),
        (lambda b, s: s.select_key("n").map_values(lambda value: {"o": value.st.deeep}), 'did you mean "deep"'),
        (lambda b, s: s.group_by(lambda key, value: value.st.zzz).count(), 'value.st has no field "zzz"'),
        (lambda b, s: s.join(_table(b), lambda left, right: {"o": right.st.b}), 'right.st has no field "b"'),
        (lambda b, s: s.to_table().filter(lambda value: value.st.c > 1), 'value.st has no field "c"'),
    ],
    ids=["filter", "deeper", "behind a new key", "group", "join", "table of a stream"],
)
def test_a_field_that_a_struct_does_not_have_is_refused(plan: _Plan, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        _check(plan)


@pytest.mark.parametrize(
    "plan",
    [
        lambda b, s: s.filter(lambda value: (value.st.A > 1) & (value.st.deep.x > 1)),
        lambda b, s: s.filter(lambda value: value.n.any > 1),
        lambda b, s: s.map_values(lambda value: {"st": value.n}).filter(lambda value: value.st.other > 1),
        lambda b, s: s.join(_table(b), lambda left, right: {"o": left.st.a, "p": right.st.deep.x}),
    ],
    ids=["other case", "no struct as far as is known", "a value that was made anew", "join"],
)
def test_fields_that_are_there_or_not_known_are_taken(plan: _Plan) -> None:
    _check(plan)
