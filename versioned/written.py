"""Reads what the newest commits of a table record: which batch wrote it last, and what happened since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.log_files import versions_there
from versioned.table_details import detail_of
from versioned.table_log import (
    back_in_time,
    commits_between,
    every_commit,
    is_foreign,
    own_details,
    recent,
    remember,
    restored_version,
    takes_back,
)

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_LIMITS: Final = (5, 100, 100_000)
#: How far back the log's files are read first: a batch writes a table once or twice.
_LATELY: Final = 2
_WAY_OF_RECORDS: Final = (
    "whose next batch would be judged by what it no longer holds. Send such records to its input; old history through "
    'streams.spark.backfill or "versioned backfill", which stop it first. If it stands still, or is gone for good, as '
    'where a RESTORE took the table back to before it, say so: owner="{}".'
)
#: The step that writes the late records of a put, if the other records follow in a write of their own.
SPLICE: Final = "splice"
#: Detail of a put by hand: the application that owned the table at that time; null = none.
OWNER: Final = "owner"


@dataclass(frozen=True, order=True)
class Written:
    """One write of a streaming batch, read from its commit; sorts by epoch, then batch."""

    epoch: int
    batch_id: int
    application: str = field(compare=False, default="")
    node: str = field(compare=False, default="")
    step: str = field(compare=False, default="")
    details: Mapping[str, Any] = field(compare=False, default_factory=dict)


@dataclass(frozen=True)
class TableState:
    """The state of a table according to its newest commits.

    ``written`` is the newest write of a batch; ``restored`` whether a RESTORE, or another table in its place, has taken
    that write back, and no later one has brought it forward again; ``blank`` whether the newest commit says nothing at
    all, not even what it did, because its file is empty; ``features`` the Delta features that a reader or writer must
    support; ``location`` where it lies according to Spark; ``by_others`` whether its commits show that it is not this
    library's.
    """

    exists: bool = True
    version: int = -1
    written: Written | None = None
    restored: bool = False
    blank: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    size_bytes: int = 0
    features: frozenset[str] = frozenset()
    location: str = ""
    by_others: bool = False

    @property
    def is_strange(self) -> bool:
        """Whether the table has rows, and neither a commit nor a property says that this library made it.

        >>> found = TableState(size_bytes=7, by_others=True)
        >>> found.is_strange, replace(found, properties={"versioned.sink": "latest"}).is_strange
        (True, False)
        """
        return self.by_others and self.size_bytes > 0 and not says_what_it_is(self.properties)


def says_what_it_is(properties: Iterable[str]) -> bool:
    """Whether the names of a table's properties show that it belongs to this library.

    >>> says_what_it_is(["delta.appendOnly", "versioned.sink"]), says_what_it_is(["delta.appendOnly"])
    (True, False)
    """
    return any(name.startswith("versioned.") for name in properties)


def look(session: SparkSession, target: TableRef, application: str | None = None) -> TableState:
    """The state of a table; searches back, since commits of maintenance may have followed those of a batch.

    Args:
        session: The session.
        target: The table; it need not exist.
        application: Only batches of this application; None = of any.
    """
    told = of_detail(detail_of(session, target))
    if not told.exists:
        return told
    found = newest(session, target, application)
    size, location = told.size_bytes, told.location
    return replace(found, properties=told.properties, size_bytes=size, features=told.features, location=location)


def of_detail(detail: Row | None) -> TableState:
    """The state of a table as far as DESCRIBE DETAIL has it, without its commits."""
    if detail is None:
        return TableState(exists=False)
    features, size, location = frozenset(detail["tableFeatures"] or ()), detail["sizeInBytes"] or 0, detail["location"]
    return TableState(properties=detail["properties"], size_bytes=size, features=features, location=location or "")


def newest(session: SparkSession, target: TableRef, application: str | None = None) -> TableState:
    """Like :func:`look`, for a table that exists, but without properties, size, features and location."""
    for rows in chain(_lately(session, target), back_in_time(session, target, _LIMITS)):
        state = state_of(rows, application)
        if state.written is not None:
            break
    remember(target, state.version)
    return state


def _lately(session: SparkSession, target: TableRef) -> Iterator[Sequence[Row | Mapping[str, Any]]]:
    """The newest commits if the log's files have them, in a third of the time that the history takes."""
    told = recent(session, target, _LATELY)
    # A commit without any info is not among these, and may be the newest.
    if told is not None and are_newest(session, {target: told[0]["version"]}):
        yield told


def are_newest(session: SparkSession, versions: Mapping[TableRef, int]) -> bool:
    """Whether nothing was committed to tables after these versions; no Spark job, so each batch may ask.

    Returns:
        False also if this cannot be found out: then :func:`newest` of each table says more.
    """
    there = versions_there(session, {target: (version, version + 1) for target, version in versions.items()})
    # Each table has at least one of its two versions, so none can make up for another.
    return there == sorted(versions.values())


def state_of(
    commits: Iterable[Row | Mapping[str, Any]],
    application: str | None = None,
) -> TableState:
    """The state of a table by its commits, newest first: ``version``, ``operation``, its parameters, ``userMetadata``.

    >>> said = {"operation": "RESTORE", "operationParameters": {"version": "2"}, "userMetadata": None}
    >>> state_of([{"version": 4, **said}]).restored
    True
    """
    version, blank = -1, False
    standing: int | None = None  # The version whose rows the table has, if a RESTORE says so.
    rows = list(commits)
    for row in rows:
        number = int(row["version"])
        if version < 0:
            version, blank = number, row["operation"] is None
        # Before a table's first commit there was nothing to take back.
        if number > 0:
            standing = _standing(row, standing)
        written = written_by(row)
        if written is not None and application in (None, written.application):
            return TableState(True, version, written, standing is not None and standing < number, blank)
    return TableState(True, version, None, standing is not None, blank, by_others=_are_of_others(rows))


def is_taken_back(session: SparkSession, target: TableRef, known: int, landed: int) -> bool:
    """Whether others took a table back to before one of its versions, before a later version landed.

    Args:
        session: The session.
        target: The table.
        known: The version at which the table was known.
        landed: The version that landed; if it is the next one, nothing is read.
    """
    return are_taking_back(commits_between(session, target, known, landed), known)


def are_taking_back(commits: Iterable[Row | Mapping[str, Any]], known: int) -> bool:
    """Whether commits after a version, newest first, leave a table without what it had then.

    >>> back = {"version": 6, "operation": "RESTORE", "operationParameters": {"version": 3}}
    >>> forward = {"version": 7, "operation": "RESTORE", "operationParameters": {"version": 5}}
    >>> are_taking_back([back], 5), are_taking_back([forward, back], 5)
    (True, False)
    """
    standing: int | None = None
    for row in commits:
        standing = _standing(row, standing)
    return standing is not None and standing < known


def _standing(row: Row | Mapping[str, Any], standing: int | None) -> int | None:
    """The version to which commits, down to this one, took a table back; ``standing`` is the same without this one."""
    if not takes_back(row) or (standing is not None and int(row["version"]) > standing):
        return standing
    found = restored_version(row)
    return -1 if found is None else found


def _are_of_others(commits: Sequence[Row | Mapping[str, Any]]) -> bool:
    """Whether commits show that a table is not this library's; those left in a cleaned log may not show it.

    Delta also cleans the log of an idle table of this library that others maintain; but maintenance writes no rows.
    """
    if any(own_details(row) is not None for row in commits):
        return False
    return any(int(row["version"]) == 0 or is_foreign(row) for row in commits)


def owner_of(session: SparkSession, target: TableRef, commits: Sequence[Row | Mapping[str, Any]] = ()) -> str | None:
    """The application that owns a table because its batches wrote to it; None if there is none.

    Args:
        session: The session.
        target: The table.
        commits: Its newest commits, newest first, if known. If they do not show the owner, it searches back.
    """
    further = (limit for limit in _LIMITS if limit > len(commits))
    for known in chain([commits], back_in_time(session, target, further)):
        told = told_owner(known)
        if told is not None:
            return told[0]
    return None


def told_owner(commits: Iterable[Row | Mapping[str, Any]]) -> tuple[str | None] | None:
    """The owner of a table by its commits, newest first: ``(None,)`` if none owns it, None if they do not say.

    A put by hand that looked for the owner records whom it found, so that the next one need not search the history.

    >>> said = '{"versioned": {}, "details": {"owner": "shop"}}'
    >>> told_owner([{"version": 1, "operation": "WRITE", "userMetadata": said}])
    ('shop',)
    >>> told_owner([{"version": 1, "operation": "OPTIMIZE", "userMetadata": None}]) is None
    True
    """
    rows = list(commits)
    # A batch takes precedence: it may have come between a put's search for the owner and its commit.
    written = state_of(rows).written
    if written is not None:
        return (written.application,)
    said = [(own_details(row) or {}).get("details", {}) for row in rows]
    by_hand = [(details[OWNER],) for details in said if OWNER in details]
    is_all = any(row["version"] == 0 for row in rows)
    return by_hand[0] if by_hand else (None,) if is_all else None


def written_by(row: Row | Mapping[str, Any]) -> Written | None:
    """The write of a batch that a commit is; None if no batch of this library made it."""
    said = own_details(row)
    identity = (said or {}).get("versioned", {})
    parts, epoch, batch = str(identity.get("txn")).rsplit("/", 2), identity.get("epoch"), identity.get("batch")
    if said is None or len(parts) < 3 or not isinstance(epoch, int) or not isinstance(batch, int):
        return None
    application, node, step = parts
    return Written(epoch, batch, application, node, step, said.get("details", {}))


def is_put_by_hand(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit is of a put or a deletion by hand, whichever owner it names.

    >>> said = '{"versioned": {"write": "5f"}, "details": {"owner": "shop"}}'
    >>> is_put_by_hand({"version": 1, "operation": "WRITE", "userMetadata": said})
    True
    """
    said = own_details(row)
    return said is not None and "write" in said["versioned"] and OWNER in said.get("details", {})


def refuse_between_writes(target: TableRef, found: TableState) -> None:
    """Refuse a put by hand between the two writes of a batch that has late records.

    The second write would be judged with what was put, and what the first one wrote would not fit it.

    Args:
        target: The table.
        found: The state of the table by its newest commits.

    Raises:
        ConfigurationError: the batch has written only its late records so far; the message says what to do.
    """
    said = found.written
    if said is not None and said.step == SPLICE and not found.restored:
        raise ConfigurationError(
            f"Batch {said.batch_id} of the application {said.application} has written its late records to {target} and "
            "not yet the others: after a put it could lose some of them. Start the application once, so that it ends "
            "the batch, then put again; if it is gone for good, RESTORE the table to its version before that."
        )


def steps_of(session: SparkSession, target: TableRef, application: str) -> list[tuple[str, str]]:
    """Every node and step of an application that occurs in the table's history."""
    found = map(written_by, every_commit(session, target))
    return sorted({(w.node, w.step) for w in found if w is not None and w.application == application})


def check_owner(target: TableRef, application: str | None, named: str | None, way: str = _WAY_OF_RECORDS) -> None:
    """Refuse a change that does not name the application that owns the table, if there is one.

    Args:
        target: The table.
        application: The application that owns it.
        named: The one that the caller names as the owner.
        way: Why it is refused, and what to do; ``{}`` stands for the owner.

    Raises:
        ConfigurationError: another application owns it.
    """
    if application not in (None, named):
        raise ConfigurationError(f"{target} belongs to the application {application}, {way.format(application)}")
