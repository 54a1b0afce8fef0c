"""Aggregators that change their state in place, as users of Kafka Streams write them, against pure ones.

The folds of Spark run here in plain Python, with what they store handed on from batch to batch as columns keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pytest

from streams.nodes import Aggregation
from streams.spark.aggregate_folds import AddingFold, ReplacingFold, StateCodec
from streams.spark.aggregate_types import ASIDE
from streams.spark.flow import KEY, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.folded_windows import WindowCodec, WindowFold
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

_SHARED: Final[list[Any]] = []


def _counted(seen: Any, new: Any, sign: int = 1) -> dict[int, int]:
    return {**seen, new: seen.get(new, 0) + sign}


def _count_into(seen: Any, new: Any, sign: int = 1) -> Any:
    seen[new] = seen.get(new, 0) + sign
    return seen


def _put_before(old: Any, new: Any) -> Any:
    # One list for both must not double with each record.
    new[:0] = [one for one in old if one not in new]
    return new


def _then(returned: Any, *_changed: Any) -> Any:
    """What is returned after the arguments were evaluated in order."""
    return returned


@dataclass(frozen=True)
class Case:
    """An aggregate, pure and in place; the values are lists of one number."""

    pure: Aggregation
    in_place: Aggregation
    is_scalar: bool = False


def _aggregate(initializer: Any, adder: Any, subtractor: Any, merger: Any) -> Aggregation:
    return Aggregation("aggregate", "all", initializer=initializer, adder=adder, subtractor=subtractor, merger=merger)


_LISTS: Final = _aggregate(
    list,
    lambda key, value, state: [*state, *value.v],
    lambda key, value, state: [one for one in state if one not in value.v],
    lambda key, left, right: [*left, *right],
)
_FIELDS: Final = _aggregate(
    lambda: {"all": []},
    lambda key, value, state: {"all": [*state["all"], *value.v]},
    lambda key, value, state: {"all": [one for one in state["all"] if one not in value.v]},
    lambda key, left, right: {"all": [*left["all"], *right["all"]]},
)
_REDUCED: Final = Aggregation(
    "reduce",
    "value",
    adder=lambda old, new: {"v": [*old["v"], *new["v"]]},
    subtractor=lambda old, new: {"v": [one for one in old["v"] if one not in new["v"]]},
)
CASES: Final[dict[str, Case]] = {
    "a list": Case(
        _LISTS,
        _aggregate(
            list,
            lambda key, value, state: _then(state, state.extend(value.v)),
            lambda key, value, state: _then(state, *(state.remove(one) for one in value.v)),
            lambda key, left, right: _then(left, left.extend(right)),
        ),
        is_scalar=True,
    ),
    "one list for all": Case(
        _LISTS,
        _aggregate(
            lambda: _SHARED,
            lambda key, value, state: _then(state, state.extend(value.v)),
            lambda key, value, state: _then(state, *(state.remove(one) for one in value.v)),
            lambda key, left, right: _put_before(left, right),
        ),
        is_scalar=True,
    ),
    "the value's own list": Case(
        _LISTS,
        _aggregate(
            list,
            lambda key, value, state: _put_before(state, value.v),
            lambda key, value, state: _then(state, *(state.remove(one) for one in value.v)),
            lambda key, left, right: _then(left, left.extend(right)),
        ),
        is_scalar=True,
    ),
    "a field": Case(
        _FIELDS,
        _aggregate(
            lambda: {"all": []},
            lambda key, value, state: _then(state, state["all"].extend(value.v)),
            lambda key, value, state: _then(state, *(state["all"].remove(one) for one in value.v)),
            lambda key, left, right: _then(left, left["all"].extend(right["all"])),
        ),
    ),
    "a map": Case(
        _aggregate(
            lambda: {"all": {}},
            lambda key, value, state: {"all": _counted(state["all"], value.v[0])},
            lambda key, value, state: {"all": _counted(state["all"], value.v[0], -1)},
            lambda key, left, right: {"all": {**left["all"], **right["all"]}},
        ),
        _aggregate(
            lambda: {"all": {}},
            lambda key, value, state: _then(state, _count_into(state["all"], value.v[0])),
            lambda key, value, state: _then(state, _count_into(state["all"], value.v[0], -1)),
            lambda key, left, right: _then(left, left["all"].update(right["all"])),
        ),
    ),
    "a reduced old value": Case(
        _REDUCED,
        Aggregation(
            "reduce",
            "value",
            adder=lambda old, new: _then(old, old.v.extend(new.v)),
            subtractor=lambda old, new: _then(old, *(old.v.remove(one) for one in new.v)),
        ),
    ),
    "a reduced new value": Case(
        _REDUCED,
        Aggregation(
            "reduce",
            "value",
            adder=lambda old, new: _then(new, _put_before(old.v, new.v)),
            subtractor=lambda old, new: _then(old, *(old.v.remove(one) for one in new.v)),
        ),
    ),
}
WINDOWS: Final[dict[str, Windows]] = {
    "tumbling": TimeWindows(10, 10, 100),
    "hopping": TimeWindows(10, 3, 100),
    "sliding": SlidingWindows(5, 100),
    "session": SessionWindows(4, 100),
    "unlimited": UnlimitedWindows.of(),
}
#: Key, number and instant.
RECORDS: Final = [
    ("a", 0, 5), ("a", 1, 9), ("b", 2, 10), ("a", 3, 10), ("a", 4, 3), ("b", 5, 12), ("a", 6, 20), ("a", 7, 16),
    ("b", 8, 11), ("a", 9, 13),
]  # fmt: skip
CUTS: Final = [(10,), (1,) * 10, (3, 3, 4), (2, 5, 3)]

Told = list[Any]


def _of_stream(windows: Windows | None) -> Callable[[Aggregation], Told]:
    def told(aggregation: Aggregation) -> Told:
        builder = StreamsBuilder()
        keyed = builder.stream("in", key="k", value="v").group_by_key()
        grouped = keyed if windows is None else keyed.windowed_by(windows)
        more = {"merger": aggregation.merger} if isinstance(windows, SessionWindows) else {}
        return _told_by(builder, grouped, aggregation, **more)

    return told


def _of_table(aggregation: Aggregation) -> Told:
    builder = StreamsBuilder()
    grouped = builder.table("in", Materialized.key_value(), key="k", value="v").group_by(lambda key, value: {"g": 1})
    return _told_by(builder, grouped, aggregation, subtractor=aggregation.subtractor)


def _told_by(builder: StreamsBuilder, grouped: Any, aggregation: Aggregation, **more: Any) -> Told:
    """What the test driver told, read when everything was changed that ever is, and what it keeps."""
    stored = Materialized.key_value()
    if aggregation.kind == "reduce":
        more = {"subtractor": more["subtractor"]} if "subtractor" in more else {}
        table = grouped.reduce(aggregation.adder, **more, materialized=stored, name="agg")
    else:
        table = grouped.aggregate(
            aggregation.initializer, aggregation.adder, **more, output="all", materialized=stored, name="agg"
        )
    table.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for key, number, ts in RECORDS:
        driver.pipe_input("in", key, {"v": [number]}, ts)
    told = [(record.key, record.old, record.value, record.ts_us) for record in driver.read_output("out")]
    return [*told, *driver.stores["agg"].items()]


PLANS: Final[dict[str, Callable[[Aggregation], Told]]] = {
    "stream": _of_stream(None),
    "table": _of_table,
    **{name: _of_stream(windows) for name, windows in WINDOWS.items()},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_state_that_is_changed_in_place_gives_what_a_pure_function_gives(
    plan: Callable[[Aggregation], Told], case: Case
) -> None:
    assert plan(case.in_place) == plan(case.pure)


def _names(case: Case) -> list[str]:
    return ["v"] if case.pure.kind == "reduce" else ["all"]


def _event(place: int, ts: int) -> dict[str, Any]:
    newest = max(ts for _, _, ts in RECORDS[: place + 1])
    return {US: ts, "_stream_us": newest, SCOPE: 0, PLACE: [place]}


def _in_windows(windows: Windows, case: Case, aggregation: Aggregation, cut: Sequence[int]) -> Told:
    """What the fold of key ``a`` tells on Spark, and the windows that it leaves."""
    fold = WindowFold(windows, WindowCodec(aggregation, case.is_scalar), 1, _names(case))
    told: Told = []
    states: Told = []
    for events in _batches(cut):
        taken = [{**_event(place, ts), VALUE: {"v": [number]}} for place, number, ts in events]
        rows = list(fold({KEY: {"k": "a"}}, iter(states), iter(taken)))
        told += [row for kind, row in rows if kind == "out"]
        states = [{**deepcopy(row), "_idle": False} for kind, row in rows if kind == "state"]
    return [told, states]


def _batches(cut: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """Place, number and instant of the records of key ``a``, batch by batch."""
    ends = [sum(cut[:number]) for number in range(len(cut) + 1)]
    mine = [(place, number, ts) for place, (key, number, ts) in enumerate(RECORDS) if key == "a"]
    return [[one for one in mine if first <= one[0] < end] for first, end in pairwise(ends)]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_windows_folded_on_spark_are_those_of_a_pure_function_however_the_input_is_cut(
    windows: Windows, case: Case, cut: Sequence[int]
) -> None:
    assert _in_windows(windows, case, case.in_place, cut) == _in_windows(windows, case, case.pure, CUTS[0])


def _in_groups(case: Case, aggregation: Aggregation, cut: Sequence[int], of_table: bool) -> Told:
    """The changes that the fold of a group tells on Spark; of a table each value takes the one before it away."""
    codec = StateCodec(aggregation, case.is_scalar)
    fold = (ReplacingFold if of_table else AddingFold)(codec)
    told: Told = []
    before: dict[str, Any] | None = None
    for events in _batches(cut):
        taken = []
        for place, number, ts in events:
            value = {"v": [number]}
            taken.append({**_event(place, ts), VALUE: value, "_plus": value, "_minus": before})
            before = deepcopy(value)
        states = [{VALUE: deepcopy(told[-1][VALUE]), US: told[-1][US]}] if told else []
        told += [row for _, row in fold({KEY: {"k": "a"}}, iter(states), iter(taken))]
    return [(row[VALUE], row[OLD], row[US], row[ASIDE]) for row in told]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("of_table", [False, True], ids=["stream", "table"])
def test_groups_folded_on_spark_are_those_of_a_pure_function_however_the_input_is_cut(
    of_table: bool, case: Case, cut: Sequence[int]
) -> None:
    assert _in_groups(case, case.in_place, cut, of_table) == _in_groups(case, case.pure, CUTS[0], of_table)
