"""Chains of crashes at chosen points of chosen batches, in one process: each start replays what died before it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.nodes import Node, Topology
from streams.spark import StreamingApplication
from streams.spark.started_query import StartedQuery
from versioned import commit as commits
from versioned import faults, put, side_by_side

#: The settings that a write may put on a session, and must take off again.
WRITE_SETTINGS: Final = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled",
)
_LEDGER_ROW: Final = "after:ledger/row"
_END: Final = "end:batch"


class Crash(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Point:
    """A point of a batch, counted from the first batch that got a ledger row."""

    batch: int
    name: str


class Script:
    """Hears every point, and lets one start after the other die at the given ones, in their order."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self.left = list(points)
        self.heard: list[Point] = []
        self.deaths = 0
        self.is_dead = False
        self._done = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A new process starts."""
        self.is_dead = False

    def __call__(self, name: str) -> None:
        with self._lock:
            if self.is_dead:
                raise Crash(f"{name}: another thread's")  # In a dead process no thread goes on.
            here = Point(self._done - (name == _END), name)
            self.heard.append(here)
            self._done += name == _LEDGER_ROW
            if self.left[:1] == [here]:
                self.left.pop(0)
                self.deaths += 1
                self.is_dead = True
                raise Crash(name)


def run_through(start: Callable[[], StreamingApplication], script: Script, ticks: int = 0) -> StreamingApplication:
    """Start again and again until a run ends by itself; then as often without input, so that all that is due leaves."""
    with faults.armed(script):
        while True:
            script.begin()
            app = None
            try:
                app = start()
                app.run()
                break
            except (StreamingQueryException, Crash):
                if not script.is_dead:
                    raise
        for _ in range(ticks):
            app.run()
    return app


def points_to_die_at(heard: Sequence[Point], *, creations: bool = True) -> list[Point]:
    """Every write boundary of an application, each in a batch that reaches it.

    The first batch dies after each table that it makes and at its end, the second before each of its writes, the third
    after each. A boundary that these do not pass is taken where it is last passed. Where all but the ledger is written,
    and between the two steps of a table, it dies twice in a row.

    Args:
        heard: The points of an uninterrupted run, in order.
        creations: Whether to die after the making of tables as well.
    """
    wanted = []
    for name in dict.fromkeys(point.name for point in heard):
        if "/" not in name and name != _END and (not creations or name.startswith("before:")):
            continue
        preferred = Point(0 if name == _END else 1 if name.startswith("before:") else 2, name)
        last = max(point.batch for point in heard if point.name == name)
        wanted.append(preferred if preferred in heard else Point(last, name))
    wanted.sort(key=heard.index)
    return [point for point in wanted for _ in range(2 if _is_repeated(point.name) else 1)]


def out_of_order(heard: Iterable[Point], topology: Topology) -> list[str]:
    """Writes that came before one that reads what they changed, or after the ledger's row."""
    written: dict[int, list[str]] = defaultdict(list)
    for point in heard:
        if point.name.startswith("before:") and "/" in point.name:
            written[point.batch].append(point.name.removeprefix("before:").partition("/")[0])
    wrong = [f"batch {batch} ends with {nodes[-1]}" for batch, nodes in written.items() if nodes[-1] != "ledger"]
    for node in topology:
        for reader in _descendants(topology, node):
            wrong += [
                f"batch {b}: {node.name} before {reader}"
                for b, nodes in written.items()
                if _precedes(nodes, node.name, reader)
            ]
    return wrong


def _descendants(topology: Topology, node: Node) -> set[str]:
    children = topology.children(node)
    return {child.name for child in children}.union(*(_descendants(topology, child) for child in children))


def _precedes(nodes: list[str], one: str, other: str) -> bool:
    return one in nodes and other in nodes and nodes.index(one) < len(nodes) - 1 - nodes[::-1].index(other)


def _is_repeated(name: str) -> bool:
    return name == "before:ledger/row" or (name.startswith("after:") and name.endswith(("/splice", "/closed")))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Lets a batch write one table after the other, so that its points come in the same order in every run.

    Late records take a commit of their own, however few closed rows there are: that is one boundary more to die at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "_AT_ONCE", 1)
        patch.setattr(put, "ROWS_PER_SPLICE", 0)
        patch.setattr(put, "ROWS_FOR_ANY_SPLICE", 0)
        yield


@contextmanager
def watched_sessions(spark: SparkSession) -> Iterator[list[str]]:
    """Collects every setting of one write that is still there when another begins, and writes on a foreign session."""
    wrong: list[str] = []
    execute = commits._execute

    def watching(target: Any, write: Any, step: Any, said: str) -> None:
        session = write.frame.sparkSession
        wrong.extend(f"{name} before {target}" for name in WRITE_SETTINGS if session.conf.get(name, None) is not None)
        # The query has a session of its own, a clone: a batch that leaves it would see other settings.
        if step is not None and session is spark:
            wrong.append(f"{target} is written on the session of the application")
        execute(target, write, step, said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "_execute", watching)
        yield wrong


@contextmanager
def without_transactions() -> Iterator[None]:
    """The protocol without transaction ids: Delta lands every write that it is given (negative control only)."""
    execute = commits._execute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "_execute", lambda target, write, _, said: execute(target, write, None, said))
        yield


@contextmanager
def ledger_first() -> Iterator[None]:
    """The protocol with the commit point before the writes that it stands for (negative control only)."""
    write, close = StartedQuery._write, StartedQuery._close

    def close_first(query: StartedQuery, batch: Any, *rest: Any) -> None:
        close(query, batch, *rest)
        write(query, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StartedQuery, "_write", lambda query, batch: None)
        patch.setattr(StartedQuery, "_close", close_first)
        yield


@contextmanager
def upstream_first() -> Iterator[None]:
    """The protocol with stores written before what reads them (negative control only)."""

    def forward(query: StartedQuery, batch: Any) -> None:
        for operator in query._operators.values():
            operator.write(batch)
        rejects = query._parts.rejects.ready(batch)
        if rejects is not None:
            rejects()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StartedQuery, "_write", forward)
        yield
