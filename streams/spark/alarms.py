"""When the wall clock releases waiting rows, by the current plan; some may have waited since before a plan change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import SparkSession

from streams.spark.engine import Operators
from streams.spark.ledger import LedgerState
from streams.spark.suppress import SuppressOperator
from versioned import spark_functions as F
from versioned.identifiers import TableRef
from versioned.reading import read_table


def with_alarms(
    spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators, there: Collection[TableRef]
) -> LedgerState:
    """The state with an alarm for each suppression that heeds the wall clock: when its oldest row is due (R116, R118).

    Without it, a limit that was switched on or shortened would only take effect with the next record. Runs a small job
    for each such suppression.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The state in the ledger's newest row.
        operators: The operators of the plan.
        there: The tables that exist.
    """
    alarms = dict(state.alarms)
    for name, operator in operators.items():
        wait_us = operator.rule.clock_wait_us if isinstance(operator, SuppressOperator) else None
        if wait_us is not None and root.child(name) in there:
            oldest = F.unix_micros(F.min("arrivedAt")).alias("us")
            arrived_us = read_table(spark, root.child(name)).agg(oldest).collect()[0]["us"]
            if arrived_us is not None:
                alarms[name] = arrived_us + wait_us
    return replace(state, alarms=alarms)
