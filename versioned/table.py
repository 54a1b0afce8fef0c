"""``VersionedTable``: a Delta table that keeps every version of every key (KIP-889, KIP-914)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from versioned import put_frames, upkeep
from versioned import spark_functions as F
from versioned.adding import add_values
from versioned.backfill import BackfillResult, backfill_frame, only_history
from versioned.commit import saying
from versioned.drawing import Picture
from versioned.drawn_rows import drawn_versions
from versioned.durations import Duration, Resolution, check_order, instant, instant_us, optional_span_us
from versioned.errors import ConfigurationError, NotAVersionedTableError, OvertakenError
from versioned.given import check_kind
from versioned.identifiers import TableRef
from versioned.lookup_frames import (
    How,
    as_of_frame,
    between_frame,
    bound_column,
    current_frame,
    history_frame,
    instant_column,
    lookup_frame,
    reachable,
    valid_at,
    visible,
)
from versioned.once import Once
from versioned.put import LandedSplice, PutBatch, versions_table
from versioned.put_checks import check_deletions, rejected_rows, rejects_refused
from versioned.put_records import shape_records
from versioned.put_result import PutResult
from versioned.put_survey import survey_put
from versioned.reading import in_full, read_or_cached, read_table
from versioned.schema import columns_of, values_of
from versioned.sent_rows import sends
from versioned.session_settings import with_sound_reads
from versioned.spec import CURRENT, TimeScope, VersionedTableSpec, is_widened, known_target
from versioned.sql import register_sql
from versioned.statistics import check_hidden, hidden_names, hides_any, names_in
from versioned.stream_times import (
    AsOf,
    horizon_of,
    keep_times,
    purged_before,
    said_times,
    stream_times_of,
    times_now,
)
from versioned.system_history import check_known, known_rows, make_versioned, next_system_us
from versioned.table_details import detail_of, properties_of
from versioned.touched import DELETION_VECTORS, can_be_named, key_columns
from versioned.verify import VerificationReport, verify_frame
from versioned.written import OWNER, check_owner, newest, owner_of

_LOG: Final = logging.getLogger(__name__)
#: How often a put is tried, and judged again, if others come in between.
_TRIES: Final = 4


class VersionedTable:
    """A table of versions, each valid from ``validFrom`` (inclusive) to ``validTo`` (exclusive, null = current).

    Open a table with :meth:`open`, create one with :meth:`create`. One application owns a table and writes to it.

    >>> rates = VersionedTable.create(                                   # doctest: +SKIP
    ...     spark, "sales.rates", "currency STRING, rate DOUBLE", keys="currency", history_retention="30 days")
    >>> rates.put(changes, timestamp="ts").counts                        # doctest: +SKIP
    PutCounts(accepted=3, refused=0, out_of_order=1, spliced=1)
    """

    def __init__(
        self, spark: SparkSession, target: TableRef, spec: VersionedTableSpec, told: Mapping[str, str] | None = None
    ) -> None:
        with_sound_reads(spark)
        self._spark = spark
        self._target = target
        self._spec = spec
        self._purged_us = purged_before(told or {})
        self._names_keys = Once(partial(self._find_names_keys, told))

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        target: str | TableRef,
        schema: str | StructType,
        *,
        keys: str | tuple[str, ...] | list[str],
        history_retention: Duration,
        grace: Duration | None = None,
        valid_from: str = "validFrom",
        valid_to: str = "validTo",
        time_scope: TimeScope = "partition",
        time_resolution: Resolution = Resolution.MICROSECOND,
        first_stream_time_us: int | None = None,
        system_history: bool = False,
        pii_columns: Iterable[str] = (),
    ) -> VersionedTable:
        """Create an empty versioned table.

        Args:
            spark: The session.
            target: A path (contains a ``/``) or a catalog name of any number of parts.
            schema: Key and value columns, as DDL text or StructType.
            keys: The key columns, of orderable types; all other columns are values.
            history_retention: How far behind stream time versions can be looked up.
            grace: How late a record may be and still be accepted. Default, and maximum: ``history_retention``.
            valid_from: Name of the start column.
            valid_to: Name of the end column.
            time_scope: Whether stream time is kept per input partition, per store or per key.
            time_resolution: Microseconds, or milliseconds as in Kafka.
            first_stream_time_us: Stream time before the first record (Kafka: -1 ms); None = none.
            system_history: Whether to keep every accepted put with its system time, in ``<name>_known``. Then
                ``as_of(..., known_at=...)`` returns what the table said at an instant, even after purge and vacuum.
            pii_columns: Columns with personal data. The table keeps no statistics of them, so that nothing of them is
                left once their rows are erased and vacuumed. In return, they cannot be used to skip files.

        Raises:
            ConfigurationError: a name, type or duration is not allowed, a name in ``pii_columns`` is not a column, or
                the table already exists.
        """
        ref = in_full(spark, TableRef.parse(target))
        columns = columns_of(schema)
        check_kind("keys", keys, (str, tuple, list), 'names of columns, such as "id" or ("id", "day")')
        key_names = (keys,) if isinstance(keys, str) else tuple(keys)
        spec = VersionedTableSpec.of(
            keys=key_names,
            values=values_of(columns.names, key_names),
            history_retention=history_retention,
            grace=grace,
            valid_from=valid_from,
            valid_to=valid_to,
            time_scope=time_scope,
            time_resolution=time_resolution,
            first_stream_time_us=first_stream_time_us,
            system_history=system_history,
        )
        hidden = hidden_names(pii_columns)
        check_hidden(hidden, (*names_in(columns), spec.valid_from, spec.valid_to))
        make_versioned(spark, ref, columns, spec, hidden)
        return cls(spark, ref, spec)

    @classmethod
    def open(cls, spark: SparkSession, target: str | TableRef) -> VersionedTable:
        """Open a table made by this library.

        Raises:
            NotAVersionedTableError: there is no table, it is a view, or it was not made by :meth:`create`.
            SchemaError: its columns are not those of its spec.
            ConfigurationError: it keeps a system history, but that table is missing or does not match.
        """
        ref = in_full(spark, TableRef.parse(target))
        detail = detail_of(spark, ref)
        if detail is None:
            raise NotAVersionedTableError(
                f'There is no table {ref}. A path has a "/"; anything else is a catalog name. Mend it, or make the '
                "table with VersionedTable.create(...)."
            )
        properties = detail["properties"]
        columns = read_table(spark, ref).columns if is_widened(properties) else ()
        spec = VersionedTableSpec.from_properties(properties, str(ref), columns)
        opened = cls(spark, ref, spec, properties)
        opened._columns()  # Checks them.
        return opened

    @property
    def spec(self) -> VersionedTableSpec:
        """The specification of the table: its columns, retention, grace and stream-time scope."""
        return self._spec

    @property
    def target(self) -> TableRef:
        """The path or name of the table."""
        return self._target

    @property
    def names_keys(self) -> bool:
        """Whether a small batch may replace only the rows of its own keys (:mod:`versioned.touched`).

        It may not if keys are personal data: the log would contain their hashes.
        """
        return self._names_keys()

    def rows(self) -> DataFrame:
        """Every stored row, lazily."""
        return read_or_cached(self._spark, self._target)

    def stream_times(self) -> dict[int, int]:
        """Stream time per scope, in microseconds; known even after Delta has cleaned the commits that record it."""
        return stream_times_of(self._spark, self._target, self._spec)

    def horizon(self) -> datetime | None:
        """The oldest instant for which lookups are guaranteed: the slowest scope's stream time minus the retention.

        It moves back if an older partition appears, but not into what :meth:`purge` has removed.

        None while the table is empty, and always with ``time_scope="key"``: there each key has its own horizon, the
        start of its latest version minus the retention.
        """
        us = horizon_of(self._spark, self._target, self._spec, self.stream_times(), self._purged_us)
        return None if us is None else instant(us)

    def put(
        self,
        records: DataFrame,
        *,
        timestamp: str = "ts",
        deleted: str | None = None,
        partition: str | None = None,
        sequence: str | None = None,
        max_future_skew: Duration | None = None,
        owner: str | None = None,
    ) -> PutResult:
        """Put a batch of records, with the same result as putting them one by one.

        Args:
            records: Key columns, value columns and a timestamp column.
            timestamp: Name of the timestamp column: the instant from which the value is valid.
            deleted: Name of a boolean column that is true for tombstones; None = no tombstones.
            partition: Name of an integer column with the stream-time scope (with ``time_scope="partition"``).
            sequence: Name of the column that orders the records of a partition; None = by timestamp. A hash of the
                row breaks ties.
            max_future_skew: How far ahead of this machine's clock a record may be; records beyond it are rejected. None
                = any. A record from the future advances stream time, which makes all later records late.
            owner: The application that owns the table, if there is one; it must be stopped meanwhile.

        Returns:
            Counts, rejected rows, and on demand the outcome of each record. Reasons for rejection: ``NULL_TS``,
            ``TS_RANGE`` (outside the years 1 to 9999), ``FUTURE_TS``, ``NULL_KEY``, ``BAD_TYPE`` (a value that its
            column cannot hold, a key that would be rounded, a text that is not an instant, such as a time without a
            day, or a partition beyond 32 bits). A result column with the name of a key is prefixed with ``put_``.

        Raises:
            SchemaError: the records are not a DataFrame; a column is missing or has another type; or a column was added
                to the table since it was opened.
            ConfigurationError: an application other than ``owner`` writes to the table, or is in the middle of a batch
                there; or the table's system history no longer matches it.
            OvertakenError: four times, others wrote newer versions between the judging of the batch and its write.
        """
        skew_us = optional_span_us("max_future_skew", max_future_skew)
        last_us = None if skew_us is None else instant_us(datetime.now(timezone.utc)) + skew_us
        shape = partial(
            shape_records, records, spec=self._spec, timestamp=timestamp, deleted=deleted, partition=partition,
            sequence=sequence, last_us=last_us,
        )  # fmt: skip
        return self._put(shape, owner, by_time=sequence is None)

    def backfill(
        self,
        records: DataFrame,
        *,
        timestamp: str = "ts",
        deleted: str | None = None,
        sequence: str | None = None,
        owner: str | None = None,
        dry_run: bool = False,
    ) -> BackfillResult:
        """Put old history into the table, however late it is. Stream time does not change.

        Args:
            records: As for :meth:`put`. Records after the stream time (the table's, or their key's own) are not history
                and are rejected.
            timestamp: Name of the timestamp column.
            deleted: Name of a boolean column that is true for tombstones.
            sequence: Name of the column that orders the records; None = by timestamp.
            owner: The application that owns the table, stopped meanwhile; ``streams.spark.backfill`` passes it.
            dry_run: Only count the outcomes; write nothing.

        Returns:
            Outcomes, rejected rows and counts (:class:`~versioned.backfill.BackfillResult`).

        Raises:
            SchemaError: as for :meth:`put`.
            ConfigurationError: an application other than ``owner`` owns the table.
            OvertakenError: others wrote newer versions meanwhile.
        """
        check_owner(self._target, owner_of(self._spark, self._target), owner)
        times, judged = self._times_now()
        columns = self._columns()
        shaped = shape_records(records, columns, self._spec, timestamp, deleted=deleted, sequence=sequence)
        shaped = only_history(shaped, times, read_table(self._spark, self._target).where(F.col(CURRENT)), self._spec)
        done = backfill_frame(self._spark, self._target, self._spec, shaped, times, judged, dry_run=dry_run)
        if done.version is not None and not times:
            self._keep(*self._times_now())
        return done

    def delete(
        self,
        keys: DataFrame,
        *,
        timestamp: str = "ts",
        partition: str | None = None,
        sequence: str | None = None,
        owner: str | None = None,
    ) -> DataFrame:
        """Put a tombstone per record, and return the version that was valid there just before (R185).

        Returns:
            Key columns, ``ts``, ``put_result``, and ``validFrom`` with the value columns of the version that was
            valid at ``ts`` (null if there was none or it was a deletion, or if the record was too late). A value or
            start column that is itself named ``ts`` or ``put_result`` is returned as ``old_ts`` or
            ``old_put_result``. If a key has such a name, the record's own column is ``put_ts`` or ``put_put_result``.
            If another column has the resulting name, it gets a further ``old_``.

        Raises:
            SchemaError: as for :meth:`put`, or some records have no key or no instant; nothing was deleted.
            ConfigurationError, OvertakenError: as for :meth:`put`.
        """
        named = {"_at": timestamp, "_in": partition, "_by": sequence}
        check_deletions(keys, self._spec.keys, timestamp, partition, sequence)
        scope, order = partition and "_in", sequence and "_by"

        def shape(columns: StructType) -> DataFrame:
            dead = put_frames.tombstones(keys, columns, self._spec, named)
            return shape_records(dead, columns, self._spec, "_at", deleted="_dead", partition=scope, sequence=order)

        outcomes = self._put(shape, owner, takes_rejects=False, by_time=sequence is None)._judged
        return put_frames.replaced_values(outcomes, self._spec)

    def add_columns(
        self, schema: str | StructType, *, owner: str | None = None, pii_columns: Iterable[str] = ()
    ) -> None:
        """Add value columns to the table; they are null in all existing rows.

        Other handles refuse to write until they are reopened. Register SQL views and functions again afterwards.

        Args:
            schema: The new columns. Columns that the table already has, with the same type, are ignored.
            owner: The application that owns the table, if there is one; it must be stopped meanwhile.
            pii_columns: Those of the new columns with personal data, as for :meth:`create`.

        Raises:
            ConfigurationError: a name or type is not allowed, a name in ``pii_columns`` is not one of the new columns,
                or an application other than ``owner`` owns the table.
            SchemaError: the table already has a column of that name, with another type.

        >>> rates.add_columns("source STRING, quality INT")                  # doctest: +SKIP
        """
        columns, hidden = columns_of(schema), hidden_names(pii_columns)
        check_hidden(hidden, tuple(names_in(columns)))
        spec = VersionedTable.open(self._spark, self._target).spec
        with saying(self._spark, self._said()):
            self._spec = add_values(self._spark, self._target, spec, columns, owner, hidden)

    def current(self) -> DataFrame:
        """The latest version of each key that is not deleted: keys, validFrom, validTo, values."""
        return current_frame(self.rows(), self._spec)

    def as_of(self, at: datetime, *, known_at: datetime | None = None) -> DataFrame:
        """The version of each key that was valid at an instant (naive = UTC).

        For an instant before the horizon, only versions that are still the latest are found, and a warning is logged.
        (With ``time_scope="key"`` there is no warning: each key has its own horizon, known only from the rows.)

        Args:
            at: The instant of valid time.
            known_at: The instant of system time. Returns what the table said then, without late records that came
                afterwards, even if it has been purged or vacuumed since. Any instant is allowed; there is no horizon.

        Raises:
            ConfigurationError: ``known_at`` for a table created without ``system_history``.

        >>> rates.as_of(month_end, known_at=day_of_the_report)               # doctest: +SKIP
        """
        if known_at is not None:
            return visible(self._known(known_at).where(valid_at(self._spec, instant_column(at))), self._spec)
        horizon = self.horizon()
        if horizon is not None and instant_us(at) < instant_us(horizon):
            _LOG.warning(
                "%s: as_of %s is older than the horizon %s: closed versions are no longer found, only latest ones. Ask "
                "for a later instant, or keep history longer.", self._target, at, horizon,
            )  # fmt: skip
        return as_of_frame(self.rows(), self._spec, instant_column(at), bound_column(horizon))

    def between(
        self, start: datetime | None = None, end: datetime | None = None, *, known_at: datetime | None = None
    ) -> DataFrame:
        """Every stored version that was valid at some instant of [start, end]; None = no bound.

        The result is complete from the horizon on; purged history is gone. With ``known_at`` it is what was known at
        that instant of system time (as in :meth:`as_of`), and complete.

        Raises:
            ConfigurationError: start is after end; or ``known_at`` for a table without ``system_history``.
        """
        rows = self.rows() if known_at is None else self._known(known_at)
        check_order("between", start, end)
        return between_frame(rows, self._spec, bound_column(start), bound_column(end))

    def history(
        self,
        keys: DataFrame | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        ascending: bool = True,
    ) -> DataFrame:
        """The versions of some keys (or of all), ordered by validFrom; bounds as in :meth:`between`.

        A deletion is not a version: the version before it ends there. Deletions are in :meth:`rows`, and in
        ``<name>_history`` in SQL.

        Raises:
            SchemaError: ``keys`` lacks a key column, or has one that cannot be compared exactly with the table's.
        """
        return history_frame(self.between(start, end), self._spec, keys, ascending)

    def timeline(
        self,
        keys: DataFrame | None = None,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        title: str | None = None,
        most_keys: int = 100,
    ) -> Picture:
        """The versions of some keys as a picture, including tombstones. A notebook displays it directly.

        Args:
            keys: A frame with the key columns, one row per key. Default: the first keys of the table.
            start: The first instant to draw (naive = UTC). Default: the earliest start of the versions.
            end: The last instant to draw. Default: the latest start or end of the versions.
            title: The heading. Default: the name of the table.
            most_keys: At most this many keys are collected and drawn; the title says out of how many.

        Raises:
            ConfigurationError: start is after end.
            SchemaError: as for :meth:`history`.
        """
        check_order("timeline", start, end)
        return drawn_versions(self.rows(), self._spec, keys, start, end, title or self._target.short_name, most_keys)

    def lookup(self, frame: DataFrame, at: str, how: How = "left") -> DataFrame:
        """Each row with the version of its key that was valid at its instant: an as-of join.

        Args:
            frame: A frame with the key columns, in any case, and the timestamp column ``at``. The keys have the table's
                types, or types that compare exactly: whole numbers and decimals of any width, dates and timestamps
                where nothing is truncated. A left lookup of up to a million persisted rows, which it counts, moves only
                the versions that it finds: keep the rows persisted until the result is written.
            at: Name of the timestamp column.
            how: ``inner`` or ``left``. An inner lookup of few rows, or of ``F.broadcast(frame)``, moves no versions.

        Returns:
            The columns of ``frame``, values, validFrom, validTo and ``reason`` (null = found; NO_MATCH, TOMBSTONE or
            EXPIRED). It is called ``lookup_reason`` if the table itself has a column ``reason``.

        Raises:
            SchemaError: ``frame`` lacks a column, or has one that the result would have twice; a key cannot be compared
                exactly with the table's (cast it); or ``at`` is not a timestamp or date.
            ConfigurationError: ``how`` is neither ``inner`` nor ``left``.
        """
        horizon, spec, sent = self._horizon_column(), self._spec, lambda: sends(frame, self._target, self._spec.keys)
        return lookup_frame(frame, reachable(self.rows(), spec, horizon), spec, at, how, horizon, sends=sent)

    def verify(self) -> VerificationReport:
        """Check every stored row against the invariants of the table, in one job."""
        return verify_frame(read_table(self._spark, self._target), self._spec)

    def purge(self) -> bool:
        """Delete closed versions and tombstones that no guaranteed lookup can find; never a latest value. A scope that
        is silent for longer than the retention holds the purge back, and a warning is logged.

        Returns:
            Whether anything was deleted.
        """
        times, judged = self._times_now()
        upkeep.tell_held_back(self._target, self._spec, times)
        return upkeep.purge(self._spark, self._target, self._spec, times, judged) is not None

    def optimize(self, *, current: bool = False) -> None:
        """Compact the files of closed history and, with ``current``, of current rows, which may make a batch retry."""
        upkeep.optimize(self._spark, self._target, self._said(), current=current)

    def vacuum(self, retain: Duration | None = None) -> None:
        """Remove files older than ``retain`` that the newest table version does not need.

        Raises:
            RetentionError: ``retain`` is shorter than seven days, or than the table's
                ``delta.deletedFileRetentionDuration``.
        """
        times, judged = self._times_now()
        upkeep.vacuum(self._spark, self._target, retain, {**said_times(times), **judged})
        # If a table gets nothing but upkeep, its last commit with stream times may be cleaned from the log.
        keep_times(self._spark, self._target, times, judged)

    def register_sql(self, name: str | None = None, *, temporary: bool = True, version: int | None = None) -> list[str]:
        """Create SQL views and table functions of this table: ``<name>_current``, ``<name>_as_of(ts)`` and others.

        Args:
            name: Base of their names. Default: the name of the table.
            temporary: For this session only; False = in the catalog, by default in the schema of the table.
            version: Query the table as of this Delta version (system time); None = the current one.

        Returns:
            The names created (docs/reference/sql.md).

        Raises:
            ConfigurationError: the name is a path, is malformed, or has several parts although it is temporary.
        """
        return register_sql(self._spark, self._target, self._spec, name, temporary=temporary, version=version)

    def _columns(self) -> StructType:
        """The table's columns, checked against this handle's spec and against the system history, if it has one."""
        columns = versions_table(self._spark, self._target, self._spec).schema
        check_known(self._spark, self._target, self._spec, columns)
        return columns

    def _find_names_keys(self, told: Mapping[str, str] | None) -> bool:
        properties = properties_of(self._spark, self._target) if told is None else told
        if properties.get(DELETION_VECTORS) != "true":
            return False
        keys = key_columns(self.rows(), self._spec)
        return can_be_named(keys) and not hides_any(properties, keys)

    def _said(self) -> dict[str, object]:
        """The stream times as details that every commit of this library carries, so that the newest ones have them."""
        times, judged = self._times_now()
        return {**said_times(times), **judged}

    def _times_now(self) -> tuple[dict[int, int], AsOf]:
        """The stream times, and the table version at which they were read."""
        return times_now(self._spark, self._target, self._spec)

    def _keep(self, times: Mapping[int, int], judged: AsOf) -> None:
        """Keep the stream times after a write that has landed; a failure is only logged, since its commit has them."""
        try:
            keep_times(self._spark, self._target, times, judged)
        except Exception:  # of any kind: the rows are in the table
            _LOG.warning("%s does not keep its stream times; the next put or vacuum does.", self._target, exc_info=True)

    def _known(self, at: datetime) -> DataFrame:
        if not self._spec.system_history:
            raise ConfigurationError(
                f"{self._target} keeps no system history, so it cannot tell what was known at {at}. Make it with "
                "system_history=True; or use Delta's time travel, as far back as its files are there."
            )
        return known_rows(read_or_cached(self._spark, known_target(self._target)), self._spec, instant_column(at))

    def _horizon_column(self) -> Column | None:
        return bound_column(self.horizon())

    def _put(
        self,
        shape: Callable[[StructType], DataFrame],
        owner: str | None,
        *,
        takes_rejects: bool = True,
        by_time: bool = False,
    ) -> PutResult:
        found = survey_put(self._spark, self._target, self._spec, lambda: shape(self._columns()), owner)
        told, shaped, times, judged = found.batch, found.records, found.stream_times, found.judged
        if told.rejected and not takes_rejects:
            raise rejects_refused(shaped)
        valid = shaped.where(F.col("_reason").isNull()).drop("_reason")
        landed: list[LandedSplice] = []
        for attempt in range(1, _TRIES + 1):
            put = partial(
                PutBatch, self._target, self._spec, valid, times, told.bounds, told.count, by_time=by_time,
                landed=tuple(landed),
            )  # fmt: skip
            batch = put(with_old=False, trusts_times=attempt == 1, names_keys=self.names_keys, judges_again=True)
            try:
                self._write(batch, found.owner, judged)
                break
            except OvertakenError:
                if attempt == _TRIES:
                    raise
                if batch.version_before is not None:
                    landed.append(batch.landed_splice(partial(put, as_of=batch.version_before)))
                    valid = landed[-1].left_of(valid, self._spec)
                times, judged = self._times_now()
            finally:
                batch.release()
        before = newest(self._spark, self._target).version if batch.version_before is None else batch.version_before
        reasons = rejected_rows(shaped.where(F.col("_reason").isNotNull()), self._spec)
        return PutResult(reasons, told.rejected, batch, self._spec, partial(put, as_of=before), landed)

    def _write(self, batch: PutBatch, owner: str | None, judged: AsOf) -> None:
        if batch.accepts_any:
            known = (next_system_us(self._spark, self._target), None) if self._spec.system_history else None
            batch.write(lambda _name: None, {OWNER: owner, **judged}, known)
            self._keep(batch.stream_times, judged)
