"""The versioned store, record by record, pure: the executable rule behind every versioned table (KIP-889, KIP-914).

Instants are integers of microseconds. A version is valid from its own timestamp (inclusive) to that of the next version
of its key (exclusive). A null value is a tombstone, and a version like any other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from versioned.durations import check_grace
from versioned.errors import ConfigurationError, RecordError
from versioned.spec import TimeScope
from versioned.timeline import Timeline

#: Results of ``put`` that are not instants: the version is its key's latest (KIP-914, "put"); the record was refused.
LATEST: Final = -1
REFUSED: Final = -(2**63)


@dataclass(frozen=True)
class Outcome:
    """What a put did; ``ends_us``, the end of its version's validity, is ``None`` if it was refused or is the latest.

    ``result`` is the number that the KIPs define; it is the same for the latest version and for one that ends at -1 us.
    """

    is_refused: bool
    ends_us: int | None = None

    @property
    def is_latest(self) -> bool:
        """Whether the version is the latest of its key."""
        return not self.is_refused and self.ends_us is None

    @property
    def result(self) -> int:
        """``ends_us``, :data:`LATEST` or :data:`REFUSED`."""
        if self.is_refused:
            return REFUSED
        return LATEST if self.ends_us is None else self.ends_us


@dataclass(frozen=True)
class Version:
    """One version of a key; ``valid_to_us`` is ``None`` while it is the latest."""

    key: Hashable
    value: Any
    valid_from_us: int
    valid_to_us: int | None


class Reason(Enum):
    """Why a look-up found nothing."""

    NO_MATCH = "NO_MATCH"
    TOMBSTONE = "TOMBSTONE"
    EXPIRED = "EXPIRED"


class _Chain(Timeline):
    """The versions of a key, and the scope of its last put."""

    __slots__ = ("scope",)

    def __init__(self, scope: Hashable) -> None:
        super().__init__()
        self.scope = scope


class VersionedStore:
    """Versions of keys, with a history retention and a grace.

    Args:
        retention_us: How far back from stream time a version can be looked up; the latest never expires.
        grace_us: How late a record may be and still be accepted; ``None`` = the retention.
        scope: What shares a stream time: a ``partition``, the whole ``store``, or each ``key`` alone.
        first_stream_time_us: Stream time of a scope before its first record; ``None`` = it begins with that record.

    Raises:
        ConfigurationError: a duration is negative, or grace > retention.

    Example:
        >>> store = VersionedStore(retention_us=100)
        >>> store.put("k", "new", 20), store.put("k", "old", 10), store.put("k", "late", -81)
        (-1, 20, -9223372036854775808)
        >>> store.as_of("k", 15).value
        'old'
    """

    def __init__(
        self,
        retention_us: int,
        grace_us: int | None = None,
        scope: TimeScope = "partition",
        *,
        first_stream_time_us: int | None = None,
    ) -> None:
        grace_us = retention_us if grace_us is None else grace_us
        check_grace(grace_us, retention_us)
        self.retention_us = retention_us
        self.grace_us = grace_us
        self._scope = scope
        self._first_us = first_stream_time_us
        self._observed_us: dict[Hashable, int] = {}
        self._chains: dict[Hashable, _Chain] = {}

    def put(self, key: Hashable, value: Any, ts_us: int, partition: int = 0) -> int:
        """Write a version; ``None`` deletes from ``ts_us`` on (Kafka: ``VersionedKeyValueStore.put``, R172-R174).

        Returns:
            The microsecond at which the version stops being valid, :data:`LATEST`, or :data:`REFUSED` if it is older
            than stream time - grace; a refused record changes nothing and does not move stream time. An end at -1 us
            looks like :data:`LATEST`; if that matters, use :meth:`take`.

        Raises:
            RecordError: the key is null (R180).
        """
        return self.take(key, value, ts_us, partition).result

    def take(self, key: Hashable, value: Any, ts_us: int, partition: int = 0) -> Outcome:
        """Like :meth:`put`, but return an outcome that distinguishes the latest version from one that ends at -1 us."""
        if key is None:
            raise RecordError(f"A versioned store takes no null key; got one at {ts_us} us. Reject such records first.")
        scope = self._scope_of(key, partition)
        observed_us = self._observed_us.get(scope, self._first_us)
        if observed_us is not None and ts_us < observed_us - self.grace_us:
            return Outcome(is_refused=True)
        self.observe(ts_us, partition, key)
        chain = self._chains.setdefault(key, _Chain(scope))
        chain.scope = scope
        return Outcome(is_refused=False, ends_us=chain.put(ts_us, value))

    def restore(self, key: Hashable, value: Any, ts_us: int, partition: int = 0) -> None:
        """Put back a version that was stored before; it is never refused, and moves only a stream time per key."""
        scope = self._scope_of(key, partition)
        self._chains.setdefault(key, _Chain(scope)).put(ts_us, value)
        if self._scope == "key":
            self.observe(ts_us, key=key)

    def observe(self, ts_us: int, partition: int = 0, key: Hashable = None) -> None:
        """Move stream time forward, as a record of that time would."""
        scope = self._scope_of(key, partition)
        observed_us = self._observed_us.get(scope, self._first_us)
        self._observed_us[scope] = ts_us if observed_us is None else max(observed_us, ts_us)

    def delete(self, key: Hashable, ts_us: int, partition: int = 0) -> Version | None:
        """Put a tombstone and return the version that was valid at ``ts_us`` before it, if any (R185).

        A delete that is too late changes nothing and returns nothing.
        """
        before = self.as_of(key, ts_us, partition)
        refused = self.take(key, None, ts_us, partition).is_refused
        return None if refused or isinstance(before, Reason) else before

    def latest(self, key: Hashable) -> Version | None:
        """The newest version of a key, which may be a tombstone, or ``None``."""
        chain = self._chains.get(key)
        return None if chain is None else Version(key, chain.values[-1], chain.times[-1], None)

    def get(self, key: Hashable) -> Version | None:
        """The newest version of a key, or ``None`` if that is a tombstone."""
        version = self.latest(key)
        return None if version is None or version.value is None else version

    def as_of(
        self, key: Hashable, at_us: int, partition: int | None = None, *, slowest: bool = False
    ) -> Version | Reason:
        """The version valid at an instant, or why there is none (R138, R184).

        Before the horizon (stream time - retention) only the latest version is found, if it began by then.

        Args:
            key: The key.
            at_us: The instant.
            partition: The partition whose stream time counts; that of the key's last put if not given.
            slowest: Whether the stream time of the slowest partition counts instead, as it does for upkeep.
        """
        chain = self._chains.get(key)
        if chain is None:
            return Reason.NO_MATCH
        place = chain.place_at(at_us)
        scope = chain.scope if partition is None else self._scope_of(key, partition)
        if slowest and self._scope == "partition":
            scope = min(self._observed_us, key=lambda each: self._observed_us[each], default=scope)
        horizon_us = self._horizon_of(scope)
        is_latest = place == len(chain.times) - 1
        if horizon_us is not None and at_us < horizon_us and not is_latest:
            return Reason.EXPIRED
        if place < 0:
            return Reason.NO_MATCH
        return Reason.TOMBSTONE if chain.values[place] is None else self._version(key, chain, place)

    def value_at(self, key: Hashable, at_us: int) -> Any:
        """The value valid at an instant, regardless of the retention; ``None`` if there is none."""
        chain = self._chains.get(key)
        return None if chain is None else chain.value_at(at_us)

    def history(
        self, key: Hashable, from_us: int | None = None, to_us: int | None = None, *, ascending: bool = False
    ) -> list[Version]:
        """Versions with a value that were valid at some instant of [from, to], newest first unless ``ascending``.

        The version that began before ``from_us`` is included. Complete from the horizon on; older ones may be purged.

        Raises:
            ConfigurationError: the range ends before it begins.
        """
        if from_us is not None and to_us is not None and from_us > to_us:
            raise ConfigurationError(f"The range ends ({to_us} us) before it begins ({from_us} us). Swap the two.")
        chain = self._chains.get(key)
        if chain is None:
            return []
        first = 0 if from_us is None else max(0, chain.place_at(from_us))
        end = len(chain.times) if to_us is None else chain.place_at(to_us) + 1
        found = [self._version(key, chain, place) for place in range(first, end) if chain.values[place] is not None]
        return found if ascending else found[::-1]

    def stream_time_us(self, key: Hashable = None, partition: int = 0) -> int | None:
        """The stream time of a key's scope: its largest timestamp so far, at least the first stream time, if any."""
        return self._observed_us.get(self._scope_of(key, partition), self._first_us)

    def horizon_us(self, key: Hashable = None, partition: int = 0) -> int | None:
        """The oldest instant whose history is kept: stream time - retention; ``None`` without a stream time."""
        return self._horizon_of(self._scope_of(key, partition))

    def keys(self) -> Iterable[Hashable]:
        """Every key that has a version, in the order in which keys were first put."""
        return self._chains.keys()

    def __iter__(self) -> Iterator[Version]:
        """Every version, tombstones included, oldest first within a key."""
        for key, chain in self._chains.items():
            for place in range(len(chain.times)):
                yield self._version(key, chain, place)

    def purge(self) -> int:
        """Remove versions that no look-up can find any more, and return how many.

        These are versions that ended by the horizon, and whole keys whose latest version is an older tombstone, since
        deleted keys would otherwise stay for ever. A latest value is never removed.
        """
        removed = 0
        for key in list(self._chains):
            chain = self._chains[key]
            horizon_us = self._horizon_of(chain.scope)
            if horizon_us is None:
                continue
            ended = max(0, chain.place_at(horizon_us))
            if chain.values[-1] is None and chain.times[-1] < horizon_us:
                ended = len(chain.times)
            removed += ended
            chain.forget(ended)
            if not chain.times:
                del self._chains[key]
        return removed

    def _horizon_of(self, scope: Hashable) -> int | None:
        observed_us = self._observed_us.get(scope, self._first_us)
        return None if observed_us is None else observed_us - self.retention_us

    def _scope_of(self, key: Hashable, partition: int) -> Hashable:
        if self._scope == "partition":
            return partition
        return None if self._scope == "store" else key

    def _version(self, key: Hashable, chain: _Chain, place: int) -> Version:
        return Version(key, chain.values[place], chain.times[place], chain.ends(place))
