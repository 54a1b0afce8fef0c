"""The only function that writes rows to Delta; creating, altering and maintaining tables are Delta commands.

Delta silently skips a write whose transaction id it has seen. So each write carries a transaction id of its own
(application, node *and step*, with epoch and batch id as version) and its identity as ``userMetadata``; after each
write the table's log is searched for exactly that commit. Settings needed by one write are set on the session of its
DataFrame and reset afterwards, so that they never affect another write.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from versioned import faults
from versioned.constraints import refused_by_others
from versioned.errors import CommitError, ConfigurationError, FencedError
from versioned.identifiers import TableRef, quote
from versioned.merge_sql import SqlMerge
from versioned.reading import sql_in
from versioned.replay import DRIVER, check_origin
from versioned.session_settings import SessionLock, SharedSetting, session_settings
from versioned.table_log import Landed, newest_own, next_own, remember

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

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
_FENCED: Final = "ConcurrentTransactionException"
#: For the rows that it removes, a replaceWhere reads a transaction id from the session, whatever its options say. A
#: MERGE in another thread may have set half of its own there: then nothing was committed, and the write is tried again.
#: If it has set all of it, the commit carries a second id, which nobody looks for in this table.
_HALF_AN_ID: Final = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"
_TXN_APP: Final = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
_CONSTRAINT_CHECK: Final = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
_WRITERS: Final = "spark.sql.maxConcurrentOutputFileWriters"
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"

#: A MERGE takes its transaction id only from the session, so only one may run at a time. Other writes pass theirs as
#: options, which take precedence over the session.
_MERGING: Final = threading.Lock()
#: In each session, one command at a time that sets commit metadata: no MERGE may carry that of maintenance.
_SAYING: Final = SessionLock()
_UNCHECKED: Final = SharedSetting(_CONSTRAINT_CHECK, "false")
#: Otherwise Delta allows no row outside of the replaced partitions, even with that check switched off.
_BY_ROWS: Final = SharedSetting("spark.databricks.delta.replaceWhere.dataColumns.enabled", "true")
#: Let a task write several partitions at the same time; with one writer it would sort its rows by partition first.
_SIDE_BY_SIDE: Final = SharedSetting(_WRITERS, "4")
#: Spark's default, INT96, takes half as long again to write, has no bounds by which a reader can skip rows, and other
#: readers take it for nanoseconds, which end in the year 2262.
_MICROSECONDS: Final = SharedSetting(_TIMESTAMPS, "TIMESTAMP_MICROS")


@dataclass(frozen=True)
class Step:
    """The writer of a commit: one step of one node in one batch. Two commits to a table in one batch are two steps."""

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

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes its commit from all others in a table's log."""
        return {"txn": self.txn_app_id, "epoch": self.epoch, "batch": self.batch_id}


@dataclass(frozen=True)
class Append:
    """Add the rows of ``frame``."""

    frame: DataFrame


@dataclass(frozen=True)
class ReplaceWhere:
    """Remove the rows that match ``predicate`` and add ``frame``, whose rows need not match it, in one commit."""

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
    """The MERGE condition that these columns are equal.

    Args:
        names: The columns.
        or_null: Whether two nulls are equal too.

    >>> same_keys(["id", "at"])
    't.`id` = s.`id` AND t.`at` = s.`at`'
    """
    equal = "<=>" if or_null else "="
    return " AND ".join(f"t.{quote(name)} {equal} s.{quote(name)}" for name in names)


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
        build: Makes the write; called again after a conflict with maintenance, to read the newest state.
        step: Identity of the write; None for a write outside a streaming batch (not idempotent).
        details: JSON-able facts that travel in the commit's ``userMetadata``.
        in_one_task: Whether the added rows are so few that one task may write them, to one file per partition. A MERGE
            follows Spark's own settings.

    Returns:
        The commit: its Delta version and the details it carries (of the first landing, if this is a replay). If a
        write outside a batch changes nothing, Delta makes no commit; then this is the library's newest one before it.

    Raises:
        FencedError: another driver or a newer epoch has written under this identity.
        ReplayMismatchError: this write landed before, made from other input.
        CommitError: the table stayed in conflict after six tries.
        SchemaError: a constraint that somebody else gave the table refuses rows.
    """
    name = f"{step.node}/{step.step}" if step else str(target.short_name)
    faults.point(f"before:{name}")
    # A write outside a batch gets a unique identity.
    identity = {"write": uuid.uuid4().hex} if step is None else step.identity
    made = (lambda: _in_one_task(build())) if in_one_task else build
    session = _write_with_retry(target, made, step, _metadata(identity, details or {}))
    landed = next_own(session, target, identity) or newest_own(session, target, identity)
    if landed is None and step is None:
        # Delta makes no commit for a write that changes nothing: the state is that of the commit before.
        landed = newest_own(session, target)
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


@contextmanager
def saying(session: SparkSession, details: Mapping[str, Any]) -> Iterator[None]:
    """Let the commits of maintenance commands (OPTIMIZE, VACUUM) carry details, as all commits of this library do.

    The details of a MERGE are a setting of its session too, so in one session the two wait for each other. A stream has
    a session of its own and waits for no maintenance.
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
            # The storage may have accepted a commit whose answer was lost: sent again, it conflicts with itself.
            is_fenced = _names(error, (_FENCED,))
            if step is None or not is_fenced or not _is_there(built.frame.sparkSession, target, step, metadata):
                raise
        return built.frame.sparkSession

    return with_retry(target, write)


def _is_there(session: SparkSession, target: TableRef, step: Step, metadata: str) -> bool:
    """Whether this process wrote the very same commit."""
    landed, details = newest_own(session, target, step.identity), json.loads(metadata).get("details", {})
    return landed is not None and DRIVER in details and landed.details == details


def with_retry(target: TableRef, write: Callable[[], T]) -> T:
    """Return what a write returns; retry it while others commit first. It must read the newest state each time.

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
        # Rows that are closed move to the other partition in the same commit; Delta's check would refuse them.
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
        return SqlMerge(sql_in(write.frame.sparkSession, target), write.frame, write.condition)
    return _delta_table(target, write.frame).alias("t").merge(write.frame.alias("s"), write.condition)


def _delta_table(target: TableRef, frame: DataFrame) -> Any:
    from delta.tables import DeltaTable

    if target.path is not None:
        return DeltaTable.forPath(frame.sparkSession, target.path)
    return DeltaTable.forName(frame.sparkSession, target.sql)


@contextmanager
def _no_transaction_of_others(session: SparkSession) -> Iterator[None]:
    """Unset the transaction id that a user's own ``foreachBatch`` may have set: by it Delta silently skips all writes
    but the first."""
    if session.conf.get(_TXN_APP, None) is None and session.conf.get(_TXN_VERSION, None) is None:
        yield
        return
    # It may belong to a MERGE in another thread, which the lock lets end first.
    with _SAYING.of(session), session_settings(session, {_TXN_APP: None, _TXN_VERSION: None}):
        yield


def _merge_settings(step: Step | None, metadata: str) -> dict[str, str]:
    if step is None:
        return {_METADATA: metadata}
    return {_METADATA: metadata, _TXN_APP: step.txn_app_id, _TXN_VERSION: str(step.txn_version)}


def _metadata(identity: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    return json.dumps({"versioned": dict(identity), "details": dict(details)}, sort_keys=True)


def is_conflict(error: BaseException) -> bool:
    """Whether a write failed only because another one came before it: tried again, it may land."""
    return _names(error, _CONFLICTS)


def _names(error: BaseException, classes: tuple[str, ...]) -> bool:
    # Typed exceptions exist only where delta.exceptions was imported; elsewhere the class is in the text.
    return type(error).__name__ in classes or any(name in str(error) for name in classes)
