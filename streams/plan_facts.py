"""What follows from a node's ancestors: whether its table is versioned, the windows of its keys and their retention.

Nothing depends on what follows the node (R137), so all of it is known as soon as the node is added.
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
    """Whether a node's table is versioned, from its ancestors only (KIP-914; R127-R137).

    A table is versioned if it is stored so; filters and mappers that are not stored inherit it. Aggregates, joins and
    ``to_table`` are not, unless given a versioned store.
    """
    materialized = materialized_of(node)
    if materialized is not None:
        return materialized.is_versioned
    return isinstance(node, VIEWS) and is_versioned(node.parents[0])


def history_retention_of(node: Node) -> timedelta | None:
    """How far back look-ups in a node's table reach; none if it is not versioned."""
    materialized = materialized_of(node)
    if materialized is not None:
        return materialized.history_retention
    return history_retention_of(node.parents[0]) if isinstance(node, VIEWS) else None


def tells_older_results(node: Node) -> bool:
    """Whether a table's changes may be of results older than the latest, told again after newer ones (R150).

    A join with complete history does so, and what filters or maps it. A store without versions keeps the latest only.
    """
    if isinstance(node, TableTableJoin):
        return node.history == "complete"
    return isinstance(node, VIEWS) and tells_older_results(node.parents[0])


def taken_of_rows(node: TableAggregate) -> str:
    """A digest of what an aggregate of a table takes of a row: what it has added of a former one it must take away.

    It is of the aggregate's own expressions, and of the filters and mappers between it and the nearest table that is no
    such view: that one tells what a row was. Functions of Python go by their names, so what they do may change.

    >>> from streams.nodes import TableSource
    >>> taken_of_rows(TableAggregate("totals", (TableSource("orders"),)))[:8]
    'a502ee9f'
    """
    # Tables keep it: another text, also of the same plan, would be refused.
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
    """The windowed aggregate whose keys a table has; none for any other table."""
    if isinstance(node, WindowedAggregate):
        return node
    keeps_keys = isinstance(node, (*VIEWS, Suppress))
    return windowed_ancestor(node.parents[0]) if keeps_keys else None


def least_retention_us(windows: Windows) -> int | None:
    """How long a window must be kept after its start, at least; none for unlimited windows (R14)."""
    if isinstance(windows, SlidingWindows):
        # The earliest window that a sliding record changes starts two differences before the latest one.
        return 2 * windows.difference_us + windows.grace_us
    return open_for_us(windows)


def said_retention_us(node: WindowedAggregate) -> int | None:
    """How long its windows are kept, in microseconds, if the plan says so.

    Args:
        node: The windowed aggregate.
    """
    said = None if node.materialized is None else node.materialized.retention
    return None if said is None else duration_us(said)


def window_retention_us(node: WindowedAggregate) -> int:
    """How long after stream time passed its end a window is kept, and the mark of one that the wall clock closed.

    A day if the plan does not say (R18), but as long as a window can still change in any case: one that was forgotten
    would begin anew with a record that is within grace, and be final a second time.

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
    """The table that a join has on both sides, itself or as filters and mappers of it, with a record for both at once.

    Each side then finds the other one changed already, as in Kafka Streams: a deletion finds nothing to be joined with.
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
    """The table without versions that a join stored with versions has beside one with them (R157)."""
    if not isinstance(node, (TableTableJoin, ForeignKeyJoin)) or not is_versioned(node):
        return None
    plain = [parent.name for parent in node.parents if not is_versioned(parent)]
    return plain[0] if len(plain) == 1 else None
