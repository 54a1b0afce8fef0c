"""The stream times of a stored table: read from its commits, or from what remains after Delta cleans its log.

Every commit of the library carries the stream times after it. Delta keeps commits for ``delta.logRetentionDuration``
(30 days). If only others have written since (for example an OPTIMIZE of the platform), the last commit with stream
times is lost. A table with one scope, 0, still has its stream time in its rows: the newest ``validFrom``, which no
maintenance removes. If records come from several partitions, the rows do not say from which one, so such tables also
keep their stream times as a property: puts by hand write it, and for the batches of an application each maintenance
pass does.

A write is judged by the stream times of one version and may land many versions later; it does not say what others moved
in between. So it records which version that was, and readers take the largest of all stream times recorded since.

The horizon follows the slowest scope. So it moves back if an older partition appears, or if the table is to keep
history longer from now on, but not into what a purge has removed: that limit is kept as a property, too
(docs/decisions/0015-history-given-up-stays-given-up.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from pyspark.sql import Row, SparkSession

from versioned import faults
from versioned import spark_functions as F
from versioned.commit import saying, with_retry
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.spec import VersionedTableSpec
from versioned.table_details import properties_of, set_properties
from versioned.table_log import back_in_time, newest_commits, own_details, restored_version, takes_back

#: Table property: stream time per scope in microseconds, as JSON.
KEPT: Final = "versioned.streamTimes"
#: Table property: the instant, in microseconds, before which a purge has removed what had expired.
PURGED: Final = "versioned.purgedBefore"
_DETAIL: Final = "streamTimes"
_AS_OF: Final = "streamTimesAsOf"
_LIMITS: Final = (10, 1_000, 100_000)

Times = dict[int, int]
Commits = Sequence[Row | Mapping[str, Any]]
#: The detail of a commit with the table version by whose stream times it was judged.
AsOf = Mapping[str, int]


def stream_times_of(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, commits: Commits | None = None
) -> Times:
    """Stream time per scope in microseconds; empty for a table that never had a record.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        commits: Its newest commits, if they are known: as many as :func:`commits_that_tell` returns.
    """
    told = _told(spark, target, commits_that_tell(spark, target) if commits is None else commits)
    if told:
        return told
    kept = kept_times(properties_of(spark, target))
    if len(kept) > 1:
        return kept
    start = F.unix_micros(F.max(quote(spec.valid_from)))
    newest = read_table(spark, target).agg(start.alias("us")).collect()[0]["us"]
    if newest is None:
        return kept
    scope = next(iter(kept), 0)
    return spec.from_first({scope: max(newest, kept.get(scope, newest))})


def times_now(spark: SparkSession, target: TableRef, spec: VersionedTableSpec) -> tuple[Times, AsOf]:
    """The stream times of :func:`stream_times_of`, and the table version at which they were read."""
    commits = commits_that_tell(spark, target)
    return stream_times_of(spark, target, spec, commits), as_of(commits)


def horizon_of(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, times: Mapping[int, int], purged_us: int | None
) -> int | None:
    """The oldest instant whose lookups are promised, by the spec, but not earlier than what a purge has removed.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        times: Its stream times.
        purged_us: What :func:`purged_before` returned when the spec was read. With one scope the horizon of a spec
            never goes back, so no later purge need be looked up; but a spec may keep history longer than its
            predecessor.
    """
    horizon_us = spec.horizon_us(times)
    if horizon_us is None:
        return None
    if len(times) > 1:
        purged_us = purged_before(properties_of(spark, target))
    return horizon_us if purged_us is None else max(horizon_us, purged_us)


def give_up(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, horizon_us: int, details: Mapping[str, object]
) -> None:
    """Record that history before an instant is given up: a new scope or a longer retention could move the horizon back.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        horizon_us: The instant.
        details: Facts to travel with the commit.

    Raises:
        CommitError: the table stayed in conflict after six tries.
    """
    if spec.time_scope == "key":
        return  # Each key has a horizon of its own.

    def write() -> None:
        kept = purged_before(properties_of(spark, target))
        if kept is not None and kept >= horizon_us:
            return
        with saying(spark, details):
            set_properties(spark, target, {PURGED: str(horizon_us)})

    with_retry(target, write)


def purged_before(properties: Mapping[str, str]) -> int | None:
    """The instant, in microseconds, before which a purge has removed what had expired, by a table's properties.

    >>> purged_before({"versioned.purgedBefore": "17"}), purged_before({})
    (17, None)
    """
    told = properties.get(PURGED)
    return None if told is None else int(told)


def kept_times(properties: Mapping[str, str]) -> Times:
    """The stream times in a table's properties.

    >>> kept_times({"versioned.streamTimes": '{"3": 17}'}), kept_times({})
    ({3: 17}, {})
    """
    return {int(scope): int(us) for scope, us in json.loads(properties.get(KEPT, "{}")).items()}


def as_of(commits: Commits) -> AsOf:
    """The detail with the table version of stream times that are read from these commits, newest first.

    >>> as_of([{"version": 7}, {"version": 6}])
    {'streamTimesAsOf': 7}
    """
    return {_AS_OF: commits[0]["version"]} if commits else {}


def judged_version(details: Mapping[str, Any]) -> int | None:
    """The version from :func:`as_of` among the details of a commit.

    >>> judged_version({"owner": None, "streamTimesAsOf": 7}), judged_version({})
    (7, None)
    """
    version: int | None = details.get(_AS_OF)
    return version


def newest_times(before: Mapping[int, int], moved: Mapping[int, int]) -> Times:
    """Stream time per scope after records whose newest instants are ``moved``.

    >>> newest_times({0: 5, 1: 7}, {0: 9, 1: 6})
    {0: 9, 1: 7}
    """
    return {**before, **{scope: max(us, before.get(scope, us)) for scope, us in moved.items()}}


def said_times(times: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """Stream times as details of a commit.

    >>> said_times({3: 17})
    {'streamTimes': {'3': 17}}
    """
    return {_DETAIL: {str(scope): us for scope, us in sorted(times.items())}}


def keep_times(spark: SparkSession, target: TableRef, times: Mapping[int, int], judged: AsOf) -> bool:
    """Keep the stream times as a property if the rows would not show them: if there is any scope but 0.

    Larger ones that others have kept meanwhile stay. A RESTORE takes the property itself back.

    Args:
        spark: The session.
        target: The table.
        times: Stream time per scope, as in a commit of the table.
        judged: The table version at which they were read.

    Returns:
        Whether the property was written.

    Raises:
        CommitError: the table stayed in conflict after six tries.
    """
    if not set(times) - {0}:
        return False
    given = iter([(times, judged)])

    def write() -> bool:
        # On a retry, whoever wrote first may have taken back the given times, so read them from the commits.
        moved, seen = next(given, None) or _told_now(spark, target)
        kept = kept_times(properties_of(spark, target))
        newest = newest_times(kept, moved)
        if newest == kept:
            return False
        said = said_times(newest)
        faults.point(f"before:{target.short_name}/times")
        with saying(spark, {**said, **seen}):
            set_properties(spark, target, {KEPT: json.dumps(said[_DETAIL])})
        return True

    return with_retry(target, write)


def keep_told_times(spark: SparkSession, target: TableRef, spec: VersionedTableSpec) -> bool:
    """Like :func:`keep_times`, with the times in the newest commits: for upkeep, since batches do not keep them."""
    return keep_times(spark, target, *times_now(spark, target, spec))


def told_times(commits: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, int]]:
    """The stream times in commits, newest first; commits that a RESTORE took back do not count.

    Neither does upkeep, such as a VACUUM, that began before a RESTORE and ended after it, if the RESTORE took back the
    version by which it was judged.

    A RESTORE to an instant does not say what it took back, nor does replacing the table by another one. For a table
    with one scope, nothing before that counts, since the rows show its stream time; for others everything counts, since
    their rows do not show which scope they came from.

    >>> said = '{"versioned": {}, "details": {"streamTimes": {"0": 9}}}'
    >>> undone = {"version": 1, "operation": "WRITE", "userMetadata": said}
    >>> restored = {"version": 2, "operation": "RESTORE", "operationParameters": {"version": "0"}, "userMetadata": None}
    >>> told_times([undone]), told_times([restored, undone])
    ([{'0': 9}], [])
    """
    return [said[_DETAIL] for said in _that_count(commits)]


def _that_count(commits: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The details of the commits that count for :func:`told_times`."""
    rows = list(commits)
    restored = {row["version"]: restored_version(row) for row in rows if takes_back(row)}
    told, newest, counted = [], None, None
    for row in rows:
        if newest is not None and row["version"] > newest:
            continue
        own = own_details(row) or {}
        said = own.get("details", {})
        # Only upkeep is ignored: a put that was retried after a RESTORE has moved stream time itself.
        is_upkeep = own.get("versioned") == {}
        if said.get(_DETAIL) and not (is_upkeep and _is_overtaken(said.get(_AS_OF), row["version"], restored)):
            told.append(said)
        if takes_back(row):
            version = restored_version(row)
            if version is None:
                counted = len(told) if counted is None else counted
            else:
                newest = version
    below = [] if counted is None else told[counted:]
    return told if any(set(said[_DETAIL]) - {"0"} for said in below) else told[:counted]


def _is_overtaken(judged: int | None, landed: int, restored: Mapping[int, int | None]) -> bool:
    """Whether a RESTORE took back the version by which a commit was judged, before that commit landed."""
    return judged is not None and any(
        judged < version < landed and (to is None or to < judged) for version, to in restored.items()
    )


def commits_that_tell(spark: SparkSession, target: TableRef) -> Commits:
    """The newest commits of a table: so many that one of this library is nearly always among them."""
    return newest_commits(spark, target, _LIMITS[0])


def _told_now(spark: SparkSession, target: TableRef) -> tuple[Times, AsOf]:
    commits = commits_that_tell(spark, target)
    return _told(spark, target, commits), as_of(commits)


def _told(spark: SparkSession, target: TableRef, commits: Commits) -> Times:
    """The largest stream times in all commits since the version by which the newest of them was judged."""
    further = _LIMITS[1:] if len(commits) >= _LIMITS[0] else ()
    known = commits
    for known in chain([commits], back_in_time(spark, target, further)):
        told = _that_count(known)
        # What earlier commits say is included in the times that were read at that version.
        if told and known[-1]["version"] <= told[0].get(_AS_OF, known[-1]["version"]) + 1:
            break
    return _largest(told_times(known))


def _largest(told: list[dict[str, int]]) -> Times:
    scopes = {scope for times in told for scope in times}
    return {int(scope): max(times[scope] for times in told if scope in times) for scope in scopes}
