"""Checks the fields that a plan names and the keys that its joins match, as far as the plan knows them.

Keys are matched by position (``docs/decisions/0006-tables-in-the-test-driver.md``), so both sides need the same number
of fields, and fields with the same names in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from streams.declared import declared_fields
from streams.expressions import Expr, operation
from streams.fields import MAX_TS, VERSION_FIELDS, Fields, branches, expr_fields, value_fields
from streams.key_fields import key_fields, mapped_key_fields
from streams.nodes import (
    AGGREGATES,
    JOINS,
    SOURCES,
    ChangelogSink,
    CorrectionFeed,
    ForeignKeyJoin,
    Node,
    SelectKey,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamStreamJoin,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableFilter,
    TableMapValues,
    TableSink,
    TableSource,
    ToStream,
    ToTable,
    WindowedAggregate,
    materialized_of,
    sources_of,
)
from streams.plan_facts import with_ancestors
from streams.shared_names import both_have, shared_names
from suppress.suppressed import UntilWindowCloses
from versioned.errors import TopologyError
from versioned.given import near
from versioned.identifiers import is_column, named_twice

#: Nodes that keep no records, except for views of tables that are stored.
_PASSING: Final = (StreamFilter, StreamMapValues, SelectKey, ToStream, TableFilter, TableMapValues)
#: The columns beside the key in tables of waiting records, and of answers.
HELD: Final = ("value", "ts", "deadline")
SUPPRESSED: Final = (*HELD, "bufferTime", "arrivedAt", "size")
PAIRED: Final = ("side", "left", "right", "ts", "matched", "padded")
ANSWERED: Final = ("value", "ts", "found", "revision")
#: Nodes whose value fields are columns of a table.
_STORING: Final = (*AGGREGATES, ToTable, TableSink)

#: Nodes that hold key and value as columns of one table, as all stored ones do.
_SIDE_BY_SIDE: Final = (*AGGREGATES, ToTable, TableSource)

#: The fields of each row that a function sees, as far as the plan knows.
_Rows = Mapping[str, Fields]


def check_read(nodes: Iterable[Node], values: Mapping[str, tuple[str, ...]]) -> None:
    """Check each node as :func:`check_fields` does, once the value fields of sources are known.

    The plan itself need not list them. Fields are found whatever their case, as on Spark.

    Args:
        nodes: A plan, in its order.
        values: The fields of the values of sources, by the node's name.

    Raises:
        TopologyError: as :func:`check_fields`.
    """
    known: dict[Node, Node] = {}
    for node in nodes:
        known[node] = _knowing(node, tuple(known[parent] for parent in node.parents), values)
        check_fields(known[node], any_case=True)


def _knowing(node: Node, parents: tuple[Node, ...], values: Mapping[str, tuple[str, ...]]) -> Node:
    """A node with parents whose value fields may be known better; a source with its own."""
    if isinstance(node, SOURCES):
        return replace(node, value=values.get(node.name, node.value))
    return node if parents == node.parents else replace(node, parents=parents)


def check_fields(node: Node, *, any_case: bool = False) -> None:
    """Refuse a field that a node's functions read from a row without it, and two fields of one name.

    Names are one whatever their case, as on Spark. Rows that are merged must not share a name, and rows of which one is
    chosen must have the same fields.

    Args:
        node: The node.
        any_case: Whether fields are found whatever their case.

    Raises:
        TopologyError: with the field, what was probably meant, and the fields that there are.
    """
    for expr, rows in functions_of(node):
        _check_merged(node, expr, rows)
        _check_chosen(node, expr, rows)
        twice = next(filter(None, map(named_twice, _rows_made(expr))), None)
        if twice:
            raise TopologyError(
                "fields", node.name, f"{twice} are one field to Spark, whatever their case. Rename one."
            )
        for row, name in _fields_of(expr):
            fields = rows.get(row)
            if fields is not None and name not in fields and not (any_case and _is_among(name, fields)):
                raise TopologyError("fields", node.name, no_field(row, name, rows) + _meant_as_name(node, expr, name))


def _check_merged(node: Node, expr: Expr | None, rows: _Rows) -> None:
    """Refuse to merge rows that share a name, as far as their fields are known."""
    for op, args in operations_of(expr):
        if op != "merge":
            continue
        left, right = (_row_fields(row, rows) or () for row in args)
        shared = shared_names(left, right)
        if shared:
            of_sides = isinstance(node, JOINS) and [_row_read(row) for row in args] == ["left", "right"]
            called = [parent.name for parent in node.parents] if of_sides else ["the first", "the second row of merge"]
            raise TopologyError("joiner", node.name, both_have(called[0], called[1], shared))


def _check_chosen(node: Node, expr: Expr | None, rows: _Rows) -> None:
    """Refuse to choose from rows with different fields, which have no common type, as far as their fields are known."""
    for op, args in operations_of(expr):
        if op not in ("case", "coalesce"):
            continue
        chosen = (_row_fields(row, rows) for row in (branches(args) if op == "case" else args))
        known = [fields for fields in chosen if fields is not None]
        other = next((fields for fields in known if _lower(fields) != _lower(known[0])), None)
        if other is not None:
            raise TopologyError(
                "fields", node.name,
                f"{'a condition' if op == 'case' else op} chooses from a row of {_listed(known[0])} and one of "
                f"{_listed(other)}. Give all of them the same fields in the same order, with None where there is "
                "nothing.",
            )  # fmt: skip


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _row_fields(row: Expr, rows: _Rows) -> Fields:
    op, args = operation(row)
    if op == "python":
        return declared_fields(args[1])
    return rows.get(args[0]) if op == "ref" else (tuple(args[0]) if op == "struct" else None)


def _row_read(row: Expr) -> str | None:
    """The row that an expression is, or the only row whose fields it reads."""
    op, args = operation(row)
    if op == "ref":
        return str(args[0])
    read = {name for name, _ in _fields_of(row)}
    return read.pop() if len(read) == 1 else None


def _is_among(name: str, fields: Sequence[str]) -> bool:
    return name.lower() in _lower(fields)


def no_field(row: str, name: str, rows: _Rows) -> str:
    """The message about a field that a row does not have.

    >>> no_field("value", "amont", {"value": ("amount",)})
    'value has no field "amont"; did you mean "amount"? It has: amount'
    >>> no_field("value", "id", {"key": ("id",), "value": ("amount",)})
    'value has no field "id", which is in the key: lambda key, value: key.id, in YAML key.id'
    """
    if row != "key" and name in (rows.get("key") or ()):
        sides = ", ".join(side for side in rows if side != "key")
        return f'{row} has no field "{name}", which is in the key: lambda key, {sides}: key.{name}, in YAML key.{name}'
    fields = rows.get(row) or ()
    return f'{row} has no field "{name}"{near(name, fields)} It has: {", ".join(fields) or "none"}'


def check_names(node: Node) -> None:
    """Refuse names of key and value fields that no column can have, where they become columns of a table.

    In a stream that is only filtered and mapped, fields may have any names. A changelog takes over the names of source
    columns, since nothing is looked up by them.

    Raises:
        TopologyError: with the fields.
    """
    for what, fields in _in_tables(node):
        wrong = [name for name in fields or () if not is_column(name)]
        if wrong:
            raise TopologyError(
                "column-names", node.name,
                f"its {what} would have {wrong} as columns. Rename: a column has letters, digits and _, at most 128, "
                "and begins with a letter, since columns of the library's own begin with _.",
            )  # fmt: skip


def check_apart(node: Node) -> None:
    """Refuse a table that would have a column twice: in key and value, or beside a column of the library's own.

    The same holds for tables in which records wait. It matters on Spark only; the test driver keeps keys and values
    apart.

    Raises:
        TopologyError: with the fields.
    """
    _check_waiting(node)
    if not isinstance(node, _SIDE_BY_SIDE) and materialized_of(node) is None:
        return
    keys, values = key_fields(node) or (), _stored_values(node)
    own = {name.lower() for name in _own_columns(node)}
    taken = own | {name.lower() for name in keys}
    both = [*(name for name in keys if name.lower() in own), *(name for name in values if name.lower() in taken)]
    if both:
        instead = "Leave it out of the value with map_values."
        if isinstance(node, AGGREGATES) and both == [node.aggregation.output]:
            instead = f'Name the result otherwise: output="number_of_{both[0]}".'
        raise TopologyError(
            "column-names", node.name,
            f"its table would have {both} twice: a table holds key, value and its own columns side by side. {instead}",
        )  # fmt: skip


def _check_waiting(node: Node) -> None:
    """Refuse a key field with the name of a column that a table of waiting records has beside the key."""
    beside = {name.lower() for name in _waiting_columns(node)}
    twice = [name for name in key_fields(node) or () if name.lower() in beside]
    if twice:
        raise TopologyError(
            "column-names", node.name,
            f"where its records wait they would have {twice} twice: as fields of the key, and as columns of the "
            "library's own beside them. Rename these fields of the key, in the source's transform or with select_key.",
        )  # fmt: skip


def _waiting_columns(node: Node) -> tuple[str, ...]:
    if isinstance(node, Suppress):
        # Whether final results wait in a table of their own, only the application knows.
        return () if isinstance(node.suppressed, UntilWindowCloses) else SUPPRESSED
    if isinstance(node, StreamTableJoin):
        return () if node.joined.grace is None else HELD
    if isinstance(node, (TableSource, ToTable)):
        return () if node.reorder is None else HELD
    return {StreamStreamJoin: PAIRED, CorrectionFeed: ANSWERED}.get(type(node), ())


def _stored_values(node: Node) -> tuple[str, ...]:
    """The fields of a table's values that are columns of its own, as far as the plan knows."""
    if not isinstance(node, AGGREGATES):
        return value_fields(node) or ()
    kind, schema, output = node.aggregation.kind, node.aggregation.schema, node.aggregation.output
    if isinstance(node, WindowedAggregate) and kind == "avg":
        return ()  # It is stored as a sum and a count, under names of the library's own.
    return value_fields(node) or ((output,) if kind == "aggregate" and schema is None else ())


def _own_columns(node: Node) -> tuple[str, ...]:
    """The columns of the library's own beside those of a table's key and value."""
    if isinstance(node, WindowedAggregate):
        return (MAX_TS,)
    stored = materialized_of(node)
    return VERSION_FIELDS if stored is not None and stored.is_versioned else ("ts",)


def check_joined_keys(node: Node) -> None:
    """Refuse a join whose sides have keys of different lengths, or of the same fields in another order.

    Raises:
        TopologyError: with the keys of both sides.
    """
    if not isinstance(node, JOINS):
        return
    left, right = node.parents
    names, others = _looked_up(node), key_fields(right)
    fault = None if names is None or others is None else key_fault(names, others)
    if fault is None:
        return
    mapper = {ForeignKeyJoin: "foreign_key", StreamGlobalTableJoin: "key"}.get(type(node))
    what = f"{left.name} is keyed by" if mapper is None else f"{mapper}= gives"
    raise TopologyError(
        "joined-keys", node.name, f"{what} {_listed(names)} and {right.name} is keyed by {_listed(others)}. {fault}"
    )


def key_fault(names: Sequence[str], others: Sequence[str]) -> str | None:
    """Why a key of these fields cannot be matched with one of the others; ``None`` if it can.

    >>> key_fault(("a", "b"), ("c", "d"))
    >>> key_fault(("a",), ("c", "d"))
    'Keys are matched field by field, so both need as many: 1 and 2.'
    """
    if len(names) != len(others):
        return f"Keys are matched field by field, so both need as many: {len(names)} and {len(others)}."
    lower, lower_others = _lower(names), _lower(others)
    if lower != lower_others and sorted(lower) == sorted(lower_others):
        return f"Keys are matched by position, not by name. Give both in one order: {_listed(others)}."
    return None


def _listed(names: Sequence[str] | None) -> str:
    return f"({', '.join(names or ())})"


def _looked_up(node: Node) -> Fields:
    """The fields of the key by which a join looks into its right side."""
    left = node.parents[0]
    if isinstance(node, ForeignKeyJoin):
        return mapped_key_fields(node.foreign_key, left)
    return mapped_key_fields(node.key_mapper, left) if isinstance(node, StreamGlobalTableJoin) else key_fields(left)


def _in_tables(node: Node) -> Iterator[tuple[str, Fields]]:
    """The fields that become columns: those of keys by which a node finds or stores rows, and of values it stores."""
    stored = materialized_of(node) is not None
    # The columns of a source exist already; whether their names are valid is checked when it starts.
    if isinstance(node, SOURCES) or (isinstance(node, _PASSING) and not stored):
        return
    if isinstance(node, ChangelogSink):
        read = _columns_read(node)
        yield "key", tuple(name for name in key_fields(node) or () if name not in read)
        yield "value", tuple(name for name in value_fields(node) or () if name not in read)
        return
    yield "key", key_fields(node)
    if isinstance(node, JOINS):
        yield "key to look up", _looked_up(node)
        yield f"key of {node.parents[1].name}", key_fields(node.parents[1])
    if stored or isinstance(node, _STORING):
        yield "value", value_fields(node)
    if isinstance(node, AGGREGATES):
        yield "result", (node.aggregation.output,)


def _columns_read(node: Node) -> set[str]:
    """The columns of the sources above a node, as far as the plan knows."""
    return {name for source in sources_of(with_ancestors(node)) for name in (*source.key, *(source.value or ()))}


def functions_of(node: Node) -> Iterator[tuple[Expr | None, _Rows]]:
    """Each function of a node with the rows that it sees."""
    if not node.parents:
        return
    parent = node.parents[0]
    rows = {"key": key_fields(parent), "value": value_fields(parent)}
    if isinstance(node, (StreamFilter, TableFilter)):
        yield node.predicate, rows
    if isinstance(node, (StreamMapValues, TableMapValues, SelectKey)):
        yield node.mapper, rows
    if isinstance(node, ForeignKeyJoin):
        yield node.foreign_key, rows
    if isinstance(node, StreamGlobalTableJoin):
        yield node.key_mapper, rows
    if isinstance(node, JOINS):
        yield node.joiner, {"key": rows["key"], "left": rows["value"], "right": value_fields(node.parents[1])}
    if isinstance(node, AGGREGATES):
        yield node.group_key, rows
        mapped = node.group_value if isinstance(node, TableAggregate) else None
        yield mapped, rows
        value = rows["value"] if mapped is None else expr_fields(mapped, {"value": parent})
        yield node.aggregation.value, {"key": rows["key"] if node.group_key is None else None, "value": value}


def _fields_of(expr: Expr | None) -> Iterator[tuple[str, str]]:
    """Each field of a row that an expression reads: the row's name and the field's."""
    for op, args in operations_of(expr):
        if op == "field" and isinstance(args[0], Expr):
            of, (row, *_) = operation(args[0])
            if of == "ref":
                yield row, args[1]


def _rows_made(expr: Expr | None) -> Iterator[tuple[str, ...]]:
    """The fields of each row that an expression makes."""
    return (args[0] for op, args in operations_of(expr) if op == "struct")


def operations_of(expr: Expr | None) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every operation of an expression, once."""
    waiting = [] if expr is None else [expr]
    seen: set[int] = set()
    while waiting:
        op, args = operation(waiting.pop())
        yield op, args
        parts = [arg for arg in args if isinstance(arg, Expr)]
        waiting += [part for part in parts if id(part) not in seen]
        seen.update(map(id, parts))


def _meant_as_name(node: Node, expr: Expr | None, name: str) -> str:
    is_counted = isinstance(node, AGGREGATES) and (node.aggregation.kind == "count" and node.aggregation.value is expr)
    return f'. To name the table, write count(name="{name}")' if is_counted else ""
