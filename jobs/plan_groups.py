"""Aggregates of declared steps: grouped, windowed, built in or written as Python functions."""

from __future__ import annotations

from typing import Any

from jobs.named_function import named_function
from jobs.plan_options import store_of, windows_of
from jobs.plan_rows import Constant, operand_of, row_of
from jobs.plan_settings import AggregateStep, BuiltInStep, ReduceStep
from jobs.strict import PlacedError, at
from streams.ddl import check_result
from streams.kstream import KStream
from streams.ktable import KTable

_Group = BuiltInStep | ReduceStep | AggregateStep


def aggregate(name: str, step: _Group, parent: KStream | KTable) -> KTable:
    """Aggregate the rows of a step.

    Raises:
        ConfigurationError: an option does not go with what is aggregated; the message names the path.
        TopologyError: the plan can never work.
    """
    grouped = _stream(step, parent) if isinstance(parent, KStream) else _table(step, parent)
    options: dict[str, Any] = {
        "materialized": store_of(step.store, windowed=step.windowed_by is not None),
        "name": name,
    }
    if isinstance(step, BuiltInStep):
        return _built_in(step, grouped, parent, options)
    if step.result is not None:
        check_result("result", step.result)
    options["schema"] = step.result
    if isinstance(step, ReduceStep):
        reducers = [_function("adder", step.adder), *_subtractor(step, parent)]
        reduced: KTable = grouped.reduce(*reducers, **options)
        return reduced
    if step.merger is not None:
        _stream_only("merger", parent)
        options["merger"] = _function("merger", step.merger)
    functions = [_function("initializer", step.initializer), _function("adder", step.adder)]
    made: KTable = grouped.aggregate(*functions, *_subtractor(step, parent), output=step.output, **options)
    return made


def _built_in(step: BuiltInStep, grouped: Any, parent: KStream | KTable, options: dict[str, Any]) -> KTable:
    if step.output is not None:
        options["output"] = step.output
    operands: list[Constant] = []
    if step.value is not None:
        # With group_value, the grouped rows have other fields than the table.
        operands = [operand_of("value", step.value) if step.group_value else row_of("value", step.value, parent.node)]
    elif step.op != "count":
        mapped = " group_value only makes the row that it is of." if step.group_value is not None else ""
        raise PlacedError("value", f"is missing: {step.op} of what? Write an expression such as value.delay.{mapped}")
    made: KTable = getattr(grouped, step.op)(*operands, **options)
    return made


def _stream(step: _Group, stream: KStream) -> Any:
    if step.group_value is not None:
        raise PlacedError("group_value", "is for tables; for a stream, map_values before or value here does it.")
    keyed = step.group_by is not None
    grouped = stream.group_by(row_of("group_by", step.group_by, stream.node)) if keyed else stream.group_by_key()
    if step.windowed_by is None:
        return grouped
    return grouped.windowed_by(windows_of(step.windowed_by), late_policy=step.windowed_by.late_policy)


def _table(step: _Group, table: KTable) -> Any:
    if step.windowed_by is not None:
        raise PlacedError("windowed_by", "is for streams; put to_stream before it.")
    if step.group_by is None:
        raise PlacedError("group_by", "is missing: a table is aggregated by a new key.")
    value = None if step.group_value is None else row_of("group_value", step.group_value, table.node)
    return table.group_by(row_of("group_by", step.group_by, table.node), value)


def _subtractor(step: ReduceStep | AggregateStep, parent: KStream | KTable) -> list[Any]:
    if isinstance(parent, KTable):
        if step.subtractor is None:
            raise PlacedError("subtractor", "is missing: an update of a table takes the old value away.")
        return [_function("subtractor", step.subtractor)]
    if step.subtractor is not None:
        raise PlacedError("subtractor", "is for tables; values of a stream are only added.")
    return []


def _stream_only(option: str, parent: KStream | KTable) -> None:
    if isinstance(parent, KTable):
        raise PlacedError(option, "is for streams.")


def _function(path: str, name: str) -> Any:
    with at(path):
        return named_function(name)
