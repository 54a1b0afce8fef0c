"""Recovers what the tables know about a lost ledger: each commit of a batch carries the report of all nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from streams.recovery_rules import BatchOf
from streams.spark.flow import NodeReport, times_after
from streams.spark.ledger import LedgerState, Times
from streams.spark.operator import REPORT
from streams.spark.recovery import RecoverySurvey, nodes_reported, writer_of
from versioned.stream_times import newest_times
from versioned.written import Written


def told_by_tables(found: RecoverySurvey, holding: Collection[str]) -> LedgerState:
    """The state that the newest commits of the tables record, as the start of a new epoch.

    It has stream times, running maxima, and the tables in which rows may wait. What only the ledger had starts afresh:
    the metrics' counts, the batch clock, and the greatest sequences of sources in which none comes twice. A batch that
    wrote to no table, or only to tables that later batches wrote to, contributes nothing of its own.

    Args:
        found: The tables as they are.
        holding: The tables in which rows wait by the plan; those of a former plan are not known.
    """
    state = LedgerState(buffers=tuple(sorted({target.short_name for target in found.there()} & set(holding))))
    for _, written in sorted(_batches(found).items()):
        reports = {name: NodeReport.from_json(said) for name, said in written.details[REPORT].items()}
        times = times_after(state.stream_times, reports)
        state = replace(state, stream_times=times, maxima=_maxima_after(state, written))
    return state


def _batches(found: RecoverySurvey) -> dict[BatchOf, Written]:
    """By batch that wrote the newest rows of a table: the table's newest write, if its commit carries reports.

    Of several runs of a batch, that which reports most nodes, as in :meth:`RecoverySurvey.landed`.
    """
    told: dict[BatchOf, Written] = {}
    for said in found.tables.values():
        writer = None if said.written is None else writer_of(said.written)
        if said.written is None or writer is None or REPORT not in said.written.details:
            continue
        told[writer[1]] = max(told.get(writer[1], said.written), said.written, key=nodes_reported)
    return told


def _maxima_after(state: LedgerState, written: Written) -> dict[str, Times]:
    """The running maxima of each source, advanced by those that a commit records; they never go back."""
    moved = {
        name: {int(scope): us for scope, us in by.items()} for name, by in written.details.get("maxima", {}).items()
    }
    return {**state.maxima, **{name: newest_times(state.maxima.get(name, {}), by) for name, by in moved.items()}}
