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
    """The name of a node's table: its store's, or its own."""
    materialized = materialized_of(node)
    return (materialized.name if materialized is not None else None) or node.name


def store_of(node: Node, materialized: Materialized | None, *, drops_repeats: bool = False) -> Store:
    """The store that a table asks for, under its store's or its node's name; a plain one if it asks for none.

    Args:
        node: The operator.
        materialized: What it asks for.
        drops_repeats: Whether a versioned store leaves out tombstones that follow a tombstone.
    """
    if materialized is None or not materialized.is_versioned:
        return PlainStore(node.name, table_name(node))
    return HistoryStore(node.name, table_name(node), materialized, drops_repeats=drops_repeats)


def refuse_promises(
    root: TableRef, operators: Mapping[str, Operator[Any]], tables: Mapping[TableRef, TableState]
) -> None:
    """Refuse a plan that counts on what a versioned table, which is there, does not promise.

    Args:
        root: Where the application's tables are.
        operators: Those of the plan as it is now.
        tables: The tables as they are found.

    Raises:
        ConfigurationError: saying what to do.
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
        """The flow as the store takes it, or as it is.

        An older result that a join with complete history tells again is no matter of a store without versions.
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
