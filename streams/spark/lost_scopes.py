"""Refuses a changed plan under which waiting rows of a partition's stream-time scope would wait for ever.

A waiting row leaves by the stream time of its own scope. If a plan was changed so that all records of a node share one
(a new key before it, ``keys_cross_partitions``, a source without ``partition_by``), no record advances the stream
times of the partitions any more. The nodes' stream times in the ledger's newest row show which scopes there were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyspark.sql import SparkSession

from streams.spark.engine import Operators
from streams.spark.flow import SCOPE
from streams.spark.hold import HoldingOperator
from streams.spark.ledger import LedgerState
from streams.spark.stream_stream_join import StreamStreamJoinOperator
from streams.spark.suppress import FinalResultsOperator, SuppressOperator
from streams.spark.window_upkeep import OPEN
from streams.stream_time_scopes import passing
from versioned import spark_functions as F
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.table_details import is_missing


def refuse_lost_scopes(
    spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators, whole: Collection[str]
) -> None:
    """Refuse a plan whose nodes share a stream time while rows wait for that of a partition.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The state in the ledger's newest row.
        operators: The operators of the plan as it is now.
        whole: The source nodes whose topics have no partitions.

    Raises:
        ConfigurationError: rows wait for the stream time of a partition, which no record advances any more.
    """
    for name, times, target in _waiting(operators, root, whole):
        scopes = sorted(set(state.stream_times.get(times, {})) - {0})
        if not scopes or is_missing(spark, target):
            continue
        rows = read_table(spark, target).where(F.col(SCOPE).isin(scopes))
        held = (rows.where(F.col(OPEN)) if OPEN in rows.columns else rows).count()
        if held:
            raise ConfigurationError(
                f'{held} rows wait in the table "{target.short_name}" for the stream time of the partitions {scopes}, '
                f'but with this plan all records of "{name}" share one, and they would wait for ever. Give the plan '
                "the former keys, partition_by and keys_cross_partitions; or the node (its store, where that is named) "
                "another name, under which it begins empty."
            )


def _waiting(operators: Operators, root: TableRef, whole: Collection[str]) -> Iterator[tuple[str, str, TableRef]]:
    """The nodes with a single stream time in which rows may wait: node, name of its stream times, and table."""
    together = _in_one_scope(operators, whole)
    for name, operator in operators.items():
        if name not in together:
            continue
        if isinstance(operator, FinalResultsOperator):
            yield name, name, operator.windows_table(root)
        elif isinstance(operator, StreamStreamJoinOperator) or (
            isinstance(operator, SuppressOperator) and operator.rule.clock != "wall"
        ):
            yield name, name, operator.tables(root)[0]
        elif isinstance(operator, HoldingOperator):
            yield from ((name, hold.node, hold.target(root)) for hold in operator.holds)


def _in_one_scope(operators: Operators, whole: Collection[str]) -> set[str]:
    together: set[str] = set()
    for name, operator in operators.items():
        parents = passing(operator.node)
        comes_so = all(parent.name in together for parent in parents) if parents else name in whole
        if operator.is_in_one_scope or comes_so:
            together.add(name)
    return together
