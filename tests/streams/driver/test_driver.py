"""The test driver itself: input in any form, bad input, depth-first processing, stores, clocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from streams.driver.store_view import StoreView
from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import Joined, Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, TimeWindows
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.errors import ConfigurationError, RecordError

UTC = timezone.utc
_KV = {"key": "k", "value": "v"}


def passing_through(**source: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("events", **source).to_changelog("out")
    return TopologyTestDriver(builder.build())


def values(driver: TopologyTestDriver, sink: str = "out") -> list[Any]:
    return [None if r.value is None else next(iter(r.value.values())) for r in driver.read_output(sink)]


@pytest.mark.parametrize(
    ("source", "key", "value", "seen"),
    [
        ({}, "k", 7, (Row(key="k"), Row(value=7))),
        ({"key": "id", "value": "price"}, "k", 7, (Row(id="k"), Row(price=7))),
        ({"key": "id", "value": "price"}, {"id": "k"}, {"price": 7, "more": 1}, (Row(id="k"), Row(price=7))),
        ({"key": ("a", "b")}, {"a": 1, "b": 2}, {"x": 3}, (Row(a=1, b=2), Row(x=3))),
        ({"key": ("a", "b")}, Row(a=1, b=2), Row(x=3), (Row(a=1, b=2), Row(x=3))),
        ({}, None, None, (None, None)),
        ({"key": ("a", "b")}, {"a": 1, "b": None}, 1, (Row(a=1, b=None), Row(value=1))),
    ],
)
def test_keys_and_values_may_be_scalars_mappings_or_rows(
    source: dict[str, Any], key: Any, value: Any, seen: tuple[Row | None, Row | None]
) -> None:
    driver = passing_through(**source)
    driver.pipe_input("events", key, value, 5)
    (record,) = driver.read_output("out")
    assert (record.key, record.value) == seen


def test_a_filter_and_its_opposite_share_a_streams_records_and_neither_has_those_that_are_unknown() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("events", value="v")
    stream.filter(lambda value: value.v > 1, name="large").to_changelog("kept")
    stream.filter_not(lambda value: value.v > 1, name="others").to_changelog("left")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2, None):
        driver.pipe_input("events", "k", {"v": value}, 5)
    assert (values(driver, "kept"), values(driver, "left")) == ([2], [1])


@pytest.mark.parametrize(
    ("value", "whole", "single"), [({"v": 1}, Row(v=1), Row(value=2)), (None, None, None)], ids=["value", "null"]
)
def test_a_mapper_gives_a_row_or_one_value_that_is_called_value_and_of_a_null_value_null(
    value: Any, whole: Row | None, single: Row | None
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("events", value="v")
    stream.map_values(lambda value: value).to_changelog("whole")
    stream.map_values(lambda value: value.v * 2).to_changelog("single")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("events", "k", value, 5)
    assert [record.value for sink in ("whole", "single") for record in driver.read_output(sink)] == [whole, single]


@pytest.mark.parametrize("by", ["v", lambda value: {"x": value.v, "y": 1}], ids=["single", "row"])
def test_values_that_are_not_a_number_are_one_group(by: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("events", value="v").group_by(by).count(name="count").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for _ in range(3):
        driver.pipe_input("events", "k", float("nan"), 5)
    assert values(driver) == [1, 2, 3]


def test_an_instant_with_its_zone_and_without_one_are_one_key() -> None:
    builder = StreamsBuilder()
    by_key = builder.stream("events", key="at", value="v").group_by_key()
    by_key.count(name="counted").to_changelog("out")
    builder.stream("others").group_by(lambda value: {"in": value["in"]}).count(name="grouped").to_changelog("told")
    driver = TopologyTestDriver(builder.build())
    instants = [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)]
    for ts, at in enumerate([*instants, datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))]):
        driver.pipe_input("events", at, 1, ts)
        driver.pipe_input("others", "k", {"in": {"at": at}}, ts)
    assert (values(driver), values(driver, "told")) == ([1, 2, 3], [1, 2, 3])
    assert [driver.stores["counted"].get(at) for at in instants] == [(Row(count=3), 2)] * 2


def test_a_key_that_is_not_a_number_is_one_key_also_where_it_waits_in_a_file() -> None:
    builder = StreamsBuilder()
    table = builder.table("events", Materialized.key_value("rows"), key="k", value="v")
    wait = Suppressed.until_time_limit("1 hour", BufferConfig.max_records(0).spill_to_disk_when_full())
    table.suppress(wait, name="held").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2):
        driver.pipe_input("events", float("nan"), value, 5)
    driver.drain("held")
    assert values(driver) == [2]


@pytest.mark.parametrize(
    ("ts", "ts_us"),
    [
        (-3, -3),
        (datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
    ],
)
def test_a_time_is_an_integer_of_microseconds_or_a_datetime(ts: Any, ts_us: int) -> None:
    driver = passing_through()
    driver.pipe_input("events", "k", 1, ts)
    assert [record.ts_us for record in driver.read_output("out")] == [ts_us]


@pytest.mark.parametrize(
    ("topic", "key", "value", "ts", "message"),
    [
        ("evnets", "k", {"x": 1, "y": 2}, 1, r'Nobody reads the topic "evnets"; there are \[\'events\'\]'),
        ("events", 5, {"x": 1, "y": 2}, 1, r"the key has the fields \['a', 'b'\]; give a mapping, not 5"),
        ("events", {"a": 1}, {"x": 1, "y": 2}, 1, r"the key lacks \['b'\] of the fields \['a', 'b'\]"),
        ("events", {"a": 1, "b": 2}, 9, 1, r"the value has the fields \['x', 'y'\]; give a mapping, not 9"),
        ("events", {"a": 1, "b": 2}, {"x": 1}, 1, r"the value lacks \['y'\]"),
        ("events", {"a": 1, "b": 2}, {"x": 1, "y": 2}, "noon", "the timestamp 'noon' is a str"),
        ("events", {"a": 1, "b": 2}, {"x": 1, "y": 2}, 1.5, r"the timestamp 1\.5 is a float"),
        ("events", {"a": 1, "b": 2}, {"x": 1, "y": 2}, True, "the timestamp True is a bool"),
    ],
)
def test_input_that_does_not_fit_its_source_is_refused_with_what_would(
    topic: str, key: Any, value: Any, ts: Any, message: str
) -> None:
    driver = passing_through(key=("a", "b"), value=("x", "y"))
    with pytest.raises(RecordError, match=message):
        driver.pipe_input(topic, key, value, ts)


def test_an_unknown_field_in_a_function_is_named_beside_those_there_are() -> None:
    builder = StreamsBuilder()
    builder.stream("events").filter(lambda value: value.prize > 1).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(RecordError, match=r'no field "prize"; the row has \[\'price\'\]'):
        driver.pipe_input("events", "k", {"price": 3}, 1)


@pytest.mark.rule("R62")
def test_a_null_time_is_rejected_with_its_place_and_counted_as_skipped() -> None:
    driver = passing_through()
    driver.pipe_input("events", "k", 1, 1, partition=3)
    driver.pipe_input("events", "k", 2, None, partition=3)
    (reject,) = driver.rejects
    assert (reject.reason, reject.partition, reject.offset, reject.value) == ("NULL_TS", 3, 1, Row(value=2))
    assert driver.counters("stream-events")["skipped"] == 1
    assert values(driver) == [1]


def test_a_clock_that_is_too_far_ahead_is_rejected_before_it_can_move_stream_time() -> None:
    builder = StreamsBuilder()
    builder.table("t", Materialized.versioned("1 s"), name="t").to_changelog("out")
    driver = TopologyTestDriver(builder.build(), start=0, max_future_skew="1 day")
    driver.pipe_input("t", "k", "broken", 86_400_000_001)
    driver.pipe_input("t", "k", "fine", 5)
    driver.advance_wall_clock("1 us")
    driver.pipe_input("t", "k", "now fine", 86_400_000_001)
    assert values(driver) == ["fine", "now fine"]
    assert [reject.reason for reject in driver.rejects] == ["FUTURE_TS"]


def test_a_record_goes_down_each_branch_to_its_end_before_the_next() -> None:
    builder = StreamsBuilder()
    source = builder.stream("events", value="v")
    first = source.map_values(lambda value: {"v": value.v + 1})
    first.to_changelog("a")
    builder.table("events", Materialized.key_value("seen"), value="v", name="seen").to_changelog("b")
    source.join(builder.table("later", Materialized.key_value("later"), value="w")).to_changelog("c")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("events", "k", 1, 1)
    assert (values(driver, "a"), values(driver, "b"), values(driver, "c")) == ([2], [1], [])


def test_a_topic_that_is_read_as_stream_and_as_table_changes_the_table_first() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("events")
    stream.join(builder.table("events"), lambda left, right: {"v": right.value}).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2):
        driver.pipe_input("events", "k", value, 5)
    assert values(driver) == [1, 2]


def test_reading_a_sink_takes_what_is_there() -> None:
    driver = passing_through()
    driver.pipe_input("events", "k", 1, 1)
    assert (values(driver), values(driver)) == ([1], [])


def versioned() -> TopologyTestDriver:
    builder = StreamsBuilder()
    table = builder.table(
        "prices", Materialized.versioned("100 us", name="price-store"), key="item", value="price", name="prices"
    )
    table.filter(lambda value: value.price > 5, name="dear").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for price, ts in ((10, 10), (3, 20), (12, 30), (None, 40), (7, 50)):
        driver.pipe_input("prices", "pen", price, ts)
    return driver


@pytest.mark.rule("R138")
def test_a_store_answers_by_the_name_of_its_node_and_by_its_own() -> None:
    driver = versioned()
    assert driver.stores["price-store"].get("pen") == (Row(price=7), 50)
    assert driver.stores["prices"].as_of("pen", 25) == Row(price=3)
    assert driver.stores["price-store"].as_of({"item": "pen"}, datetime(1970, 1, 1, microsecond=40)) is None


@pytest.mark.rule("R184")
def test_a_store_answers_by_the_stream_time_of_the_key_s_partition_whatever_record_came_last() -> None:
    builder = StreamsBuilder()
    store = Materialized.versioned("100 us", name="store")
    table = builder.table("prices", store, key="item", value="price")
    table.filter(lambda value: value.price > 0, name="view").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for price, ts in ((1, 0), (2, 10)):
        driver.pipe_input("prices", "pen", price, ts, partition=1)
    answers = []
    for item, ts, partition in (("ink", 1_000, 0), ("cap", 10, 1), ("pen", 1_000, 1), ("ink", 1_001, 2)):
        driver.pipe_input("prices", item, 9, ts, partition=partition)
        answers.append([driver.stores[name].as_of("pen", 5) for name in ("store", "view")])
    assert answers == [[Row(price=1)] * 2] * 2 + [[None] * 2] * 2


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_question_from_outside_changes_nothing_that_later_records_find(is_asked: bool) -> None:
    builder = StreamsBuilder()
    table = builder.table("prices", Materialized.versioned("100 us", name="store"), key="item", value="price")
    builder.stream("orders", key="item", value="amount").left_join(table).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for item, price, ts, partition in (("pen", 1, 0, 1), ("pen", 2, 10, 1), ("ink", 9, 1_000, 0)):
        driver.pipe_input("prices", item, price, ts, partition=partition)
    if is_asked:
        assert driver.stores["store"].as_of("pen", 5) == Row(price=1)
    driver.pipe_input("orders", "pen", 1, 5, partition=0)
    assert [record.reason for record in driver.read_output("out")] == ["EXPIRED"]


def test_a_store_behind_a_change_of_key_answers_by_the_one_stream_time_that_it_has() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("prices", key="item", value=("shop", "price")).select_key(lambda key, value: value.shop)
    stream.to_table(Materialized.versioned("100 us", name="store"))
    driver = TopologyTestDriver(builder.build())
    for price, ts in ((1, 0), (2, 10), (3, 1_000)):
        driver.pipe_input("prices", "pen", {"shop": "s", "price": price}, ts, partition=1)
    assert driver.stores["store"].as_of("s", 5) is None


@pytest.mark.parametrize("node", ["stream", "kept", "out"])
def test_a_node_that_is_no_table_is_refused_instead_of_telling_that_no_key_is_there(node: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("prices", key="item", value="price", name="stream")
    stream.filter(lambda value: value.price > 0, name="kept").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", "pen", 1, 0)
    for ask in (driver.stores[node].get, lambda key: driver.stores[node].as_of(key, 5)):
        with pytest.raises(ConfigurationError, match=f"{node} is no table"):
            ask("pen")


def test_a_history_gives_the_versions_of_a_range() -> None:
    history = versioned().stores["price-store"].history("pen", start=25, end=45)
    assert [(version.value, version.valid_from_us, version.valid_to_us) for version in history] == [
        (Row(price=3), 20, 30),
        (Row(price=12), 30, 40),
    ]


def test_a_filtered_view_of_a_versioned_table_answers_at_a_time_as_well() -> None:
    view = versioned().stores["dear"]
    assert (view.as_of("pen", 15), view.as_of("pen", 25), view.get("pen")) == (Row(price=10), None, (Row(price=7), 50))


@pytest.mark.parametrize(
    "add",
    [
        lambda builder: builder.table("s", Materialized.key_value("t"), value="v", name="t"),
        lambda builder: builder.stream("s").group_by_key().windowed_by(TimeWindows(10, 10)).count(name="t"),
        lambda builder: builder.stream("s").filter(lambda value: value.v > 0, name="t"),
    ],
    ids=["plain table", "windows", "stream"],
)
def test_what_keeps_no_versions_has_no_history(add: Callable[[StreamsBuilder], object]) -> None:
    builder = StreamsBuilder()
    add(builder)
    with pytest.raises(ConfigurationError, match=r"t keeps no versions.*Materialized\.versioned"):
        TopologyTestDriver(builder.build()).stores["t"].history("pen")


def test_a_view_of_versions_without_a_store_says_that_it_cannot_list_them() -> None:
    with pytest.raises(ConfigurationError, match=r"dear is a view of the versions of prices, .* or use as_of"):
        versioned().stores["dear"].history("pen")


def test_a_key_of_several_fields_cannot_be_asked_for_by_one_value() -> None:
    builder = StreamsBuilder()
    builder.table("t", Materialized.key_value("t"), key=("a", "b"), name="t").to_changelog("out")
    with pytest.raises(RecordError, match=r"the key has the fields \['a', 'b'\]; give a mapping, not 'x'"):
        TopologyTestDriver(builder.build()).stores["t"].get("x")


def keyed_by_two(kind: str) -> StoreView:
    """A table, or what is made of one, whose key ``p=1, q=2`` has a value."""
    builder = StreamsBuilder()
    store = Materialized.versioned("1 s") if kind == "versioned" else Materialized.key_value()
    if kind in ("versioned", "plain"):
        builder.table("in", store, key=("p", "q"), value="v", name="t")
    elif kind == "view":
        builder.table("in", store, key=("p", "q"), value="v").filter(lambda value: value.v > 0, name="t")
    else:
        grouped = builder.stream("in", key=("p", "q"), value="v").group_by_key()
        (grouped.windowed_by(TimeWindows(10, 10)) if kind == "windows" else grouped).count(name="t")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", {"p": 1, "q": 2}, 1, 5)
    return driver.stores["t"]


@pytest.mark.parametrize("kind", ["versioned", "plain", "view", "groups", "windows"])
def test_a_key_is_found_by_the_names_of_its_fields_in_any_order(kind: str) -> None:
    view, window = keyed_by_two(kind), {"windowEnd": 10, "windowStart": 0} if kind == "windows" else {}
    keys: list[Mapping[str, int]] = [{"q": 2, "p": 1, **window}, Row(**window, p=1, q=2)]
    found = [view.get(key) for key in keys]
    assert found[0] is not None
    assert found[0] == found[1]


@pytest.mark.parametrize("key", [{"p": 1}, {"p": 1, "q": 2, "r": 3}, {"p": 1, "x": 2}, Row(a=1, b=2), {}])
@pytest.mark.parametrize("kind", ["versioned", "plain", "view", "groups"])
def test_a_key_of_other_fields_cannot_be_asked_for(kind: str, key: Mapping[str, int]) -> None:
    with pytest.raises(RecordError, match=r"t: the key has the fields \['p', 'q'\], not \[.*\]"):
        keyed_by_two(kind).get(key)


@pytest.mark.parametrize("key", ["x", {"value": "x"}, {"value": "x", "windowStart": 0}])
def test_a_window_cannot_be_asked_for_without_its_ends_whatever_the_fields_of_its_key(key: Any) -> None:
    builder = StreamsBuilder()
    # What the fields of a whole value are only its records tell.
    groups = builder.stream("in").group_by(lambda key, value: value)
    groups.windowed_by(TimeWindows(10, 10)).count(name="t").to_changelog("out")
    with pytest.raises(RecordError, match=r"t: the key lacks \[.*'windowEnd'\] of its window; give a mapping"):
        TopologyTestDriver(builder.build()).stores["t"].get(key)


def test_a_group_whose_fields_only_its_records_tell_is_asked_for_by_a_mapping() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda key, value: value).count(name="t").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", {"p": 1, "q": 2}, 5)
    assert driver.stores["t"].get({"p": 1, "q": 2}) == (Row(count=1), 5)


def test_a_binary_is_one_key_and_one_value_whether_it_can_be_changed_or_not() -> None:
    builder = StreamsBuilder()
    table = builder.table("events", Materialized.key_value("rows"), key="k", value="v", name="t")
    table.group_by(lambda key, value: {"g": 1}).max("v", name="greatest").to_latest("latest")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("events", bytearray(b"a"), bytearray(b"x"), 1)
    driver.pipe_input("events", b"a", b"w", 2)
    assert list(driver.stores["t"].items()) == [(Row(k=b"a"), Row(v=b"w"), 2)]
    assert list(driver.stores["latest"].items()) == [(Row(g=1), Row(max=b"w"), 2)]


def test_every_question_to_a_table_checks_the_names_of_the_key() -> None:
    view = versioned().stores["prices"]
    for ask in (view.get, view.history, lambda key: view.as_of(key, 15)):
        with pytest.raises(RecordError, match=r"prices: the key has the fields \['item'\], not \['pen'\]"):
            ask({"pen": "pen"})


def test_a_table_sink_holds_what_is_latest_in_its_table_and_is_not_disturbed_by_late_versions() -> None:
    builder = StreamsBuilder()
    builder.table("t", Materialized.versioned("1 s"), value="v", name="t").to_latest("state")
    driver = TopologyTestDriver(builder.build())
    for key, value, ts in (("a", 1, 10), ("b", 2, 20), ("a", 0, 5), ("b", None, 30)):
        driver.pipe_input("t", key, value, ts)
    latest = [list(driver.stores[name].items()) for name in ("state", "t")]
    assert latest == [[(Row(key="a"), Row(v=1), 10)]] * 2
    assert driver.counters("state")["ignored"] == 1
    assert values(driver, "state") == [1, 2, None]


@pytest.mark.rule("R62")
def test_every_record_of_a_nodes_input_is_accepted_or_dropped() -> None:
    builder = StreamsBuilder()
    sides = [builder.table(name, Materialized.versioned("100 us", name=name), value=name, name=name) for name in "ab"]
    sides[0].join(sides[1], name="join").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for topic, key, ts in (
        ("a", "k", 10),
        ("b", "k", 5),
        ("a", "k", 500),
        ("a", "k", 1),
        (None, None, 0),
        ("a", "k", 450),
    ):
        driver.pipe_input(topic or "b", key, 1, ts)
    driver.pipe_input("a", "k", 1, None)
    counted = {name: driver.counters(name) for name in ("a", "b", "join")}
    assert {name: counts["input"] for name, counts in counted.items()} == {"a": 5, "b": 2, "join": 4}
    assert all(counts["input"] == counts["accepted"] + counts["dropped"] for counts in counted.values())
    assert {name: counts["dropped"] for name, counts in counted.items()} == {"a": 2, "b": 1, "join": 1}


def test_an_expression_that_does_not_fit_a_record_is_told_with_its_operators_name_and_no_others() -> None:
    builder = StreamsBuilder()
    kept = builder.stream("a", key="k", name="source").filter(lambda value: value.v > 0, name="kept")
    kept.map_values(lambda value: {"w": value.nowhere}, name="mapped").to_changelog("out")
    with pytest.raises(RecordError, match=r'^mapped: There is no field "nowhere"'):
        TopologyTestDriver(builder.build()).pipe_input("a", "x", {"v": 1}, 10)


@pytest.mark.parametrize(
    ("ts_us", "reasons"),
    [
        (FIRST_INSTANT_US, []),
        (LAST_INSTANT_US, []),
        (FIRST_INSTANT_US - 1, ["TS_RANGE"]),
        (LAST_INSTANT_US + 1, ["TS_RANGE"]),
    ],
)
def test_the_first_and_the_last_instant_are_times_of_records_and_none_beyond(ts_us: int, reasons: list[str]) -> None:
    driver = passing_through(value="v")
    driver.pipe_input("events", "k", {"v": 1}, ts_us)
    assert [reject.reason for reject in driver.rejects] == reasons


_FAR = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))


@pytest.mark.parametrize("value", [_FAR, {"at": _FAR}, [1, [_FAR]], {"by": {_FAR: 1}}], ids=repr)
def test_a_value_with_a_time_outside_the_calendar_is_put_aside_and_counted(value: Any) -> None:
    driver = passing_through(value="v")
    driver.pipe_input("events", "k", {"v": value}, 5)
    assert driver.read_output("out") == []
    assert [(reject.reason, reject.ts_us) for reject in driver.rejects] == [("TS_RANGE", 5)]
    assert driver.total("dropped") == 1


@pytest.mark.parametrize("value", [datetime.min, datetime.max], ids=repr)
def test_the_first_and_the_last_instant_that_tables_hold_are_values(value: datetime) -> None:
    driver = passing_through(value="v")
    driver.pipe_input("events", "k", value.replace(tzinfo=UTC), 5)
    assert driver.rejects == []


def _late_for_a_store(b: StreamsBuilder) -> None:
    b.table("s", Materialized.versioned("1 second"), name="t", **_KV)


def _late_for_windows(b: StreamsBuilder) -> None:
    b.stream("s", **_KV).group_by_key().windowed_by(TimeWindows.of("1 second")).count(name="t")


def _late_for_a_wait(b: StreamsBuilder) -> None:
    table = b.table("other", Materialized.versioned("1 minute"), **_KV)
    options = Joined(grace=timedelta(seconds=1), too_late="side_table")
    b.stream("s", **_KV).join(table, lambda left, right: left, joined=options, name="t")


def _late_for_partners(b: StreamsBuilder) -> None:
    pair = lambda left, right: {"both": left.v}  # noqa: E731
    windows = JoinWindows.of_time_difference_and_grace("1 second", "1 second")
    b.stream("s", **_KV).join(b.stream("other", **_KV), pair, windows=windows, name="t")


@pytest.mark.rule("R23")
@pytest.mark.parametrize("add", [_late_for_a_store, _late_for_windows, _late_for_a_wait, _late_for_partners])
def test_each_record_that_is_late_for_a_node_is_told_at_debug_and_nothing_above(
    add: Any, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    add(builder)
    driver = TopologyTestDriver(builder.build())
    with caplog.at_level(logging.DEBUG):
        for second in (0, 60, 2, 3):
            driver.pipe_input("s", "a", 1, second * 1_000_000)
    assert [(said.levelname, said.message[:25]) for said in caplog.records] == [
        ("DEBUG", "t: late record at 2000000"),
        ("DEBUG", "t: late record at 3000000"),
    ]
    assert driver.counters("t")["late"] == 2


@pytest.mark.rule("R63", "R64")
@pytest.mark.parametrize("node", ["source", "join"])
def test_the_lateness_of_records_is_measured_where_a_stream_begins_and_where_it_meets_another(node: str) -> None:
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_and_grace("1 second", "1 second")
    left, right = (builder.stream(side, name=name, **_KV) for side, name in (("s", "source"), ("other", "others")))
    left.join(right, lambda left, right: {"both": left.v}, windows=windows, name="join")
    driver = TopologyTestDriver(builder.build())
    for ts_us in (9_000, 3_000):
        driver.pipe_input("s", "k", 1, ts_us)
    told = {metric.name: metric.value for metric in driver.metrics if metric.tags.get("processor-node-id") == node}
    assert (told["record-lateness-avg"], told["record-lateness-max"]) == (3.0, 6.0)
