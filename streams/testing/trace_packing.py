"""Packs many scenarios of one operation into one topology.

Scenarios with the same parameters share a *branch*: a copy of their plan with names of its own. The scenario's number,
its *case*, is the first part of every key and the stream-time scope, so no scenario sees another. The rules of tables
depend only on differences of times, so times are multiplied until few different parameters are left. Branches that read
the same tables share their sources and so see each other's records; the results of those are ignored.

Example: joins with a history of 100 ms and others with one of 5 ms become one branch with a history of 100 ms, where
the times of the latter are multiplied by 20. The inner and the left join are two branches with the same sources.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from streams.expressions import Expr, as_expr, operation
from streams.nodes import (
    ForeignKeyJoin,
    GlobalTableSource,
    Node,
    StreamAggregate,
    StreamSource,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableSource,
    Topology,
    WindowedAggregate,
    materialized_of,
)
from streams.plan_facts import with_ancestors
from streams.testing.trace_run import Actual, Planner, Scenario, TracePlan, plan_or_refusal
from streams.testing.trace_scaling import SCALED, same_parameters

#: The columns of a packed topic beside ``ts``.
CASE: Final = "case"
KEY: Final = "k"
VALUE: Final = "v"
DELETED: Final = "dead"

_SOURCES: Final = (StreamSource, TableSource, GlobalTableSource)
_KEY_EXPRESSIONS: Final = ("group_key", "foreign_key")


@dataclass(frozen=True)
class Cut:
    """How many batches the steps of a scenario are cut into, at random places."""

    batches: int = 1
    seed: int = 0

    def ends(self, scenario: Scenario, count: int) -> list[int]:
        """Where each batch of ``count`` steps ends; the same for the same seed.

        >>> Cut(3, seed=1).ends({"id": "a"}, 5)[-1]
        5
        """
        chance = random.Random(f"{self.seed} {scenario['id']}")  # noqa: S311
        return [*sorted(chance.randint(0, count) for _ in range(self.batches - 1)), count]


@dataclass(frozen=True)
class Case:
    """One scenario in a branch: its number, what its times are multiplied by, how many of its steps are run."""

    number: int
    scenario: Scenario
    factor: int
    length: int

    @property
    def id(self) -> str:
        """The scenario's id."""
        return str(self.scenario["id"])

    def records(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The steps that are records, with their numbers. Wall-clock steps change nothing in these operations."""
        for index in range(first, self.length if end is None else end):
            step = self.scenario["steps"][index]
            if "topic" in step:
                yield index, step


@dataclass(frozen=True)
class Branch:
    """Scenarios of one plan, whose node names end with the branch's number, sources and topics with ``origin``."""

    number: int
    origin: int
    plan: TracePlan
    cases: tuple[Case, ...]

    @property
    def topics(self) -> list[str]:
        """The topics as the scenarios call them."""
        ending = self.topic("")
        return sorted({node.topic.removesuffix(ending) for node in self.plan.topology if isinstance(node, _SOURCES)})

    def topic(self, name: str) -> str:
        """The packed name of a topic."""
        return _numbered(name, self.origin)


def pack(
    planner: Planner, scenarios: Sequence[Scenario], lengths: Mapping[str, int]
) -> tuple[list[Branch], dict[str, Actual]]:
    """Pack scenarios of one operation into branches.

    Args:
        planner: Builds the operation's plans.
        scenarios: The scenarios.
        lengths: How many steps to run, by scenario id, unless it is all of them.

    Returns:
        The branches, and the outcomes of the scenarios whose plan is refused.
    """
    refused: dict[str, Actual] = {}
    branches: list[Branch] = []
    origins = _Origins()
    numbers = count()
    for group in same_parameters(scenarios).values():
        question, _ = group[0]
        plan = plan_or_refusal(planner, question)
        if not isinstance(plan, TracePlan):
            refused.update({scenario["id"]: plan for scenario, _ in group})
            continue
        shares_time = _shares_time(plan)
        for part in [[member] for member in group] if shares_time else [group]:
            cases = tuple(
                Case(next(numbers), scenario, factor, lengths.get(scenario["id"], len(scenario["steps"])))
                for scenario, factor in part
            )
            is_shared = question["op"] in SCALED and not shares_time
            origin = origins.of(plan, len(branches), is_shared)
            branches.append(Branch(len(branches), origin.number, _packed(plan, len(branches), origin), cases))
    return sorted(branches, key=lambda branch: branch.origin), refused


def together(branches: Iterable[Branch]) -> Topology:
    """One plan of several branches, side by side."""
    return Topology(tuple(dict.fromkeys(node for branch in branches for node in branch.plan.topology)))


@dataclass(frozen=True)
class _Origin:
    """The sources of one or more branches, packed, by their name in the plan."""

    number: int
    sources: dict[str, Node]


class _Origins:
    """Which branches share their sources."""

    def __init__(self) -> None:
        self._known: dict[str, _Origin] = {}

    def of(self, plan: TracePlan, branch: int, is_shared: bool) -> _Origin:
        """The origin of a branch; one of its own if records of other branches would do harm."""
        told = [repr((node, node.materialized)) for node in plan.topology if isinstance(node, TableSource)]
        told += [repr(node) for node in plan.topology if isinstance(node, StreamSource)]
        alone = not is_shared or any(map(_may_fail, plan.topology))
        return self._known.setdefault(str(branch) if alone else str(told), _Origin(branch, {}))


def _shares_time(plan: TracePlan) -> bool:
    """Whether a node that depends on stream time follows a change of key, which brings all cases into one scope."""
    return any(_goes_by_time(node) and any(map(_changes_key, with_ancestors(node))) for node in plan.topology)


def _goes_by_time(node: Node) -> bool:
    materialized = materialized_of(node)
    return isinstance(node, Suppress) or (materialized is not None and materialized.is_versioned)


def _changes_key(node: Node) -> bool:
    return isinstance(node, ForeignKeyJoin) or getattr(node, "group_key", None) is not None


def _may_fail(node: Node) -> bool:
    """Whether records of other scenarios can make a node fail: user code, full buffers, records without a key."""
    if isinstance(node, (TableAggregate, StreamAggregate, WindowedAggregate)):
        return node.aggregation.kind in ("reduce", "aggregate")
    return isinstance(node, Suppress) or (isinstance(node, StreamTableJoin) and node.joined.grace is not None)


def _packed(plan: TracePlan, number: int, origin: _Origin) -> TracePlan:
    """A copy of a plan as a branch: the case in every key, and every late record kept in the rejects table."""
    made: dict[Node, Node] = {}
    for node in plan.topology:
        if isinstance(node, _SOURCES):
            made[node] = origin.sources.setdefault(node.name, _packed_node(node, origin.number, ()))
        else:
            made[node] = _packed_node(node, number, tuple(made[parent] for parent in node.parents))
    sinks = {_numbered(node, number): name for node, name in plan.sinks.items()}
    return replace(plan, topology=Topology(tuple(made.values())), sinks=sinks)


def _packed_node(node: Node, number: int, parents: tuple[Node, ...]) -> Node:
    changes: dict[str, Any] = {"name": _numbered(node.name, number), "parents": parents}
    if isinstance(node, _SOURCES):
        changes |= {"topic": _numbered(node.topic, number), "key": (CASE, KEY), "deleted": DELETED}
    if isinstance(node, WindowedAggregate):
        changes["late_policy"] = "side_table"
    materialized = materialized_of(node)
    if materialized is not None:
        name = None if materialized.name is None else _numbered(materialized.name, number)
        changes["materialized"] = replace(materialized, name=name, late_policy="side_table")
    for name in _KEY_EXPRESSIONS:
        if getattr(node, name, None) is not None:
            changes[name] = _with_case(getattr(node, name))
    return replace(node, **changes)


def _with_case(key: Expr) -> Expr:
    """A new key with the case of the old key before it."""
    op, args = operation(key)
    if op == "ref" and args[0] == "key":
        return key
    parts = dict(zip(args[0], args[1:], strict=True)) if op == "struct" else {args[0]: args[1]}
    return as_expr({CASE: Expr("ref", "key")[CASE], **parts})


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}"
