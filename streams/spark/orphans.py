"""Rows that only a node of the plan can let go: taken out of the plan, it would take them along."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streams.spark.engine import Operators
from streams.spark.ledger import LedgerState
from streams.spark.suppress import SuppressOperator
from versioned.commit import is_missing
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.reading import read_table


def holding_tables(operators: Operators) -> tuple[str, ...]:
    """The names of the tables in which rows wait: buffers of suppressions, and what waits to be put in order."""
    return tuple(name for operator in operators.values() for name in operator.holding())


def refuse_orphans(spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators) -> None:
    """A node that was taken out of the plan must hold nothing, or its rows would be lost (R59).

    Nor may a suppression that kept its windows in their store now want a buffer of its own: it would begin empty. Nor
    may rows that wait for a limit become final results, or the reverse: they would leave at a wrong time.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The ledger's newest row: it tells in which tables rows could wait.
        operators: The operators of the plan as it is now.

    Raises:
        ConfigurationError: rows wait in a table that no node of the plan looks after any more, or as another kind of
            suppression had them wait, or windows in a store.
    """
    for operator in operators.values():
        if isinstance(operator, SuppressOperator) and operator.is_windowed:
            _refuse_another_kind(spark, root, state, operator)
    for name in sorted(set(state.buffers) - set(holding_tables(operators))):
        target = root.child(name)
        held = 0 if is_missing(spark, target) else read_table(spark, target).count()
        if held:
            raise ConfigurationError(
                f'{held} rows wait in the table "{name}", and nothing in the plan lets them go any more. Put the '
                "suppression, the grace of the join or the reorder of the table back until the table is empty (a "
                "suppression is emptied by drain), or delete the table to give the rows up."
            )


def _refuse_another_kind(spark: SparkSession, root: TableRef, state: LedgerState, operator: SuppressOperator) -> None:
    """Refuse a suppression of windows that would take over what one of another kind has held back."""
    name, target = operator.node.name, root.child(operator.node.name)
    is_new = is_missing(spark, target)
    # A limit that comes back after it was taken out has its former table, and nothing waits in it.
    if name in state.stream_times and name not in state.buffers and (operator.rule.final or is_new):
        raise ConfigurationError(
            f'"{name}" has kept its windows in their own store so far. As a limit, or with a bound, a retention of '
            "records, a step between or a join that looks into it, it would begin with an empty buffer and lose the "
            "results of the windows that are open now. Give the plan the former suppression, or begin with a new root."
        )
    others = 0 if is_new else read_table(spark, target).where(operator.waits_otherwise).count()
    if others:
        was, now = ("a limit", "final results") if operator.rule.final else ("final results", "a limit")
        raise ConfigurationError(
            f'{others} rows wait in the table "{name}" as {was} had them wait. With {now} under that name they would '
            "leave at a wrong time. Put the former suppression back until the table is empty (it is emptied by drain)."
        )
