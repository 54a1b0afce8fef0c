"""The versioned store, record by record, pure: the executable rule behind every versioned table (KIP-889, KIP-914).

Instants are integers of microseconds. A version is valid from its own timestamp (inclusive) to that of the next
version of its key (exclusive); a null value is a tombstone and a version like any other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from versioned.errors import ConfigurationError

#: ``put`` outcomes that are no instant: the version is its key's latest; the record was refused.
LATEST: Final = -1
REFUSED: Final = -(2**63)

Scope = Literal["partition", "store", "key"]


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


@dataclass
class _Chain:
    """The versions of one key: timestamps in order, and the values at the same positions."""

    times: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class VersionedStore:
    """Versions of keys, with a history retention and a grace.

    Args:
        retention_us: How far back from stream time a version can be looked up; the latest never expires.
        grace_us: How late a record may be and still be taken; ``None`` = the retention.
        scope: What shares a stream time: a ``partition``, the whole ``store``, or each ``key`` alone.

    Raises:
        ConfigurationError: a negative duration, or grace > retention.

    Example:
        >>> store = VersionedStore(retention_us=100)
        >>> store.put("k", "new", 20), store.put("k", "old", 10), store.put("k", "late", -81)
        (-1, 20, -9223372036854775808)
        >>> store.as_of("k", 15).value
        'old'
    """

    def __init__(self, retention_us: int, grace_us: int | None = None, scope: Scope = "partition") -> None:
        grace_us = retention_us if grace_us is None else grace_us
        if retention_us < 0 or not 0 <= grace_us <= retention_us:
            raise ConfigurationError(
                f"grace must be between 0 and the history retention; got grace {grace_us} and retention {retention_us} "
                "microseconds."
            )
        self.retention_us = retention_us
        self.grace_us = grace_us
        self._scope = scope
        self._observed_us: dict[Hashable, int] = {}
        self._chains: dict[Hashable, _Chain] = {}

    def put(self, key: Hashable, value: Any, ts_us: int, partition: int = 0) -> int:
        """Write a version; ``None`` deletes from ``ts_us`` on (Kafka: ``VersionedKeyValueStore.put``, R172-R174).

        Returns:
            The microsecond at which the version stops being valid, :data:`LATEST`, or :data:`REFUSED` if it is older
            than stream time - grace; a refused record changes nothing and does not move stream time.
        """
        scope = self._scope_of(key, partition)
        observed_us = self._observed_us.get(scope)
        if observed_us is not None and ts_us < observed_us - self.grace_us:
            return REFUSED
        self._observed_us[scope] = ts_us if observed_us is None else max(observed_us, ts_us)
        chain = self._chains.setdefault(key, _Chain())
        place = bisect_left(chain.times, ts_us)
        if place < len(chain.times) and chain.times[place] == ts_us:
            chain.values[place] = value
        else:
            chain.times.insert(place, ts_us)
            chain.values.insert(place, value)
        return chain.times[place + 1] if place + 1 < len(chain.times) else LATEST

    def delete(self, key: Hashable, ts_us: int, partition: int = 0) -> Version | None:
        """Put a tombstone and return the version that was valid at ``ts_us`` before it, if any (R185)."""
        before = self.as_of(key, ts_us, partition)
        refused = self.put(key, None, ts_us, partition) == REFUSED
        return None if refused or isinstance(before, Reason) else before

    def latest(self, key: Hashable) -> Version | None:
        """The newest version of a key, a tombstone included, or none."""
        chain = self._chains.get(key)
        return None if chain is None else Version(key, chain.values[-1], chain.times[-1], None)

    def get(self, key: Hashable) -> Version | None:
        """The newest version, unless it is a tombstone."""
        version = self.latest(key)
        return None if version is None or version.value is None else version

    def as_of(self, key: Hashable, at_us: int, partition: int = 0) -> Version | Reason:
        """The version valid at an instant, or why there is none (R138, R184).

        Before the horizon (stream time - retention) only the latest version is served, if it began by then.
        """
        chain = self._chains.get(key)
        if chain is None:
            return Reason.NO_MATCH
        place = bisect_right(chain.times, at_us) - 1
        horizon_us = self.horizon_us(key, partition)
        is_latest = place == len(chain.times) - 1
        if horizon_us is not None and at_us < horizon_us and not is_latest:
            return Reason.EXPIRED
        if place < 0:
            return Reason.NO_MATCH
        return Reason.TOMBSTONE if chain.values[place] is None else self._version(key, chain, place)

    def value_at(self, key: Hashable, at_us: int) -> Any:
        """The value valid at an instant whatever the retention, ``None`` if there is none."""
        chain = self._chains.get(key)
        place = -1 if chain is None else bisect_right(chain.times, at_us) - 1
        return None if chain is None or place < 0 else chain.values[place]

    def history(
        self, key: Hashable, from_us: int | None = None, to_us: int | None = None, *, ascending: bool = False
    ) -> list[Version]:
        """Versions with a value that were valid at some instant of [from, to], newest first unless ``ascending``.

        The one that began before ``from_us`` is included.
        """
        chain = self._chains.get(key)
        if chain is None:
            return []
        first = 0 if from_us is None else max(0, bisect_right(chain.times, from_us) - 1)
        end = len(chain.times) if to_us is None else bisect_right(chain.times, to_us)
        found = [self._version(key, chain, place) for place in range(first, end) if chain.values[place] is not None]
        return found if ascending else found[::-1]

    def stream_time_us(self, key: Hashable = None, partition: int = 0) -> int | None:
        """The largest timestamp taken in the scope of a key; none before the first."""
        return self._observed_us.get(self._scope_of(key, partition))

    def horizon_us(self, key: Hashable = None, partition: int = 0) -> int | None:
        """The oldest instant of which the history is kept: stream time - retention."""
        observed_us = self.stream_time_us(key, partition)
        return None if observed_us is None else observed_us - self.retention_us

    def keys(self) -> Iterable[Hashable]:
        """Every key that has a version, in order of their first one."""
        return self._chains.keys()

    def __iter__(self) -> Iterator[Version]:
        """Every version, tombstones included, oldest first within a key."""
        for key, chain in self._chains.items():
            for place in range(len(chain.times)):
                yield self._version(key, chain, place)

    def purge(self, partition: int = 0) -> int:
        """Forget versions that ended by the horizon, and keys whose latest tombstone is older; returns how many.

        Never a latest value.
        """
        removed = 0
        for key in list(self._chains):
            chain, horizon_us = self._chains[key], self.horizon_us(key, partition)
            if horizon_us is None:
                continue
            ended = max(0, bisect_right(chain.times, horizon_us) - 1)
            if chain.values[-1] is None and chain.times[-1] < horizon_us:
                ended = len(chain.times)
            removed += ended
            del chain.times[:ended], chain.values[:ended]
            if not chain.times:
                del self._chains[key]
        return removed

    def _scope_of(self, key: Hashable, partition: int) -> Hashable:
        if self._scope == "partition":
            return partition
        return None if self._scope == "store" else key

    def _version(self, key: Hashable, chain: _Chain, place: int) -> Version:
        ends = chain.times[place + 1] if place + 1 < len(chain.times) else None
        return Version(key, chain.values[place], chain.times[place], ends)
