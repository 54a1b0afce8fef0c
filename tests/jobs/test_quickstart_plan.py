"""The quickstart's plan on the test driver: the first days of the real data, against a recomputation in pandas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from recompute_flights import Expected, recompute, records

from jobs.flights import arrived_before, topics
from jobs.quickstart_plan import build
from jobs.settings import load
from streams.testing import TopologyTestDriver

#: Two days after the late aircraft enter the register.
_UNTIL = "2013-01-10"
_KEYS = {"flights": ("tailnum", "origin"), "weather": ("origin",), "planes": ("tailnum",)}
_SETTINGS = load(Path(__file__).parents[2] / "conf" / "quickstart.yaml").plan_settings


@pytest.fixture(scope="module")
def rows() -> dict[str, pd.DataFrame]:
    return arrived_before(topics(), _UNTIL)


@pytest.fixture(scope="module")
def expected(rows: dict[str, pd.DataFrame]) -> Expected:
    return recompute(rows, *(pd.Timedelta(_SETTINGS[name]) for name in ("grace", "history_retention")))


@pytest.fixture(scope="module")
def told(rows: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    driver = TopologyTestDriver(build(**_SETTINGS))
    for topic, ts_us, row in records(rows):
        driver.pipe_input(topic, {name: row[name] for name in _KEYS[topic]}, row, ts_us)
    sinks = ("flights_with_weather", "departures", "aircraft_moves", "delays_with_model")
    return {sink: _frame(driver, sink) for sink in sinks}


def _frame(driver: TopologyTestDriver, sink: str) -> pd.DataFrame:
    found = [
        {**(record.key or {}), **(record.value or {}), "ts": record.ts_us, "reason": record.reason}
        for record in driver.read_output(sink)
    ]
    frame = pd.DataFrame(found)
    instants = [name for name in ("ts", "windowStart") if name in frame]
    return frame.assign(**{name: pd.to_datetime(frame[name], unit="us", utc=True) for name in instants})


def _assert_same(got: pd.DataFrame, wanted: pd.DataFrame) -> None:
    rows = [frame[list(wanted.columns)].reset_index(drop=True) for frame in (got, wanted)]
    pd.testing.assert_frame_equal(*rows, check_dtype=False)


def test_each_flight_has_the_weather_at_its_departure(told: dict[str, pd.DataFrame], expected: Expected) -> None:
    _assert_same(told["flights_with_weather"].rename(columns={"ts": "departure"}), expected.with_weather)


def test_departures_are_final(told: dict[str, pd.DataFrame], expected: Expected) -> None:
    order = ["origin", "windowStart"]
    _assert_same(told["departures"].sort_values(order), expected.departures.sort_values(order))


@pytest.mark.rule("R163", "R164", "R168")
def test_each_aircraft_leaves_one_count_and_enters_another(told: dict[str, pd.DataFrame], expected: Expected) -> None:
    _assert_same(told["aircraft_moves"], expected.moves)
    assert told["aircraft_moves"].groupby("airport")["ts"].is_monotonic_increasing.all()


def test_the_last_counts_are_those_of_the_current_versions(told: dict[str, pd.DataFrame], expected: Expected) -> None:
    current = expected.aircraft[expected.aircraft["validTo"].isna()].groupby("dest").size()
    latest = told["aircraft_moves"].drop_duplicates("airport", keep="last").set_index("airport")["aircraft"]
    assert latest[latest > 0].to_dict() == current.to_dict()


@pytest.mark.rule("R155")
def test_each_delay_comes_with_the_model_in_the_order_of_arrival(
    told: dict[str, pd.DataFrame], expected: Expected
) -> None:
    _assert_same(told["delays_with_model"], expected.delays)


def test_a_late_aircraft_tells_its_flight_numbers_again(rows: dict[str, pd.DataFrame], expected: Expected) -> None:
    departed = rows["flights"]["departure"].notna().sum()
    # The real data has 24 flight numbers that such an aircraft flew last.
    assert len(expected.delays) - departed == 24
