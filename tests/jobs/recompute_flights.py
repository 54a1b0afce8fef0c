"""The quickstart's outputs, computed again record by record in plain Python and pandas.

Shares no code with the library: it takes the rows in order of arrival (``seq``) and applies the rules as
docs/concepts/ and docs/reference/rules.md state them. Instants are ``int`` microseconds since 1970 UTC.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

HOUR_US = 3_600_000_000
_TIMES = {"flights": "departure", "weather": "observed", "planes": "registered"}
_WEATHER_VALUES = ("temp", "wind_speed", "visib")
_FLIGHT_VALUES = ("dest", "tailnum", "carrier", "flight", "delay")
_DELAY_COLUMNS = ("carrier", "flight", "tailnum", "delay", "manufacturer", "model", "ts")


@dataclass(frozen=True)
class Expected:
    """What the quickstart's tables should hold; instants are UTC.

    ``moves`` and ``delays`` are all results in order of output; ``per_airport`` and ``last_delays`` are the latest of
    each airport and of each flight number. ``rejects`` counts the rejected records by node and reason.
    """

    with_weather: pd.DataFrame
    departures: pd.DataFrame
    weather: pd.DataFrame
    aircraft: pd.DataFrame
    planes: pd.DataFrame
    moves: pd.DataFrame
    per_airport: pd.DataFrame
    delays: pd.DataFrame
    last_delays: pd.DataFrame
    rejects: pd.Series


@dataclass
class VersionedModel:
    """A versioned table: per key, versions by their start; a later put at the same start replaces."""

    retention_us: int
    stream_time_us: int | None = None
    starts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    values: dict[tuple[str, int], tuple[Any, ...]] = field(default_factory=dict)
    refused: int = 0

    def put(self, key: str, ts_us: int, value: tuple[Any, ...]) -> bool:
        """Put a value; return whether it is accepted. Grace equals retention, the default."""
        newest = ts_us if self.stream_time_us is None else self.stream_time_us
        if ts_us < newest - self.retention_us:
            self.refused += 1
            return False
        self.stream_time_us = max(newest, ts_us)
        if (key, ts_us) not in self.values:
            insort(self.starts[key], ts_us)
        self.values[key, ts_us] = value
        return True

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


@dataclass
class AirportModel:
    """How many aircraft were last flown to each airport, and the newest departure that changed it."""

    last: dict[str, tuple[int, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, int] = field(default_factory=dict)
    told: list[tuple[str, int, int]] = field(default_factory=list)

    def move(self, tailnum: str, ts_us: int, dest: str) -> None:
        """Record a flight; one that departed before the aircraft's latest moves nothing."""
        latest_us, left = self.last.get(tailnum, (ts_us, None))
        if ts_us < latest_us:
            return
        self.last[tailnum] = (ts_us, dest)
        if left == dest:
            self._count(dest, 0, ts_us)
            return
        if left is not None:
            self._count(left, -1, ts_us)
        self._count(dest, 1, ts_us)

    def _count(self, airport: str, change: int, ts_us: int) -> None:
        self.counts[airport] += change
        self.times[airport] = max(ts_us, self.times.get(airport, ts_us))
        self.told.append((airport, self.counts[airport], self.times[airport]))

    def rows(self) -> pd.DataFrame:
        """Every count in order of output; an airport stays, with zero, when its last aircraft has left."""
        return _frame(self.told, ["airport", "aircraft", "ts"], ["ts"])


@dataclass
class DelayModel:
    """The last reported departure of each flight number with the model of its aircraft."""

    planes: dict[str, tuple[int, tuple[Any, ...]]] = field(default_factory=dict)
    last: dict[tuple[str, int], tuple[int, str, int]] = field(default_factory=dict)
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def depart(self, number: tuple[str, int], ts_us: int, tailnum: str, delay: int) -> None:
        """Record a flight; its result is output at once, even if the aircraft is not known yet."""
        self.last[number] = (ts_us, tailnum, delay)
        self._tell(number)

    def register(self, tailnum: str, ts_us: int, about: tuple[Any, ...]) -> None:
        """Record an aircraft; the result of every flight number that it flew last is output again."""
        self.planes[tailnum] = (ts_us, about)
        for number in sorted(number for number, last in self.last.items() if last[1] == tailnum):
            self._tell(number)

    def _tell(self, number: tuple[str, int]) -> None:
        ts_us, tailnum, delay = self.last[number]
        registered_us, about = self.planes.get(tailnum, (ts_us, (None, None)))
        self.told.append((*number, tailnum, delay, *about, max(ts_us, registered_us)))

    def rows(self) -> pd.DataFrame:
        """Every result in order of output."""
        return _frame(self.told, [*_DELAY_COLUMNS], ["ts"])

    def registered(self) -> pd.DataFrame:
        """The register."""
        rows = [(tailnum, *about, ts_us) for tailnum, (ts_us, about) in self.planes.items()]
        return _frame(rows, ["tailnum", "manufacturer", "model", "ts"], ["ts"])


class Recomputation:
    """Goes through the records one by one."""

    def __init__(self, grace_us: int, retention_us: int) -> None:
        self.weather = VersionedModel(retention_us)
        self.aircraft = VersionedModel(retention_us)
        self.hourly = HourlyModel(grace_us)
        self.airports = AirportModel()
        self.delays = DelayModel()
        self.joined: list[tuple[Any, ...]] = []
        self.rejects: Counter[tuple[str, str]] = Counter()

    def observe(self, ts_us: int, row: dict[str, Any]) -> None:
        """An hourly weather record."""
        self.weather.put(row["origin"], ts_us, tuple(row[name] for name in _WEATHER_VALUES))

    def register(self, ts_us: int, row: dict[str, Any]) -> None:
        """An aircraft enters the register."""
        self.delays.register(row["tailnum"], ts_us, (row["manufacturer"], row["model"]))

    def fly(self, ts_us: int | None, row: dict[str, Any]) -> None:
        """A flight; the topic is read twice, as a stream and as the table of aircraft."""
        if ts_us is None:
            self.rejects.update([("flights", "NULL_TS"), ("aircraft", "NULL_TS")])
            return
        found, reason = self.weather.as_of(row["origin"], ts_us)
        weather = found or (None,) * len(_WEATHER_VALUES)
        self.joined.append((ts_us, row["origin"], *(row[name] for name in _FLIGHT_VALUES), *weather, reason))
        self.hourly.add(row["origin"], ts_us)
        self.delays.depart((row["carrier"], row["flight"]), ts_us, row["tailnum"], row["delay"])
        if row["tailnum"] is None:
            self.rejects["aircraft", "NULL_KEY"] += 1
        elif self.aircraft.put(row["tailnum"], ts_us, (row["origin"], row["dest"])):
            self.airports.move(row["tailnum"], ts_us, row["dest"])

    def expected(self) -> Expected:
        """All outputs so far."""
        late = {("departures_by_hour", "LATE"): self.hourly.late}
        late |= {("weather", "LATE"): self.weather.refused, ("aircraft", "LATE"): self.aircraft.refused}
        rejects = pd.Series({where: n for where, n in {**self.rejects, **late}.items() if n})
        moves, delays = self.airports.rows(), self.delays.rows()
        return Expected(
            _frame(
                self.joined,
                ["departure", "origin", *_FLIGHT_VALUES, *_WEATHER_VALUES, "reason"],
                ["departure"],
            ),
            self.hourly.finals(),
            self.weather.rows("origin", *_WEATHER_VALUES),
            self.aircraft.rows("tailnum", "origin", "dest"),
            self.delays.registered(),
            moves,
            moves.drop_duplicates("airport", keep="last"),
            delays,
            delays.drop_duplicates(["carrier", "flight"], keep="last"),
            rejects.rename_axis(["node", "reason"]).sort_index(),
        )


def recompute(topics: Mapping[str, pd.DataFrame], grace: pd.Timedelta, retention: pd.Timedelta) -> Expected:
    """All outputs for the rows of these topics.

    Args:
        topics: ``flights``: ``seq``, ``departure``, ``origin``, ``dest``, ``tailnum``, ``carrier``, ``flight``,
            ``delay``; ``weather``: ``seq``, ``observed``, ``origin``, ``temp``, ``wind_speed``, ``visib``;
            ``planes``: ``seq``, ``registered``, ``tailnum``, ``manufacturer``, ``model``.
        grace: How long after an hour's end a departure still counts.
        retention: History retention, and so grace, of both versioned tables.
    """
    made = Recomputation(_us(grace), _us(retention))
    for topic, ts_us, row in records(topics):
        if topic == "flights":
            made.fly(ts_us, row)
        else:
            assert ts_us is not None
            (made.observe if topic == "weather" else made.register)(ts_us, row)
    return made.expected()


def records(topics: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Topic, event time and row of every record, in order of arrival."""
    every = [record for topic, rows in topics.items() for record in _records(topic, rows, _TIMES[topic])]
    for _, topic, ts_us, row in sorted(every, key=lambda record: record[0]):
        yield topic, ts_us, row


def _records(topic: str, rows: pd.DataFrame, time_column: str) -> Iterator[tuple[int, str, int | None, dict[str, Any]]]:
    """(place, topic, event time, row) of each row; nulls as None."""
    is_known = rows[time_column].notna()
    instants = rows[time_column].astype("datetime64[us, UTC]").astype("int64")
    plain = rows.astype(object).where(rows.notna(), None)
    for ts_us, known, row in zip(instants, is_known, plain.to_dict("records"), strict=True):
        yield int(row["seq"]), topic, int(ts_us) if known else None, row


def _frame(rows: list[tuple[Any, ...]], names: list[str], instants: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=names)
    # By way of nullable integers: a float of microseconds would lose the last digits of an instant.
    times = {name: pd.to_datetime(frame[name].astype("Int64"), unit="us", utc=True) for name in instants}
    return frame.assign(**{name: instant.astype("datetime64[ns, UTC]") for name, instant in times.items()})


def _us(duration: pd.Timedelta) -> int:
    return duration // pd.Timedelta(microseconds=1)
