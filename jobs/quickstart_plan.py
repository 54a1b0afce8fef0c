"""The quickstart's topology: flights joined to the weather at their departure, final departures per airport and hour,
and the last airport of every aircraft.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from jobs import picture
from jobs.progress import tables_of
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows


def build(grace: timedelta, history_retention: timedelta) -> Topology:
    """The plan.

    Args:
        grace: How long after an hour's end a departure still counts.
        history_retention: How far back weather and aircraft can be looked up.
    """
    builder = StreamsBuilder()
    history = Materialized.versioned(history_retention, late_policy="side_table")
    weather = builder.table(
        "weather", history, key="origin", timestamp="observed", value=["temp", "wind_speed", "visib"], name="weather"
    )
    builder.table("flights", history, key="tailnum", timestamp="departure", value=["origin", "dest"], name="aircraft")
    flights = builder.stream(
        "flights", key="origin", timestamp="departure", value=["dest", "tailnum", "carrier", "flight"], name="flights"
    )
    flights.left_join(weather, name="flights_at_departure").to_changelog("flights_with_weather")
    hourly = flights.group_by_key().windowed_by(TimeWindows.of("1 hour").grace(grace), late_policy="side_table")
    counted = hourly.count(name="departures_by_hour")
    final = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final_departures")
    final.to_changelog("departures")
    return builder.build()


def draw(app: StreamingApplication, work: Path) -> Path:
    """The picture of a finished run, ``quickstart.png`` in the work folder."""
    tables = tables_of(app)
    return picture.draw(tables["aircraft"], tables["departures"], work / "quickstart.png")
