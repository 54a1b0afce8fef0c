"""The quickstart's topology, built from flights, weather and aircraft.

It joins flights to the weather at their departure, counts final departures per airport and hour, keeps the last airport
of every aircraft and how many aircraft are at each, and joins delays to the model of the aircraft.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from jobs import quickstart_picture
from jobs.progress import application_frames
from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows


def build(grace: timedelta, history_retention: timedelta) -> Topology:
    """Build the plan.

    Args:
        grace: How long after an hour's end a departure still counts.
        history_retention: How far back weather and aircraft can be looked up.
    """
    builder = StreamsBuilder()
    history = Materialized.versioned(history_retention, late_policy="side_table")
    weather = builder.table(
        "weather", history, key="origin", timestamp="observed", value=["temp", "wind_speed", "visib"], name="weather"
    )
    aircraft = builder.table(
        "flights", history, key="tailnum", timestamp="departure", value=["origin", "dest"], name="aircraft"
    )
    # Without versions: the package has one manufacturer and one model of each aircraft, and no changes to them.
    planes = builder.table(
        "planes",
        Materialized.key_value(),
        key="tailnum",
        timestamp="registered",
        value=["manufacturer", "model"],
        name="planes",
    )
    flights = builder.stream(
        "flights",
        key="origin",
        timestamp="departure",
        value=["dest", "tailnum", "carrier", "flight", "delay"],
        name="flights",
    )
    flights.left_join(weather, name="flights_at_departure").to_changelog("flights_with_weather")
    _departures(flights, grace)
    _aircraft_per_airport(aircraft)
    _delays_with_model(flights, planes)
    return builder.build()


def _departures(flights: KStream, grace: timedelta) -> None:
    """Final counts per airport and hour."""
    hourly = flights.group_by_key().windowed_by(TimeWindows.of("1 hour").grace(grace), late_policy="side_table")
    counted = hourly.count(name="departures_by_hour")
    final = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final_departures")
    final.to_changelog("departures")


def _aircraft_per_airport(aircraft: KTable) -> None:
    """Aircraft per airport. One that flies elsewhere leaves one count and enters another; late flights move nothing."""
    at_airport = aircraft.group_by(lambda flown: {"airport": flown.dest})
    at_airport.count(output="aircraft", name="aircraft_per_airport").to_changelog("aircraft_moves")


def _delays_with_model(flights: KStream, planes: KTable) -> None:
    """The delay of each departure with the model of its aircraft, sent again when the aircraft enters the register.

    The table on the left holds the last reported departure of each flight number (5,713 in the year), not every flight.
    So an aircraft that enters the register affects a few rows, and a batch works on as many rows as it has flights,
    however long the year. The table goes by arrival, since nothing asks for its history: versions would need another
    table of 328,521 rows, only to put 50 departures in the other order.
    """
    by_number = flights.select_key(("carrier", "flight"), name="flights_by_number")
    # A table on Spark has the columns of key and value side by side, so what became the key leaves the value.
    delays = by_number.map_values(lambda flown: {"tailnum": flown.tailnum, "delay": flown.delay}, name="delays")
    last = delays.to_table(Materialized.key_value(), name="last_departures")
    joined = last.left_join(
        planes,
        lambda left, right: {
            "tailnum": left.tailnum,
            "delay": left.delay,
            "manufacturer": right.manufacturer,
            "model": right.model,
        },
        foreign_key="tailnum",
        name="delay_and_model",
    )
    joined.to_changelog("delays_with_model")


def draw(app: StreamingApplication, work: Path) -> Path:
    """Draw a finished run as ``quickstart.png`` in the work folder."""
    tables = application_frames(app)
    return quickstart_picture.draw(tables["aircraft"], tables["departures"], work / "quickstart.png")
