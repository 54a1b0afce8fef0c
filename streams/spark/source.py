"""Stream sources: valid records flow on, invalid ones go to the rejects table."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import Node, StreamSource
from streams.spark.flow import Flow
from streams.spark.intake import OFFSET, WHY_INVALID
from streams.spark.operator import RAW, Batch, Operator
from versioned import spark_functions as F


class StreamSourceOperator(Operator[StreamSource]):
    """Passes on the valid records of its topic."""

    def __init__(self, node: StreamSource) -> None:
        super().__init__(node)
        self._valid: Flow | None = None

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._valid = valid_records(batch, self.node, inputs[0])
        return self._valid

    def measured(self) -> DataFrame | None:
        return None if self._valid is None or self._valid.is_empty else self._valid.frame


def valid_records(batch: Batch, node: Node, flow: Flow) -> Flow:
    """Return a source's valid records; the invalid ones are rejected with their reason."""
    batch.reject(node.name, flow.frame.where(F.col(WHY_INVALID).isNotNull()), F.col(WHY_INVALID))
    # The flow's bounds and maxima are those of the valid records already.
    return flow.map_each(lambda frame: frame.where(F.col(WHY_INVALID).isNull()).drop(WHY_INVALID, RAW, OFFSET))
