"""When a filter of a table drops a tombstone that follows a tombstone (R160-R162; KIP-914, "Filter").

A repeated tombstone says nothing new about a plain table. In a versioned table, and in the output of a join with
complete history, it carries a time. So the filtered table decides, never the use of the result. Only a table without a
store of its own, which does not know its old values, tracks them for an operator that asks for them. The same operators
ask as in Kafka (KAFKA-10077): see :func:`_asks`.
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
    """Whether the filter forwards no tombstone for a key whose last result was one.

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
    """Whether a table can tell its old values without being asked to keep them."""
    if materialized_of(node) is not None:
        return True
    if isinstance(node, _KEEP_NOTHING_UNASKED):
        return False
    return not isinstance(node, VIEWS) or _knows_old_values(node.parents[0])


def _is_asked(topology: Topology, node: Node, *, is_stored: bool) -> bool:
    """Whether anybody asks for a table's old values; ``is_stored`` as of :func:`_asks`."""
    return any(_asks(topology, child, node, is_stored) for child in topology.children(node))


def _asks(topology: Topology, child: Node, parent: Node, is_stored: bool) -> bool:
    """Whether a node asks the table it reads for old values.

    A filter takes them only where they are there already: from a stored table (``is_stored``), not through it. A join
    needs those of the side whose unmatched rows are in its result, and of both once it is asked itself.
    """
    if isinstance(child, TableFilter) and is_stored:
        return True
    if isinstance(child, TableTableJoin):
        pads = child.kind == "outer" or (child.kind == "left" and child.parents[0] is parent)
        # Whoever asks a join makes its sides keep what they need, so a filter behind it asks as if they were stored.
        return pads or _is_asked(topology, child, is_stored=True)
    if isinstance(child, VIEWS):
        return child.materialized is None and _is_asked(topology, child, is_stored=is_stored)
    return isinstance(child, _ASK_FOR_OLD_VALUES)
