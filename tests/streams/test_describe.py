"""A topology as text and as a picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from streams.describe import span, windows_in_words
from streams.nodes import Joined, Materialized, Topology
from streams.options import FOREVER
from streams.topology import KStream, KTable, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import Resolution

Make = Callable[[StreamsBuilder], KTable]
_SVG = "{http://www.w3.org/2000/svg}"
_SIDES = ("x", "y", "width", "height")


def _topology() -> Topology:
    builder = StreamsBuilder()
    weather = builder.table("weather", Materialized.versioned("7 days", grace="2 days"), key="origin", value=("temp",))
    warm = weather.filter(lambda value: value.temp > 20, name="warm")
    flights = builder.stream("flights", key="origin", value=("tail", "delay<&>"))
    flights.left_join(warm, joined=Joined.with_grace_period("1 day", name="joined")).to_changelog("out", emit="net")
    flights.join(builder.stream("bags", value=("bag",)), windows=JoinWindows.of("5 min"), name="bags-join")
    hourly = flights.group_by("tail").windowed_by(TimeWindows.of("1 hour").grace("10 minutes")).count(name="hourly")
    bounded = BufferConfig.max_bytes(5_000_000).spill_to_disk_when_full()
    hourly.suppress(Suppressed.until_window_closes(bounded), name="final").to_latest("finals")
    limited = BufferConfig.max_records(1_000)
    hourly.suppress(Suppressed.until_wall_clock_time_limit("30 s", limited), name="calm")
    flights.map_values(lambda value: value["delay<&>"], name="delays")
    return builder.build()


@pytest.mark.rule("R136")
@pytest.mark.parametrize(
    "line",
    [
        "weather: table of topic weather, key (origin), time ts, versioned, history 7 days, grace 2 days, value (temp)",
        "warm: filter value.temp > 20, versioned (inherited)",
        "joined: left stream-table join, grace 1 day",
        "bags-join: inner stream-stream join, 5 minutes before to 5 minutes after, grace 0",
        "hourly: windowed count, tumbling windows of 1 hour, grace 10 minutes, by value.tail",
        "final: suppress until the window closes, at most 5,000,000 bytes, then spill",
        "calm: suppress for 30 seconds of wall-clock time, at most 1,000 records, then emit early",
        "out: changelog sink, the net change per key and batch",
        "finals: table sink, latest state per key",
    ],
)
def test_the_text_tells_of_each_node_its_versions_windows_and_buffers(line: str) -> None:
    assert line in _topology().describe().splitlines()


@pytest.mark.rule("R157")
@pytest.mark.parametrize(
    ("right", "told"),
    [
        (
            Materialized.key_value(),
            "both: inner table-table join, versioned (right is not), history 1 day, grace 1 day",
        ),
        (Materialized.versioned("1 day"), "both: inner table-table join, versioned, history 1 day, grace 1 day"),
    ],
)
def test_a_join_stored_with_versions_tells_which_side_has_none(right: Materialized, told: str) -> None:
    builder = StreamsBuilder()
    left = builder.table("left", Materialized.versioned("1 day"), value=("a",))
    stored = Materialized.versioned("1 day")
    left.join(builder.table("right", right, value=("b",)), materialized=stored, name="both")
    assert told in builder.build().describe().splitlines()


def test_the_text_tells_where_rows_come_from_and_go() -> None:
    lines = _topology().describe().splitlines()
    at = lines.index("joined: left stream-table join, grace 1 day")
    assert lines[at + 1 : at + 3] == ["    <- stream-flights, warm", "    -> out"]


def _with_options() -> Topology:
    builder = StreamsBuilder()
    history = Materialized.versioned("1 day", time_scope="key", late_policy="side_table")
    prices = builder.table("prices", history, value=("price",))
    known = builder.table(
        "known", Materialized.versioned("7 days", system_history=True), value=("price",), name="known"
    )
    known.group_by("price").sum("price", name="sums")
    sales = builder.stream("sales", value=("item",), name="sales")
    strict = Joined.with_grace_period("1 hour").with_too_late("side_table").with_on_expired("drop")
    sales.left_join(prices, joined=strict.with_corrections("2 hours"), name="priced")
    sales.left_join(prices, joined=Joined().with_on_expired("side_table"), name="checked")
    daily = sales.group_by_key().windowed_by(TimeWindows.of("1 day"), late_policy="side_table").count(name="daily")
    unbounded = BufferConfig.unbounded()
    daily.suppress(Suppressed.until_window_closes(unbounded, close_idle=True), name="final")
    daily.suppress(Suppressed.until_time_limit("1 s", unbounded, clock="window_start"), name="calm")
    limit = Suppressed.until_time_limit("1 s", unbounded, timer="last", max_age="1 min")
    daily.suppress(limit, name="quiet")
    return builder.build()


@pytest.mark.parametrize(
    "line",
    [
        "prices: table of topic prices, key (key), time ts, versioned, history 1 day, grace 1 day, "
        "stream time per key, late ones to the rejects table, value (price)",
        "known: table of topic known, key (key), time ts, versioned, history 7 days, grace 7 days, "
        "system history, value (price)",
        "sums: sum of value.price, by value.price",
        "priced: left stream-table join, grace 1 hour, later ones to the rejects table, expired ones dropped, "
        "corrections for 2 hours",
        "checked: left stream-table join, expired ones to the rejects table",
        "daily: windowed count, tumbling windows of 1 day, grace 0, late ones to the rejects table",
        "final: suppress until the window closes, also by the wall clock if the application has a retention, "
        "unbounded buffer",
        "calm: suppress for 1 second of event time, from the window's start, unbounded buffer",
        "quiet: suppress for 1 second of event time, timer last, at most for 1 minute, unbounded buffer",
    ],
)
def test_the_text_tells_every_option_that_is_not_the_default(line: str) -> None:
    assert line in _with_options().describe().splitlines()


def _stream(builder: StreamsBuilder) -> KStream:
    return builder.stream("s", value=("a", "b"))


def _table(builder: StreamsBuilder) -> KTable:
    return builder.table("t", Materialized.key_value(), value=("a", "b"))


def _hourly(stored: Materialized) -> Make:
    windows = TimeWindows.of("1 hour")
    return lambda b: _stream(b).group_by_key().windowed_by(windows).count(materialized=stored, name="x")


def _final(**options: Any) -> Make:
    wanted = Suppressed.until_window_closes(BufferConfig.unbounded(), **options)
    return lambda b: _hourly(Materialized())(b).suppress(wanted, name="y")


def _limited(**options: Any) -> Make:
    bounded = BufferConfig.max_bytes(9)
    return lambda b: _table(b).suppress(Suppressed.until_time_limit("1 s", bounded, **options), name="x")


def _by_clock(**options: Any) -> Make:
    bounded = BufferConfig.max_bytes(9)
    return lambda b: _table(b).suppress(Suppressed.until_wall_clock_time_limit("1 s", bounded, **options), name="x")


def _foreign(*key: str) -> Make:
    return lambda b: _table(b).join(b.table("o", Materialized.key_value(), value="c"), foreign_key=key, name="x")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_hourly(Materialized(time_scope="store")), "grace 0, stream time per store"),
        (_hourly(Materialized(time_resolution=Resolution.MILLISECOND)), "grace 0, time in milliseconds"),
        (_hourly(Materialized.window_store("x", "2 days")), "grace 0, retention 2 days"),
        (
            lambda b: _stream(b).to_table(
                Materialized.versioned("1 day", time_resolution=Resolution.MILLISECOND), name="x"
            ),
            "grace 1 day, time in milliseconds",
        ),
        (_foreign("a"), "x: inner foreign-key join, by {a: value.a}"),
        (_foreign("b"), "x: inner foreign-key join, by {b: value.b}"),
        (lambda b: _table(b).group_by("a", "b").count(name="x"), "x: count, by value.a, over {b: value.b}"),
        (_final(retention="1 min"), "also 1 minute by the wall clock after its first record, unbounded"),
        (_final(retention="1 min", close_idle=True), "also 1 minute by the wall clock after its first record"),
        (_limited(retention="1 min"), "of event time, at most for 1 minute by the wall clock, at most 9 bytes, then"),
        (_limited(size_of="value"), "at most 9 bytes of value, then"),
        (_limited(size_of=len), "at most 9 bytes of a function, then"),
        (_final(size_of="value"), "unbounded buffer, sizes of value"),
        (
            lambda b: b.stream("s", value=("a", "b"), deleted="gone", name="x"),
            "x: stream of topic s, key (key), time ts, deleted where gone, value (a, b)",
        ),
        (lambda b: _table(b).filter(lambda v: v.a > 1, materialized=Materialized(), name="x"), "1, key-value store"),
        (lambda b: _stream(b).group_by_key().count("a", output="n", name="x"), "x: count of value.a as n"),
        (lambda b: _stream(b).group_by_key().reduce(max, schema="a int", name="x"), "reduce, adder max, result a int"),
        (
            lambda b: _stream(b).join(_table(b), lambda left, right: {"c": left.a}, name="x"),
            "x: inner stream-table join, giving {c: left.a}",
        ),
        (_by_clock(retention="1 min"), "of wall-clock time, at most for 1 minute by the wall clock, at most 9 bytes"),
    ],
)
def test_plans_that_differ_in_an_option_are_told_apart(make: Make, told: str) -> None:
    builder = StreamsBuilder()
    make(builder)
    assert told in builder.build().describe()


def test_a_join_with_a_global_table_tells_its_key() -> None:
    builder = StreamsBuilder()
    everywhere = builder.global_table("g", value="c")
    _stream(builder).join(everywhere, key="b", name="x")
    assert "x: inner join with a global table, by value.b" in builder.build().describe().splitlines()


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        (TimeWindows.of("1 hour").advance_by("10 min"), "hopping windows of 1 hour every 10 minutes, grace 0"),
        (SessionWindows.of("1 min").grace("1 s"), "sessions with gap 1 minute, grace 1 second"),
        (SlidingWindows(1_001), "sliding windows of 1 millisecond 1 microsecond, grace 0"),
        (UnlimitedWindows.of(), "one unlimited window"),
        (UnlimitedWindows(1_500_000), "one unlimited window from 1970-01-01 00:00:01.5"),
    ],
)
def test_windows_are_told_in_words(windows: Windows, words: str) -> None:
    assert windows_in_words(windows) == words


@pytest.mark.parametrize(
    ("duration", "words"),
    [(timedelta(0), "0"), (timedelta(seconds=-90), "-1 minute -30 seconds"), (FOREVER, "for ever")],
)
def test_durations_are_told_in_words(duration: timedelta, words: str) -> None:
    assert span(duration) == words


def test_the_picture_is_well_formed_and_has_a_box_for_each_node() -> None:
    picture = ElementTree.fromstring(_topology().to_svg())
    titles = [title.text or "" for title in picture.iter(f"{_SVG}title")]
    assert sorted(title.split(":")[0] for title in titles) == sorted(node.name for node in _topology())


def test_the_picture_has_an_arrow_for_each_parent() -> None:
    picture = ElementTree.fromstring(_topology().to_svg())
    arrows = [path for path in picture.iter(f"{_SVG}path") if path.get("marker-end")]
    assert len(arrows) == sum(len(node.parents) for node in _topology())


def test_no_two_boxes_of_the_picture_overlap() -> None:
    picture = ElementTree.fromstring(_topology().to_svg())
    _background, *boxes = [[float(rect.get(side, "0")) for side in _SIDES] for rect in picture.iter(f"{_SVG}rect")]
    apart = [
        a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
        for number, a in enumerate(boxes)
        for b in boxes[number + 1 :]
    ]
    assert all(apart)


def test_no_arrow_of_the_picture_runs_behind_a_box() -> None:
    picture = ElementTree.fromstring(_topology().to_svg())
    _background, *boxes = [
        {side: float(rect.get(side, "0")) for side in _SIDES} for rect in picture.iter(f"{_SVG}rect")
    ]
    paths = [path.get("d") or "" for path in picture.iter(f"{_SVG}path")]
    past = [(float(y), float(x), float(end)) for path in paths for x, y, end in re.findall(r"(\d+) (\d+) H(\d+)", path)]
    hidden = [
        (y, box)
        for y, start, end in past
        for box in boxes
        if box["y"] <= y <= box["y"] + box["height"] and start < box["x"] + box["width"] and box["x"] < end
    ]
    assert (len(past), hidden) == (1, [])


def test_the_picture_refers_to_nothing_outside() -> None:
    text = _topology().to_svg().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in text
    assert "href" not in text


def test_an_empty_topology_can_be_shown() -> None:
    assert Topology(()).describe() == ""
    assert ElementTree.fromstring(Topology(()).to_svg()).tag == f"{_SVG}svg"
