"""What passes between operators of the Spark engine within a batch.

Columns of a flow's frame:

============  ==================================================================================================
``_key``      struct of the key fields (windowed tables: with ``windowStart`` and ``windowEnd``), or null
``_value``    struct of the value fields, or null (tombstone)
``_old``      tables only: the value that was valid at ``_us`` just before
``_is_latest``  tables only: false for a record that is out of order in a versioned table
``_us``       event time, microseconds
``_scope``    stream-time scope
``_place``    array of longs: the record's place among all records of its scope in this batch, sortable
``_reason``   stream-table joins only: why there was no match
============  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import DataType, StructType

from versioned import spark_functions as F
from versioned.once import Once
from versioned.spec import PRESENT

KEY, VALUE, OLD, LATEST = "_key", "_value", "_old", "_is_latest"
#: The key that a record had before it was grouped: the rejects store it under this one, by which users look for it.
WAS_KEY = "_was_key"
#: The instant that a record had before it was floored to a store's resolution, for the rejects.
WAS_US = "_was_us"
#: The place at which a record arrived before it waited, for the rejects.
WAS_PLACE = "_was_place"
US, SCOPE, PLACE, REASON = "_us", "_scope", "_place", "_reason"
#: The columns that a look-up adds to a record: the value found, and its ts.
FOUND, FOUND_US = "_found", "_found_us"
#: The columns of joins with complete history: the operation (``insert``, ``update`` or ``retract``), and its cause.
OP, CAUSE = "_op", "_cause"
#: The columns of a table's changes, in order.
CHANGE = (KEY, VALUE, OLD, LATEST, US, SCOPE, PLACE)


@dataclass(frozen=True)
class Bounds:
    """Oldest and newest event time, and number of records, of one scope in the batch."""

    oldest_us: int
    newest_us: int
    count: int

    def and_those(self, others: Bounds) -> Bounds:
        """The bounds of these records and others together."""
        oldest_us, newest_us = min(self.oldest_us, others.oldest_us), max(self.newest_us, others.newest_us)
        return Bounds(oldest_us, newest_us, self.count + others.count)


class Flow:
    """A frame, built when first asked for, with what is known about it without running a job.

    ``bounds`` are by scope: None means unknown, an empty mapping that the flow is known to be empty. ``most`` is an
    upper bound of the number of records, where only that is known. ``maxima_before`` is set where all records have a
    key and each place begins with the running maximum of this flow's own times in its scope: it is that maximum before
    the batch.
    """

    def __init__(
        self,
        frame: DataFrame | Callable[[], DataFrame],
        bounds: Mapping[int, Bounds] | None = None,
        maxima_before: Mapping[int, int] | None = None,
        most: int | None = None,
    ) -> None:
        # The operators below may ask at the same time.
        self._frame = Once(frame if callable(frame) else lambda: frame)
        self.bounds = bounds
        self.maxima_before = maxima_before
        self._most = most

    @property
    def frame(self) -> DataFrame:
        """The records."""
        return self._frame()

    @property
    def is_empty(self) -> bool:
        """Whether the flow is known to have no records."""
        return self.bounds is not None and not self.bounds

    @property
    def oldest_us(self) -> int | None:
        """The oldest event time; None if it is not known or there are no records."""
        return min((b.oldest_us for b in (self.bounds or {}).values()), default=None)

    def newest(self) -> dict[int, int]:
        """The newest event time per scope, as far as it is known."""
        return {scope: bounds.newest_us for scope, bounds in (self.bounds or {}).items()}

    @property
    def count(self) -> int:
        """The number of records; 0 if it is not known."""
        return sum(bounds.count for bounds in (self.bounds or {}).values())

    @property
    def most(self) -> int | None:
        """An upper bound of the number of records; None = not known."""
        return self._most if self.bounds is None else self.count

    def in_one_scope(self, change: Callable[[DataFrame], DataFrame]) -> Flow:
        """As :meth:`map`, for a change that moves all records into scope 0."""
        if not self.bounds:
            return self.map(change)
        return Flow(lambda: change(self.frame), {0: reduce(Bounds.and_those, self.bounds.values())})

    def map(self, change: Callable[[DataFrame], DataFrame]) -> Flow:
        """The flow with a changed frame: its records must have the same times, but there may be fewer."""
        return Flow(lambda: change(self.frame), self.bounds, most=self._most)

    def map_each(self, change: Callable[[DataFrame], DataFrame]) -> Flow:
        """As :meth:`map`, for a change that keeps every valid record, its key, and the order of the records."""
        return Flow(lambda: change(self.frame), self.bounds, self.maxima_before, self._most)

    def within(self, around: Callable[[Callable[[], DataFrame]], DataFrame]) -> Flow:
        """The same flow, whose frame is built inside a call of ``around``."""
        return Flow(lambda: around(lambda: self.frame), self.bounds, self.maxima_before, self._most)


def most_of(flows: Iterable[Flow]) -> int | None:
    """An upper bound of the number of records in several flows together; None = not known."""
    each = [flow.most for flow in flows]
    known = [most for most in each if most is not None]
    return sum(known) if len(known) == len(each) else None


@dataclass
class NodeReport:
    """What one node did in a batch. ``accepted + dropped = input``; ``dropped`` includes the ``skipped``.

    ``alarm_us`` is the wall-clock time at which it has something to do even without input; None = never. ``marks`` are
    further instants by scope, stored like stream times under names of their own. ``rejected`` counts the records put
    aside, by reason.
    """

    counts: dict[str, int] = field(default_factory=dict)
    stream_times: dict[int, int] = field(default_factory=dict)
    alarm_us: int | None = None
    marks: dict[str, dict[int, int]] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The report as the batch's commits carry it."""
        return {
            "counts": self.counts,
            "times": self.stream_times,
            "alarm": self.alarm_us,
            "marks": self.marks,
            "rejected": self.rejected,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> NodeReport:
        """The inverse of :meth:`to_json`; scopes, which are text in JSON, become numbers again."""
        marks = {name: _int_keys(by_scope) for name, by_scope in said["marks"].items()}
        return cls(said["counts"], _int_keys(said["times"]), said["alarm"], marks, said.get("rejected", {}))


def times_after(
    before: Mapping[str, Mapping[int, int]], reports: Mapping[str, NodeReport]
) -> dict[str, dict[int, int]]:
    """Stream times and marks by name after a batch; those of nodes that report none stay as they were.

    >>> times_after({"a": {0: 5}, "b": {0: 7}}, {"a": NodeReport(stream_times={0: 9}), "b": NodeReport()})
    {'a': {0: 9}, 'b': {0: 7}}
    """
    after = {name: dict(times) for name, times in before.items()}
    after |= {name: report.stream_times for name, report in reports.items() if report.stream_times}
    return after | {name: marks for report in reports.values() for name, marks in report.marks.items()}


def counts_of(reports: Mapping[str, NodeReport]) -> dict[str, int]:
    """The nodes' counts, and numbers of records put aside, under the names of the ledger's column ``counts``.

    >>> counts_of({"a": NodeReport({"accepted": 2}, rejected={"BAD_TS": 1})})
    {'a.accepted': 2, 'a.put_aside.BAD_TS': 1}
    """
    counts = {f"{name}.{what}": n for name, report in reports.items() for what, n in report.counts.items()}
    return counts | {f"{name}.put_aside.{why}": n for name, told in reports.items() for why, n in told.rejected.items()}


def _int_keys(times: Mapping[str, int]) -> dict[int, int]:
    return {int(scope): us for scope, us in times.items()}


def struct_fields(frame: DataFrame, column: str) -> list[str]:
    """The field names of a struct column."""
    kind = frame.schema[column].dataType
    assert isinstance(kind, StructType), f"{column} is {kind.simpleString()}, not a struct"
    return list(kind.names)


def value_columns(fields: Iterable[str]) -> list[str]:
    """The fields of a value that are columns of a table: all but the marker field of a value without fields."""
    return [name for name in fields if name != PRESENT]


def place_among_scopes() -> Column:
    """The place of a record among the records of all scopes: ordered by place, then by scope."""
    return F.concat(PLACE, F.array(F.col(SCOPE).cast("long")))


def in_one_scope(frame: DataFrame) -> DataFrame:
    """All records in scope 0, ordered by their former places, then by their former scopes."""
    return frame.withColumns({PLACE: place_among_scopes(), SCOPE: F.lit(0)})


def newest_of_keys(frame: DataFrame) -> DataFrame:
    """The last change of each key."""
    last = Window.partitionBy(KEY).orderBy(F.desc(PLACE), F.desc(SCOPE))
    return frame.withColumn("_rank", F.row_number().over(last)).where(F.col("_rank") == 1).drop("_rank")


def has_null_key(frame: DataFrame) -> Column:
    """Whether a record lacks a key: the struct or any part of it is null."""
    return null_inside(F.col(KEY), frame.schema[KEY].dataType)


def null_inside(value: Column, kind: DataType) -> Column:
    """Whether a value, or any part of it in nested structs, is null."""
    missing = value.isNull()
    if isinstance(kind, StructType):
        for part in kind.fields:
            missing = missing | null_inside(value.getField(part.name), part.dataType)
    return missing


def flat_keys(frame: DataFrame) -> DataFrame:
    """The key fields as columns of their own, in place of ``_key``."""
    others = [name for name in frame.columns if name != KEY]
    return frame.select(f"{KEY}.*", *map(F.col, others))


def struct_keys(frame: DataFrame, keys: tuple[str, ...] | list[str]) -> DataFrame:
    """The inverse of :func:`flat_keys`."""
    others = [name for name in frame.columns if name not in keys]
    return frame.select(F.struct(*map(F.col, keys)).alias(KEY), *map(F.col, others))


def lookup_times(times: Mapping[int, int]) -> Column:
    """The instant of each record's ``_scope`` in microseconds, null where the scope is not known."""
    if not times:
        return F.lit(None).cast("long")
    # Literals would take several messages to the JVM for each scope. The numbers as text take one for all, and Spark
    # makes the map once per query, not per row.
    scopes, instants = [*map(int, times)], [*map(int, times.values())]
    told = f"map_from_arrays(from_json('{scopes}', 'ARRAY<INT>'), from_json('{instants}', 'ARRAY<BIGINT>'))"
    return F.expr(f"try_element_at({told}, {SCOPE})")


def stream_time_at(before_us: Column, us: str = US, group: str | Column = SCOPE) -> Column:
    """Stream time after each record, in the order of places.

    Args:
        before_us: Stream time before the batch.
        us: The column that advances it; null in rows that only ask for it.
        group: What has a stream time of its own, as a column.
    """
    so_far = Window.partitionBy(group).orderBy(PLACE).rowsBetween(Window.unboundedPreceding, 0)
    return F.greatest(before_us, F.max(us).over(so_far))


def count_ignored(changes: DataFrame) -> DataFrame:
    """A count row (``ignored``) for each change that is ignored because it is out of order in a versioned table."""
    return changes.where(~F.col(LATEST)).select(F.lit("ignored").alias("what"), F.lit(1).alias("n"))
