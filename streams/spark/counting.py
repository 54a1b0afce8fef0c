"""The counts of each node in a batch, with the test driver's names and numbers.

For each node, accepted + dropped = input. Dropped are:

* *skipped* records (invalid, kept in the rejects),
* *late* ones,
* those that a join of versioned tables *ignores* because they are out of order,
* expired look-ups that are put aside.

An aggregate or a sink of a table accepts what it ignores. A versioned table counts itself what it accepts, when it
judges its puts; for other nodes, accepted is what came and was not dropped.

Almost nothing here runs a job of its own: the input of most nodes equals what their parents accepted; other inputs, and
the records put aside, are counted in the same job as all operators' tallies. So every number is known before the first
write and recorded in each commit, and a replay after a crash reports the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame

from streams.nodes import (
    ChangelogSink,
    ForeignKeyJoin,
    GlobalTableSource,
    Node,
    SelectKey,
    StreamAggregate,
    StreamMapValues,
    StreamSource,
    TableMapValues,
    TableSource,
    TableTableJoin,
    Topology,
    ToStream,
    ToTable,
    drops_expired,
    takes_late,
)
from streams.reasons import EXPIRED, INVALID, TOO_LATE
from streams.spark.flow import Flow, NodeReport
from streams.spark.metrics import NEWEST, MetricsLevel, lateness
from streams.spark.operator import Batch, Operator
from streams.spark.suppress import FinalResultsOperator
from versioned import spark_functions as F
from versioned.choices import check_choice
from versioned.stream_times import newest_times

_LOG: Final = logging.getLogger(__name__)
#: Nodes that pass on every record that they accept.
_PASSES_ALL: Final = (
    StreamSource,
    TableSource,
    GlobalTableSource,
    ToTable,
    StreamMapValues,
    SelectKey,
    ToStream,
    TableMapValues,
    StreamAggregate,
)
#: Joins that drop what is out of order.
_DROPS_IGNORED: Final = (TableTableJoin, ForeignKeyJoin)
#: Names in the common count: the records that reach a node, and those it puts aside, by reason.
_INPUT: Final = "_input"
_ASIDE: Final = "_aside:"


class Counting:
    """Counts the records of each node of an application.

    Args:
        topology: The plan.
        operators: Its operators by name.
        level: ``debug`` also measures how late records are.
    """

    def __init__(self, topology: Topology, operators: Mapping[str, Operator[Any]], level: MetricsLevel) -> None:
        check_choice("metrics_level", level, MetricsLevel)
        self._topology = topology
        self._operators = operators
        self._level: MetricsLevel = level
        self._asides = 0

    def frames(self, batch: Batch, reached: Mapping[str, list[Flow]]) -> list[tuple[str, DataFrame | None]]:
        """The counts to read beside the operators' own tallies: for each node, rows ``what``, ``n``.

        Args:
            batch: The batch, after every operator was applied.
            reached: The flows that reached each node from its parents.
        """
        self._asides = len(batch.rejects)
        one = F.lit(1).alias("n")
        told: list[tuple[str, DataFrame | None]] = [
            (node, frame.select(F.concat(F.lit(_ASIDE), "reason").alias("what"), one)) for node, frame in batch.rejects
        ]
        told += [(node, frame.select(F.lit(_INPUT).alias("what"), one)) for node, frame in self._unknown(reached)]
        return told if self._level == "info" else [*told, *self._measured(batch)]

    def complete(self, batch: Batch, reports: Mapping[str, NodeReport], arrived: Mapping[str, int]) -> None:
        """Complete the reports of all nodes, after the common count and the nodes' own reports.

        Args:
            batch: The batch.
            reports: The nodes' own reports, which are completed in place.
            arrived: The number of records of each source.
        """
        later = self._put_aside_later(batch)
        for node in self._topology:
            report, tallied = reports[node.name], self._operators[node.name].tallied
            report.counts = {what: n for what, n in tallied.items() if not what.startswith("_")} | report.counts
            report.rejected = _asides(tallied) | later.get(node.name, {})
            _take_newest(node.name, report, batch)
            _finish(node, report, self._input_of(node, reports, arrived))
            if report.counts.get("late"):
                # Only debug: late records are what the chosen grace intends (R23).
                _LOG.debug("%s: %d late records in batch %d", node.name, report.counts["late"], batch.batch_id)

    def _measured(self, batch: Batch) -> Iterator[tuple[str, DataFrame | None]]:
        for name, operator in self._operators.items():
            records = operator.measured()
            if records is not None:
                yield name, lateness(records, batch.times_of(f"{name}/{NEWEST}"))
            yield name, operator.tally_debug()

    def _unknown(self, reached: Mapping[str, list[Flow]]) -> Iterator[tuple[str, DataFrame]]:
        """The frames that reach nodes from parents whose counts do not say how much they pass on."""
        for node in self._topology:
            for parent, flow in zip(node.parents, reached[node.name], strict=False):
                if not (flow.is_empty or self._passes_all(parent) or _tells_all(node) or self._is_spared(node)):
                    yield node.name, flow.frame

    def _input_of(self, node: Node, reports: Mapping[str, NodeReport], arrived: Mapping[str, int]) -> int | None:
        """How many records reached a node; None = not counted."""
        if not node.parents:
            return arrived.get(node.name, 0)
        if self._is_spared(node):
            return None
        if _tells_all(node):
            return reports[node.name].counts.get("emitted", 0)
        known = (reports[parent.name].counts.get("accepted", 0) for parent in node.parents if self._passes_all(parent))
        return sum(known) + self._operators[node.name].tallied.get(_INPUT, 0)

    def _passes_all(self, parent: Node) -> bool:
        return isinstance(parent, _PASSES_ALL) and getattr(parent, "reorder", None) is None

    def _is_spared(self, node: Node) -> bool:
        """Whether a node's input is not counted: for final results, every update would be computed just for that."""
        return self._level == "info" and isinstance(self._operators[node.name], FinalResultsOperator)

    def _put_aside_later(self, batch: Batch) -> dict[str, dict[str, int]]:
        """Records put aside while nodes reported: late ones, if a policy says so. The only job here, and a rare one."""
        frames = [frame.select("node", "reason") for _, frame in batch.rejects[self._asides :]]
        told: dict[str, dict[str, int]] = {}
        if frames:
            for row in reduce(DataFrame.unionByName, frames).groupBy("node", "reason").count().collect():
                told.setdefault(row["node"], {})[row["reason"]] = row["count"]
        return told


def _tells_all(node: Node) -> bool:
    """Whether the node emits exactly what reached it."""
    return isinstance(node, ChangelogSink) and node.emit != "net"


def _asides(tallied: Mapping[str, int]) -> dict[str, int]:
    return {what.removeprefix(_ASIDE): n for what, n in tallied.items() if what.startswith(_ASIDE)}


def _counts_itself(node: Node) -> bool:
    """Whether the store counts the node's own records; not with a reorder, when it takes those of other batches too."""
    return isinstance(node, (TableSource, ToTable)) and node.reorder is None


def _finish(node: Node, report: NodeReport, number: int | None) -> None:
    counts = report.counts
    skipped = sum(n for reason, n in report.rejected.items() if reason.partition(":")[0] in INVALID)
    late = counts.get("late", 0) + report.rejected.get(TOO_LATE, 0)
    dropped = skipped + (0 if takes_late(node) else late)
    dropped += counts.get("ignored", 0) if isinstance(node, _DROPS_IGNORED) else 0
    dropped += report.rejected.get(EXPIRED, 0) if drops_expired(node) else 0
    told = {"skipped": skipped, "late": late, "dropped": dropped}
    accepted = counts.get("accepted") if _counts_itself(node) else None
    taken = {"input": number, "accepted": number - dropped if accepted is None else accepted} if number else {}
    others = {what: n for what, n in counts.items() if what not in ("input", "accepted")}
    report.counts = {**taken, **others, **{what: n for what, n in told.items() if n}}


def _take_newest(node: str, report: NodeReport, batch: Batch) -> None:
    """Move the newest record of each scope from the counts to the marks: the next batch measures lateness by it."""
    newest_us = {what: n for what, n in report.counts.items() if what.startswith(f"{NEWEST}@")}
    if newest_us:
        before = batch.times_of(f"{node}/{NEWEST}")
        now = {int(what.split("@")[1].removesuffix("_max")): us for what, us in newest_us.items()}
        report.marks[f"{node}/{NEWEST}"] = newest_times(before, now)
        report.counts = {what: n for what, n in report.counts.items() if what not in newest_us}
