"""The stream times of a stored table: what its commits tell, and what is left once Delta has cleaned its log.

Every commit of the library carries the stream times after it. Delta keeps commits for ``delta.logRetentionDuration``
(30 days) after they were made; where only others wrote since (an OPTIMIZE of the platform, say), the last one that
tells them goes. A table with one scope, 0, then still says it by its rows: its newest ``validFrom``, which no upkeep
removes. Where records come from several partitions, the rows do not tell whose they were, so such tables keep their
stream times as a property as well: puts by hand write it, and for the batches of an application each pass of upkeep.

A write judges by the stream times of one version and may land many later: what others moved in between, it does not
say. So it says which version that was, and whoever reads it takes the largest of all that was told since.

The horizon follows the slowest scope, so it goes back where an older partition appears, or where the table is to keep
history longer from now on, but not into what a purge has removed: that is kept as a property, too
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
#: Table property: before which instant in microseconds a purge has removed what had expired.
PURGED: Final = "versioned.purgedBefore"
_DETAIL: Final = "streamTimes"
_AS_OF: Final = "streamTimesAsOf"
_LIMITS: Final = (10, 1_000, 100_000)

Times = dict[int, int]
Commits = Sequence[Row | Mapping[str, Any]]
#: What a commit says beside its stream times: by which version they were judged.
AsOf = Mapping[str, int]


def stream_times_of(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, commits: Commits | None = None
) -> Times:
    """Stream time per scope in microseconds; empty for a table that never had a record.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        commits: Its newest commits, if they are known: as many as :func:`commits_that_tell` gives.
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
    """The stream times as of :func:`stream_times_of`, and by which version they are told."""
    commits = commits_that_tell(spark, target)
    return stream_times_of(spark, target, spec, commits), as_of(commits)


def horizon_of(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, times: Mapping[int, int], purged_us: int | None
) -> int | None:
    """The oldest instant whose lookups are promised, as the spec tells it, but not before what a purge has removed.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        times: Its stream times.
        purged_us: What :func:`purged_before` told with the spec. By one scope alone the horizon of a spec never goes
            back, so that no later purge need be asked for; but a spec may keep history longer than the one before it.
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
    """Keep that history before an instant is given up: another scope or a longer retention may bring the horizon back.

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
    """Before which instant, in microseconds, a purge has removed what had expired, by a table's properties.

    >>> purged_before({"versioned.purgedBefore": "17"}), purged_before({})
    (17, None)
    """
    told = properties.get(PURGED)
    return None if told is None else int(told)


def kept_times(properties: Mapping[str, str]) -> Times:
    """The stream times that a table's properties tell.

    >>> kept_times({"versioned.streamTimes": '{"3": 17}'}), kept_times({})
    ({3: 17}, {})
    """
    return {int(scope): int(us) for scope, us in json.loads(properties.get(KEPT, "{}")).items()}


def as_of(commits: Commits) -> AsOf:
    """By which version of a table its stream times are told, if they are by these commits, newest first.

    >>> as_of([{"version": 7}, {"version": 6}])
    {'streamTimesAsOf': 7}
    """
    return {_AS_OF: commits[0]["version"]} if commits else {}


def judged_version(details: Mapping[str, Any]) -> int | None:
    """The version that :func:`as_of` tells among what a commit is to say.

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
    """How a commit says stream times.

    >>> said_times({3: 17})
    {'streamTimes': {'3': 17}}
    """
    return {_DETAIL: {str(scope): us for scope, us in sorted(times.items())}}


def keep_times(spark: SparkSession, target: TableRef, times: Mapping[int, int], judged: AsOf) -> bool:
    """Keep the stream times as a property, where the rows would not tell them: with any scope but 0.

    Those that others have kept meanwhile stay, where they are larger. A RESTORE takes the property back itself.

    Args:
        spark: The session.
        target: The table.
        times: Stream time per scope, as a commit of the table tells it.
        judged: By which version.

    Returns:
        Whether the property was written.

    Raises:
        CommitError: the table stayed in conflict after six tries.
    """
    if not set(times) - {0}:
        return False
    given = iter([(times, judged)])

    def write() -> bool:
        # Whoever came before this may have taken back what it was given: then the commits tell.
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
    """As :func:`keep_times`, of what the newest commits of a table tell: for upkeep, since batches only tell them."""
    return keep_times(spark, target, *times_now(spark, target, spec))


def told_times(commits: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, int]]:
    """What commits, newest first, tell of stream times; those that a RESTORE took back do not count.

    Neither does upkeep that was begun before a RESTORE and ended behind it, such as a VACUUM, where the RESTORE took
    back by what it was judged.

    A RESTORE to an instant does not say what it took back, nor does another table in this one's place. Of a table with
    one scope nothing below it counts, since the rows tell its stream time; of others all does, since the rows do not
    tell whose they were.

    >>> said = '{"versioned": {}, "details": {"streamTimes": {"0": 9}}}'
    >>> undone = {"version": 1, "operation": "WRITE", "userMetadata": said}
    >>> restored = {"version": 2, "operation": "RESTORE", "operationParameters": {"version": "0"}, "userMetadata": None}
    >>> told_times([undone]), told_times([restored, undone])
    ([{'0': 9}], [])
    """
    return [said[_DETAIL] for said in _that_count(commits)]


def _that_count(commits: Iterable[Row | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The details of the commits that :func:`told_times` goes by."""
    rows = list(commits)
    restored = {row["version"]: restored_version(row) for row in rows if takes_back(row)}
    told, newest, counted = [], None, None
    for row in rows:
        if newest is not None and row["version"] > newest:
            continue
        own = own_details(row) or {}
        said = own.get("details", {})
        # A put that was made anew behind a RESTORE has moved stream time itself.
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
    """Whether a RESTORE came between the version by which a commit was judged and the commit, and took that back."""
    return judged is not None and any(
        judged < version < landed and (to is None or to < judged) for version, to in restored.items()
    )


def commits_that_tell(spark: SparkSession, target: TableRef) -> Commits:
    """The newest commits of a table, among which one of this library is almost always, whatever upkeep did since."""
    return newest_commits(spark, target, _LIMITS[0])


def _told_now(spark: SparkSession, target: TableRef) -> tuple[Times, AsOf]:
    commits = commits_that_tell(spark, target)
    return _told(spark, target, commits), as_of(commits)


def _told(spark: SparkSession, target: TableRef, commits: Commits) -> Times:
    """The largest that the newest commits tell: all since the version by which the newest of them was judged."""
    further = _LIMITS[1:] if len(commits) >= _LIMITS[0] else ()
    known = commits
    for known in chain([commits], back_in_time(spark, target, further)):
        told = _that_count(known)
        # What was told before that version is in the times that were read at it.
        if told and known[-1]["version"] <= told[0].get(_AS_OF, known[-1]["version"]) + 1:
            break
    return _largest(told_times(known))


def _largest(told: list[dict[str, int]]) -> Times:
    scopes = {scope for times in told for scope in times}
    return {int(scope): max(times[scope] for times in told if scope in times) for scope in scopes}
