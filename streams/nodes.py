"""The plan: the nodes of a topology, as frozen values that are independent of any engine.

A :class:`Topology` is a tuple of nodes in which each one comes after its parents. The DSL (``streams.topology``) builds
it, ``streams.plan_checks`` refuses plans that can never work, and both engines run it: ``streams.driver`` record by
record, ``streams.spark`` set-wise.

User functions (predicates, mappers, joiners) are stored as expressions (``streams.expressions``): they are already
traced, so that both engines evaluate exactly the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

from streams.ddl import check_result
from streams.expressions import Expr
from streams.options import Joined, LatePolicy, Materialized, OnExpired
from suppress.suppressed import AnySuppressed
from suppress.windows import JoinWindows, Windows
from versioned.choices import check_choice
from versioned.given import check_kind, no_such
from versioned.history_join_rules import Kind
from versioned.spec import TimeScope

if TYPE_CHECKING:
    from versioned.drawing import Picture

__all__ = [
    "Aggregation",
    "ChangelogSink",
    "CorrectionFeed",
    "Emit",
    "ForeignKeyJoin",
    "SOURCES",
    "GlobalTableSource",
    "SourceNode",
    "History",
    "JoinKind",
    "Joined",
    "LatePolicy",
    "Materialized",
    "Node",
    "OnExpired",
    "Output",
    "SelectKey",
    "StreamAggregate",
    "StreamFilter",
    "StreamGlobalTableJoin",
    "StreamMapValues",
    "StreamSource",
    "StreamStreamJoin",
    "StreamTableJoin",
    "Suppress",
    "TableAggregate",
    "TableFilter",
    "TableMapValues",
    "TableSink",
    "TableSource",
    "TableTableJoin",
    "TimeScope",
    "ToStream",
    "ToTable",
    "Topology",
    "WindowedAggregate",
]

JoinKind = Kind
Emit = Literal["every", "net"]
History = Literal["latest", "complete"]
AggregationKind = Literal["count", "sum", "avg", "min", "max", "reduce", "aggregate"]


@dataclass(frozen=True)
class Aggregation:
    """What an aggregate computes.

    ``kind`` is ``count``, ``sum``, ``avg``, ``min`` or ``max`` (built in, over ``value``), or ``reduce`` or
    ``aggregate`` (user code, over plain rows). For ``reduce``, ``adder`` and ``subtractor`` are
    ``(aggregate, value) -> aggregate``. For ``aggregate`` they are ``(key, value, aggregate) -> aggregate``,
    ``initializer`` gives the first aggregate and, for session windows, ``merger`` is
    ``(key, left, right) -> aggregate``.
    """

    kind: AggregationKind
    output: str = "count"
    value: Expr | None = None
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    subtractor: Callable[..., Any] | None = None
    merger: Callable[..., Any] | None = None
    schema: str | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, AggregationKind)
        if self.schema is not None:
            check_result("schema", self.schema)


class Output(Enum):
    """What flows out of a node."""

    STREAM = "stream"
    TABLE = "table"
    NOTHING = "nothing"


@dataclass(frozen=True, eq=False)
class Node:
    """One operator of the plan. ``name`` is unique in the topology and names its state tables.

    Nodes compare by identity: expressions have no truth value, and a plan has many paths to one ancestor.
    """

    name: str
    parents: tuple[Node, ...] = field(repr=False)

    @property
    def output(self) -> Output:
        return Output.STREAM


@dataclass(frozen=True, eq=False)
class _TableNode(Node):
    @property
    def output(self) -> Output:
        return Output.TABLE


@dataclass(frozen=True, eq=False)
class _SourceNode(Node):
    """A node that reads a topic. ``key``, ``timestamp`` and ``value`` name the input's columns.

    ``deleted`` names a boolean column that is true for records whose value is null.
    """

    parents: tuple[Node, ...] = field(default=(), repr=False)
    topic: str = ""
    key: tuple[str, ...] = ("key",)
    timestamp: str = "ts"
    value: tuple[str, ...] | None = None
    deleted: str | None = None


@dataclass(frozen=True, eq=False)
class StreamSource(_SourceNode):
    """Records of a topic as a stream."""


@dataclass(frozen=True, eq=False)
class TableSource(_SourceNode, _TableNode):
    """Records of a topic as changes of a table; ``materialized`` None = a source table without a store."""

    materialized: Materialized | None = None
    reorder: timedelta | None = None


@dataclass(frozen=True, eq=False)
class GlobalTableSource(_SourceNode, _TableNode):
    """A table that every scope sees as a whole, looked up regardless of time (R170: never versioned)."""

    materialized: Materialized | None = None


#: The nodes that read a topic.
SourceNode = StreamSource | TableSource | GlobalTableSource
SOURCES: Final = (StreamSource, TableSource, GlobalTableSource)


@dataclass(frozen=True, eq=False)
class StreamFilter(Node):
    predicate: Expr


@dataclass(frozen=True, eq=False)
class StreamMapValues(Node):
    mapper: Expr


@dataclass(frozen=True, eq=False)
class SelectKey(Node):
    """A new key; a change of key starts new stream-time scopes (docs/concepts/stream-time.md)."""

    mapper: Expr


@dataclass(frozen=True, eq=False)
class TableFilter(_TableNode):
    """``filter`` / ``filter_not`` (negation is part of ``predicate``)."""

    predicate: Expr
    materialized: Materialized | None = None


@dataclass(frozen=True, eq=False)
class TableMapValues(_TableNode):
    mapper: Expr
    materialized: Materialized | None = None


@dataclass(frozen=True, eq=False)
class ToStream(Node):
    """A table's changes as a stream of its new values."""


@dataclass(frozen=True, eq=False)
class ToTable(_TableNode):
    materialized: Materialized | None = None
    reorder: timedelta | None = None


@dataclass(frozen=True, eq=False)
class StreamTableJoin(Node):
    """A stream-table join; parents = (stream, table)."""

    kind: JoinKind
    joiner: Expr
    joined: Joined = field(default_factory=Joined)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, JoinKind)


@dataclass(frozen=True, eq=False)
class CorrectionFeed(Node):
    """Corrections of the results that a late table change altered; parents = (stream-table join, its table)."""


@dataclass(frozen=True, eq=False)
class StreamGlobalTableJoin(Node):
    """A join with a global table, whose key ``key_mapper`` gives; parents = (stream, global table)."""

    kind: JoinKind
    key_mapper: Expr
    joiner: Expr

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, JoinKind)


@dataclass(frozen=True, eq=False)
class StreamStreamJoin(Node):
    """A windowed join of two streams; parents = (left, right)."""

    kind: JoinKind
    windows: JoinWindows
    joiner: Expr

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, JoinKind)


@dataclass(frozen=True, eq=False)
class TableTableJoin(_TableNode):
    """A join of two tables on the primary key; parents = (left, right)."""

    kind: JoinKind
    joiner: Expr
    materialized: Materialized | None = None
    history: History = "latest"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, JoinKind)
        check_choice("history", self.history, History)


@dataclass(frozen=True, eq=False)
class ForeignKeyJoin(_TableNode):
    """A join of two tables where ``foreign_key`` maps the left value to the right key; parents = (left, right)."""

    kind: JoinKind
    foreign_key: Expr
    joiner: Expr
    materialized: Materialized | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, JoinKind)


@dataclass(frozen=True, eq=False)
class StreamAggregate(_TableNode):
    """An unwindowed aggregate of a stream, per group key (``None`` = the stream's own key)."""

    aggregation: Aggregation = Aggregation("count")
    group_key: Expr | None = None
    materialized: Materialized | None = None


@dataclass(frozen=True, eq=False)
class WindowedAggregate(_TableNode):
    """A windowed aggregate of a stream, per (group key, window)."""

    windows: Windows
    aggregation: Aggregation = Aggregation("count")
    group_key: Expr | None = None
    materialized: Materialized | None = None
    late_policy: LatePolicy = "drop"

    def __post_init__(self) -> None:
        check_choice("late_policy", self.late_policy, LatePolicy)


@dataclass(frozen=True, eq=False)
class TableAggregate(_TableNode):
    """An aggregate of a table: it removes the old value and adds the new one, each mapped by ``group_value``."""

    aggregation: Aggregation = Aggregation("count")
    group_key: Expr | None = None
    group_value: Expr | None = None
    materialized: Materialized | None = None


@dataclass(frozen=True, eq=False)
class Suppress(_TableNode):
    suppressed: AnySuppressed


@dataclass(frozen=True, eq=False)
class ChangelogSink(Node):
    """A sink that appends every change (or the net one per key and batch) to the table ``name``."""

    emit: Emit = "every"

    def __post_init__(self) -> None:
        check_choice("emit", self.emit, Emit)

    @property
    def output(self) -> Output:
        return Output.NOTHING


@dataclass(frozen=True, eq=False)
class TableSink(Node):
    """A sink that keeps the latest state per key in the table ``name`` (upsert; a tombstone deletes)."""

    @property
    def output(self) -> Output:
        return Output.NOTHING


#: Tables that keep the keys of the table they are made from, and its versions unless they are stored otherwise.
ViewNode = TableFilter | TableMapValues
VIEWS: Final = (TableFilter, TableMapValues)
#: The nodes that join two sides.
JoinNode = StreamTableJoin | StreamGlobalTableJoin | StreamStreamJoin | TableTableJoin | ForeignKeyJoin
JOINS: Final = (StreamTableJoin, StreamGlobalTableJoin, StreamStreamJoin, TableTableJoin, ForeignKeyJoin)
#: The nodes that aggregate records by key.
AggregateNode = StreamAggregate | WindowedAggregate | TableAggregate
AGGREGATES: Final = (StreamAggregate, WindowedAggregate, TableAggregate)


def materialized_of(node: Node) -> Materialized | None:
    """How a node's table is stored, if it says so."""
    materialized = getattr(node, "materialized", None)
    return materialized if isinstance(materialized, Materialized) else None


def takes_late(node: Node) -> bool:
    """Whether a node accepts a record even if the record or one of its results is counted as late.

    A join of two streams holds late records too. The other such nodes may give several results for one record, of which
    a versioned store may refuse some.
    """
    is_complete = isinstance(node, TableTableJoin) and node.history == "complete"
    return isinstance(node, (StreamStreamJoin, ForeignKeyJoin, TableAggregate)) or is_complete


def drops_expired(node: Node) -> bool:
    """Whether a record whose lookup is older than the table's history is put aside instead of accepted.

    With grace, a record is accepted when it begins to wait. It is put aside later and still counted only once.
    """
    if not isinstance(node, StreamTableJoin):
        return False
    return node.joined.on_expired == "side_table" and node.joined.grace is None


@dataclass(frozen=True)
class Topology:
    """A checked plan: nodes in dependency order. Build it with ``StreamsBuilder.build()``."""

    nodes: tuple[Node, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def node(self, name: str) -> Node:
        """The node of this name.

        Raises:
            UnknownNameError: there is no such node (it is a KeyError as well).
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise no_such("node", name, (node.name for node in self.nodes))

    def describe(self) -> str:
        """The graph as text: every node with its options, windows and buffers, and whether it is versioned."""
        # The pictures know every node class; the plan itself should not need them.
        from streams.describe import describe

        return describe(self)

    def to_svg(self) -> str:
        """The graph as a self-contained SVG picture."""
        from streams.picture import to_svg

        return to_svg(self)

    def picture(self) -> Picture:
        """The graph as a picture, which can be saved as ``.svg`` or as an ``.html`` page with a table of its nodes."""
        from streams.picture import topology_picture

        return topology_picture(self)

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()

    def children(self, parent: Node) -> tuple[Node, ...]:
        """The nodes that read from ``parent``, in plan order."""
        return tuple(node for node in self.nodes if parent in node.parents)


def check_plan(option: str, given: object) -> None:
    """Refuse anything that is not a plan, such as the builder of one.

    Raises:
        ConfigurationError: it is not a plan; the message says what gives one.
    """
    check_kind(option, given, Topology, "the plan that StreamsBuilder.build() gives; call .build()")


def sources_of(nodes: Iterable[Node]) -> list[SourceNode]:
    """The nodes of a plan that read a topic."""
    return [node for node in nodes if isinstance(node, SOURCES)]
