"""What a test of a pipeline gets wrong: the driver says what, and what there is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from streams.nodes import Topology
from streams.testing import TopologyTestDriver
from streams.topology import KTable, Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows
from versioned.durations import instant_us
from versioned.errors import ArgumentError, ConfigurationError, UnknownNameError

_FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())


def _builder() -> StreamsBuilder:
    builder = StreamsBuilder()
    held = Materialized.versioned("1 day", name="held")
    builder.table("topic", held, key="item", value="price", name="prices").to_changelog("out")
    return builder


def _driver() -> TopologyTestDriver:
    return TopologyTestDriver(_builder().build())


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda d: d.read_output("oot"), 'there is no sink "oot"; did you mean "out"? There are: out'),
        (lambda d: d.counters("price"), 'there is no node "price"; did you mean "prices"? There are: out, prices'),
        (lambda d: d.drain("x"), 'there is no node "x". There are: out, prices'),
        (lambda d: d.processor("x"), 'there is no node "x". There are: out, prices'),
        (
            lambda d: d.stores["hold"],
            'there is no node or store "hold"; did you mean "held"? There are: held, out, prices',
        ),
        (
            lambda d: d.total("latee"),
            'there is no counter "latee"; did you mean "late"? There are: accepted, dropped, ',
        ),
        (
            lambda d: d.counters("prices")["lates"],
            'there is no counter "lates"; did you mean "late"? There are: accepted, dropped, ',
        ),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_that_are(ask: Callable[[Any], object], told: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        ask(_driver())
    assert str(refused.value).startswith(told)


def test_what_holds_nothing_back_is_not_drained() -> None:
    with pytest.raises(ArgumentError, match=r"^prices is a TableSourceProcessor; only a suppression can be drained"):
        _driver().drain("prices")


@pytest.mark.parametrize("option", ["partition", "offset"])
def test_a_place_that_is_no_number_is_refused(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f'{option} takes a number; got "1"'):
        _driver().pipe_input("topic", "pen", 1, 0, **{option: "1"})  # type: ignore[arg-type]


def test_what_did_not_occur_is_counted_as_0_and_not_listed() -> None:
    driver = _driver()
    counts = driver.counters("prices")
    driver.pipe_input("topic", "pen", 1, 0)
    assert (counts["late"], counts["input"]) == (0, 1)
    assert counts == {"input": 1, "accepted": 1}


def _hourly_counts(builder: StreamsBuilder) -> KTable:
    grouped = builder.stream("s", key="id", value="v").group_by_key()
    return grouped.windowed_by(TimeWindows.of("1 hour")).count(name="hourly")


_BY_WINDOW: list[tuple[str, Callable[[StreamsBuilder], object]]] = [
    ("hourly", _hourly_counts),
    ("x", lambda b: _hourly_counts(b).filter(lambda v: v.count > 0, name="x")),
    ("x", lambda b: _hourly_counts(b).map_values(lambda v: v, materialized=Materialized.versioned("1 day", name="x"))),
    ("x", lambda b: _hourly_counts(b).suppress(_FINAL, name="x")),
    ("x", lambda b: _hourly_counts(b).to_stream().to_table(name="x")),
    ("x", lambda b: _hourly_counts(b).to_latest("x")),
]


@pytest.mark.parametrize(("name", "make"), _BY_WINDOW)
def test_the_ends_of_a_window_in_a_key_are_given_as_datetimes_or_microseconds(
    name: str, make: Callable[[StreamsBuilder], object]
) -> None:
    builder = StreamsBuilder()
    make(builder)
    driver = TopologyTestDriver(builder.build())
    began, ended = (datetime(2026, 1, 1, hour, tzinfo=timezone.utc) for hour in (0, 1))
    for at in (began, ended + timedelta(days=1)):
        driver.pipe_input("s", "k", 1, at)
    ends: list[tuple[Any, Any]] = [
        (began, ended),
        (began.replace(tzinfo=None), ended.replace(tzinfo=None)),
        (instant_us(began), instant_us(ended)),
    ]
    found = [driver.stores[name].get({"id": "k", "windowStart": start, "windowEnd": end}) for start, end in ends]
    assert found == [({"count": 1}, instant_us(began))] * 3


def test_an_end_of_a_window_that_is_no_instant_is_refused() -> None:
    builder = StreamsBuilder()
    _hourly_counts(builder)
    with pytest.raises(ConfigurationError, match=r"windowStart takes a datetime.* got .2026-01-01"):
        TopologyTestDriver(builder.build()).stores["hourly"].get(
            {"id": "k", "windowStart": "2026-01-01", "windowEnd": 0}
        )


def test_fields_of_a_key_that_are_only_called_as_those_of_windows_are_given_as_they_were_piped_in() -> None:
    builder = StreamsBuilder()
    builder.table("t", Materialized.key_value(), key=("windowStart", "windowEnd"), value="v")
    driver = TopologyTestDriver(builder.build())
    key = {"windowStart": datetime(2026, 1, 1), "windowEnd": datetime(2026, 1, 2)}
    driver.pipe_input("t", key, 7, 5)
    assert driver.stores["t"].get(key) == ({"v": 7}, 5)


def test_such_an_error_is_a_key_error_and_one_of_the_library() -> None:
    assert issubclass(UnknownNameError, KeyError)
    assert issubclass(UnknownNameError, ConfigurationError)


@pytest.mark.parametrize("counter", ["input", "accepted", "late", "skipped", "expired", "match", "expired_lookup"])
def test_what_has_not_been_counted_yet_is_none(counter: str) -> None:
    assert _driver().total(counter) == 0


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: TopologyTestDriver(_builder()), r"takes .*StreamsBuilder.build\(\)"),
        (
            lambda: TopologyTestDriver(_builder().build(), start="2026-01-01"),
            'start takes a datetime.* got "2026-01-01"',
        ),
        (lambda: _driver().stores["prices"].as_of("pen", "2026-01-01"), 'as_of takes a datetime.* got "2026-01-01"'),
        (lambda: _driver().stores["prices"].history("pen", start="2026-01-01"), "start takes a datetime"),
        (lambda: _driver().stores["prices"].history("pen", end=1.5), "end takes a datetime.* got 1.5"),
        (lambda: _driver().advance_wall_clock("-1 hour"), 'takes time that passes; got "-1 hour"'),
    ],
)
def test_an_argument_of_another_kind_is_refused(ask: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        ask()


def _closing_idle(suppressed: Suppressed) -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("s", key="k", value="v").group_by_key().windowed_by(TimeWindows.of("1 h")).count()
    counts.suppress(suppressed, name="finals")
    return builder.build()


@pytest.mark.rule("R117")
@pytest.mark.parametrize(
    ("own", "application", "warned"), [(None, None, True), ("2 hours", None, False), (None, "2 hours", False)]
)
def test_closing_idle_windows_without_any_retention_is_warned_of(
    caplog: pytest.LogCaptureFixture, own: str | None, application: str | None, warned: bool
) -> None:
    suppressed = Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True, retention=own)
    with caplog.at_level(logging.WARNING):
        TopologyTestDriver(_closing_idle(suppressed), suppressed_record_retention=application)
    assert [record.message.startswith("finals: close_idle closes no window") for record in caplog.records] == [
        True
    ] * warned


@pytest.mark.rule("R54")
@pytest.mark.parametrize(
    ("windows", "retention", "needed"),
    [
        (TimeWindows.of("1 h").grace("2 h"), "179 minutes", "3 hours"),
        (TimeWindows.of("1 h").grace("2 h"), "3 hours", None),
        (SlidingWindows.of_time_difference_and_grace("1 h", "2 h"), "2 hours", "3 hours"),
        (SessionWindows.of_inactivity_gap_and_grace("1 h", "2 h"), "2 hours", "3 hours"),
        (SessionWindows.of_inactivity_gap_and_grace("1 h", "2 h"), "4 hours", None),
    ],
)
def test_a_retention_that_ends_before_windows_stop_taking_records_is_warned_of(
    caplog: pytest.LogCaptureFixture, windows: Any, retention: str, needed: str | None
) -> None:
    builder = StreamsBuilder()
    counts = builder.stream("s", key="k", value="v").group_by_key().windowed_by(windows).count()
    counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded(), retention=retention), name="finals")
    with caplog.at_level(logging.WARNING):
        TopologyTestDriver(builder.build())
    told = [record.getMessage() for record in caplog.records]
    assert [f"take records for {needed}: those that come later are late" in message for message in told] == (
        [] if needed is None else [True]
    )


def test_nothing_is_warned_of_where_idle_windows_stay_open(caplog: pytest.LogCaptureFixture) -> None:
    TopologyTestDriver(_closing_idle(replace(_FINAL)))
    assert caplog.records == []
