"""One batch of puts into one versioned table: judged, counted, then written in at most two commits.

Order of work (DESIGN 6): everything that reads the table's state before the batch (outcomes, joins) is evaluated
first; then :meth:`PutBatch.write` splices late records into closed history (a small pruned MERGE, consistent on its
own) and replaces the current partition in one commit. The main write does not depend on whether the splice landed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from versioned import put_frames
from versioned.commit import Append, Landed, Merge, ReplaceWhere, Step, commit, same_keys
from versioned.identifiers import TableRef, quote
from versioned.spec import CURRENT, DELETED, KNOWN_BATCH, SYSTEM_FROM, VersionedTableSpec, known_target
from versioned.written import newest

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder

StreamTimes = Mapping[int, int]
#: Up to so many records the keys of a batch are sent to every task (some tens of megabytes), which spares shuffling
#: and sorting all current rows.
FEW_RECORDS: Final = 500_000


@dataclass(frozen=True)
class PutCounts:
    """``accepted + refused`` = valid records. ``out_of_order`` are accepted ones older than their key's latest."""

    accepted: int
    refused: int
    out_of_order: int
    spliced: int


@dataclass(frozen=True)
class _Survey:
    counts: PutCounts
    oldest_out_of_order_us: int | None
    oldest_spliced_us: int | None
    stream_times: dict[int, int]


class PutBatch:
    """The puts of one batch, in the shape *records* of ``put_frames``, against the table's state before it.

    Args:
        target: The table.
        spec: Its contract.
        records: Valid records; ties of place must be equal rows.
        observed: Stream time per scope before the batch, microseconds.
        bounds: Oldest and newest ``_us`` per scope of ``records``, if known: spares the search for late records
            when none can be late.
        count: How many ``records`` there are, if known: of few, only the keys that they touch are shuffled.
    """

    def __init__(
        self,
        target: TableRef,
        spec: VersionedTableSpec,
        records: DataFrame,
        observed: StreamTimes,
        bounds: Mapping[int, tuple[int, int]] | None = None,
        count: int | None = None,
    ) -> None:
        self._target = target
        self._spec = spec
        self._session = records.sparkSession
        self._observed = dict(observed)
        self._few = count is not None and count <= FEW_RECORDS
        timed = self._timed(records, bounds)
        self._judged = put_frames.judge(timed, self.current(), spec, few=self._few).persist()

    @property
    def observed(self) -> dict[int, int]:
        """Stream time per scope before the batch, microseconds."""
        return dict(self._observed)

    @property
    def judged(self) -> DataFrame:
        """The batch in the shape *judged*."""
        return self._judged

    @cached_property
    def survey(self) -> _Survey:
        """Counts and bounds of the batch: one Spark job."""
        late = ~F.col("_refused") & ~F.col("_is_latest")
        spliced = ~F.col("_refused") & (F.col("_us") < F.col("_stored_us"))
        rows = (
            self._judged.groupBy("_scope")
            .agg(
                F.count_if(~F.col("_refused")).alias("accepted"),
                F.count_if("_refused").alias("refused"),
                F.count_if(late).alias("out_of_order"),
                F.count_if(spliced).alias("spliced"),
                F.min(F.when(late, F.col("_us"))).alias("oldest_out_of_order"),
                F.min(F.when(spliced, F.col("_us"))).alias("oldest_spliced"),
                F.max(F.when(~F.col("_refused"), F.col("_us"))).alias("newest"),
            )
            .collect()
        )
        return _Survey(
            _counts(rows), _oldest(rows, "oldest_out_of_order"), _oldest(rows, "oldest_spliced"), self._after(rows)
        )

    @property
    def counts(self) -> PutCounts:
        return self.survey.counts

    @property
    def stream_times(self) -> dict[int, int]:
        """Stream time per scope after the batch, microseconds."""
        return self.survey.stream_times

    def outcomes(self) -> DataFrame:
        """judged + ``put_result``, with ``_old`` filled for out-of-order records as well.

        Lazy, and reads the table: evaluate it before :meth:`write`.
        """
        oldest = self.survey.oldest_out_of_order_us
        known = None if oldest is None else self.current().unionByName(self.closed(oldest))
        return put_frames.outcomes(self._judged, known, self._spec)

    def write(
        self,
        step: Callable[[str], Step | None],
        details: Mapping[str, Any] | None = None,
        known: tuple[int, int | None] | None = None,
        *,
        is_replay: bool = False,
    ) -> Landed:
        """Write the batch: ``known`` (with system history) and ``splice`` (only if needed), then ``main``.

        Args:
            step: Gives the identity of a step by its name.
            details: Facts to travel with the commits.
            known: System time in microseconds and number of the batch; needed by a table with system history.
            is_replay: Whether a write of the batch may be in the table already.
        """
        said = {"streamTimes": {str(scope): us for scope, us in self.stream_times.items()}, **(details or {})}
        if known is not None and self._spec.system_history:
            # First: with a stream time per key, what was accepted can no longer be told once the main write is there.
            commit(known_target(self._target), lambda: Append(self._known(*known)), step("known"), said)
        # Measured against a table that has the batch already, its records are older than what they became.
        is_done = is_replay and self._has_landed(step("main"))
        if self.survey.oldest_spliced_us is not None and not is_done:
            commit(self._target, self._splice, step("splice"), said)
        return commit(self._target, self._main, step("main"), said)

    def release(self) -> None:
        """Give the cached batch back."""
        self._judged.unpersist()

    def current(self) -> DataFrame:
        """The stored current versions, read lazily."""
        return put_frames.versions(self._rows().where(F.col(CURRENT)), self._spec)

    def closed(self, after_us: int) -> DataFrame:
        """The stored closed versions that end after an instant, read lazily."""
        ends_after = F.col(self._spec.valid_to) > F.timestamp_micros(F.lit(after_us))
        return put_frames.versions(self._rows().where(~F.col(CURRENT) & ends_after), self._spec)

    def _timed(self, records: DataFrame, bounds: Mapping[int, tuple[int, int]] | None) -> DataFrame:
        if bounds is not None and not self._may_be_late(bounds):
            return put_frames.accept_all(records)
        schema = "_scope INT, _observed_us LONG"
        observed = self._session.createDataFrame(list(self._observed.items()), schema)
        return put_frames.refuse_late(records, observed, self.current(), self._spec)

    def _may_be_late(self, bounds: Mapping[int, tuple[int, int]]) -> bool:
        if self._spec.time_scope == "key":
            return True
        first = self._spec.first_stream_time_us
        return any(
            oldest
            < max(newest, self._observed.get(scope, newest), newest if first is None else first) - self._spec.grace_us
            for scope, (oldest, newest) in bounds.items()
        )

    def _rows(self) -> DataFrame:
        return read_table(self._session, self._target)

    def _accepted(self) -> DataFrame:
        return self._judged.where(~F.col("_refused"))

    def _main(self) -> ReplaceWhere:
        state = put_frames.next_current(self.current(), self._accepted(), self._spec, few=self._few)
        return ReplaceWhere(put_frames.stored_rows(state, self._spec), f"{quote(CURRENT)} = true")

    def _splice(self) -> Merge:
        oldest = self.survey.oldest_spliced_us
        assert oldest is not None
        late = self._accepted().where(F.col("_us") < F.col("_stored_us"))
        changed = put_frames.closed_splices(self.closed(oldest), late, self._spec)
        same = same_keys((*self._spec.keys, self._spec.valid_from))
        reach = f"t.{quote(self._spec.valid_to)} > timestamp_micros({int(oldest)})"
        condition = f"NOT t.{quote(CURRENT)} AND {reach} AND {same}"
        return Merge(put_frames.stored_rows(changed, self._spec), condition, _upsert)

    def _has_landed(self, step: Step | None) -> bool:
        """Whether a step of this batch is the newest write of a batch in the table."""
        written = newest(self._session, self._target).written
        return (
            written is not None
            and step is not None
            and (
                (written.epoch, written.batch_id, written.node, written.step)
                == (step.epoch, step.batch_id, step.node, step.step)
            )
        )

    def _known(self, system_us: int, number: int | None) -> DataFrame:
        """The accepted puts as rows of the system history; of several at one instant the last by place."""
        last = Window.partitionBy(*map(quote, self._spec.keys), "_us").orderBy(F.desc("_place"))
        puts = self._accepted().withColumn("_rank", F.row_number().over(last)).where(F.col("_rank") == 1)
        return puts.select(
            *map(quote, self._spec.keys),
            F.timestamp_micros("_us").alias(self._spec.valid_from),
            *(F.col("_value").getField(name).alias(name) for name in self._spec.values),
            F.col("_value").isNull().alias(DELETED),
            F.timestamp_micros(F.lit(system_us)).alias(SYSTEM_FROM),
            F.lit(number).cast("long").alias(KNOWN_BATCH),
        )

    def _after(self, rows: list[Row]) -> dict[int, int]:
        after = dict(self._observed)
        for row in rows:
            if row["newest"] is not None:
                after[row["_scope"]] = max(row["newest"], after.get(row["_scope"], row["newest"]))
        return after


def survey_records(records: DataFrame) -> tuple[dict[int, tuple[int, int]], int]:
    """Oldest and newest ``_us`` per scope of a batch, and its number of records: what :class:`PutBatch` may be told.

    One job, for records that are cached anyway.
    """
    told = records.groupBy("_scope").agg(
        F.min("_us").alias("oldest"), F.max("_us").alias("newest"), F.count("*").alias("n")
    )
    rows = told.collect()
    return {row["_scope"]: (row["oldest"], row["newest"]) for row in rows}, sum(row["n"] for row in rows)


def read_table(session: Any, target: TableRef) -> DataFrame:
    """All rows of a table, lazily: each use sees the newest state."""
    frame: DataFrame = (
        session.read.format("delta").load(target.path) if target.path is not None else session.table(target.sql)
    )
    return frame


def _upsert(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()


def _counts(rows: list[Row]) -> PutCounts:
    names = ("accepted", "refused", "out_of_order", "spliced")
    return PutCounts(**{name: sum(row[name] for row in rows) for name in names})


def _oldest(rows: list[Row], name: str) -> int | None:
    return min((row[name] for row in rows if row[name] is not None), default=None)
