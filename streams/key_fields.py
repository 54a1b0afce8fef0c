"""Which fields the keys of a node have, as far as the plan knows."""

from __future__ import annotations

from streams.declared import declared_fields
from streams.expressions import Expr, operation
from streams.fields import WINDOW_FIELDS, value_fields
from streams.nodes import (
    AGGREGATES,
    SOURCES,
    AggregateNode,
    ForeignKeyJoin,
    Node,
    SelectKey,
    WindowedAggregate,
)


def key_fields(node: Node) -> tuple[str, ...] | None:
    """The names of a node's key fields, in order; ``None`` if they are known only when it runs.

    >>> from streams.nodes import StreamSource
    >>> key_fields(StreamSource("flights", topic="flights", key=("carrier", "flight")))
    ('carrier', 'flight')
    """
    if isinstance(node, SOURCES):
        return node.key
    if isinstance(node, SelectKey):
        return mapped_key_fields(node.mapper, node.parents[0])
    if isinstance(node, AGGREGATES):
        group = group_fields(node)
        windows = WINDOW_FIELDS if isinstance(node, WindowedAggregate) else ()
        return None if group is None else (*group, *windows)
    # Everything else keeps its first parent's keys.
    return key_fields(node.parents[0]) if node.parents else None


def group_fields(node: AggregateNode) -> tuple[str, ...] | None:
    """The names of the fields by which a node groups, in order; ``None`` if they are known only when it runs."""
    return mapped_key_fields(node.group_key, node.parents[0])


def has_window_key(node: Node) -> bool:
    """Whether a node's keys have the window fields that an aggregate above it adds, not just fields so named.

    >>> from streams.nodes import StreamSource
    >>> has_window_key(StreamSource("read-again", topic="t", key=("id", "windowStart", "windowEnd")))
    False
    """
    while not isinstance(node, WindowedAggregate):
        makes_key = isinstance(node, SelectKey) or (isinstance(node, AGGREGATES) and node.group_key is not None)
        if makes_key or not node.parents:
            return False
        node = node.parents[0]
    return True


def changes_key(node: Node) -> bool:
    """Whether records leave a node under another key: from there on they share one stream-time scope.

    Records of a new key may come from every partition of the source, so they are put in one order again (Kafka: a
    repartition topic, here with one partition). A foreign-key join gathers its results from the partitions of its right
    side.

    >>> from streams.nodes import StreamSource
    >>> changes_key(SelectKey("by-carrier", (StreamSource("flights", topic="flights"),), Expr("ref", "value")))
    True
    """
    if isinstance(node, AGGREGATES):
        return node.group_key is not None
    return isinstance(node, (SelectKey, ForeignKeyJoin))


def mapped_key_fields(expr: Expr | None, parent: Node) -> tuple[str, ...] | None:
    """The field names of a key computed from a node's rows; without an expression, those of the node's own key."""
    if expr is None:
        return key_fields(parent)
    op, args = operation(expr)
    if op == "struct":
        return tuple(args[0])
    if op == "row":
        return (args[0],)
    if op == "python":
        return declared_fields(args[1])
    if op == "ref":
        return key_fields(parent) if args[0] == "key" else value_fields(parent)
    return None
