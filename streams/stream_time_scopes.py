"""Where the records of several partitions share one stream time, as far as the plan knows.

A record keeps the stream-time scope of its source partition until its key changes, or until it reaches a node with one
stream time for all partitions: from there on all records are in scope 0. Joins find the records and rows of the other
side by scope or by key, and all that concerns one key must stay in one scope. So a join takes both sides to scope 0 if
one of them is there (Kafka: both sides of a join are repartitioned alike).
"""

from __future__ import annotations

from collections.abc import Set

from streams.key_fields import changes_key
from streams.nodes import (
    Node,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Topology,
    WindowedAggregate,
    materialized_of,
)

_JOINS_OF_EQUALS = (StreamStreamJoin, TableTableJoin)


def nodes_in_one_scope(topology: Topology, keys_cross_partitions: bool = True) -> frozenset[str]:
    """The nodes whose records are all in scope 0, whatever partition they came from.

    Args:
        topology: The plan.
        keys_cross_partitions: Whether records share a scope once their key has changed; if not, they keep that of their
            partition.
    """
    shared: set[str] = set()
    for node in topology:
        is_gathered = any(parent.name in shared for parent in passing(node))
        if is_gathered or has_one_stream_time(node) or (keys_cross_partitions and changes_key(node)):
            shared.add(node.name)
    return frozenset(shared)


def passing(node: Node) -> tuple[Node, ...]:
    """The parents whose records bring their scope along to a node: a table that a stream only looks up does not."""
    return node.parents if isinstance(node, _JOINS_OF_EQUALS) else node.parents[:1]


def gathers(node: Node, shared: Set[str]) -> bool:
    """Whether a node takes all its input to scope 0, since one of its sides is there.

    Only joins of two streams or of two tables do so.

    Args:
        node: The node.
        shared: As :func:`nodes_in_one_scope` returns it.

    >>> from streams.expressions import Expr
    >>> from streams.nodes import StreamSource
    >>> from suppress.windows import JoinWindows
    >>> sides = (StreamSource("flights", topic="flights"), StreamSource("weather", topic="weather"))
    >>> both = StreamStreamJoin("both", sides, "inner", JoinWindows.of("1 hour"), Expr("ref", "left"))
    >>> gathers(both, {"weather"}), gathers(both, set())
    (True, False)
    """
    return isinstance(node, _JOINS_OF_EQUALS) and any(parent.name in shared for parent in node.parents)


def asks_across(node: Node, shared: Set[str]) -> bool:
    """Whether a node looks its table up by the slowest of the table's stream times, since a side is in scope 0.

    A stream in scope 0 may ask for a key of any partition of the table. A table in scope 0 has that one stream time,
    whatever partition a record of the stream comes from.

    Args:
        node: The node.
        shared: As :func:`nodes_in_one_scope` returns it.

    >>> from streams.expressions import Expr
    >>> from streams.nodes import StreamSource, TableSource
    >>> sides = (StreamSource("clicks", topic="clicks"), TableSource("users", topic="users"))
    >>> both = StreamTableJoin("both", sides, "inner", Expr("ref", "left"))
    >>> asks_across(both, {"users"}), asks_across(both, set())
    (True, False)
    """
    return isinstance(node, StreamTableJoin) and any(parent.name in shared for parent in node.parents)


def follows_partitions(node: Node) -> bool:
    """Whether all records of a node have the scope of their source partition, judged by its ancestors alone.

    >>> from streams.expressions import Expr
    >>> from streams.nodes import StreamFilter, StreamSource
    >>> follows_partitions(StreamFilter("big", (StreamSource("flights", topic="flights"),), Expr("lit", True)))
    True
    """
    if isinstance(node, _JOINS_OF_EQUALS) or changes_key(node) or has_one_stream_time(node):
        return False
    return not node.parents or follows_partitions(node.parents[0])


def has_one_stream_time(node: Node) -> bool:
    """Whether a node's store has one stream time for all partitions, or one per key: its output is in scope 0."""
    stored = materialized_of(node)
    if stored is None:
        return False
    if isinstance(node, WindowedAggregate):
        return stored.time_scope == "store"
    waits = getattr(node, "reorder", None) is not None and stored.time_scope == "store"
    return waits or (stored.is_versioned and stored.time_scope != "partition")
