"""Rows that only one node of the plan can release; removing the node from the plan would lose them."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from typing import Final

from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.spark.engine import Operators
from streams.spark.flow import SCOPE
from streams.spark.ledger import LedgerState
from streams.spark.operator import BUFFERS, REPORT
from streams.spark.recovery import RecoverySurvey, written_before_crash
from streams.spark.sinks import ChangelogSinkOperator, TableSinkOperator
from streams.spark.suppress import FinalResultsOperator, SuppressOperator, closed_windows_table
from streams.spark.window_upkeep import OPEN
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.replay import way_back
from versioned.table_details import is_missing

_LOG: Final = logging.getLogger(__name__)
#: The rule clock of final results.
_FINAL: Final = "window_end"
#: What rows wait for, by the clock of the rule that put them there.
_WAITS: Final = {
    "record": "a limit by the time of records",
    "window_start": "a limit from the start of windows",
    _FINAL: "final results",
    "wall": "a limit by the wall clock",
}


def holding_tables(operators: Operators) -> tuple[str, ...]:
    """The names of the tables in which rows wait: suppression buffers, and records that wait for stream time."""
    return tuple(name for operator in operators.values() for name in operator.holding())


def buffer_clocks(operators: Operators) -> dict[str, str]:
    """The clock by which each suppression releases rows; kept in the ledger, since rows do not always show it."""
    return {name: operator.rule.clock for name, operator in operators.items() if isinstance(operator, SuppressOperator)}


def final_windows(root: TableRef, operators: Operators) -> dict[str, str]:
    """The table of the windows of each suppression that has no buffer: final results without a bound."""
    finals = {name: operator for name, operator in operators.items() if isinstance(operator, FinalResultsOperator)}
    return {name: operator.windows_table(root).short_name for name, operator in finals.items()}


def warn_of_unheard_results(spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators) -> None:
    """Warn if final results without a bound were taken out while windows are open, which nothing emits any more (R59).

    The next batch's ledger row no longer has such a suppression, so the warning comes once.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The state in the ledger's newest row.
        operators: The operators of the plan as it is now.
    """
    before, now = state.finals.items(), final_windows(root, operators).items()
    # Under another name a suppression goes on with the same windows.
    renamed = {windows for _, windows in now - before}
    for name, windows in sorted(before - now):
        target = root.child(windows)
        if windows not in renamed and not is_missing(spark, target) and _has_open(spark, target):
            _LOG.warning(
                'The plan is without the suppression "%s" now, and windows are open in the table "%s". What becomes '
                "final while the plan is without it is never emitted. Put it back until these windows have closed.",
                name,
                windows,
            )


def refuse_orphans(
    spark: SparkSession, root: TableRef, state: LedgerState, operators: Operators, found: RecoverySurvey
) -> None:
    """Refuse a changed plan with which waiting rows would be lost, or leave at a wrong time (R59).

    That is so if:

    * rows wait in the table of a node that was taken out of the plan,
    * a suppression that kept its windows in their store now needs a buffer of its own, which would begin empty,
    * rows that wait by one clock would go on under a rule with another (for example, a limit became final results),
    * windows that the wall clock has closed would take records again.

    Args:
        spark: The session.
        root: Where the application's tables are.
        state: The state in the ledger's newest row, with the tables in which rows could wait.
        operators: The operators of the plan as it is now.
        found: The tables as they are: rows of a batch that is not in the ledger may wait in them too.

    Raises:
        ConfigurationError: the plan is refused; says what to do.
    """
    ahead, unfinished = found.ahead(), found.unfinished()
    for operator in operators.values():
        if isinstance(operator, FinalResultsOperator | SuppressOperator) and not operator.closes_idle:
            _refuse_opened_again(spark, root, operator)
        if isinstance(operator, SuppressOperator):
            if operator.is_windowed:
                _refuse_another_kind(spark, root, state, operator)
            # An unfinished batch may have a changed plan, so the ledger's clock need not be that of its rows.
            clock = None if operator.node.name in ahead else state.buffer_clocks.get(operator.node.name)
            _refuse_another_clock(spark, root, clock, operator)
    for name in sorted({*state.buffers, *unfinished.get(BUFFERS, ())} - set(holding_tables(operators))):
        target = root.child(name)
        held = 0 if is_missing(spark, target) else read_table(spark, target).count()
        if held and state.buffer_clocks.get(name) == _FINAL and isinstance(operators.get(name), FinalResultsOperator):
            # If drained, they would be emitted twice: now, and when the store releases them.
            raise ConfigurationError(
                f'{held} windows wait in the table "{name}". Without a bound, final results come from the store of '
                "their windows, which has these too. Delete the table: each becomes final once, from its store. If the "
                "suppression had a retention, put it back instead until the table is empty."
            )
        if held:
            raise ConfigurationError(
                f'{held} rows wait in the table "{name}", and nothing in the plan lets them go any more. Put the '
                "suppression, the grace of the join or the reorder of the table back until the table is empty (a "
                "suppression is emptied by drain), or delete the table to give the rows up."
            )


def _has_open(spark: SparkSession, windows: TableRef) -> bool:
    return not read_table(spark, windows).where(OPEN).isEmpty()


def refuse_returned(
    spark: SparkSession, root: TableRef, found: RecoverySurvey, topology: Topology, operators: Operators
) -> None:
    """Refuse a node that comes back with its former table, which lacks what came while the plan was without it.

    For a sink this is only logged, since nothing builds on its rows; for an emptied buffer it does not matter. A new
    epoch takes all tables as they are.

    Args:
        spark: The session.
        root: Where the application's tables are.
        found: Ledger and tables; the ledger's newest row lists the tables of the plan of the newest batch.
        topology: The plan as it is now.
        operators: Its operators.

    Raises:
        ConfigurationError: a node came back, with the batch at which its table was left; or a batch that was begun
            without the node is unfinished.
    """
    _refuse_missed(root, found, topology, operators)
    left = {target: batch_id for target, (_, batch_id) in found.left_out().items()}
    for name, operator in operators.items():
        for target in operator.tables(root):
            if target not in left or (isinstance(operator, SuppressOperator) and not operator.joins_find(target, root)):
                continue
            said = (
                f'The table {target.short_name} of "{name}" was left at batch {left[target]}; the plan was without it'
            )
            if isinstance(operator, ChangelogSinkOperator | TableSinkOperator):
                _LOG.warning("%s since. What it would have got meanwhile is not in it.", said)
            elif not read_table(spark, target).isEmpty():
                raise ConfigurationError(
                    f"{said} since: what came meanwhile is not in it. Delete the table, which is made anew; or give "
                    "the node or its store another name; or start with --new-epoch, which takes all tables as they are."
                )


def _refuse_missed(root: TableRef, found: RecoverySurvey, topology: Topology, operators: Operators) -> None:
    """Refuse to finish a batch with a node that its plan did not have: nothing of the batch would reach the node.

    The tables that the node reads have the batch already. A node that has no table yet begins empty in any case.
    """
    begun, (epoch, batch_id) = found.unfinished().get(REPORT), found.ledger.batch
    if begun is None:
        return
    over = written_before_crash(topology, operators, root, found.newest_steps(epoch, batch_id + 1))
    before = found.state.tables
    missed = sorted(name for name in over - set(begun) if _has_any(operators[name].tables(root), before))
    if missed:
        raise ConfigurationError(
            f"Batch {batch_id + 1} was begun by a plan without {missed}. Tables that these read have it already, so "
            f"they would never get what came in it. To let this plan read it, {way_back(epoch, batch_id + 1)}; or "
            "finish it with the plan that began it, as if they had been taken out of the plan."
        )


def _has_any(tables: Iterable[TableRef], names: Container[str]) -> bool:
    return any(table.short_name in names for table in tables)


def _refuse_another_kind(spark: SparkSession, root: TableRef, state: LedgerState, operator: SuppressOperator) -> None:
    """Refuse a suppression that would begin with an empty buffer while its windows are kept in their own store."""
    name = operator.node.name
    is_new = is_missing(spark, root.child(name))
    # A limit that comes back after it was taken out has its former table, in which nothing waits.
    if name in state.stream_times and name not in state.buffers and (operator.rule.final or is_new):
        raise ConfigurationError(
            f'"{name}" has kept its windows in their own store so far. As a limit, or with a bound, a retention of '
            "records, a step between or a join that looks into it, it would begin with an empty buffer and lose the "
            "results of the windows that are open now. Give the plan the former suppression, or begin with a new root."
        )


def _refuse_opened_again(
    spark: SparkSession, root: TableRef, operator: FinalResultsOperator | SuppressOperator
) -> None:
    """Refuse a plan that stops closing windows by the wall clock while some of those closed are open by stream time."""
    marks, windows = closed_windows_table(root, operator.node), operator.windows_table(root)
    if windows is None or is_missing(spark, marks) or is_missing(spark, windows):
        return
    closed, still_open = read_table(spark, marks), read_table(spark, windows).where(OPEN)
    told = closed.join(still_open, [name for name in closed.columns if name != SCOPE], "left_semi").count()
    if told:
        raise ConfigurationError(
            f'The wall clock has closed {told} windows of "{operator.node.name}" that stream time leaves open. Without '
            "close_idle and its retention they would take records, and be told once more. Put these back until stream "
            "time has closed the windows, too; or give their store another name, under which it begins empty."
        )


def _refuse_another_clock(spark: SparkSession, root: TableRef, clock: str | None, operator: SuppressOperator) -> None:
    """Refuse to take over rows that wait by another clock; if the ledger does not know it, the rows are examined."""
    name, target = operator.node.name, root.child(operator.node.name)
    if clock == operator.rule.clock or is_missing(spark, target):
        return
    rows = read_table(spark, target)
    others = (rows.where(operator.waits_otherwise) if clock is None else rows).count()
    if others:
        was, now = "another suppression" if clock is None else _WAITS[clock], _WAITS[operator.rule.clock]
        raise ConfigurationError(
            f'{others} rows wait in the table "{name}" as {was} had them wait. With {now} under that name they would '
            "leave at a wrong time. Put the former suppression back until the table is empty (it is emptied by drain)."
        )
