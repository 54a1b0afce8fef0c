"""Checks of a source's columns at the start, against the plan and the contract. No Spark job runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams.nodes import Node, StreamSource, sources_of
from streams.plan_facts import is_versioned
from streams.spark.intake import IntakeRule, source_field, source_type
from streams.spark.made_keys import check_made_keys
from streams.spark.places import Order
from streams.spark.reader_options import MALFORMED
from streams.spark.sources import SparkSource
from streams.spark.typed_input import UNITS, is_castable
from streams.struct_checks import Shape, check_known
from versioned.errors import ConfigurationError, SchemaError
from versioned.identifiers import check_columns, named_twice
from versioned.spec import DELETED
from versioned.sql_types import has_order, kinds_in
from versioned.statistics import names_in

_LOG: Final = logging.getLogger(__name__)
_FLOATS_ALLOWED: Final = " For a floating-point number all the same say allow_float_keys in the source's contract."
#: Characters that Delta allows in no field name, at any depth.
_IN_NO_FIELD: Final = frozenset(" ,;{}()\n\t=")


def checked_rules(
    plan: Iterable[Node],
    sources: Mapping[str, SparkSource],
    order: Order,
    max_future_us: int,
    united: StructType,
) -> list[IntakeRule]:
    """The intake rules of the source nodes, after a check of the columns of all sources.

    Args:
        plan: The nodes in order; the order of sources breaks ties.
        sources: Topic -> source.
        order: How several sources are merged.
        max_future_us: How far ahead of the machine's clock a record may be, where its source does not say.
        united: The columns of the sources, a struct column per topic.

    Raises:
        SchemaError, ConfigurationError: as :func:`check_input`.
        TopologyError: an expression names a field that no row has, or a key has a type that cannot be one.
    """
    nodes, rules, shapes, read = list(plan), [], {}, {}
    for position, node in enumerate(sources_of(nodes)):
        source = sources[node.topic]
        ahead_us = source.max_future_us(max_future_us)
        rules.append(IntakeRule(node, source, position, order, ahead_us, source.contract.declared()))
        columns = united[node.topic].dataType
        assert isinstance(columns, StructType)
        check_input(columns, rules[-1])
        shapes[node.name], read[node.name] = shape_read(columns, rules[-1]), types_read(columns, rules[-1])
    check_known(nodes, shapes)
    check_made_keys(nodes, read)
    return rules


def shape_read(columns: StructType, rule: IntakeRule) -> Shape:
    """The fields of a source's values, with the fields of structs in them.

    Args:
        columns: The columns of the source.
        rule: The intake rule of the node that reads it.
    """
    there = {name.lower() for name in columns.names}
    return {
        name: _shape_of(source_type(columns, rule, name)) if name.lower() in there else None
        for name in rule.values(columns.names)
    }


def types_read(columns: StructType, rule: IntakeRule) -> StructType:
    """The types of a source's keys and values, for columns that exist; arguments as :func:`shape_read`."""
    there = {name.lower() for name in columns.names}
    names = dict.fromkeys((*rule.node.key, *rule.values(columns.names)))
    return StructType([StructField(name, source_type(columns, rule, name)) for name in names if name.lower() in there])


def _shape_of(kind: DataType) -> Shape | None:
    return {field.name: _shape_of(field.dataType) for field in kind.fields} if isinstance(kind, StructType) else None


def check_input(schema: StructType, rule: IntakeRule) -> None:
    """Refuse a source whose columns do not fit the plan or the contract; names are compared ignoring case.

    Args:
        schema: The columns of the source.
        rule: The node that reads it, and its contract.

    Raises:
        SchemaError: columns are missing, extra (if the contract forbids that) or differ only by case; a type cannot be
            cast, or cannot be a key, an event time or a sequence.
        ConfigurationError: a key or a value has a name that no table can have.
    """
    topic, names = rule.node.topic, schema.names
    _differ(topic, names)
    _check_there(rule, names)
    _check_extra(rule, names)
    called = StructType([StructField(name, source_field(schema, name).dataType) for name in _used(rule, names)])
    kinds = {name: source_type(called, rule, name) for name in called.names}
    for name, want in kinds.items():
        have = called[name].dataType
        if not is_castable(have, want):
            raise SchemaError(
                f'Topic "{topic}": column "{name}" is {have.simpleString()}, and its rows cannot be made '
                f"{want.simpleString()}. Declare another type, or change it in the source's transform."
            )
    _check_roles(called, rule)
    stored = [name for name in (*rule.node.key, *_values(rule, names)) if not _passes(rule, name)]
    try:
        check_columns(stored)
    except ConfigurationError as error:
        wanted = "List the columns that are wanted as the value of the plan's step, or rename them in the transform."
        raise ConfigurationError(f'Topic "{topic}": {error} {wanted}') from None
    for name in stored:
        _check_within(topic, name, kinds[name])


def _check_within(topic: str, name: str, kind: DataType) -> None:
    odd = sorted({field for field in names_in(kind) if not _IN_NO_FIELD.isdisjoint(field)})
    if odd:
        raise ConfigurationError(
            f'Topic "{topic}": column "{name}" has the fields {odd}, and a table has none with a space, a tab, a line '
            "break or one of ,;{}()=. Rename them in the source's transform."
        )


def _used(rule: IntakeRule, names: list[str]) -> list[str]:
    return list(dict.fromkeys((*rule.node.key, *_values(rule, names), *rule.reads)))


def _values(rule: IntakeRule, names: list[str]) -> tuple[str, ...]:
    called = {name.lower(): name for name in (*rule.node.key, *rule.reads)}
    return rule.values([called.get(name.lower(), name) for name in names])


def _passes(rule: IntakeRule, name: str) -> bool:
    """Whether a column may be called ``deleted``: a stream's may, since the library adds no such column to it."""
    return isinstance(rule.node, StreamSource) and name.lower() == DELETED


def _differ(topic: str, names: list[str]) -> None:
    twice = named_twice(names)
    if twice:
        raise SchemaError(f'Topic "{topic}" has columns that differ only by case: {twice}. Rename one.')


def lacking(rule: IntakeRule, names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The missing columns, ignoring case.

    In three lists: those that node and source name, those that the contract declares, and those that rules of quality
    are about.

    Args:
        rule: The node that reads the source, and its contract.
        names: The columns that exist.
    """
    there = {name.lower() for name in names}
    wanted = dict.fromkeys((*rule.node.key, *(rule.node.value or ()), *rule.reads))
    declared = () if rule.types is None else rule.types.names
    checks = rule.source.checks
    judged = () if checks is None else checks.columns
    missing, promised, unjudged = (
        [name for name in asked if name.lower() not in there] for asked in (wanted, declared, judged)
    )
    return missing, promised, unjudged


def _check_there(rule: IntakeRule, names: list[str]) -> None:
    node, (missing, promised, unjudged) = rule.node, lacking(rule, names)
    if missing:
        raise SchemaError(
            f'Topic "{node.topic}" lacks the columns {missing} of node "{node.name}"; it has {names}. Correct a name, '
            "or let the source have them: in its schema, also what its folders tell, such as day=2026-01-31."
        )
    if promised:
        raise SchemaError(f'Topic "{node.topic}" lacks the declared columns {promised}; it has {names}.')
    if unjudged:
        raise SchemaError(
            f'Topic "{node.topic}" lacks the columns {unjudged} of its rules of quality; it has {names}. Correct a '
            "name, or leave the rule out."
        )
    _check_numbered(rule)


def _check_numbered(rule: IntakeRule) -> None:
    topic, source = rule.node.topic, rule.source
    if rule.order == "sequence" and source.order_column is None:
        raise SchemaError(f'order="sequence" needs sequence_by on every source; "{topic}" has none.')
    if source.contract.unique and source.order_column is None:
        raise SchemaError(f'unique needs sequence_by; "{topic}" has none.')
    of_one = 'order="sequence"' if rule.order == "sequence" else "unique" if source.contract.unique else None
    if of_one is not None and source.tie_columns:
        raise SchemaError(
            f'{of_one} goes by one number for each record, and sequence_by of "{topic}" names '
            f"{len(source.tie_columns) + 1} columns. Name the one that numbers its records."
        )


def _check_extra(rule: IntakeRule, names: list[str]) -> None:
    if rule.types is None:
        return
    aside = (MALFORMED, *rule.node.key, *rule.reads)
    known = {name.lower() for name in (*rule.types.names, *aside)}
    extra = [name for name in names if name.lower() not in known]
    if extra and rule.source.contract.extra_columns == "fail":
        raise SchemaError(
            f'Topic "{rule.node.topic}" has the columns {extra}, which its contract does not declare. Declare them, '
            'leave them out in the source\'s transform, or write extra_columns="ignore".'
        )
    if extra:
        _LOG.warning("Topic %s has columns that are not declared and are left out: %s", rule.node.topic, extra)


def _check_roles(schema: StructType, rule: IntakeRule) -> None:
    node, contract = rule.node, rule.source.contract
    for name in node.key:
        kind = source_type(schema, rule, name)
        has_versions = is_versioned(node)
        if not _may_be_key(kind, contract.allow_float_keys and not has_versions):
            versions = " of a table with versions" if contract.allow_float_keys else ""
            allowed = "" if has_versions or not _may_be_key(kind, True) else _FLOATS_ALLOWED
            raise SchemaError(
                f'Key column "{name}" of topic "{node.topic}"{versions} is {kind.simpleString()}, which has no order '
                "or no exact equality, or only nulls. Use a string, whole number, decimal or date, or a struct or "
                f"array of these.{allowed}"
            )
    time = source_type(schema, rule, node.timestamp)
    if isinstance(time, IntegralType) and contract.ts_unit is None:
        raise SchemaError(
            f'The event time "{node.timestamp}" of topic "{node.topic}" is {time.simpleString()}: say in its contract '
            f"what the number means, ts_unit={' or '.join(UNITS)}."
        )
    if not isinstance(time, (IntegralType, TimestampType, TimestampNTZType, DateType)):
        raise SchemaError(f'The event time "{node.timestamp}" of topic "{node.topic}" is {time.simpleString()}.')
    if node.deleted is not None and not isinstance(source_type(schema, rule, node.deleted), BooleanType):
        raise SchemaError(f'Column "{node.deleted}" of topic "{node.topic}" tells what is deleted; it is no boolean.')
    _check_order(schema, rule)


def _check_order(schema: StructType, rule: IntakeRule) -> None:
    """Refuse scope and sequence columns of types whose values would be changed silently, such as fractions or texts."""
    scope, order = rule.source.scope_column, rule.source.order_column
    if scope is not None and not isinstance(kind := source_type(schema, rule, scope), IntegralType):
        raise SchemaError(
            f'partition_by "{scope}" of topic "{rule.node.topic}" is {kind.simpleString()}; give a whole number. The '
            "source's transform can make one, such as pmod(hash(...), 8)."
        )
    if order is None:
        return
    kind = source_type(schema, rule, order)
    is_whole = isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0)
    if not (is_whole or isinstance(kind, (DateType, TimestampType, TimestampNTZType))):
        raise SchemaError(
            f'sequence_by "{order}" is {kind.simpleString()}; give a whole number, a date or a timestamp.'
        )
    for name in rule.source.tie_columns:
        if not has_order(kind := source_type(schema, rule, name)):
            raise SchemaError(f'sequence_by "{name}" is {kind.simpleString()}, which has no order; leave it out.')


def _may_be_key(kind: DataType, floats: bool) -> bool:
    barred = (NullType,) if floats else (NullType, FloatType, DoubleType)
    return has_order(kind) and not any(isinstance(inner, barred) for inner in kinds_in(kind))
