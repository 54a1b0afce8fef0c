"""One batch of puts into one versioned table: judged, counted, then written in one or two commits.

Everything that reads the table's state before the batch (outcomes, joins) is evaluated first. Then
:meth:`PutBatch.write` replaces the current partition in one commit. Late records go into closed history: if only few
closed rows end after the oldest of them, these are replaced in the same commit; otherwise a pruned MERGE before it
writes them, and is consistent on its own. The main write does not depend on whether this splice landed. A small batch
for a large table with deletion vectors replaces only the rows of its own keys (``versioned.touched``), including closed
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Row, Window

from versioned import put_frames, touched
from versioned import spark_functions as F
from versioned.commit import Append, Merge, ReplaceWhere, Step, commit, same_keys
from versioned.durations import LONGEST_US, instant_literal
from versioned.identifiers import TableRef, quote
from versioned.once import Once
from versioned.overtaken import JudgedBy, never_overtaken
from versioned.reading import read_table
from versioned.schema import check_schema
from versioned.session_settings import with_sound_reads
from versioned.spec import CURRENT, DELETED, KNOWN_BATCH, SYSTEM_FROM, VersionedTableSpec, known_target
from versioned.stream_times import judged_version, newest_times, said_times
from versioned.table_log import Landed, newest_commits
from versioned.written import SPLICE, newest

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder

StreamTimes = Mapping[int, int]
_Build = Callable[[], ReplaceWhere | Merge]
#: Up to this many records, the keys of a batch are broadcast (some tens of megabytes), so that not all current rows
#: are shuffled and sorted.
FEW_RECORDS: Final = 500_000
#: Up to this many closed rows per late record are rewritten with the current rows. A MERGE rewrites whole files, so
#: late records of random keys reach as many rows anyway, and it reads them twice.
ROWS_PER_SPLICE: Final = 1_000
#: This many are rewritten even for a single late record: that takes less time than a separate commit.
ROWS_FOR_ANY_SPLICE: Final = 50_000
#: From a limit of _MANY_ROWS on, a sample of one row in _SAMPLED is counted; an error of one percent does not matter.
_MANY_ROWS: Final = 1_000_000
_SAMPLED: Final = 64
#: Up to this many pairs of out-of-order records and others of the batch are compared; with more, all are sorted.
FEW_PAIRS: Final = 1_000_000
#: A put's commit is found if fewer commits of upkeep than this came after it.
_COMMITS_OF_UPKEEP: Final = 20


@dataclass(frozen=True)
class PutCounts:
    """How many records of a batch were accepted, refused, out of order and spliced.

    ``accepted + refused`` = valid records. ``out_of_order`` are accepted records older than their key's latest.
    """

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
    #: By scope: the oldest accepted record, and the oldest of those that do not belong in closed history.
    oldest_us: dict[int, int]
    oldest_ahead_us: dict[int, int]


@dataclass(frozen=True)
class LandedSplice:
    """Late records of a batch that are in the table already, in a commit after which others overtook the batch.

    Args:
        records: The records, in the shape *judged*.
        count: How many there are.
        stream_times: After the whole batch, had it not been overtaken; records that are refused later do not move them.
        before: Makes the batch against the table as it was before the commit.
    """

    records: DataFrame
    count: int
    stream_times: dict[int, int]
    before: Callable[[], PutBatch]

    def left_of(self, records: DataFrame, spec: VersionedTableSpec) -> DataFrame:
        """The records of the batch that are still to be put."""
        return records.join(self.records, [*spec.keys, "_scope", "_place"], "left_anti")

    def among(self, records: DataFrame, spec: VersionedTableSpec) -> DataFrame:
        """The records of the batch that are in the table already."""
        return records.join(self.records, [*spec.keys, "_scope", "_place"], "left_semi")


class PutBatch:
    """The puts of one batch, in the shape *records* of ``put_frames``, against the table's state before it.

    Args:
        target: The table.
        spec: Its contract.
        records: Valid records; ties of place must be equal rows.
        observed: Stream time per scope before the batch, microseconds.
        bounds: Oldest and newest ``_us`` per scope of ``records``, if known: avoids the search for late records if none
            can be late.
        count: How many ``records`` there are, if known: for few, only stored rows of their keys are shuffled.
        with_old: Whether :attr:`judged` contains the values that puts replace. Without, less of the table is read, and
            nothing if no record is older than anything stored.
        trusts_times: Whether to assume that nothing stored begins after ``observed``: then a batch that begins after it
            is judged without the table. The newest commits may have too early a time if somebody put by hand for an
            application, which continues with a stream time of its own. So after one failure the table is read.
        names_keys: Whether the table allows that for few records only the rows of their keys are replaced.
        judges_again: Whether the write refuses late records that others have meanwhile made too late by the stream time
            of their key: with :class:`~versioned.errors.OvertakenError`, so that the batch is judged again.
        by_time: Whether the records are in order of their instants, so that none is late because of another one.
        as_of: Read the table as it was at this Delta version; None = as it is. Not for a batch that is written.
        landed: Records of the batch that earlier tries have put: they are not among ``records``, but are counted and
            go into system history, and they move stream time at their places.
    """

    def __init__(
        self,
        target: TableRef,
        spec: VersionedTableSpec,
        records: DataFrame,
        observed: StreamTimes,
        bounds: Mapping[int, tuple[int, int]] | None = None,
        count: int | None = None,
        *,
        with_old: bool = True,
        trusts_times: bool = True,
        names_keys: bool = False,
        judges_again: bool = False,
        by_time: bool = False,
        as_of: int | None = None,
        landed: Sequence[LandedSplice] = (),
    ) -> None:
        self._target = target
        self._spec = spec
        self._session = records.sparkSession
        with_sound_reads(self._session)
        self._observed = dict(observed)
        self._few = count is not None and count <= FEW_RECORDS
        self._count, self._names_keys = count, names_keys
        self._judges_keys = judges_again and spec.time_scope == "key" and spec.grace_us < LONGEST_US
        self._with_old, self._as_of, self._landed = with_old, as_of, landed
        self._bounds, self._by_time = bounds or {}, by_time
        none_is_late = spec.grace_us >= LONGEST_US or (bounds is not None and not self._may_be_late())
        self._timed = put_frames.accept_all(records) if none_is_late else self._with_stream_time(records)
        # No record is older than any stored version, so there is nothing to splice either.
        is_ahead = bounds is not None and none_is_late and self._begins_after_all()
        self._is_ahead = is_ahead and not with_old and trusts_times
        self._judged, self._survey = Once(self._judge), Once(self._look)
        self._plan: DataFrame | None = None
        #: The table's version before :meth:`write`, also if that failed after its splice; and what it committed besides
        #: the main commit: to the table's system history, if it has one, and the splice.
        self.version_before: int | None = None
        self.landed_known: Landed | None = None
        self.landed_before: Landed | None = None

    @property
    def observed(self) -> dict[int, int]:
        """Stream time per scope before the batch, microseconds."""
        return dict(self._observed)

    @property
    def judged(self) -> DataFrame:
        """The batch in the shape *judged*."""
        return self._judged()

    @property
    def survey(self) -> _Survey:
        """Counts and bounds of the batch: one Spark job."""
        return self._survey()

    def _judge(self) -> DataFrame:
        # Tasks still report metrics of this plan after the checkpoint: Spark must not drop it before :meth:`release`.
        self._plan = put_frames.judge(self._timed, self.current(), self._spec, few=self._few, with_old=self._with_old)
        # A checkpoint keeps rows as they are; a cache would turn them, structs too, into columns (1.1 s of 8.6 s).
        return self._plan.localCheckpoint(eager=False)

    def _look(self) -> _Survey:
        late = ~F.col("_refused") & ~F.col("_is_latest")
        spliced = ~F.col("_refused") & F.coalesce(F.col("_us") < F.col("_stored_us"), F.lit(False))
        judged = self._judged_by_itself() if self._is_ahead else self.judged
        rows = (
            judged.groupBy("_scope")
            .agg(
                F.count_if(~F.col("_refused")).alias("accepted"),
                F.count_if("_refused").alias("refused"),
                F.count_if(late).alias("out_of_order"),
                F.count_if(spliced).alias("spliced"),
                F.min(F.when(late, F.col("_us"))).alias("oldest_out_of_order"),
                F.min(F.when(spliced, F.col("_us"))).alias("oldest_spliced"),
                F.max(F.when(~F.col("_refused"), F.col("_us"))).alias("newest"),
                F.min(F.when(~F.col("_refused"), F.col("_us"))).alias("oldest"),
                F.min(F.when(~F.col("_refused") & ~spliced, F.col("_us"))).alias("oldest_ahead"),
            )
            .collect()
        )
        moved = _by_scope(rows, "newest")
        for splice in self._landed:
            moved = newest_times(moved, splice.stream_times)
        return _Survey(
            _counts(rows, sum(splice.count for splice in self._landed)),
            _oldest(rows, "oldest_out_of_order"),
            _oldest(rows, "oldest_spliced"),
            self._times_after(moved),
            _by_scope(rows, "oldest"),
            _by_scope(rows, "oldest_ahead"),
        )

    @property
    def counts(self) -> PutCounts:
        """What became of the records: one Spark job, unless the survey has run already."""
        return self.survey.counts

    @property
    def accepts_any(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._bounds) if self._is_ahead else self.counts.accepted > 0

    @property
    def stream_times(self) -> dict[int, int]:
        """Stream time per scope after the batch, microseconds."""
        if self._is_ahead:
            return self._times_if_accepted()
        return self.survey.stream_times

    @property
    def oldest_spliced_us(self) -> int | None:
        """The oldest instant of the records that belong in closed history."""
        return None if self._is_ahead else self.survey.oldest_spliced_us

    def _oldest_us(self, *, splice_landed: bool = False) -> dict[int, int]:
        """The oldest instant of the accepted records by scope; once the splice has landed, of the other records."""
        if self._is_ahead:
            return {scope: oldest for scope, (oldest, _) in self._bounds.items()}
        return self.survey.oldest_ahead_us if splice_landed else self.survey.oldest_us

    def outcomes(self) -> DataFrame:
        """Return judged + ``_put_result``, with ``_old`` filled for out-of-order records as well.

        Lazy, and reads the table: evaluate it before :meth:`write`.
        """
        oldest = self.survey.oldest_out_of_order_us
        known = None if oldest is None else self.current().unionByName(self.closed(oldest))
        # All of them may be of one key.
        many = self.counts.out_of_order * self.counts.accepted > FEW_PAIRS
        return put_frames.outcomes(self.judged, known, self._spec, many=many)

    def write(
        self,
        step: Callable[[str], Step | None],
        details: Mapping[str, Any] | None = None,
        known: tuple[int, int | None] | None = None,
        *,
        is_replay: bool = False,
        in_one_task: bool = False,
    ) -> Landed:
        """Write the batch: ``known`` (with system history) and ``splice`` (only if needed), then ``main``.

        Outside a stream's batch ``known`` comes last: if the other writes fail, nothing of them was ever known.

        Args:
            step: Returns the identity of a step by its name.
            details: Facts to travel with the commits.
            known: System time in microseconds and number of the batch; needed by a table with system history. Outside
                a stream's batch it is the earliest system time; the time of the main commit is taken if that is later.
            is_replay: Whether a write of the batch may be in the table already.
            in_one_task: As for :func:`~versioned.commit.commit`.

        Raises:
            OvertakenError: since the batch was judged, somebody else has put newer versions or moved stream time on.
        """
        write = partial(commit, in_one_task=in_one_task)
        said = {**said_times(self.stream_times), **(details or {})}
        tell = partial(self._write_known, write, step("known"), said)
        by_hand = step("known") is None
        if not by_hand:
            # First: with a stream time per key, the accepted records can no longer be determined after the main write.
            tell(known)
        # If the table has the batch already, its records seem to be late, older than the versions that they became.
        is_done = is_replay and self._has_landed(step("main"))
        main, splice, about = self._chosen()
        version = judged_version(said) if by_hand else None
        judged_by = JudgedBy(self._session, self._target, self._spec, self._observed, version)
        with never_overtaken(self._target):
            if splice is not None and not is_done:
                # A purge in between must not use the stream time of a batch that is not fully in the table yet, so the
                # splice carries the time before it. A new partition has none: it begins with its oldest record.
                oldest = self._oldest_us()
                before = {**said, **said_times({**oldest, **self._observed})}
                splice = judged_by.unless_moved(oldest, splice)
                self.landed_before = write(self._target, splice, step(SPLICE), before)
                spliced = self.landed_before.version
                self.version_before, judged_by = spliced - 1, judged_by.after(spliced)
            main = judged_by.unless_moved(self._oldest_us(splice_landed=splice is not None), main)
            landed = write(self._target, main, step("main"), {**said, **about})
        if by_hand and known is not None:
            # Concurrent puts are known in the order in which they landed, whichever writes its system history first.
            tell((max(known[0], landed.at_us), known[1]))
        if self.version_before is None:
            self.version_before = landed.version - 1
        return landed

    def _write_known(
        self,
        write: Callable[..., Landed],
        step: Step | None,
        said: Mapping[str, Any],
        known: tuple[int, int | None] | None,
    ) -> None:
        if known is not None and self._spec.system_history:
            self.landed_known = write(known_target(self._target), lambda: Append(self._known(*known)), step, said)

    def _chosen(self) -> tuple[_Build, _Build | None, Mapping[str, Any]]:
        """The main write, the write of late records that must come before it, and details for the main commit."""
        if not self._names_keys:
            return *self._whole(), {}
        rows = touched.current_rows(newest_commits(self._session, self._target, _COMMITS_OF_UPKEEP))
        after = None if rows is None or self._count is None else rows.after(self._count)
        if after is None or self._count is None:
            main, splice = self._whole()
            return main, splice, touched.replaced(rows if main == self._main_with_closed else None)
        if self._count > touched.MOST_NAMED:
            return self._merge_of_keys, None, after.details
        keys = touched.key_columns(self._rows(), self._spec)
        named = touched.named(keys.names, touched.hashes(self._accepted(), keys))
        return partial(self._main_of_keys, named), None, after.details

    def _whole(self) -> tuple[_Build, _Build | None]:
        """The main write that replaces all current rows, and the write of late records before it, if needed."""
        if self.oldest_spliced_us is None:
            return self._main, None
        return (self._main_with_closed, None) if self._rewrites_closed() else (self._main, self._splice)

    def landed_splice(self, before: Callable[[], PutBatch]) -> LandedSplice:
        """The late records that :meth:`write` has put before it failed; ``before`` as for :class:`LandedSplice`."""
        return LandedSplice(self._late(), self.counts.spliced, self.stream_times, before)

    def release(self) -> None:
        """Release the judged batch, which is kept as long as something refers to it; it cannot be used again."""
        self._judged, self._plan = Once(_given_back), None

    def current(self) -> DataFrame:
        """The stored current versions, read lazily."""
        return put_frames.versions(self._rows().where(F.col(CURRENT)), self._spec)

    def closed(self, after_us: int) -> DataFrame:
        """The stored closed versions that end after an instant, read lazily."""
        closed = self._rows().where(~F.col(CURRENT)).where(self._ends_after(after_us))
        return put_frames.versions(closed, self._spec)

    def _with_stream_time(self, records: DataFrame) -> DataFrame:
        schema = "_scope INT, _observed_us LONG"
        observed = self._session.createDataFrame(list(self._observed.items()), schema)
        refuse = partial(
            put_frames.refuse_late,
            observed=observed, current=self.current(), spec=self._spec, by_time=self._by_time,
        )  # fmt: skip
        if not self._landed:
            return refuse(records)
        # Records that have landed still move stream time at their places: no commit says so before the main one.
        landed = [splice.records.select(*records.columns) for splice in self._landed]
        there = reduce(DataFrame.unionByName, landed).withColumn("_landed", F.lit(True))
        both = records.withColumn("_landed", F.lit(False)).unionByName(there)
        return refuse(both).where(~F.col("_landed")).drop("_landed")

    def _times_after(self, moved: StreamTimes) -> dict[int, int]:
        return self._spec.from_first(newest_times(self._observed, moved))

    def _times_if_accepted(self) -> dict[int, int]:
        """Stream times after the batch if none of it is refused."""
        return self._times_after({scope: newest for scope, (_, newest) in self._bounds.items()})

    def _may_be_late(self) -> bool:
        if self._spec.time_scope == "key":
            return True
        # In order of time, no record is older than those before it in the batch.
        times = self._times_before() if self._by_time else self._times_if_accepted()
        return any(
            scope in times and oldest < times[scope] - self._spec.grace_us
            for scope, (oldest, _) in self._bounds.items()
        )

    def _times_before(self) -> dict[int, int]:
        """Stream times before the batch, including that of its new scopes if the spec has a first one."""
        first_us = self._spec.first_stream_time_us
        unseen = {} if first_us is None else dict.fromkeys(self._bounds, first_us)
        return newest_times(unseen, self._observed)

    def _begins_after_all(self) -> bool:
        newest = max(self._observed.values(), default=None)
        return newest is None or all(oldest >= newest for oldest, _ in self._bounds.values())

    def _rows(self) -> DataFrame:
        return versions_table(self._session, self._target, self._spec, self._as_of)

    def _judged_by_itself(self) -> DataFrame:
        """The batch judged without the table, as if every record were newer than everything stored."""
        instants = self._timed.drop("_value")
        return put_frames.judge(instants, None, self._spec, with_old=False)

    def _accepted(self) -> DataFrame:
        accepted = self._timed if self._is_ahead else self.judged.where(~F.col("_refused"))
        grace = F.lit(self._spec.grace_us).cast("long")
        return accepted.withColumn(put_frames.GRACE, grace) if self._judges_keys else accepted

    def _main(self) -> ReplaceWhere:
        state = put_frames.next_current(self.current(), self._accepted(), self._spec, few=self._few)
        return ReplaceWhere(put_frames.stored_rows(state, self._spec), self._reached(None))

    def _rewrites_closed(self) -> bool:
        """Whether few enough closed rows end after the oldest late record to be replaced with the current ones."""
        oldest = self._oldest_spliced()
        most = max(ROWS_FOR_ANY_SPLICE, ROWS_PER_SPLICE * self.counts.spliced)
        return has_at_most(most, self.closed(oldest))

    def _main_with_closed(self) -> ReplaceWhere:
        """Replace the current rows, and the closed ones that end after the oldest late record."""
        oldest = self._oldest_spliced()
        closed = put_frames.next_closed(self.closed(oldest), self.current(), self._late(), self._spec, few=self._few)
        current = put_frames.next_current(self.current(), self._accepted(), self._spec, few=self._few)
        state = current.unionByName(closed)
        return ReplaceWhere(put_frames.stored_rows(state, self._spec), self._reached(oldest))

    def _main_of_keys(self, named: str) -> ReplaceWhere:
        """Replace the current rows, and the closed ones that late records reach, of the named keys only."""
        where = f"({self._reached(self.oldest_spliced_us)}) AND {named}"
        stored = put_frames.versions(self._rows().where(where), self._spec)
        state = put_frames.next_versions(stored, self._accepted(), self._spec)
        return ReplaceWhere(put_frames.stored_rows(state, self._spec), where)

    def _merge_of_keys(self) -> Merge:
        """Change the rows of the batch's keys by MERGE, if there are more keys than can be named."""
        oldest, same = self.oldest_spliced_us, same_keys((*self._spec.keys, self._spec.valid_from))
        stored = put_frames.versions(self._rows().where(self._reached(oldest)), self._spec)
        changed = put_frames.changes(stored, self._accepted(), self._spec, few=self._few)
        condition = f"({self._reached(oldest, 't.')}) AND {same}"
        return Merge(put_frames.stored_rows(changed, self._spec), condition, _upsert)

    def _reached(self, oldest_us: int | None, table: str = "") -> str:
        """The condition for the current rows, and for the closed ones that end after an instant, if one is given.

        Current rows alone are selected by partition: then compacting closed history meanwhile is no conflict. Both
        together are selected by validTo only: with a condition on it *or* the partition, Delta would skip no file.
        """
        if oldest_us is None:
            return f"{table}{quote(CURRENT)} = true"
        return f"{table}{quote(self._spec.valid_to)} IS NULL OR {table}{self._ends_after(oldest_us)}"

    def _ends_after(self, us: int) -> str:
        # A literal, not an expression: Delta compares the bounds of files with literals only.
        return f"{quote(self._spec.valid_to)} > {instant_literal(us)}"

    def _late(self) -> DataFrame:
        """The accepted records that belong in closed history."""
        return self._accepted().where(F.col("_us") < F.col("_stored_us"))

    def _oldest_spliced(self) -> int:
        oldest = self.oldest_spliced_us
        assert oldest is not None
        return oldest

    def _splice(self) -> Merge:
        oldest = self._oldest_spliced()
        stored = self.closed(oldest).unionByName(put_frames.starts(self.current(), self._spec))
        changed = put_frames.changes(stored, self._late(), self._spec)
        same = same_keys((*self._spec.keys, self._spec.valid_from))
        condition = f"NOT t.{quote(CURRENT)} AND t.{self._ends_after(oldest)} AND {same}"
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
        """The accepted puts as rows of the system history; of several at the same instant, the last by place."""
        last = Window.partitionBy(*map(quote, self._spec.keys), "_us").orderBy(F.desc("_place"), F.desc("_scope"))
        accepted = reduce(DataFrame.unionByName, (splice.records for splice in self._landed), self._accepted())
        puts = accepted.withColumn("_rank", F.row_number().over(last)).where(F.col("_rank") == 1)
        return puts.select(
            *map(quote, self._spec.keys),
            F.timestamp_micros("_us").alias(self._spec.valid_from),
            *(F.col("_value").getField(name).alias(name) for name in self._spec.values),
            F.col("_value").isNull().alias(DELETED),
            F.timestamp_micros(F.lit(system_us)).alias(SYSTEM_FROM),
            F.lit(number).cast("long").alias(KNOWN_BATCH),
        )


def versions_table(session: Any, target: TableRef, spec: VersionedTableSpec, version: int | None = None) -> DataFrame:
    """Like :func:`read_table`, but checks the columns against the spec: others would be lost when rows are rewritten.

    Raises:
        SchemaError: the table has other columns; somebody changed it, perhaps since it was opened.
    """
    rows = read_table(session, target, version)
    check_schema(rows.schema, spec, target)
    return rows


def _given_back() -> DataFrame:
    raise AssertionError("the batch was released")


def has_at_most(most: int, rows: DataFrame) -> bool:
    """Whether there are at most ``most`` rows, estimated by a sample if that is many; reads no more than needed."""
    if most >= _MANY_ROWS:
        # All rows that are counted go to the one task that applies the limit.
        rows, most = rows.sample(1 / _SAMPLED, seed=1), most // _SAMPLED
    return rows.limit(most + 1).count() <= most


def _upsert(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()


def _counts(rows: list[Row], landed: int) -> PutCounts:
    accepted, refused, late, spliced = (
        sum(row[name] for row in rows) for name in ("accepted", "refused", "out_of_order", "spliced")
    )
    return PutCounts(accepted + landed, refused, late + landed, spliced + landed)


def _by_scope(rows: list[Row], name: str) -> dict[int, int]:
    return {row["_scope"]: row[name] for row in rows if row[name] is not None}


def _oldest(rows: list[Row], name: str) -> int | None:
    return min((row[name] for row in rows if row[name] is not None), default=None)
