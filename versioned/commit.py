"""The one function through which every Delta write goes.

Delta skips a write whose transaction id it has seen, and says so nowhere. So each write carries a transaction id of
its own (application, node *and step*, with epoch and batch id as version) and its identity as ``userMetadata``; after
each write the table's log is searched for exactly that commit. Settings needed by one write are put on the
session of its DataFrame and taken off again, so they never leak to another write.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, TypeVar

from versioned import faults
from versioned.constraints import refused_by_others
from versioned.durations import instant_us
from versioned.errors import CommitError, ConfigurationError, FencedError, NotAVersionedTableError
from versioned.identifiers import TableRef, quote
from versioned.log_files import commit_infos
from versioned.merge_sql import SqlMerge
from versioned.replay import DRIVER, check_origin, without_origin
from versioned.session_settings import SessionLock, SharedSetting, session_settings
from versioned.sql_types import sql_properties

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder
    from pyspark.sql import Column, DataFrame, DataFrameWriter, Row, SparkSession

T = TypeVar("T")

#: A transaction version is the epoch, then this many bits of batch id.
EPOCH_BITS: Final = 40
_MAX_TRIES: Final = 6
_CONFLICTS: Final = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
)
#: What is asked of the history of a table.
_TOLD: Final = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")
#: How far back a search goes at most, and so many of these commits are looked at at a time.
_MOST: Final = 100_000
_PAGE: Final = 10_000
_COMPACTION: Final = "OPTIMIZE"
#: What changes rows in place: by this library, or by others.
_CHANGING: Final = frozenset({"WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "COPY INTO"})
_FENCED: Final = "ConcurrentTransactionException"
#: For the rows that it removes, a replaceWhere asks the session for a transaction id, whatever its options say. A MERGE
#: beside it, in another thread, may have put half of its own there: then nothing was committed, and it is tried again.
#: Of a whole one the commit carries a second id, which in this table nobody asks for.
_HALF_AN_ID: Final = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"
_VIEW: Final = "EXPECT_TABLE_NOT_VIEW"
#: Why nothing can be told of a path at which there is no table.
_MISSING: Final = (
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
)
_TXN_APP: Final = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
_CONSTRAINT_CHECK: Final = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
_WRITERS: Final = "spark.sql.maxConcurrentOutputFileWriters"
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"

#: A MERGE takes its transaction id from the session alone, so only one may run. Others say theirs as options of the
#: write, which go before what the session says.
_MERGING: Final = threading.Lock()
#: In each session one command at a time that says something: what maintenance says, no MERGE may carry.
_SAYING: Final = SessionLock()


#: The version at which this process saw a table last; merely where to look first.
_SEEN: Final[dict[TableRef, int]] = {}
#: How many commits behind that are looked at before the history is asked.
_LOOKED_AHEAD: Final = 3
_UNCHECKED: Final = SharedSetting(_CONSTRAINT_CHECK, "false")
#: Else Delta lets no row lie outside of the partitions that are replaced, whatever it is told of that check.
_BY_ROWS: Final = SharedSetting("spark.databricks.delta.replaceWhere.dataColumns.enabled", "true")
#: A task writes all partitions of a table side by side; with one writer it would sort its rows by partition first.
_SIDE_BY_SIDE: Final = SharedSetting(_WRITERS, "4")
#: Spark's default of 96 bits takes half as long again to write, has no bounds by which a reader leaves rows out, and
#: other readers take it for nanoseconds, which end in the year 2262.
_MICROSECONDS: Final = SharedSetting(_TIMESTAMPS, "TIMESTAMP_MICROS")


@dataclass(frozen=True)
class Step:
    """Who writes: one step of one node in one batch. Two commits to a table in one batch are two steps."""

    application: str
    node: str
    step: str
    epoch: int
    batch_id: int

    def __post_init__(self) -> None:
        # The last two parts of the transaction id are read back as node and step.
        if "/" in self.node or "/" in self.step:
            raise ConfigurationError(
                f'No "/" may be in the names of a node or a step; got "{self.node}", "{self.step}".'
            )

    @property
    def txn_app_id(self) -> str:
        return f"{self.application}/{self.node}/{self.step}"

    @property
    def txn_version(self) -> int:
        """``(epoch << 40) + batch id``: an older epoch can never write again.

        >>> Step("app", "node", "main", epoch=1, batch_id=2).txn_version
        1099511627778
        """
        return (self.epoch << EPOCH_BITS) + self.batch_id


@dataclass(frozen=True)
class Append:
    """Add the rows of ``frame``."""

    frame: DataFrame


@dataclass(frozen=True)
class ReplaceWhere:
    """Remove the rows that match ``predicate`` and add ``frame``, in one commit; its rows may lie outside."""

    frame: DataFrame
    predicate: str


@dataclass(frozen=True)
class Merge:
    """MERGE ``frame`` (alias ``s``) into the table (alias ``t``); ``clauses`` adds the WHEN parts."""

    frame: DataFrame
    condition: str | Column
    clauses: Callable[[DeltaMergeBuilder], DeltaMergeBuilder]


Write = Append | ReplaceWhere | Merge


def same_keys(names: Iterable[str], *, or_null: bool = False) -> str:
    """The condition of a MERGE that these columns are equal.

    Args:
        names: The columns.
        or_null: Whether two nulls are equal too.

    >>> same_keys(["id", "at"])
    't.`id` = s.`id` AND t.`at` = s.`at`'
    """
    equal = "<=>" if or_null else "="
    return " AND ".join(f"t.{quote(name)} {equal} s.{quote(name)}" for name in names)


@dataclass(frozen=True)
class Landed:
    """A commit that is in the table: its version, what it said of itself, and when it was made, in microseconds.

    That lies behind the landing of the last commit that it had to wait for, or was made anew for. The log says it by
    the writer's clock, the history by that of the file system, which may be some milliseconds behind.
    """

    version: int
    details: Mapping[str, Any] = field(default_factory=dict)
    at_us: int = field(default=0, compare=False)


def commit(
    target: TableRef,
    build: Callable[[], Write],
    step: Step | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    in_one_task: bool = False,
) -> Landed:
    """Write once, as this step of this batch, and make sure that it landed.

    Args:
        target: The table.
        build: Makes the write; called again after a conflict with maintenance, so that it reads the newest state.
        step: Identity of the write; None for a write outside a streaming batch (not idempotent).
        details: JSON-able facts that travel in the commit's ``userMetadata``.
        in_one_task: Whether what is added is so little that one task may write it, to one file a partition. A MERGE
            goes by Spark's own settings.

    Returns:
        The commit: its Delta version and the details it carries (of the first landing, if this is a replay). Where a
        write outside a batch changes nothing, Delta makes no commit: then the library's newest one before it.

    Raises:
        FencedError: another driver or a newer epoch has written under this identity.
        ReplayMismatchError: this write landed before, made of other input.
        CommitError: the table stayed in conflict after six tries.
        SchemaError: a constraint that somebody else gave the table refuses rows.
    """
    name = f"{step.node}/{step.step}" if step else str(target.short_name)
    faults.point(f"before:{name}")
    identity = _identity(step)
    made = (lambda: _in_one_task(build())) if in_one_task else build
    session = _write_with_retry(target, made, step, _metadata(identity, details or {}))
    landed = _next_own(session, target, identity) or _newest_of(session, target, identity)
    if landed is None and step is None:
        # Delta makes no commit of a write that changes nothing: then the state is that of the commit before.
        landed = newest_own(session, target, None)
    if landed is None:
        raise FencedError(
            f"The write {name} to {target} did not land: a newer epoch or another driver owns the table. "
            "Stop this driver; if it is the rightful one, start it with --new-epoch."
        )
    if step is not None:
        batch = step.epoch, step.batch_id
        check_origin(f"{name} of batch {step.batch_id} in {target}", batch, landed.details, details or {})
    remember(target, landed.version)
    faults.point(f"after:{name}")
    return landed


def remember(target: TableRef, version: int) -> None:
    """Where this process saw a table last; its next commit is looked for behind it first."""
    _SEEN[target] = version


def recall(target: TableRef, version: int) -> None:
    """Where another process saw a table last; what this one saw itself is newer."""
    _SEEN.setdefault(target, version)


def _next_own(session: SparkSession, target: TableRef, identity: Mapping[str, Any]) -> Landed | None:
    """The write's newest commit among the next behind what was seen last; the history takes thrice as long.

    None says nothing: the table may have been replaced, or written by many others since.
    """
    if target not in _SEEN:
        return None
    found: Landed | None = None
    versions = range(_SEEN[target] + 1, _SEEN[target] + 2 + _LOOKED_AHEAD)
    infos = commit_infos(session, target, versions, _SEEN[target])
    for version in versions:
        info = infos.get(version)
        if info is None:
            return found
        said = own_details(info)
        if said is not None and said["versioned"] == identity:
            found = Landed(version, said.get("details", {}), _made_us(info))
    return None


def recent(session: SparkSession, target: TableRef, back: int) -> list[Mapping[str, Any]] | None:
    """The newest commits, newest first, as the log's files tell them: from ``back`` before the one seen here last.

    Returns:
        None where only the history tells them: of a table not seen yet, or written by many others since.
    """
    seen = _SEEN.get(target)
    if seen is None:
        return None
    asked = range(max(seen - back, 0), seen + 2 + _LOOKED_AHEAD)
    infos = commit_infos(session, target, asked, seen)
    newest = max(infos, default=-1)
    # One that is missing among them may be a commit that says nothing of itself; behind the last there may be more.
    if newest < seen or newest == asked[-1] or newest - min(infos) >= len(infos):
        return None
    remember(target, newest)
    return [{**infos[version], "version": version} for version in sorted(infos, reverse=True)]


def newest_commits(session: SparkSession, target: TableRef, number: int) -> Sequence[Row | Mapping[str, Any]]:
    """So many of the newest commits or a few more, newest first: as :func:`recent` tells them, else by the history."""
    told = recent(session, target, number)
    if told is not None:
        return told
    asked = history(session, target, number)
    if asked:
        remember(target, asked[0]["version"])
    return asked


def newest_own(session: SparkSession, target: TableRef, step: Step | None) -> Landed | None:
    """The commit that this very step left in the table's history, or None; without a step that of any write."""
    return _newest_of(session, target, None if step is None else _identity(step))


def told_so_far(session: SparkSession, target: TableRef) -> dict[str, Any]:
    """What the newest commit of this library told, but not of which batch it was: the next one goes on telling it."""
    newest = newest_own(session, target, None)
    return {} if newest is None else without_origin(newest.details)


def _newest_of(session: SparkSession, target: TableRef, identity: Mapping[str, Any] | None) -> Landed | None:
    """The newest commit of this library with an identity, or with any; maintenance commits may lie on top."""
    for rows in back_in_time(session, target, (3, 100, 100_000)):
        for row in rows:
            said = own_details(row)
            if said is not None and identity in (None, said["versioned"]):
                return Landed(int(row["version"]), said.get("details", {}), _made_us(row))
    return None


def back_in_time(session: SparkSession, target: TableRef, limits: Iterable[int]) -> Iterator[list[Row]]:
    """So many of the newest commits, and then more, until they are all; for who stops where they tell enough."""
    for limit in limits:
        rows = history(session, target, limit)
        yield rows
        if len(rows) < limit:
            return


def history(session: SparkSession, target: TableRef, limit: int, only: Column | None = None) -> list[Row]:
    """The newest commits of a table, newest first: version, timestamp, operation with all about it, userMetadata.

    Args:
        session: The session.
        target: The table.
        limit: How many are looked at.
        only: A condition on those that are told, for one small Spark job; None = all.
    """
    told = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {int(limit)}")
    return (told if only is None else told.where(only)).select(*_TOLD).collect()


def every_commit(session: SparkSession, target: TableRef) -> Iterator[Row]:
    """All commits of a table, newest first: version, operation and userMetadata.

    Delta holds them all, which may be gigabytes as Python's objects; so they come page by page, and whoever looks at
    them keeps what is needed. Each page behind the first is a small Spark job or two, so pages are large.
    """
    told = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {_MOST}").select("version", "operation", "userMetadata")
    below = told
    while True:
        page = below.limit(_PAGE).collect()
        yield from page
        if len(page) < _PAGE:
            return
        below = told.where(told["version"] < page[-1]["version"])


def own_details(row: Row | Mapping[str, Any]) -> dict[str, Any] | None:
    """What a commit of this library says of itself; None for any other commit, whatever it says.

    What Delta commits by itself in the session of a MERGE, or while maintenance says something there, carries their
    metadata too: a table that another thread makes, and the compaction behind a write. No CREATE of this library says
    anything, and no OPTIMIZE of it is a write's.
    """
    operation = str(row["operation"])
    try:
        said = json.loads(row["userMetadata"] or "null")
    except ValueError:
        return None
    is_own = isinstance(said, dict) and isinstance(said.get("versioned"), dict)
    if is_own and ("CREATE" in operation or (operation == _COMPACTION and said["versioned"])):
        return None
    return said if is_own and isinstance(said.get("details", {}), dict) else None


def _made_us(row: Row | Mapping[str, Any]) -> int:
    """When a commit was made: the log tells milliseconds; the history an instant, collected in this process's zone."""
    told = row["timestamp"]
    return instant_us(told.astimezone(timezone.utc)) if isinstance(told, datetime) else (told or 0) * 1_000


def takes_back(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit gave a table the rows of another version or of another table, whatever was written before it.

    >>> takes_back({"operation": "RESTORE"}), takes_back({"operation": "CLONE"}), takes_back({"operation": "WRITE"})
    (True, True, False)
    """
    operation = str(row["operation"])
    return operation in ("RESTORE", "CLONE") or operation.startswith(("REPLACE TABLE", "CREATE OR REPLACE TABLE"))


def is_foreign(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit changed rows and is none of this library.

    >>> is_foreign({"operation": "DELETE", "userMetadata": None}), is_foreign({"operation": "OPTIMIZE"})
    (True, False)
    """
    return str(row["operation"]) in _CHANGING and own_details(row) is None


def restored_version(row: Row | Mapping[str, Any]) -> int | None:
    """The version that a RESTORE made a table's newest again; None if it was told an instant, or is no RESTORE."""
    # A number in the log, a text in the history.
    version = str((row["operationParameters"] or {}).get("version"))
    return int(version) if version.isdigit() else None


def is_append(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit only added rows."""
    return row["operation"] == "WRITE" and (row["operationParameters"] or {}).get("mode") == "Append"


def is_missing(session: SparkSession, target: TableRef) -> bool:
    """Whether there is no Delta table yet at the path or name."""
    if target.path is None:
        return not session.catalog.tableExists(target.sql)
    return detail_of(session, target) is None


def detail_of(session: SparkSession, target: TableRef) -> Row | None:
    """What DESCRIBE DETAIL tells of a table; None if there is none yet.

    Raises:
        NotAVersionedTableError: it is a view.
    """
    if target.path is None and not session.catalog.tableExists(target.sql):
        return None
    try:
        return session.sql(f"DESCRIBE DETAIL {target.sql}").collect()[0]
    except Exception as error:  # the class differs between classic and Connect sessions
        if target.path is not None and any(reason in str(error) for reason in _MISSING):
            return None
        if _VIEW in str(error):
            raise NotAVersionedTableError(f"{target} is a view, which keeps no versions. Open its table.") from error
        raise


def properties_of(session: SparkSession, target: TableRef) -> Mapping[str, str]:
    """The properties of a table that is there."""
    # The whole row as the command gives it: to select from it would be a Spark job.
    told: dict[str, str] = session.sql(f"DESCRIBE DETAIL {target.sql}").collect()[0]["properties"]
    return told


def set_properties(session: SparkSession, target: TableRef, properties: Mapping[str, str]) -> None:
    """Set properties of a table that is there, in one commit; others stay as they are."""
    session.sql(f"ALTER TABLE {target.sql} SET {sql_properties(properties)}")


@contextmanager
def saying(session: SparkSession, details: Mapping[str, Any]) -> Iterator[None]:
    """Let the commits of maintenance commands (OPTIMIZE, VACUUM) carry facts, as all commits of this library do.

    What a MERGE says is a setting of its session too, so in one session the two wait for each other. A stream has a
    session of its own and waits for no maintenance.
    """
    said = {_METADATA: _metadata({}, details)}
    alone = _SAYING.of(session)
    with alone, _MICROSECONDS.of(session), _no_transaction_of_others(session), session_settings(session, said):
        yield


def _write_with_retry(target: TableRef, build: Callable[[], Write], step: Step | None, metadata: str) -> SparkSession:
    def write() -> SparkSession:
        built = build()
        try:
            _execute(target, built, step, metadata)
        except Exception as error:
            refused = refused_by_others(target, error)
            if refused is not None:
                raise refused from error
            # A store may have taken a commit whose answer was lost: sent once more, it meets itself.
            is_fenced = _names(error, (_FENCED,))
            if step is None or not is_fenced or not _is_there(built.frame.sparkSession, target, step, metadata):
                raise
        return built.frame.sparkSession

    return with_retry(target, write)


def _is_there(session: SparkSession, target: TableRef, step: Step, metadata: str) -> bool:
    """Whether this process wrote the very same commit."""
    landed, details = newest_own(session, target, step), json.loads(metadata).get("details", {})
    return landed is not None and DRIVER in details and landed.details == details


def with_retry(target: TableRef, write: Callable[[], T]) -> T:
    """What a write gives, tried anew while only others came before it; it must read the newest state each time.

    Raises:
        FencedError: another driver has written under its identity.
        CommitError: the table stayed in conflict after six tries.
    """
    for attempt in range(1, _MAX_TRIES + 1):
        try:
            return write()
        except Exception as error:
            if _names(error, (_FENCED,)):
                raise FencedError(
                    f"Another driver wrote to {target} under the same identity at the same time. Stop one of the two."
                ) from error
            is_half_set = _names(error, (_HALF_AN_ID,)) and attempt < _MAX_TRIES
            if not (is_half_set or is_conflict(error)):
                raise
            if attempt == _MAX_TRIES:
                raise CommitError(
                    f"{target} was changed by others during each of {_MAX_TRIES} tries. "
                    "Pause maintenance and start again."
                ) from error
            time.sleep(random.uniform(0.1, 0.4) * attempt)  # noqa: S311 - spreads retries, guards nothing
    raise AssertionError("unreachable")


def _in_one_task(write: Write) -> Write:
    return write if isinstance(write, Merge) else replace(write, frame=write.frame.coalesce(1))


def _execute(target: TableRef, write: Write, step: Step | None, metadata: str) -> None:
    session = write.frame.sparkSession
    by_itself = nullcontext() if step is not None else _no_transaction_of_others(session)
    with _MICROSECONDS.of(session), by_itself:
        if isinstance(write, Merge):
            with _SAYING.of(session), _MERGING, session_settings(session, _merge_settings(step, metadata)):
                write.clauses(_merge(target, write)).execute()
            return
        writer = write.frame.write.format("delta").option("userMetadata", metadata)
        if step is not None:
            writer = writer.option("txnAppId", step.txn_app_id).option("txnVersion", step.txn_version)
        if isinstance(write, Append):
            _save(writer.mode("append"), target)
            return
        # The rows that close go to the other partition in the same commit; Delta's check would refuse them.
        with _UNCHECKED.of(session), _BY_ROWS.of(session), _SIDE_BY_SIDE.of(session):
            _save(writer.mode("overwrite").option("replaceWhere", write.predicate), target)


def _save(writer: DataFrameWriter, target: TableRef) -> None:
    if target.path is not None:
        writer.save(target.path)
    else:
        writer.saveAsTable(target.sql)


def _merge(target: TableRef, write: Merge) -> Any:
    from pyspark.sql import is_remote

    if is_remote() and isinstance(write.condition, str):
        return SqlMerge(target, write.frame, write.condition)
    return _delta_table(target, write.frame).alias("t").merge(write.frame.alias("s"), write.condition)


def _delta_table(target: TableRef, frame: DataFrame) -> Any:
    from delta.tables import DeltaTable

    if target.path is not None:
        return DeltaTable.forPath(frame.sparkSession, target.path)
    return DeltaTable.forName(frame.sparkSession, target.sql)


@contextmanager
def _no_transaction_of_others(session: SparkSession) -> Iterator[None]:
    """Without the transaction id that a user's own ``foreachBatch`` may have set: by it Delta skips, without a word,
    all writes but the first."""
    if session.conf.get(_TXN_APP, None) is None and session.conf.get(_TXN_VERSION, None) is None:
        yield
        return
    # What is set may be a MERGE's in another thread, which ends before this begins.
    with _SAYING.of(session), session_settings(session, {_TXN_APP: None, _TXN_VERSION: None}):
        yield


def _merge_settings(step: Step | None, metadata: str) -> dict[str, str]:
    if step is None:
        return {_METADATA: metadata}
    return {_METADATA: metadata, _TXN_APP: step.txn_app_id, _TXN_VERSION: str(step.txn_version)}


def _identity(step: Step | None) -> dict[str, Any]:
    """How a write is told from all others in a table's log; one outside a batch gets a name that no other has."""
    if step is None:
        return {"write": uuid.uuid4().hex}
    return {"txn": step.txn_app_id, "epoch": step.epoch, "batch": step.batch_id}


def _metadata(identity: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    return json.dumps({"versioned": dict(identity), "details": dict(details)}, sort_keys=True)


def is_conflict(error: BaseException) -> bool:
    """Whether a write failed only because another one came before it: tried again, it may land."""
    return _names(error, _CONFLICTS)


def _names(error: BaseException, classes: tuple[str, ...]) -> bool:
    # Typed exceptions exist only where delta.exceptions was imported; elsewhere the class is in the text.
    return type(error).__name__ in classes or any(name in str(error) for name in classes)
