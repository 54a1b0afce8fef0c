"""The quickstart's outputs, computed again record by record in plain Python and pandas.

Shares no code with the library: it takes the rows in order of arrival (``seq``) and applies the rules as DESIGN
sections 2 to 4 state them. Instants are ``int`` microseconds since 1970 UTC.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

HOUR_US = 3_600_000_000
_WEATHER_VALUES = ("temp", "wind_speed", "visib")
_FLIGHT_VALUES = ("dest", "tailnum", "carrier", "flight")


@dataclass(frozen=True)
class Expected:
    """What the quickstart's tables should hold; instants are UTC.

    ``rejects`` counts the rejected records by node and reason.
    """

    with_weather: pd.DataFrame
    departures: pd.DataFrame
    weather: pd.DataFrame
    aircraft: pd.DataFrame
    rejects: pd.Series


@dataclass
class VersionedModel:
    """A versioned table: per key, versions by their start; a later put at the same start replaces."""

    retention_us: int
    stream_time_us: int | None = None
    starts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    values: dict[tuple[str, int], tuple[Any, ...]] = field(default_factory=dict)
    refused: int = 0

    def put(self, key: str, ts_us: int, value: tuple[Any, ...]) -> None:
        """Grace equals retention, the default."""
        newest = ts_us if self.stream_time_us is None else self.stream_time_us
        if ts_us < newest - self.retention_us:
            self.refused += 1
            return
        self.stream_time_us = max(newest, ts_us)
        if (key, ts_us) not in self.values:
            insort(self.starts[key], ts_us)
        self.values[key, ts_us] = value

    def as_of(self, key: str, ts_us: int) -> tuple[tuple[Any, ...] | None, str | None]:
        """The value valid at an instant; or None and the reason."""
        starts = self.starts.get(key, [])
        position = bisect_right(starts, ts_us)
        has_later = position < len(starts)
        if has_later and self.stream_time_us is not None and ts_us < self.stream_time_us - self.retention_us:
            return None, "EXPIRED"
        if not position:
            return None, "NO_MATCH"
        return self.values[key, starts[position - 1]], None

    def rows(self, key: str, *names: str) -> pd.DataFrame:
        """Every version: valid until the next one of its key begins."""
        found = [
            (of, start, end, *self.values[of, start])
            for of, starts in self.starts.items()
            for start, end in zip(starts, [*starts[1:], None], strict=True)
        ]
        return _frame(found, [key, "validFrom", "validTo", *names], ["validFrom", "validTo"])


@dataclass
class HourlyModel:
    """Departures per airport and hour; an hour is final once stream time reaches its end plus grace."""

    grace_us: int
    stream_time_us: int = -(2**62)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    late: int = 0

    def add(self, airport: str, ts_us: int) -> None:
        self.stream_time_us = max(self.stream_time_us, ts_us)
        start = ts_us - ts_us % HOUR_US
        if self._is_closed(start):
            self.late += 1
        else:
            self.counts[airport, start] += 1

    def finals(self) -> pd.DataFrame:
        """The count of every hour that has closed."""
        closed = [(airport, start, n) for (airport, start), n in self.counts.items() if self._is_closed(start)]
        return _frame(closed, ["origin", "windowStart", "count"], ["windowStart"])

    def _is_closed(self, start_us: int) -> bool:
        return start_us + HOUR_US + self.grace_us <= self.stream_time_us


class Recomputation:
    """Goes through the records one by one."""

    def __init__(self, grace_us: int, retention_us: int) -> None:
        self.weather = VersionedModel(retention_us)
        self.aircraft = VersionedModel(retention_us)
        self.hourly = HourlyModel(grace_us)
        self.joined: list[tuple[Any, ...]] = []
        self.rejects: Counter[tuple[str, str]] = Counter()

    def observe(self, ts_us: int, row: dict[str, Any]) -> None:
        """An hourly weather record."""
        self.weather.put(row["origin"], ts_us, tuple(row[name] for name in _WEATHER_VALUES))

    def fly(self, ts_us: int | None, row: dict[str, Any]) -> None:
        """A flight; the topic is read twice, as a stream and as the table of aircraft."""
        if ts_us is None:
            self.rejects.update([("flights", "NULL_TS"), ("aircraft", "NULL_TS")])
            return
        found, reason = self.weather.as_of(row["origin"], ts_us)
        weather = found or (None,) * len(_WEATHER_VALUES)
        self.joined.append((ts_us, row["origin"], *(row[name] for name in _FLIGHT_VALUES), *weather, reason))
        self.hourly.add(row["origin"], ts_us)
        if row["tailnum"] is None:
            self.rejects["aircraft", "NULL_KEY"] += 1
        else:
            self.aircraft.put(row["tailnum"], ts_us, (row["origin"], row["dest"]))

    def expected(self) -> Expected:
        """All outputs so far."""
        late = {("departures_by_hour", "LATE"): self.hourly.late}
        late |= {("weather", "LATE"): self.weather.refused, ("aircraft", "LATE"): self.aircraft.refused}
        rejects = pd.Series({where: n for where, n in {**self.rejects, **late}.items() if n})
        return Expected(
            _frame(
                self.joined,
                ["departure", "origin", *_FLIGHT_VALUES, *_WEATHER_VALUES, "reason"],
                ["departure"],
            ),
            self.hourly.finals(),
            self.weather.rows("origin", *_WEATHER_VALUES),
            self.aircraft.rows("tailnum", "origin", "dest"),
            rejects.rename_axis(["node", "reason"]).sort_index(),
        )


def recompute(flights: pd.DataFrame, weather: pd.DataFrame, grace: pd.Timedelta, retention: pd.Timedelta) -> Expected:
    """All outputs for these rows.

    Args:
        flights: ``seq``, ``departure``, ``origin``, ``dest``, ``tailnum``, ``carrier``, ``flight``.
        weather: ``seq``, ``observed``, ``origin``, ``temp``, ``wind_speed``, ``visib``.
        grace: How long after an hour's end a departure still counts.
        retention: History retention, and so grace, of both versioned tables.
    """
    made = Recomputation(_us(grace), _us(retention))
    records = [*_records(flights, "departure", True), *_records(weather, "observed", False)]
    for _, ts_us, is_flight, row in sorted(records, key=lambda record: record[0]):
        if is_flight:
            made.fly(ts_us, row)
        else:
            assert ts_us is not None
            made.observe(ts_us, row)
    return made.expected()


def _records(
    rows: pd.DataFrame, time_column: str, is_flight: bool
) -> Iterator[tuple[int, int | None, bool, dict[str, Any]]]:
    """(place, event time, which topic, row) of each row; nulls as None."""
    is_known = rows[time_column].notna()
    instants = rows[time_column].astype("datetime64[us, UTC]").astype("int64")
    plain = rows.astype(object).where(rows.notna(), None)
    for ts_us, known, row in zip(instants, is_known, plain.to_dict("records"), strict=True):
        yield int(row["seq"]), int(ts_us) if known else None, is_flight, row


def _frame(rows: list[tuple[Any, ...]], names: list[str], instants: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=names)
    # By way of nullable integers: a float of microseconds would lose the last digits of an instant.
    times = {name: pd.to_datetime(frame[name].astype("Int64"), unit="us", utc=True) for name in instants}
    return frame.assign(**{name: instant.astype("datetime64[ns, UTC]") for name, instant in times.items()})


def _us(duration: pd.Timedelta) -> int:
    return duration // pd.Timedelta(microseconds=1)
