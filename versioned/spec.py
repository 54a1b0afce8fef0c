"""The specification of a versioned table: its columns, retention, grace and stream-time scope.

The spec travels with the table, as Delta table properties under ``versioned.``; opening a table reads it back.

Stored row: key columns, ``validFrom``, ``validTo`` (null = still current), value columns, ``deleted``, and the
partition column ``_current`` (= ``validTo IS NULL``), which keeps closed history out of every batch.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

from versioned.choices import check_choice
from versioned.durations import (
    FIRST_INSTANT_US,
    LAST_INSTANT_US,
    Duration,
    Resolution,
    capped_us,
    check_grace,
    check_resolution,
    duration_us,
    in_words,
    instant,
)
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.given import check_flag, check_kind, check_optional, texts_of
from versioned.identifiers import TableRef, beside, check_columns

TimeScope = Literal["partition", "store", "key"]
SPEC_PROPERTY: Final = "versioned.spec"
#: Table property: columns that are about to be values (``versioned.adding``).
ADDING: Final = "versioned.adding"
CURRENT: Final = "_current"
DELETED: Final = "deleted"
#: The only field of a value in a table without value columns, which is present or deleted; no table stores it.
PRESENT: Final = "_present"
#: Columns of the table that holds system history: since when a put has been known, and by which batch.
SYSTEM_FROM: Final = "systemFrom"
KNOWN_BATCH: Final = "_batch_id"
_SYSTEM_TO: Final = "systemTo"


@dataclass(frozen=True)
class VersionedTableSpec:
    """The contract of one versioned table. Durations are microseconds, and are capped at ten million days.

    Args:
        keys: Key columns, one or several, of orderable types.
        values: Value columns; may be empty (then the table only says whether a key is present).
        history_retention_us: How far back from stream time a version can be looked up (KIP-889).
        grace_us: How late a put is still accepted; at most the retention.
        valid_from: Name of the inclusive start column.
        valid_to: Name of the exclusive end column.
        time_scope: Stream time per input ``partition`` (as Kafka's task), per ``store`` or per ``key``.
        time_resolution: Finer input is floored to it.
        first_stream_time_us: Stream time of a scope before its first record; None = it begins with the first record.
            Kafka's stores start at -1 ms, which refuses a first record far before 1970.
        system_history: Whether every accepted put is kept with its system time, in ``<name>_known``, so that what was
            known at an instant can always be found out (``versioned.system_history``).

    Raises:
        ConfigurationError: a name, a duration, the scope or the resolution is not allowed, or an argument is of a wrong
            type.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    history_retention_us: int
    grace_us: int
    valid_from: str = "validFrom"
    valid_to: str = "validTo"
    time_scope: TimeScope = "partition"
    time_resolution: Resolution = Resolution.MICROSECOND
    first_stream_time_us: int | None = None
    system_history: bool = False

    def __post_init__(self) -> None:
        for option in ("keys", "values"):
            object.__setattr__(self, option, texts_of("A column", getattr(self, option), 'a name, such as "id"'))
        for option in ("valid_from", "valid_to"):
            check_kind(option, getattr(self, option), str, "the name of a column")
        for option in ("history_retention_us", "grace_us"):
            check_kind(option, getattr(self, option), int, "whole microseconds; VersionedTableSpec.of takes durations")
        check_flag("system_history", self.system_history)
        check_optional("first_stream_time_us", self.first_stream_time_us, int, "whole microseconds since 1970")
        if not self.keys:
            raise ConfigurationError("A versioned table needs at least one key column; got none.")
        system = (SYSTEM_FROM, _SYSTEM_TO) if self.system_history else ()
        check_columns((*self.keys, *self.values, self.valid_from, self.valid_to), reserved=system)
        check_grace(self.grace_us, self.history_retention_us)
        check_choice("time_scope", self.time_scope, TimeScope)
        check_resolution(self.time_resolution)
        # Here, and not where durations are parsed: the properties of a table may contain longer ones.
        for name in ("history_retention_us", "grace_us"):
            object.__setattr__(self, name, capped_us(getattr(self, name)))

    @classmethod
    def of(
        cls,
        *,
        keys: str | tuple[str, ...] | list[str],
        values: str | tuple[str, ...] | list[str],
        history_retention: Duration,
        grace: Duration | None = None,
        valid_from: str = "validFrom",
        valid_to: str = "validTo",
        time_scope: TimeScope = "partition",
        time_resolution: Resolution = Resolution.MICROSECOND,
        first_stream_time_us: int | None = None,
        system_history: bool = False,
    ) -> VersionedTableSpec:
        """Make a spec from durations as people write them; grace defaults to the retention.

        Raises:
            ConfigurationError: as for the class; or the first stream time is not in the years 1 to 9999.

        >>> VersionedTableSpec.of(keys="id", values=["price"], history_retention="7 days").keys
        ('id',)
        """
        retention_us = duration_us(history_retention)
        spec = cls(
            keys=keys,  # type: ignore[arg-type]  # one name or a list becomes a tuple where every spec is checked
            values=values,  # type: ignore[arg-type]
            history_retention_us=retention_us,
            grace_us=retention_us if grace is None else duration_us(grace),
            valid_from=valid_from,
            valid_to=valid_to,
            time_scope=time_scope,
            time_resolution=time_resolution,
            first_stream_time_us=first_stream_time_us,
            system_history=system_history,
        )
        # Checked here only: a table that was made with such a value must still open.
        if first_stream_time_us is not None and not FIRST_INSTANT_US <= first_stream_time_us <= LAST_INSTANT_US:
            raise ConfigurationError(
                "first_stream_time_us must be whole microseconds since 1970, of the years 1 to 9999; got "
                f"{first_stream_time_us}. Leave it out where stream time begins with the first record."
            )
        return spec

    def from_first(self, stream_times: Mapping[int, int]) -> dict[int, int]:
        """Stream times by scope, none of them earlier than the spec's first one.

        >>> spec = VersionedTableSpec.of(keys="id", values=[], history_retention="1 s", first_stream_time_us=-1)
        >>> spec.from_first({0: -7, 1: 3})
        {0: -1, 1: 3}
        """
        first = self.first_stream_time_us
        return {scope: us if first is None else max(us, first) for scope, us in stream_times.items()}

    def horizon_us(self, stream_times: Mapping[int, int]) -> int | None:
        """The oldest instant whose lookups are promised: the slowest scope's stream time minus retention.

        Args:
            stream_times: By scope, in microseconds.

        Returns:
            None before the first record, and with ``time_scope="key"``, where each key has its own.

        >>> spec = VersionedTableSpec.of(keys="id", values=["price"], history_retention="1 s")
        >>> spec.horizon_us({0: 5_000_000, 1: 3_000_000}), spec.horizon_us({})
        (2000000, None)
        """
        if not stream_times or self.time_scope == "key":
            return None
        return max(min(stream_times.values()) - self.history_retention_us, FIRST_INSTANT_US)

    def held_back_by(self, stream_times: Mapping[int, int]) -> str | None:
        """The scope that holds the horizon back by more than the retention, in words; None if none does.

        A partition that has had no record for a long time keeps the history of all others from expiring.

        Args:
            stream_times: By scope, in microseconds.

        >>> spec = VersionedTableSpec.of(keys="id", values=["price"], history_retention="1 s")
        >>> spec.held_back_by({0: 5_000_000, 7: 3_000_000})
        'scope 7 (stream time 1970-01-01 00:00:03+00:00, 2 seconds behind that of scope 0)'
        >>> spec.held_back_by({0: 5_000_000, 7: 4_000_000}) is None
        True
        """
        if not stream_times or self.time_scope == "key":
            return None
        slowest, fastest = (chosen(stream_times, key=stream_times.__getitem__) for chosen in (min, max))
        behind_us = stream_times[fastest] - stream_times[slowest]
        if behind_us <= self.history_retention_us:
            return None
        at = instant(stream_times[slowest])
        return f"scope {slowest} (stream time {at}, {in_words(behind_us)} behind that of scope {fastest})"

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that readers see, in their order.

        >>> VersionedTableSpec.of(keys="id", values=["price"], history_retention="1 s").shown
        ('id', 'validFrom', 'validTo', 'price')
        """
        return (*self.keys, self.valid_from, self.valid_to, *self.values)

    def beside_keys(self, name: str) -> str:
        """The name of a result column beside the key columns: with the prefix ``put_`` if a key has its name.

        >>> VersionedTableSpec.of(keys="ts", values=["price"], history_retention="1 s").beside_keys("ts")
        'put_ts'
        """
        return beside(name, self.keys, "put_")

    def to_properties(self) -> dict[str, str]:
        """The Delta table properties that carry this spec."""
        fields = asdict(self) | {"time_resolution": self.time_resolution.name}
        return {SPEC_PROPERTY: json.dumps(fields, sort_keys=True)}

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], table: str, columns: Collection[str] = ()
    ) -> VersionedTableSpec:
        """The spec of a stored table, from its properties.

        Args:
            properties: The properties of the table.
            table: Its name, for errors.
            columns: Its columns; if :func:`is_widened`, they tell which announced values it has.

        Raises:
            NotAVersionedTableError: the table was not made by this library.
            ConfigurationError: it was made by a later version of this library, whose specs say more.
        """
        text = properties.get(SPEC_PROPERTY)
        if text is None:
            raise NotAVersionedTableError(
                f"{table} is not a versioned table: it lacks the property {SPEC_PROPERTY}. "
                "Create it with VersionedTable.create(...)."
            )
        told = json.loads(text)
        unknown = sorted(told.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise ConfigurationError(
                f"{table} was made by a later version of this library: its property {SPEC_PROPERTY} says {unknown}, "
                "which this one does not know. Use that version."
            )
        lists = {name: tuple(told[name]) for name in ("keys", "values")}
        lists["values"] += tuple(name for name in announced(properties) if name in columns)
        return cls(**told | lists | {"time_resolution": Resolution[told["time_resolution"]]})


def is_widened(properties: Mapping[str, str]) -> bool:
    """Whether columns were about to be added to a table, so that only its columns tell whether they were."""
    return bool(announced(properties))


def known_target(target: TableRef) -> TableRef:
    """The table with the system history of a table: beside it, its name followed by ``_known``.

    >>> str(known_target(TableRef.parse("sales.rates"))), str(known_target(TableRef.parse("/data/rates/")))
    ('sales.rates_known', '/data/rates_known')
    """
    if target.path is not None:
        return TableRef(path=f"{target.path.rstrip('/')}_known")
    return TableRef(parts=(*target.parts[:-1], f"{target.parts[-1]}_known"))


def announced(properties: Mapping[str, str]) -> list[str]:
    """The values that were about to be added to a table."""
    names: list[str] = json.loads(properties.get(ADDING, "[]"))
    return names
