"""Packed scenarios in one streaming application: feeds their steps batch by batch and reads the results."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession

from streams.driver.driver import TopologyTestDriver
from streams.fields import WINDOW_FIELDS
from streams.key_fields import key_fields
from streams.nodes import ForeignKeyJoin, Node, TableTableJoin, WindowedAggregate
from streams.plan_facts import is_versioned
from streams.spark import SparkSource, StreamingApplication
from streams.spark.few_tasks import in_few_tasks
from streams.testing.trace_packed_driver import PackedDriver
from streams.testing.trace_packing import CASE, DELETED, KEY, VALUE, Branch, Case, Cut, together
from streams.testing.trace_run import Actual
from suppress.windows import SlidingWindows, TimeWindows
from versioned import spark_functions as F

_STEP: Final = "step"
_SCHEMA: Final = f"{CASE} INT, {KEY} STRING, {VALUE} STRING, ts TIMESTAMP, {_STEP} LONG, {DELETED} BOOLEAN"
_FILE_SCHEMA: Final = pa.schema(
    {
        CASE: pa.int32(),
        KEY: pa.string(),
        VALUE: pa.string(),
        "ts": pa.timestamp("us", tz="UTC"),
        _STEP: pa.int64(),
        DELETED: pa.bool_(),
    }
)
#: Scaled times may lie years ahead.
_ANY_SKEW: Final = dt.timedelta.max
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


class PackedRun:
    """One application over some branches.

    Args:
        spark: The session.
        folder: Where the input and the application's tables are written.
        branches: What to run, side by side.

    Raises:
        TopologyError: the Spark engine does not run one of the nodes.
    """

    def __init__(self, spark: SparkSession, folder: Path, branches: Sequence[Branch]) -> None:
        self._spark = spark
        self._folder = folder
        self._branches = branches
        self.topics = sorted({branch.topic(topic) for branch in branches for topic in branch.topics})
        for topic in self.topics:
            (folder / topic).mkdir(parents=True, exist_ok=True)
        sources = {topic: _source(folder / topic) for topic in self.topics}
        self.app = StreamingApplication(
            spark,
            "traces",
            together(branches),
            str(folder / "out"),
            sources,
            order="sequence",
            max_future_skew=_ANY_SKEW,
            # Each case is a partition of its own, and part of every key.
            keys_cross_partitions=False,
        )

    def feed(self, cut: Cut) -> None:
        """Run every case to its end, with one micro-batch for each part of the cut."""
        ends = {case.id: cut.ends(case.scenario, case.length) for branch in self._branches for case in branch.cases}
        for batch in range(cut.batches):
            for branch in self._branches:
                for topic in branch.topics:
                    self._write(branch, topic, batch, ends)
            self.app.run()

    def _write(self, branch: Branch, topic: str, batch: int, ends: dict[str, list[int]]) -> None:
        rows = []
        for case in branch.cases:
            first = ends[case.id][batch - 1] if batch else 0
            for index, step in case.records(first, ends[case.id][batch]):
                if step["topic"] == topic:
                    rows.append(_row(case, index, step))
        if rows:
            table = pa.Table.from_pylist(rows, _FILE_SCHEMA)
            pq.write_table(table, self._folder / branch.topic(topic) / f"{batch}-{branch.number}.parquet")

    def outcomes(self) -> dict[str, Actual]:
        """What happened to each case, in the shape of the traces."""
        found = _by_case(self._sink_rows())
        rejects = _by_case(self._rejects())
        outcomes: dict[str, Actual] = {}
        for branch in self._branches:
            for case in branch.cases:
                outputs = _outputs(branch, case, found.get(case.number, []))
                outcomes[case.id] = {"outputs": outputs, "unseen": ["buffer"]}
                if branch.plan.versioned is not None:
                    outcomes[case.id]["versioned"] = branch.plan.versioned
        for branch in self._branches:
            self._tell_drops(branch, outcomes, rejects)
        return outcomes

    def _tell_drops(self, branch: Branch, outcomes: dict[str, Actual], rejects: dict[int, list[Row]]) -> None:
        """Add drops step by step if the rejects table has each; otherwise only compare the counts with the driver's."""
        nodes = {node.name for node in branch.plan.topology}
        counted = [(name, what) for node in branch.plan.topology for name, what in _only_counted(node)]
        told = {(name, what): self._counts[f"{name}.{what}"] for name, what in counted}
        wanted = {(name, what): self._driver.counters(name)[what] for name, what in counted}
        for case in branch.cases:
            actual = outcomes[case.id]
            if counted:
                actual["unseen"].append("dropped")
            else:
                steps = Counter(row["step"] for row in rejects.get(case.number, []) if row["node"] in nodes)
                actual["dropped"] = [{"input_index": step, "count": steps[step]} for step in sorted(steps)]
            if told != wanted:
                actual["failure"] = f"counts {told}, the driver on the same packed records {wanted}"

    def _sink_rows(self) -> list[Row]:
        parts = [self._sink(branch, sink) for branch in self._branches for sink in branch.plan.sinks]
        return in_few_tasks(reduce(DataFrame.unionByName, parts)).orderBy("case", "batch", "seq").collect()

    def _sink(self, branch: Branch, sink: str) -> DataFrame:
        numbers = [case.number for case in branch.cases]
        told = self._spark.read.format("delta").load(str(self.app.table(sink)))
        # Other branches' cases are here too if the sources are shared.
        rows = told.where(F.col(CASE).between(min(numbers), max(numbers)))
        keys = key_fields(branch.plan.topology.node(sink)) or (CASE, KEY)
        key = next(name for name in keys if name not in (CASE, *WINDOW_FIELDS))
        value = rows.columns[rows.columns.index("ts") - 1]
        windows = [_millis(rows, name) if name in keys else F.lit(None).cast("long") for name in WINDOW_FIELDS]
        return rows.select(
            F.lit(sink).alias("sink"),
            F.col(CASE).alias("case"),
            F.col(key).alias("key"),
            F.col(value).cast("string").alias("value"),
            F.lit(rows.schema[value].dataType.typeName() == "long").alias("is_number"),
            F.unix_millis("ts").alias("ts"),
            F.col("_batch_id").alias("batch"),
            F.col("_seq").alias("seq"),
            windows[0].alias("window_start"),
            windows[1].alias("window_end"),
        )

    def _rejects(self) -> list[Row]:
        rows = self._spark.read.format("delta").load(str(self.app.table("rejects")))
        # A change of key brings all scopes into one, but the case stays in the key.
        case = F.coalesce(F.get_json_object("record", f"$.key.{CASE}").cast("int"), F.col("scope"))
        return rows.select(case.alias("case"), "node", F.col("place")[0].alias("step")).collect()

    @cached_property
    def _counts(self) -> Counter[str]:
        """The counts of every node over all batches, as ``node.what``."""
        rows = self._spark.read.format("delta").load(str(self.app.table("ledger")))
        counts: Counter[str] = Counter()
        for row in rows.select("counts").collect():
            counts.update(row["counts"])
        return counts

    @cached_property
    def _driver(self) -> TopologyTestDriver:
        """The driver after the same records."""
        return PackedDriver(self._branches).driver


def _source(folder: Path) -> SparkSource:
    return SparkSource("parquet", {"path": str(folder)}, _SCHEMA, partition_by=CASE, sequence_by=_STEP)


def _row(case: Case, index: int, step: Any) -> dict[str, Any]:
    return {
        CASE: case.number,
        KEY: step["key"],
        VALUE: step["value"],
        "ts": _EPOCH + step["ts"] * case.factor * _MILLISECOND,
        _STEP: index,
        DELETED: step["value"] is None,
    }


def _by_case(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["case"], []).append(row)
    return found


def _outputs(branch: Branch, case: Case, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows of a case in the order of the driver: step by step, and within a step sink by sink."""
    sinks = list(branch.plan.sinks)
    ordered = sorted(rows, key=lambda row: (row["seq"][0], sinks.index(row["sink"])))
    return [_output(branch, case, row) for row in ordered]


def _output(branch: Branch, case: Case, row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"input_index": row["seq"][0]}
    if len(branch.plan.sinks) > 1:
        told["sink"] = branch.plan.sinks[row["sink"]]
    told["key"] = row["key"]
    if row["window_start"] is not None:
        told |= {name: row[name] for name in ("window_start", "window_end")}
    value = row["value"]
    told["value"] = int(value) if row["is_number"] and value is not None else value
    return told | {"ts": row["ts"] // case.factor}


def _millis(rows: DataFrame, name: str) -> Column:
    is_instant = rows.schema[name].dataType.typeName().startswith("timestamp")
    return F.unix_millis(name) if is_instant else F.floor(F.col(name) / 1_000)


def _only_counted(node: Node) -> list[tuple[str, str]]:
    """Drops that Spark counts but does not keep: the node's name and what is counted."""
    if isinstance(node, (TableTableJoin, ForeignKeyJoin)) and any(map(is_versioned, node.parents)):
        return [(node.name, "ignored")]
    windows = node.windows if isinstance(node, WindowedAggregate) else None
    # A record is in several hopping or sliding windows; each that is closed counts on its own.
    overlap = isinstance(windows, SlidingWindows) or (
        isinstance(windows, TimeWindows) and windows.advance_us < windows.size_us
    )
    return [(node.name, "expired")] if overlap else []
