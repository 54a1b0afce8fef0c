"""Applies the operators of a plan to a batch: each as soon as its inputs are ready.

Most of this work is planning queries. Spark plans a query in the thread that asks for it, which would leave the other
cores idle. So independent branches of a plan are planned at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streams.nodes import Topology
from streams.spark.engine import Operators, branched
from streams.spark.flow import Flow, in_one_scope
from streams.spark.operator import Batch
from versioned.errors import TopologyError, first_line
from versioned.side_by_side import in_turn

T = TypeVar("T")

#: What Spark says of an expression whose operands are not there, or of a type that it does not take.
_UNFIT: Final = ("DATATYPE_MISMATCH", "FIELD_NOT_FOUND", "INVALID_EXTRACT", "UNRESOLVED_")


class EmptyFlows:
    """Flows that are known to be empty lose their plans: of those only the type matters, which never changes."""

    def __init__(self) -> None:
        self._schemas: dict[str, StructType] = {}

    def light(self, name: str, session: SparkSession, flow: Flow) -> Flow:
        """A flow whose frame has no long plan.

        Args:
            name: Whose flow it is; all of one name have the same columns.
            session: The batch's session.
            flow: It goes on as it is unless it is known to be empty.
        """
        if not flow.is_empty:
            return flow

        def nothing() -> DataFrame:
            if name not in self._schemas:
                self._schemas[name] = flow.frame.schema
            return session.createDataFrame([], self._schemas[name])

        return Flow(nothing, flow.bounds)


def apply_all(
    topology: Topology, operators: Operators, batch: Batch, sources: Mapping[str, Flow], empty: EmptyFlows
) -> dict[str, list[Flow]]:
    """Apply every operator to a batch, several at the same time; none before its parents.

    Those that are spared are applied to nothing, since their tables hold already what they would make of the records.

    Args:
        topology: The plan.
        operators: Its operators by name.
        batch: The batch.
        sources: What comes to the source nodes.
        empty: Knows the types of flows that hold nothing.

    Returns:
        What reached each node.
    """
    known = [*batch.stream_times.values(), *(flow.bounds or {} for flow in sources.values())]
    batch.scopes = frozenset(chain.from_iterable(known))
    outputs: dict[str, Flow] = {}
    reached: dict[str, list[Flow]] = {}

    def apply(name: str) -> None:
        operator = operators[name]
        inputs = [sources[name]] if name in sources else branched(topology, operator.node, outputs)
        if name in batch.spared:
            nothing = [Flow(partial(getattr, flow, "frame"), {}) for flow in inputs]
            inputs = [empty.light(f"{name}/{place}", batch.session, flow) for place, flow in enumerate(nothing)]
        reached[name] = [flow.in_one_scope(in_one_scope) for flow in inputs] if operator.gathers else inputs
        made = _fitting(name, lambda: operator.apply(batch, reached[name]))
        if made is not None:
            outputs[name] = empty.light(name, batch.session, made.within(partial(_fitting, name)))

    parents = {name: {parent.name for parent in operator.node.parents} for name, operator in operators.items()}
    in_turn({name: partial(apply, name) for name in operators}, parents, batch.session)
    return reached


def _fitting(node: str, make: Callable[[], T]) -> T:
    """What a node makes, unless its functions take fields for what they are not.

    Raises:
        TopologyError: with Spark's words for it.
    """
    try:
        return make()
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith(_UNFIT):
            raise
        remedy = "Name a field that the rows have, and cast it where it has another type."
        raise TopologyError("expression", node, f"{first_line(error)} {remedy}") from None
