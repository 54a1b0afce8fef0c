"""Rows that only a node of the plan can let go: taken out of the plan, it would take them along."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streams.spark.engine import Operators
from streams.spark.ledger import LedgerState
from streams.spark.suppress import SuppressOperator
from versioned.commit import is_missing
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.put import read_table


def holding_tables(operators: Operators) -> tuple[str, ...]:
    """The names of the tables in which rows wait: buffers of suppressions, and what waits to be put in order."""
    return tuple(name for operator in operators.values() for name in operator.holding())


def refuse_orphans(spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators) -> None:
    """A node that was taken out of the plan must hold nothing, or its rows would be lost (R59).

    Nor may a suppression that kept its windows in their store now want a buffer of its own: it would begin empty.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The ledger's newest row: it tells in which tables rows could wait.
        operators: The operators of the plan as it is now.

    Raises:
        ConfigurationError: rows wait in a table that no node of the plan looks after any more, or windows in a store.
    """
    for name, operator in operators.items():
        is_final = isinstance(operator, SuppressOperator) and operator.rule.final
        if is_final and name in state.stream_times and name not in state.buffers:
            raise ConfigurationError(
                f'"{name}" has kept its windows in their own store so far. With a bound, a retention of records or a '
                "step between it would begin with an empty buffer, and the windows that are open now would never be "
                "final. Give the plan the former suppression, or begin with a new root."
            )
    for name in sorted(set(state.buffers) - set(holding_tables(operators))):
        target = root.child(name)
        held = 0 if is_missing(spark, target) else read_table(spark, target).count()
        if held:
            raise ConfigurationError(
                f'{held} rows wait in the table "{name}", and nothing in the plan lets them go any more. Put the '
                "suppression, the grace of the join or the reorder of the table back until the table is empty (a "
                "suppression is emptied by drain), or delete the table to give the rows up."
            )
