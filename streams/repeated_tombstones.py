"""When a filter of a table drops a tombstone that follows a tombstone (R160-R162; KIP-914, "Filter").

A repeated tombstone says nothing new about a plain table, but in a versioned one, and in what a join with complete
history tells, it carries a time. So the table that is filtered decides, never what is done with the result; only a
source table without a store, which cannot tell what its old values were, learns them from an operator that asks for
them.
"""

from __future__ import annotations

from streams.nodes import (
    ForeignKeyJoin,
    Node,
    Suppress,
    TableAggregate,
    TableFilter,
    TableMapValues,
    TableSource,
    TableTableJoin,
    Topology,
)
from streams.plan_checks import is_versioned, tells_older_results

_VIEWS = (TableFilter, TableMapValues)
_ASK_FOR_OLD_VALUES = (TableAggregate, TableTableJoin, ForeignKeyJoin, Suppress)


def drops_repeated_tombstones(topology: Topology, node: TableFilter) -> bool:
    """Whether the filter forwards no tombstone for a key whose last result was one.

    Example:
        >>> from streams.nodes import Materialized
        >>> prices = TableSource("prices", topic="prices", materialized=Materialized.versioned("1 day"))
        >>> cheap = TableFilter("cheap", (prices,))
        >>> drops_repeated_tombstones(Topology((prices, cheap)), cheap)
        False
    """
    parent = node.parents[0]
    if is_versioned(parent) or tells_older_results(parent):
        return False
    return _knows_old_values(parent) or _is_asked_for_old_values(topology, node)


def _knows_old_values(node: Node) -> bool:
    if getattr(node, "materialized", None) is not None:
        return True
    if isinstance(node, TableSource):
        return False
    return not isinstance(node, _VIEWS) or _knows_old_values(node.parents[0])


def _is_asked_for_old_values(topology: Topology, node: Node) -> bool:
    return any(
        isinstance(child, _ASK_FOR_OLD_VALUES)
        or (isinstance(child, _VIEWS) and child.materialized is None and _is_asked_for_old_values(topology, child))
        for child in topology.children(node)
    )
