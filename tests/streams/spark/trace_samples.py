"""Few scenarios of an operation that have every kind of node that its plans have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from streams.nodes import Node
from streams.testing.trace_packing import Branch
from suppress.windows import TimeWindows

Kind = tuple[str, ...]


def covering(branches: Sequence[Branch], scenarios: int) -> list[Branch]:
    """Branches with at least so many scenarios, and nodes of all kinds that the branches have; the same in every run.

    The next is always the one that adds most kinds and scenarios for the nodes that it adds, since these cost time.
    """
    left = list(branches)
    wanted = {_kind(node) for branch in left for node in branch.plan.topology}
    chosen: list[Branch] = []
    while _kinds(chosen) != wanted or _cases(chosen) < scenarios:
        kinds, missing = _kinds(chosen), max(scenarios - _cases(chosen), 1)
        names = {node.name for branch in chosen for node in branch.plan.topology}
        best = min(left, key=partial(_cost, names, kinds, missing))
        left.remove(best)
        chosen.append(best)
    return chosen


def _cost(names: Collection[str], kinds: set[Kind], missing: int, branch: Branch) -> float:
    new_nodes = sum(node.name not in names for node in branch.plan.topology)
    return new_nodes / (2 * len(_kinds([branch]) - kinds) + min(len(branch.cases), missing))


def _cases(branches: Sequence[Branch]) -> int:
    return sum(len(branch.cases) for branch in branches)


def _kinds(branches: Sequence[Branch]) -> set[Kind]:
    return {_kind(node) for branch in branches for node in branch.plan.topology}


def _kind(node: Node) -> Kind:
    """What makes nodes different on Spark: the operation and its options, but no names and no lengths of time."""
    windows, stored, suppressed, joined, aggregation = (
        getattr(node, name, None) for name in ("windows", "materialized", "suppressed", "joined", "aggregation")
    )
    return (
        type(node).__name__,
        str(getattr(node, "kind", "")),
        type(windows).__name__,
        str(isinstance(windows, TimeWindows) and windows.advance_us < windows.size_us),
        str(getattr(aggregation, "kind", "")),
        str(stored is not None and stored.is_versioned),
        type(suppressed).__name__,
        *((type(suppressed.buffer).__name__, _when_full(suppressed.buffer)) if suppressed is not None else ()),
        str(joined is not None and joined.grace is not None),
    )


def _when_full(buffer: object) -> str:
    return str(getattr(buffer, "when_full", ""))
