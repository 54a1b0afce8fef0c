"""Which fields the values of a node have, as far as the plan knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streams.ddl import names_fields
from streams.declared import declared_fields
from streams.expressions import Expr, operation
from streams.nodes import (
    AGGREGATES,
    JOINS,
    SOURCES,
    Aggregation,
    CorrectionFeed,
    Node,
    StreamMapValues,
    Suppress,
    TableAggregate,
    TableMapValues,
)
from suppress.suppressed import UntilWindowCloses
from versioned.spec import VersionedTableSpec

Fields = tuple[str, ...] | None

#: The value of a correction: the answer's place, the number of the correction, both rows, the table record's ts.
CORRECTION_FIELDS: Final = ("original_scope", "original_seq", "revision", "old", "new", "cause")
#: What a window adds to a key, in order.
WINDOW_FIELDS: Final = ("windowStart", "windowEnd")
WINDOW_START, WINDOW_END = WINDOW_FIELDS
#: The columns of a versioned table that say from when until when a version is valid.
VERSION_FIELDS: Final = (VersionedTableSpec.valid_from, VersionedTableSpec.valid_to)
#: The column of a window store with the largest ts of the window's records.
MAX_TS: Final = "maxTs"
#: The field of a final row that says which clock closed its window, if the node may close idle windows.
CLOSED_BY: Final = "closed_by"


def value_fields(node: Node) -> Fields:
    """The names of a node's value fields, in order; ``None`` if they are known only when it runs.

    >>> from streams.nodes import StreamSource
    >>> value_fields(StreamSource("clicks", topic="clicks", value=("page", "ms")))
    ('page', 'ms')
    """
    if isinstance(node, SOURCES):
        return node.value
    if isinstance(node, (StreamMapValues, TableMapValues)):
        return expr_fields(node.mapper, {"value": node.parents[0]})
    if isinstance(node, JOINS):
        left, right = node.parents
        return expr_fields(node.joiner, {"left": left, "right": right})
    if isinstance(node, CorrectionFeed):
        return CORRECTION_FIELDS
    if isinstance(node, AGGREGATES):
        return _of_aggregation(node, node.aggregation)
    if isinstance(node, Suppress):
        return _of_suppressed(node)
    return value_fields(node.parents[0]) if len(node.parents) == 1 else None


def _of_aggregation(node: Node, aggregation: Aggregation) -> Fields:
    if aggregation.schema is not None:
        return declared_fields(aggregation.schema) if names_fields(aggregation.schema) else (aggregation.output,)
    if aggregation.kind == "aggregate":
        return None
    if aggregation.kind != "reduce":
        return (aggregation.output,)
    mapped = node.group_value if isinstance(node, TableAggregate) else None
    return value_fields(node.parents[0]) if mapped is None else expr_fields(mapped, {"value": node.parents[0]})


def _of_suppressed(node: Suppress) -> Fields:
    known, suppressed = value_fields(node.parents[0]), node.suppressed
    if not isinstance(suppressed, UntilWindowCloses):
        return known
    if suppressed.retention_us is not None:
        return _merged([known, (CLOSED_BY,)])
    # Only the application knows whether it has a retention of its own.
    return None if suppressed.close_idle else known


def expr_fields(expr: Expr, rows: Mapping[str, Node]) -> Fields:
    """The names of the fields of the row that an expression gives; ``None`` if they are known only when it runs.

    Args:
        expr: The expression.
        rows: The nodes whose values it reads, by the names of its rows.
    """
    op, args = operation(expr)
    if op == "struct":
        return tuple(args[0])
    if op == "row":
        return (args[0],)
    if op == "python":
        return declared_fields(args[1])
    if op == "ref":
        return value_fields(rows[args[0]]) if args[0] in rows else None
    if op in ("case", "coalesce"):
        chosen = branches(args) if op == "case" else args
        return next((fields for fields in (expr_fields(branch, rows) for branch in chosen) if fields), None)
    return _merged([expr_fields(arg, rows) for arg in args]) if op == "merge" else None


def branches(args: Sequence[Expr]) -> tuple[Expr, ...]:
    """The values that a ``case`` chooses from; its arguments are pairs of condition and value, then the default."""
    return (*args[1:-1:2], args[-1])


def _merged(parts: list[Fields]) -> Fields:
    names: dict[str, None] = {}
    for part in parts:
        if part is None:
            return None
        names.update(dict.fromkeys(part))
    return tuple(names)
