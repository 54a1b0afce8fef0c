"""Applies the operators of a plan to a batch: each as soon as its inputs are ready.

Applying is mostly planning queries, which Spark does in the calling thread. So that other cores do not sit idle,
branches of a plan that do not wait for each other are planned in parallel.
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

#: Spark's error conditions for an expression whose operands are missing or of a type that it does not take.
_UNFIT: Final = ("DATATYPE_MISMATCH", "FIELD_NOT_FOUND", "INVALID_EXTRACT", "UNRESOLVED_")


class EmptyFlows:
    """Replaces flows that are known to be empty by ones without a plan: only their types matter, and never change."""

    def __init__(self) -> None:
        self._schemas: dict[str, StructType] = {}

    def light(self, name: str, session: SparkSession, flow: Flow) -> Flow:
        """The flow, with a trivial plan if it is known to be empty.

        Args:
            name: The flow's owner; all flows of one name have the same columns.
            session: The batch's session.
            flow: The flow; returned as it is unless it is known to be empty.
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
    """Apply every operator to a batch: several at the same time, but none before its parents.

    Spared operators get no records, since their tables already hold what they would make of them.

    Args:
        topology: The plan.
        operators: Its operators by name.
        batch: The batch.
        sources: The flows of the source nodes.
        empty: Makes the frames of empty flows.

    Returns:
        The flows that reached each node.
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
    """The result of ``make``; an error in the node's expressions is raised with the node's name.

    Raises:
        TopologyError: an expression does not fit the fields or their types, in Spark's words.
    """
    try:
        return make()
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith(_UNFIT):
            raise
        remedy = "Name a field that the rows have, and cast it where it has another type."
        raise TopologyError("expression", node, f"{first_line(error)} {remedy}") from None
