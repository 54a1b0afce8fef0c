"""The store of an operator whose result is a table: plain, versioned or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from streams.nodes import Materialized, Node, materialized_of
from streams.plan_facts import tells_older_results
from streams.spark.flow import LATEST, Flow, NodeReport
from streams.spark.history_store import HistoryStore
from streams.spark.operator import Batch, Operator, StepOf
from streams.spark.plain_store import PlainStore
from versioned import spark_functions as F
from versioned.identifiers import TableRef
from versioned.written import TableState

N = TypeVar("N", bound=Node)
Store = HistoryStore | PlainStore


def table_name(node: Node) -> str:
    """The name of a node's table: that of its store, or the node's own."""
    materialized = materialized_of(node)
    return (materialized.name if materialized is not None else None) or node.name


def store_of(node: Node, materialized: Materialized | None, *, drops_repeats: bool = False) -> Store:
    """The store of a node, named after the store or the node; a plain one unless the plan asks for versions.

    Args:
        node: The operator.
        materialized: The store that the plan asks for.
        drops_repeats: Whether a versioned store leaves out tombstones that follow a tombstone.
    """
    if materialized is None or not materialized.is_versioned:
        return PlainStore(node.name, table_name(node))
    return HistoryStore(node.name, table_name(node), materialized, drops_repeats=drops_repeats)


def refuse_promises(
    root: TableRef, operators: Mapping[str, Operator[Any]], tables: Mapping[TableRef, TableState]
) -> None:
    """Refuse a plan whose versioned stores ask for another contract than their existing tables have.

    Args:
        root: Where the application's tables are.
        operators: The operators of the plan as it is now.
        tables: The tables as they are.

    Raises:
        ConfigurationError: contracts differ; says what to do.
    """
    for operator in operators.values():
        if isinstance(operator, StoringOperator) and isinstance(operator.store, HistoryStore):
            target = operator.store.target(root)
            operator.store.check_promise(target, tables[target].properties if target in tables else {})


class StoringOperator(Operator[N]):
    """An operator whose result may be stored."""

    def __init__(self, node: N, store: Store | None) -> None:
        super().__init__(node)
        self.store = store

    def tables(self, root: TableRef) -> list[TableRef]:
        if isinstance(self.store, HistoryStore):
            return self.store.tables(root)
        return [] if self.store is None else [self.store.target(root)]

    def steps(self, root: TableRef) -> list[StepOf]:
        return [] if self.store is None else self.store.steps(root)

    def stored(self, batch: Batch, flow: Flow) -> Flow:
        """The store's changes for a flow, or the flow itself if there is no store.

        A plain store ignores older results that a join with complete history corrects, and the flow passes unchanged.
        """
        if self.store is None:
            return flow
        if isinstance(self.store, PlainStore) and tells_older_results(self.node):
            self.store.put(batch, flow.map(lambda frame: frame.where(F.col(LATEST))))
            return flow
        return self.store.put(batch, flow)

    def report(self, batch: Batch) -> NodeReport:
        return self.store.report(batch) if isinstance(self.store, HistoryStore) else NodeReport()

    def write(self, batch: Batch) -> None:
        if self.store is not None:
            self.store.write(batch)

    def release(self) -> None:
        super().release()
        if isinstance(self.store, HistoryStore):
            self.store.release()
