"""What follows from a node's ancestors: whether its table is versioned, the windows of its keys and their retention.

None of it depends on what follows the node (R137), so all of it is known as soon as the node is added.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import Final

from streams.nodes import (
    VIEWS,
    ForeignKeyJoin,
    Node,
    Suppress,
    TableAggregate,
    TableFilter,
    TableTableJoin,
    WindowedAggregate,
    materialized_of,
)
from suppress.window_rules import open_for_us
from suppress.windows import SlidingWindows, Windows
from versioned.durations import duration_us

_DAY_US: Final = 86_400_000_000


def is_versioned(node: Node) -> bool:
    """Whether a node's table is versioned, judged by its store and its ancestors only (KIP-914; R127-R137).

    A table is versioned if it is stored so; filters and mappers that are not stored inherit it. Aggregates, joins and
    ``to_table`` are not, unless given a versioned store.
    """
    materialized = materialized_of(node)
    if materialized is not None:
        return materialized.is_versioned
    return isinstance(node, VIEWS) and is_versioned(node.parents[0])


def history_retention_of(node: Node) -> timedelta | None:
    """How far back lookups in a node's table reach; ``None`` if it is not versioned."""
    materialized = materialized_of(node)
    if materialized is not None:
        return materialized.history_retention
    return history_retention_of(node.parents[0]) if isinstance(node, VIEWS) else None


def tells_older_results(node: Node) -> bool:
    """Whether a table may emit changes of older results after those of newer ones (R150).

    A join with complete history does so, and so do its filters and mappers. A store without versions keeps only the
    latest result.
    """
    if isinstance(node, TableTableJoin):
        return node.history == "complete"
    return isinstance(node, VIEWS) and tells_older_results(node.parents[0])


def taken_of_rows(node: TableAggregate) -> str:
    """A digest of what an aggregate of a table takes from a row, since it must remove from a row what it once added.

    It covers the aggregate's own expressions, and the filters and mappers without a store between it and the nearest
    other table, which knows what a row was. Python functions count by their names only, so what they do may change.

    >>> from streams.nodes import TableSource
    >>> taken_of_rows(TableAggregate("totals", (TableSource("orders"),)))[:8]
    'a502ee9f'
    """
    # The digest is kept with tables: a different one would be refused, even for the same plan.
    steps = [("of", node.aggregation.value), ("by", node.group_key), ("maps", node.group_value)]
    table = node.parents[0]
    while isinstance(table, VIEWS) and materialized_of(table) is None:
        steps.append(("filters", table.predicate) if isinstance(table, TableFilter) else ("maps", table.mapper))
        table = table.parents[0]
    return sha256("\n".join(f"{what} {expr!r}" for what, expr in steps).encode()).hexdigest()


def with_ancestors(node: Node) -> set[Node]:
    """A node and all that feed it."""
    found, waiting = {node}, [node]
    while waiting:
        new = [parent for parent in waiting.pop().parents if parent not in found]
        found.update(new)
        waiting += new
    return found


def windowed_ancestor(node: Node) -> WindowedAggregate | None:
    """The windowed aggregate whose keys a table has; ``None`` for any other table."""
    if isinstance(node, WindowedAggregate):
        return node
    keeps_keys = isinstance(node, (*VIEWS, Suppress))
    return windowed_ancestor(node.parents[0]) if keeps_keys else None


def least_retention_us(windows: Windows) -> int | None:
    """How long a window must be kept after its start, at least; ``None`` for unlimited windows (R14)."""
    if isinstance(windows, SlidingWindows):
        # The earliest window that a sliding record changes starts two differences before the latest one.
        return 2 * windows.difference_us + windows.grace_us
    return open_for_us(windows)


def said_retention_us(node: WindowedAggregate) -> int | None:
    """How long windows are kept according to the plan, in microseconds; ``None`` if it does not say.

    Args:
        node: The windowed aggregate.
    """
    said = None if node.materialized is None else node.materialized.retention
    return None if said is None else duration_us(said)


def window_retention_us(node: WindowedAggregate) -> int:
    """How long a window, or the mark that the wall clock has closed it, is kept after stream time has passed its end.

    If the plan does not say, it is a day (R20), but at least as long as a window can still change. Otherwise a record
    within grace would begin a forgotten window anew, and it would be final a second time.

    Args:
        node: The windowed aggregate.

    Returns:
        Microseconds.
    """
    said_us = said_retention_us(node)
    if said_us is not None:
        return said_us
    return max(_DAY_US, least_retention_us(node.windows) or 0)


def table_on_both_sides(node: Node) -> str | None:
    """The table that a join has on both sides, directly or through filters and mappers; ``None`` if there is none.

    A record then reaches both sides at once, and each finds the other one changed already, as in Kafka Streams: a
    deletion finds nothing to join with. Joins with complete history are not affected.
    """
    if not isinstance(node, TableTableJoin) or node.history == "complete":
        return None
    left, right = map(_viewed, node.parents)
    return left.name if left is right else None


def _viewed(table: Node) -> Node:
    while isinstance(table, VIEWS):
        table = table.parents[0]
    return table


def side_without_versions(node: Node) -> str | None:
    """The side without versions of a versioned join whose other side has versions (R157); ``None`` if there is none."""
    if not isinstance(node, (TableTableJoin, ForeignKeyJoin)) or not is_versioned(node):
        return None
    plain = [parent.name for parent in node.parents if not is_versioned(parent)]
    return plain[0] if len(plain) == 1 else None
