"""What the suppressions of an application hold, read from their buffer tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from jobs.place_setting import root_of
from jobs.settings import JobSettings
from jobs.strict import nearest
from streams.describe import what_it_is
from streams.nodes import Suppress, Topology
from streams.plan_facts import windowed_ancestor
from streams.spark.engine import operators_of
from streams.spark.suppress import SuppressOperator
from suppress.buffer_rules import BufferRule
from versioned import spark_functions as F
from versioned.durations import duration_us, instant, instant_us
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.table_details import is_missing


@dataclass(frozen=True)
class BufferState:
    """A suppression: its settings, and what it holds now.

    ``oldest`` is the earliest buffer time, and ``deadline`` the earliest instant at which a row leaves, by the clock
    that ``clock`` names; both are None if nothing is held. ``due`` counts the rows that the wall clock would emit now.
    Final results with an unbounded buffer may have no buffer of their own: then they are read from the window store,
    which ``table`` names, and all counts are None.
    """

    name: str
    what: str
    table: str
    has_buffer: bool
    clock: str
    records: int | None = None
    bytes: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    oldest: datetime | None = None
    deadline: datetime | None = None
    due: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values, instants in ISO form."""
        said = asdict(self)
        return said | {name: said[name] and said[name].isoformat() for name in ("oldest", "deadline")}

    def __str__(self) -> str:
        if not self.has_buffer:
            return f"{self.name}: {self.what}\n  no buffer of its own; its windows are kept in {self.table}"
        bounds = [
            f"{held:,} {what}{'' if most is None else f' of at most {most:,}'}"
            for held, what, most in (
                (self.records or 0, "records", self.max_records),
                (self.bytes or 0, "bytes", self.max_bytes),
            )
        ]
        lines = [f"{self.name}: {self.what}", f"  holds {', '.join(bounds)}"]
        if self.oldest is not None:
            first = "never" if self.deadline is None else self.deadline.isoformat(sep=" ")
            lines.append(f"  oldest {self.oldest.isoformat(sep=' ')}, the next leaves at {first} ({self.clock})")
        if self.due:
            lines.append(f"  {self.due:,} of them are due by the wall clock")
        return "\n".join(lines)


def suppressions(plan: Topology) -> tuple[Suppress, ...]:
    """The suppressions of a plan, in its order."""
    return tuple(node for node in plan if isinstance(node, Suppress))


def check_names(plan: Topology, names: tuple[str, ...]) -> None:
    """Refuse names that are not suppressions of the plan.

    Raises:
        ConfigurationError: one of them is not; the message suggests the nearest name and lists all.
    """
    known = [node.name for node in suppressions(plan)]
    for name in names:
        if name not in known:
            raise ConfigurationError(f'"{name}" is no suppression of the plan{nearest(name, known)}')


def buffers(
    spark: SparkSession, settings: JobSettings, plan: Topology, work: Path, names: tuple[str, ...] = ()
) -> list[BufferState]:
    """The state of suppressions, from one pass over each buffer. Nothing is changed.

    Args:
        spark: The session.
        settings: The application's settings.
        plan: The application's plan.
        work: The work folder, which a relative root is below.
        names: The suppressions asked for; empty for all.

    Raises:
        ConfigurationError: a name is not a suppression, or the application has never run there.
    """
    check_names(plan, names)
    root = TableRef.parse(root_of(work.resolve(), settings.root))
    if is_missing(spark, root.child("ledger")):
        raise ConfigurationError(
            f'"{settings.application}" has no ledger in {root}: it has never run there. If it has run, name its folder '
            "with --work."
        )
    retention = settings.suppressed_record_retention
    operators = operators_of(plan, None if retention is None else duration_us(retention))
    asked = [node for node in suppressions(plan) if not names or node.name in names]
    return [_buffer(spark, node, operators, root) for node in asked]


def held(spark: SparkSession, buffer: BufferState, limit: int) -> DataFrame:
    """The rows of a buffer that leave first: keys, value, ts, buffer time, deadline, arrival, size."""
    rows = read_table(spark, TableRef.parse(buffer.table))
    seen = [name for name in rows.columns if not name.startswith("_")]
    return rows.orderBy(F.col("deadline").asc_nulls_last(), *seen[:1]).limit(limit).select(*seen)


def _buffer(spark: SparkSession, node: Suppress, operators: Mapping[str, Any], root: TableRef) -> BufferState:
    operator, what = operators[node.name], ", ".join(what_it_is(node))
    if not isinstance(operator, SuppressOperator):
        windows = windowed_ancestor(node.parents[0])
        assert windows is not None
        return BufferState(node.name, what, str(operators[windows.name].tables(root)[0]), False, "event time")
    table, rule = operator.tables(root)[0], operator.rule
    empty = BufferState(
        node.name,
        what,
        str(table),
        True,
        "wall clock" if rule.clock == "wall" else "event time",
        records=0,
        bytes=0,
        max_records=rule.max_records,
        max_bytes=rule.max_bytes,
        due=0,
    )
    return empty if is_missing(spark, table) else replace(empty, **_contents(read_table(spark, table), rule))


def _contents(rows: DataFrame, rule: BufferRule) -> dict[str, Any]:
    told = rows.agg(
        F.count("*").alias("records"),
        F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
        # As microseconds: a collected timestamp would be in the time zone of this process.
        F.min(F.unix_micros("bufferTime")).alias("oldest"),
        F.min(F.unix_micros("deadline")).alias("deadline"),
        F.count_if(_is_due(rule)).alias("due"),
    )
    row = told.collect()[0].asDict()
    return row | {name: None if row[name] is None else instant(row[name]) for name in ("oldest", "deadline")}


def _is_due(rule: BufferRule) -> Column:
    """Whether a row would leave at the next tick of the wall clock."""
    if rule.clock_wait_us is None:
        return F.lit(False)
    now_us = instant_us(datetime.now(timezone.utc))
    return F.unix_micros("arrivedAt") <= F.lit(now_us - rule.clock_wait_us)
