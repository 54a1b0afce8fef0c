"""Refuses names of personal data columns that the application does not have: a misspelt name would hide nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from pyspark.sql.types import DataType, StructType

from streams.expressions import Expr, operation
from streams.fields import value_fields
from streams.key_fields import key_fields
from streams.nodes import AGGREGATES, Node
from streams.spark.intake import IntakeRule
from versioned.statistics import check_hidden, names_in


def check_personal(
    hidden: Collection[str], nodes: Iterable[Node], rules: Iterable[IntakeRule], united: StructType
) -> None:
    """Refuse names that no column, and no field in one, has anywhere between the sources and the sinks.

    Args:
        hidden: The names; case does not matter.
        nodes: The nodes of the plan.
        rules: The intake rules of its sources.
        united: The columns of the sources, a struct column per topic.

    Raises:
        ConfigurationError: with the name that was probably meant, and all names that there are.
    """
    if hidden:
        kinds = [field.dataType for field in united.fields] + [rule.types for rule in rules if rule.types is not None]
        check_hidden(hidden, [*(name for kind in kinds for name in names_in(kind)), *_of_plan(nodes)])


def _of_plan(nodes: Iterable[Node]) -> Iterator[str]:
    """The fields of keys and values, and of structs in them, as far as the plan names them."""
    for node in nodes:
        yield from key_fields(node) or ()
        yield from value_fields(node) or ()
        held = [*vars(node).values()]
        if isinstance(node, AGGREGATES):
            held += vars(node.aggregation).values()
            yield node.aggregation.output
            yield from _of_ddl(node.aggregation.schema)
        yield from _named([part for part in held if isinstance(part, Expr)])


def _named(waiting: list[Expr]) -> Iterator[str]:
    """The names that expressions give to fields of the rows that they make."""
    while waiting:
        op, args = operation(waiting.pop())
        if op == "struct":
            yield from args[0]
        elif op == "row":
            yield args[0]
        elif op == "python":
            yield from _of_ddl(args[1])
        waiting += [arg for arg in args if isinstance(arg, Expr)]


def _of_ddl(text: str | None) -> Iterator[str]:
    return iter(()) if text is None else names_in(DataType.fromDDL(text))
