"""How tables are stored and joined, as values (Kafka Streams: ``Materialized``, ``Joined``); options of sources."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MethodType
from typing import Concatenate, Final, Generic, Literal, ParamSpec

from versioned.choices import check_choice
from versioned.durations import (
    Duration,
    Resolution,
    check_grace,
    check_not_negative,
    check_resolution,
    duration,
    in_words,
)
from versioned.errors import ConfigurationError
from versioned.given import check_flag, check_name, check_optional
from versioned.spec import TimeScope

LatePolicy = Literal["drop", "side_table"]
OnExpired = Literal["null", "drop", "side_table"]
TooLate = Literal["join", "side_table"]
#: ``reject``: keep it in the rejects, with the reason. ``drop``: only count it. ``fail``: end the batch unwritten.
Action = Literal["reject", "drop", "fail"]
Extra = Literal["ignore", "fail"]
KeyFormat = Literal["json", "text"]
TsUnit = Literal["s", "ms", "us"]

#: A retention that never ends (R21).
FOREVER: Final = duration(timedelta.max)

_LOG: Final = logging.getLogger(__name__)
_LEAST_SEGMENT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Materialized:
    """How a table is stored. Build it with :meth:`versioned`, :meth:`key_value` or :meth:`window_store`.

    Kafka: ``Materialized`` (KIP-889 and KIP-914 for versioned stores). A store with ``history_retention`` is versioned.
    ``retention`` is for window and session stores only; key-value stores ignore it (R18).

    Args:
        name: Name of the store and of its table. Default: the name of the operator.
        history_retention: How far behind stream time a version can be looked up.
        grace: How late a record may be and still be accepted. Default: ``history_retention``.
        retention: How long windows are kept after their end. Default in the test driver: at least one day (R20).
            ``None`` in :meth:`with_retention` means for ever (R21). On Spark, ``versioned maintain`` deletes older
            windows, but only if a retention is given.
        segment_interval: Kafka's width of the segments in which history expires. It is checked but has no effect: here
            expiry is exact.
        time_scope: The scope whose largest timestamp is stream time: a source partition, the store, or each key.
        time_resolution: Finer timestamps are rounded down to it.
        late_policy: What to do with records beyond grace: ``drop`` counts and drops them, ``side_table`` also keeps
            them in the rejects table.
        system_history: Whether a versioned table also keeps every accepted record with its system time, in
            ``<name>_known``. Then what was known at an instant can be queried even after purge and vacuum. Spark only.
        fixed_retention: True for a ready-made store, whose retention :meth:`with_retention` cannot change (R19).

    Raises:
        ConfigurationError: a negative duration, a segment under one millisecond, a grace above the history retention,
            or an unknown scope, resolution or policy.
    """

    name: str | None = None
    history_retention: timedelta | None = None
    grace: timedelta | None = None
    retention: timedelta | None = None
    segment_interval: timedelta | None = None
    time_scope: TimeScope = "partition"
    time_resolution: Resolution = Resolution.MICROSECOND
    late_policy: LatePolicy = "drop"
    fixed_retention: bool = False
    system_history: bool = False

    def __post_init__(self) -> None:
        check_name("name", self.name)
        _not_negative("history_retention", self.history_retention, "Materialized.versioned(history_retention)")
        _not_negative("grace", self.grace, "Materialized.versioned(history_retention, grace=...)")
        _not_negative("retention", self.retention, "with_retention(...)")
        _check_span("segment_interval", self.segment_interval, "Materialized.versioned(..., segment_interval=...)")
        check_choice("time_scope", self.time_scope, TimeScope)
        check_resolution(self.time_resolution)
        check_choice("late_policy", self.late_policy, LatePolicy)
        check_flag("fixed_retention", self.fixed_retention)
        check_flag("system_history", self.system_history)
        if self.segment_interval is not None and self.segment_interval < _LEAST_SEGMENT:
            raise ConfigurationError(
                f"segment_interval must be at least 1 millisecond; got {in_words(self.segment_interval)}."
            )
        if self.grace is None:
            return
        if self.history_retention is None:
            raise ConfigurationError(
                f"A grace of {in_words(self.grace)} needs a versioned store; use "
                "Materialized.versioned(history_retention)."
            )
        check_grace(self.grace, self.history_retention)

    @classmethod
    def versioned(
        cls,
        history_retention: Duration,
        *,
        name: str | None = None,
        grace: Duration | None = None,
        segment_interval: Duration | None = None,
        time_scope: TimeScope = "partition",
        time_resolution: Resolution = Resolution.MICROSECOND,
        late_policy: LatePolicy = "drop",
        system_history: bool = False,
    ) -> Materialized:
        """A versioned table (Kafka: ``Materialized.as(Stores.persistentVersionedKeyValueStore(...))``, KIP-889).

        >>> Materialized.versioned("7 days", name="weather").is_versioned
        True
        """
        return cls(
            name=name,
            history_retention=duration(history_retention),
            grace=_optional(grace),
            segment_interval=_optional(segment_interval),
            time_scope=time_scope,
            time_resolution=time_resolution,
            late_policy=late_policy,
            system_history=system_history,
        )

    @classmethod
    def key_value(cls, name: str | None = None) -> Materialized:
        """The latest value per key, by arrival (Kafka: ``Materialized.as(Stores.persistentKeyValueStore(...))``).

        >>> Materialized.key_value("profiles").is_versioned
        False
        """
        return cls(name=name)

    @classmethod
    def window_store(
        cls, name: str, retention: Duration | None, *, segment_interval: Duration | None = None
    ) -> Materialized:
        """A ready-made window or session store with a fixed retention; ``None`` = for ever (Kafka: a supplier, R19).

        >>> Materialized.window_store("hourly", "2 days").with_retention("1 day").retention
        datetime.timedelta(days=2)
        """
        return cls(
            name=name,
            retention=_kept_for(retention),
            segment_interval=_optional(segment_interval),
            fixed_retention=True,
        )

    @property
    def is_versioned(self) -> bool:
        """Whether the store keeps versions."""
        return self.history_retention is not None

    def with_name(self, name: str) -> Materialized:
        """The same store with this name."""
        return replace(self, name=name)

    def with_retention(self, retention: Duration | None) -> Materialized:
        """Keep windows this long after their end; ``None`` = for ever (Kafka: ``withRetention``, R16, R18-R21)."""
        if self.fixed_retention:
            _LOG.info("%s: retention %s is ignored; the store keeps its own, %s", self.name, retention, self.retention)
            return self
        return replace(self, retention=_kept_for(retention))

    def with_grace(self, grace: Duration) -> Materialized:
        """Accept records that are at most this late; no more than the history retention."""
        return replace(self, grace=duration(grace))

    def with_time_scope(self, time_scope: TimeScope) -> Materialized:
        """Measure lateness per source partition, per store or per key (R111, R159)."""
        return replace(self, time_scope=time_scope)

    def with_time_resolution(self, time_resolution: Resolution) -> Materialized:
        """Round timestamps down to this resolution."""
        return replace(self, time_resolution=time_resolution)

    def with_late_policy(self, late_policy: LatePolicy) -> Materialized:
        """Drop late records (``drop``), or also keep them in the rejects table (``side_table``)."""
        return replace(self, late_policy=late_policy)


_Given = ParamSpec("_Given")


class _OfClassToo(Generic[_Given]):
    """A method that can also be called on the class, where it starts from the default options.

    In Kafka it is a method of an object. As a class method it would forget the options of the object it is called on.
    """

    def __init__(self, method: Callable[Concatenate[Joined, _Given], Joined]) -> None:
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    def __get__(self, joined: Joined | None, owner: type[Joined]) -> Callable[_Given, Joined]:
        return MethodType(self.__wrapped__, owner() if joined is None else joined)


@dataclass(frozen=True)
class Joined:
    """Options of a stream-table join (Kafka: ``Joined``; KIP-923 for the grace).

    The ``with_`` methods can also be called on the class, and then start from the default options:

    >>> Joined.with_on_expired("drop").with_grace_period("10 minutes").on_expired
    'drop'

    Args:
        name: Name of the join and of its buffer.
        grace: Hold stream records until stream time has passed them by this much; the table must be versioned.
        retention: Kafka's retention of the join buffer. It has no effect: a record leaves when it is joined.
        on_expired: What a left join returns for a lookup older than the table's history; see :meth:`with_on_expired`.
            ``side_table`` also rejects the records that an inner join would leave out.
        too_late: What to do with a record that is already beyond grace: join it at once, or reject it.
        correction_retention: Keep stream rows this long, and correct results that a late table change alters.

    Raises:
        ConfigurationError: a negative duration, or an unknown policy.
    """

    name: str | None = None
    grace: timedelta | None = None
    retention: timedelta | None = None
    on_expired: OnExpired = "null"
    too_late: TooLate = "join"
    correction_retention: timedelta | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        _not_negative("Join grace", self.grace, "Joined.with_grace_period(grace)")
        _not_negative("retention", self.retention, "with_retention(...)")
        _not_negative("correction_retention", self.correction_retention, "with_corrections(retention)")
        check_choice("on_expired", self.on_expired, OnExpired)
        check_choice("too_late", self.too_late, TooLate)

    @_OfClassToo
    def with_grace_period(self, grace: Duration, *, name: str | None = None) -> Joined:
        """Wait this long for late table changes (Kafka: ``Joined.withGracePeriod``, KIP-923, R145).

        >>> Joined.with_grace_period("10 minutes").grace
        datetime.timedelta(seconds=600)
        """
        return replace(self, grace=duration(grace), name=self.name if name is None else name)

    @_OfClassToo
    def with_name(self, name: str) -> Joined:
        """The same options with this name."""
        return replace(self, name=name)

    @_OfClassToo
    def with_retention(self, retention: Duration) -> Joined:
        """Kafka's retention of the join buffer (R16); it has no effect here: a record leaves when it is joined."""
        return replace(self, retention=duration(retention))

    @property
    def forgets_expired(self) -> bool:
        """Whether a record whose lookup is older than the table's history has no result that could be corrected.

        It was dropped or rejected, as asked: a correction would be the first that anyone hears of it.
        """
        return self.on_expired != "null"

    @_OfClassToo
    def with_on_expired(self, on_expired: OnExpired) -> Joined:
        """Answer an expired lookup with nulls (``null``), drop the record, or reject it (``side_table``; R139-R143)."""
        return replace(self, on_expired=on_expired)

    @_OfClassToo
    def with_too_late(self, too_late: TooLate) -> Joined:
        """Join a record beyond the grace at once (``join``, as in Kafka), or reject it (``side_table``)."""
        return replace(self, too_late=too_late)

    @_OfClassToo
    def with_corrections(self, retention: Duration) -> Joined:
        """Emit a correction when a late table change alters a result emitted within this time."""
        return replace(self, correction_retention=duration(retention))


def _kept_for(retention: Duration | None) -> timedelta:
    return FOREVER if retention is None else duration(retention)


def _optional(value: Duration | None) -> timedelta | None:
    return None if value is None else duration(value)


def _check_span(what: str, value: timedelta | None, instead: str) -> None:
    check_optional(what, value, timedelta, f"a timedelta here ({instead} takes text as well)")


def _not_negative(what: str, value: timedelta | None, instead: str) -> None:
    _check_span(what, value, instead)
    check_not_negative(what, value)
