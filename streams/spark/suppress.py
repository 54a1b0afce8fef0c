"""Suppression on Spark (KIP-328): final results of time windows, straight from the window store.

An unbounded buffer that only lets final results out needs no table of its own: the window store holds the rows, and
stream time tells which of them become final in a batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import Suppress
from streams.spark.flow import Flow, NodeReport
from streams.spark.operator import Batch, Operator
from streams.spark.windowed_aggregate import WindowedAggregateOperator


class FinalResultsOperator(Operator[Suppress]):
    """Lets each window out once, in the batch in which it becomes final."""

    def __init__(self, node: Suppress, windows: WindowedAggregateOperator) -> None:
        super().__init__(node)
        self._windows = windows
        self._finals: DataFrame | None = None

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._finals = None
        return Flow(self._final_rows, {} if inputs[0].is_empty else None)

    def report(self, batch: Batch) -> NodeReport:
        if not self._windows.survey.accepted:
            return NodeReport()
        emitted = self._final_rows().count()
        return NodeReport({"suppression-emit-total": emitted} if emitted else {}, self._windows.survey.stream_times)

    def release(self) -> None:
        if self._finals is not None:
            self._finals.unpersist()

    def _final_rows(self) -> DataFrame:
        if self._finals is None:
            self._finals = self._windows.finals().persist()
        return self._finals
