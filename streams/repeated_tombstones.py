"""When a filter of a table drops a tombstone that follows a tombstone (R160-R162; KIP-914, "Filter").

A repeated tombstone says nothing new about a plain table. In a versioned table, and in the output of a join with
complete history, it carries a time. So the table that is filtered decides, not what is done with the result. There is
one exception: a table without a store of its own does not know its old values, unless an operator asks for them. Which
operators ask is as in Kafka (KAFKA-10077): see :func:`_asks`.
"""

from __future__ import annotations

from streams.nodes import (
    VIEWS,
    ForeignKeyJoin,
    Node,
    Suppress,
    TableAggregate,
    TableFilter,
    TableSource,
    TableTableJoin,
    Topology,
    ToTable,
    materialized_of,
)
from streams.plan_facts import is_versioned, tells_older_results

_KEEP_NOTHING_UNASKED = (TableSource, ToTable, ForeignKeyJoin)
_ASK_FOR_OLD_VALUES = (TableAggregate, ForeignKeyJoin, Suppress)


def drops_repeated_tombstones(topology: Topology, node: TableFilter) -> bool:
    """Whether a filter drops a tombstone for a key whose last result was a tombstone.

    Example:
        >>> from streams.expressions import Expr
        >>> from streams.nodes import Materialized
        >>> prices = TableSource("prices", topic="prices", materialized=Materialized.versioned("1 day"))
        >>> cheap = TableFilter("cheap", (prices,), Expr("ref", "value").price < 5)
        >>> drops_repeated_tombstones(Topology((prices, cheap)), cheap)
        False
    """
    parent = node.parents[0]
    if is_versioned(parent) or tells_older_results(parent):
        return False
    return _knows_old_values(parent) or _is_asked(topology, node, is_stored=node.materialized is not None)


def _knows_old_values(node: Node) -> bool:
    """Whether a table knows its old values without being asked to keep them."""
    if materialized_of(node) is not None:
        return True
    if isinstance(node, _KEEP_NOTHING_UNASKED):
        return False
    return not isinstance(node, VIEWS) or _knows_old_values(node.parents[0])


def _is_asked(topology: Topology, node: Node, *, is_stored: bool) -> bool:
    """Whether any operator asks for a table's old values; ``is_stored`` as in :func:`_asks`."""
    return any(_asks(topology, child, node, is_stored) for child in topology.children(node))


def _asks(topology: Topology, child: Node, parent: Node, is_stored: bool) -> bool:
    """Whether a node asks the table it reads for old values.

    A filter asks by itself only if they are there already, because the table is stored (``is_stored``). A view without
    a store passes on what it is asked. A join needs the old values of the side whose unmatched rows are in its result,
    and of both sides if it is asked itself.
    """
    if isinstance(child, TableFilter) and is_stored:
        return True
    if isinstance(child, TableTableJoin):
        pads = child.kind == "outer" or (child.kind == "left" and child.parents[0] is parent)
        # An operator that asks a join makes its sides keep old values, so its filters ask as if the join were stored.
        return pads or _is_asked(topology, child, is_stored=True)
    if isinstance(child, VIEWS):
        return child.materialized is None and _is_asked(topology, child, is_stored=is_stored)
    return isinstance(child, _ASK_FOR_OLD_VALUES)
