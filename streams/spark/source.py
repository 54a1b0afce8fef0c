"""Stream sources: valid records flow on, invalid ones go to the rejects table."""

from __future__ import annotations

from pyspark.sql import functions as F

from streams.nodes import Node, StreamSource
from streams.spark.flow import Flow
from streams.spark.intake import INVALID
from streams.spark.operator import Batch, Operator


class StreamSourceOperator(Operator[StreamSource]):
    """Passes the valid records of its topic on."""

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        return valid_records(batch, self.node, inputs[0])


def valid_records(batch: Batch, node: Node, flow: Flow) -> Flow:
    """Split a source's records: the valid ones are returned, the invalid ones are rejected with their reason."""
    batch.reject(node.name, flow.frame.where(F.col(INVALID).isNotNull()), F.col(INVALID))
    return flow.map(lambda frame: frame.where(F.col(INVALID).isNull()).drop(INVALID))
