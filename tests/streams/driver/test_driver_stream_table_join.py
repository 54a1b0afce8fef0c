"""Stream-table joins on the driver: reasons, expiry, grace and its policies, bad input."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.driver.stream_table_join import StreamTableJoinProcessor
from streams.testing import TopologyTestDriver
from streams.topology import Joined, Materialized, StreamsBuilder
from versioned.errors import RecordError, TopologyError

VERSIONED = Materialized.versioned("100 us", name="prices")


def joining(
    kind: str = "left", table: Materialized = VERSIONED, joined: Joined | None = None, **options: Any
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    prices = builder.table("prices", table, key="item", value="price", name="prices")
    orders = builder.stream("orders", key="product", value="amount")
    join = orders.join if kind == "inner" else orders.left_join
    join(prices, joined=joined or Joined(), name="join").to_changelog("out")
    return TopologyTestDriver(builder.build(), **options)


def answers(driver: TopologyTestDriver) -> list[tuple[Any, Any, int, str | None]]:
    return [
        (record.value.amount, record.value.price, record.ts_us, record.reason)
        for record in driver.read_output("out")
        if record.value is not None
    ]


@pytest.mark.rule("R138", "R144")
@pytest.mark.parametrize(
    ("table", "prices"), [(VERSIONED, [None, 1, 1, 2]), (Materialized.key_value("prices"), [2, 2, 2, 2])]
)
def test_a_versioned_table_gives_the_version_of_that_time_and_any_other_its_latest(
    table: Materialized, prices: list[int | None]
) -> None:
    driver = joining(table=table)
    driver.pipe_input("prices", "pen", 1, 10)
    driver.pipe_input("prices", "pen", 2, 20)
    for ts in (9, 10, 19, 20):
        driver.pipe_input("orders", "pen", 5, ts)
    assert [answer[1] for answer in answers(driver)] == prices


@pytest.mark.rule("R141")
@pytest.mark.parametrize(
    ("key", "ts", "reason"),
    [
        ("ink", 10, "NO_MATCH"),
        ("pen", 9, "NO_MATCH"),
        ("pen", 30, "TOMBSTONE"),
        (None, 10, "NO_MATCH"),
        ("pen", 25, None),
    ],
)
@pytest.mark.parametrize("on_expired", ["null", "drop", "side_table"])
def test_a_record_without_a_match_says_why_and_is_not_treated_as_an_expired_look_up(
    key: str | None, ts: int, reason: str | None, on_expired: Any, caplog: pytest.LogCaptureFixture
) -> None:
    driver = joining(joined=Joined().with_on_expired(on_expired))
    for price, at in ((1, 10), (None, 30), (2, 40)):
        driver.pipe_input("prices", "pen", price, at)
    driver.pipe_input("orders", key, 5, ts)
    assert [answer[3] for answer in answers(driver)] == [reason]
    counts = driver.counters("join")
    assert [counts[name] for name in ("match", "no_match", "tombstone")] == [
        int(reason == told) for told in (None, "NO_MATCH", "TOMBSTONE")
    ]
    assert (counts["expired_lookup"], driver.rejects, caplog.messages) == (0, [], [])


def expired(kind: str, on_expired: Any) -> TopologyTestDriver:
    driver = joining(kind, joined=Joined().with_on_expired(on_expired))
    driver.pipe_input("prices", "pen", 1, 10)
    driver.pipe_input("prices", "pen", 2, 500)
    driver.pipe_input("orders", "pen", 5, 399)
    return driver


@pytest.mark.rule("R139", "R140", "R143")
@pytest.mark.parametrize(
    ("kind", "on_expired", "out", "rejects"),
    [
        ("inner", "null", [], []),
        ("left", "null", [(5, None, 399, "EXPIRED")], []),
        ("left", "drop", [], []),
        ("left", "side_table", [], ["EXPIRED"]),
        ("inner", "side_table", [], ["EXPIRED"]),
    ],
)
def test_a_look_up_older_than_the_history_ends_as_the_policy_says(
    kind: str, on_expired: str, out: list[Any], rejects: list[str]
) -> None:
    driver = expired(kind, on_expired)
    assert answers(driver) == out
    assert [reject.reason for reject in driver.rejects] == rejects
    assert driver.counters("join")["expired_lookup"] == 1


@pytest.mark.rule("R62", "R143")
@pytest.mark.parametrize(("on_expired", "accepted", "dropped"), [("null", 3, 0), ("drop", 3, 0), ("side_table", 2, 1)])
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_an_expired_look_up_counts_as_dropped_only_if_it_is_put_aside(
    kind: str, on_expired: str, accepted: int, dropped: int
) -> None:
    counts = expired(kind, on_expired).counters("join")
    # With the two changes of the table.
    assert (counts["input"], counts["accepted"], counts["dropped"]) == (3, accepted, dropped)


@pytest.mark.rule("R62")
def test_records_that_waited_were_accepted_and_are_not_dropped_again_when_they_are_put_aside() -> None:
    driver = waiting(on_expired="side_table")
    for topic, key, ts in (
        ("prices", "pen", 10),
        ("prices", "pen", 500),
        ("orders", "pen", 20),
        ("orders", "pen", 21),
        ("orders", "ink", 40),
    ):
        driver.pipe_input(topic, key, 5, ts)
    assert [reject.reason for reject in driver.rejects] == ["EXPIRED", "EXPIRED"]
    counts = driver.counters("join")
    assert (counts["input"], counts["accepted"], counts["dropped"], counts["expired_lookup"]) == (5, 5, 0, 2)


@pytest.mark.rule("R142")
@pytest.mark.parametrize(
    ("on_expired", "advice"),
    [
        ("null", "keep history longer, or choose on_expired"),
        ("drop", "keep history longer"),
        ("side_table", "see the rejects, or keep history longer"),
    ],
)
def test_the_warning_of_an_expired_look_up_advises_what_was_not_chosen_yet(
    caplog: pytest.LogCaptureFixture, on_expired: str, advice: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="streams"):
        expired("left", on_expired)
    assert caplog.messages[0].endswith(f"found nothing; {advice}.")


@pytest.mark.rule("R142")
def test_a_look_up_older_than_the_history_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="streams"):
        expired("left", "null")
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "join: a look-up at 399 us is older than the history of prices" in record.getMessage()


@pytest.mark.rule("R62")
@pytest.mark.parametrize(("kind", "reasons"), [("inner", ["NULL_VALUE", "NULL_KEY"]), ("left", ["NULL_VALUE"])])
def test_null_values_and_for_inner_joins_null_keys_are_rejected(kind: str, reasons: list[str]) -> None:
    driver = joining(kind)
    driver.pipe_input("orders", "pen", None, 1)
    driver.pipe_input("orders", None, 5, 2)
    assert [reject.reason for reject in driver.rejects] == reasons
    assert driver.counters("join")["skipped"] == len(reasons)


def waiting(**options: Any) -> TopologyTestDriver:
    return joining(joined=Joined(grace=Joined.with_grace_period("10 us").grace, **options))


@pytest.mark.rule("R145")
def test_with_grace_a_record_sees_the_table_changes_that_came_after_it() -> None:
    driver = waiting()
    driver.pipe_input("orders", "pen", 5, 20)
    driver.pipe_input("prices", "pen", 1, 15)
    driver.pipe_input("orders", "ink", 6, 29)
    assert answers(driver) == []
    driver.pipe_input("orders", "ink", 6, 30)
    assert answers(driver) == [(5, 1, 20, None)]


@pytest.mark.rule("R145")
def test_neither_the_table_nor_the_wall_clock_ends_the_wait() -> None:
    driver = waiting()
    driver.pipe_input("orders", "pen", 5, 20)
    driver.pipe_input("prices", "pen", 1, 1_000)
    driver.advance_wall_clock("1 day")
    assert answers(driver) == []


@pytest.mark.rule("R145")
def test_each_partition_waits_by_its_own_stream_time() -> None:
    driver = waiting()
    driver.pipe_input("orders", "pen", 5, 20, partition=0)
    driver.pipe_input("orders", "ink", 6, 500, partition=1)
    assert answers(driver) == []


@pytest.mark.rule("R145")
@pytest.mark.parametrize(("too_late", "out", "rejects"), [("join", [9], []), ("side_table", [], ["TOO_LATE"])])
def test_a_record_that_is_too_late_to_wait_is_joined_at_once_or_rejected(
    too_late: Any, out: list[int], rejects: list[str]
) -> None:
    driver = waiting(too_late=too_late)
    driver.pipe_input("orders", "ink", 6, 100)
    driver.pipe_input("orders", "pen", 9, 89)
    assert [answer[0] for answer in answers(driver)] == out
    assert [reject.reason for reject in driver.rejects] == rejects
    counts = driver.counters("join")
    assert (counts["late"], counts["dropped"], counts["accepted"]) == (len(rejects), len(rejects), 2 - len(rejects))


@pytest.mark.rule("R145")
def test_a_record_exactly_as_late_as_the_grace_is_not_too_late() -> None:
    driver = waiting(too_late="side_table")
    driver.pipe_input("orders", "ink", 6, 100)
    driver.pipe_input("orders", "pen", 9, 90)
    assert [answer[0] for answer in answers(driver)] == [9]


def test_a_rejected_record_that_waited_is_named_by_its_own_place() -> None:
    driver = waiting(on_expired="side_table")
    driver.pipe_input("prices", "pen", 1, 10)
    driver.pipe_input("prices", "pen", 2, 500)
    driver.pipe_input("orders", "pen", 5, 20)
    driver.pipe_input("orders", "ink", 6, 30)
    assert [(reject.reason, reject.offset, reject.ts_us) for reject in driver.rejects] == [("EXPIRED", 0, 20)]


@pytest.mark.rule("R63", "R64")
def test_the_lateness_of_the_records_that_look_up_is_measured() -> None:
    driver = joining()
    for ts in (9_000, 3_000):
        driver.pipe_input("orders", "pen", 5, ts)
    told = {metric.name: metric.value for metric in driver.metrics if metric.tags.get("processor-node-id") == "join"}
    assert (told["record-lateness-avg"], told["record-lateness-max"]) == (3.0, 6.0)


@pytest.mark.rule("R138", "R184")
@pytest.mark.parametrize("joined", [Joined(), Joined.with_grace_period("10 us")], ids=["at once", "with grace"])
def test_a_stream_with_a_new_key_looks_up_by_the_slowest_partition_of_the_table(joined: Joined) -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", VERSIONED, key="item", value="price")
    orders = builder.stream("orders", key="order", value=("product", "amount")).select_key("product")
    orders.left_join(prices, joined=joined).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for item, price, ts, partition in (("pen", 1, 0, 1), ("pen", 2, 10, 1), ("ink", 9, 1_000, 0)):
        driver.pipe_input("prices", item, price, ts, partition=partition)
    for ts in (5, 15):
        driver.pipe_input("orders", "o", {"product": "pen", "amount": ts}, ts)
    assert answers(driver)[0] == (5, 1, 5, None)


def test_what_waits_is_counted_with_its_bytes() -> None:
    driver = waiting()
    driver.pipe_input("orders", "pen", "five", 20)
    join = driver.processor("join")
    assert isinstance(join, StreamTableJoinProcessor)
    assert join.held() == (1, len("pen") + len("five") + 8)


def test_what_waits_for_a_join_is_no_suppression_in_the_metrics() -> None:
    driver = waiting()
    driver.pipe_input("orders", "pen", 5, 20)
    readings = [metric.value for metric in driver.metrics if metric.tags.get("buffer-id") == "join"]
    assert set(readings) == {None}


def test_a_left_join_with_grace_refuses_a_record_without_key() -> None:
    driver = waiting()
    with pytest.raises(RecordError, match=r"join: a record at 20 us has no key.*Filter records without a key"):
        driver.pipe_input("orders", None, 5, 20)


@pytest.mark.rule("R145")
@pytest.mark.parametrize("table", [Materialized.key_value("prices"), Materialized.versioned("9 us", name="prices")])
def test_grace_needs_a_versioned_table_that_remembers_at_least_as_long(table: Materialized) -> None:
    with pytest.raises(TopologyError, match=r"join: .*\[R145\]"):
        joining(table=table, joined=Joined.with_grace_period("10 us"))


ORDERS = st.lists(
    st.tuples(st.sampled_from(["orders", "prices"]), st.sampled_from("ab"), st.integers(0, 40)), max_size=25
)


@pytest.mark.rule("R145")
@given(ORDERS)
def test_every_record_is_answered_once_and_in_order_of_time_if_none_is_too_late(records: list[Any]) -> None:
    driver = joining(joined=Joined.with_grace_period("40 us"))
    expected = []
    for number, (topic, key, ts) in enumerate(records):
        driver.pipe_input(topic, key, number, ts)
        expected += [(number, ts)] if topic == "orders" else []
    driver.pipe_input("orders", "flush", -1, 1_000)
    found = [(amount, ts) for amount, _, ts, _ in answers(driver)]
    assert sorted(found) == sorted(expected)
    assert [ts for _, ts in found] == sorted(ts for _, ts in expected)


@pytest.mark.rule("R138")
@given(ORDERS)
def test_an_answer_is_the_latest_version_at_that_time_among_the_changes_before_the_record(records: list[Any]) -> None:
    driver = joining()
    versions: dict[tuple[str, int], int] = {}
    for number, (topic, key, ts) in enumerate(records):
        driver.pipe_input(topic, key, number, ts)
        if topic == "prices":
            versions[key, ts] = number
            continue
        starts = [at for name, at in versions if name == key and at <= ts]
        expected = versions[key, max(starts)] if starts else None
        assert [(answer[0], answer[1]) for answer in answers(driver)] == [(number, expected)]
