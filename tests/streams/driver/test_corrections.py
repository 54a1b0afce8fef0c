"""The correction feed of a stream-table join: late table changes correct answers, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from streams.functions import concat
from streams.nodes import Joined, Materialized, OnExpired, Topology
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from versioned.errors import TopologyError


def _topology(kind: str = "join", retention: str = "1 minute", on_expired: OnExpired = "null") -> Topology:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour", name="history"), key="k", value="v")
    stream = builder.stream("sales", key="k", value="v")
    join = stream.join if kind == "join" else stream.left_join
    options = Joined().with_corrections(retention).with_on_expired(on_expired)
    joined = join(prices, lambda left, right: {"j": concat(left.v, right.v)}, joined=options, name="priced")
    joined.to_changelog("out")
    joined.corrections(name="corrected").to_changelog("corrections")
    return builder.build()


def _told(steps: list[tuple[str, Any, int]], *options: Any) -> list[tuple[Any, ...]]:
    driver = TopologyTestDriver(_topology(*options))
    for topic, value, second in steps:
        driver.pipe_input(topic, "k", value, second * 1_000_000)
    told = driver.read_output("corrections")
    return [(r.value["revision"], _row(r.value["old"]), _row(r.value["new"]), r.ts_us // 1_000_000) for r in told]


def _row(row: Any) -> Any:
    return None if row is None else row.j


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([("prices", "a", 1), ("sales", "s", 5), ("prices", "b", 4)], [(1, "sa", "sb", 5)]),
        ([("prices", "a", 1), ("sales", "s", 5), ("prices", "b", 6)], []),
        ([("prices", "a", 1), ("prices", "c", 4), ("sales", "s", 5), ("prices", "b", 3)], []),
        ([("sales", "s", 5), ("prices", "b", 4)], [(1, None, "sb", 5)]),
        ([("prices", "a", 1), ("sales", "s", 5), ("prices", None, 4)], [(1, "sa", None, 5)]),
        ([("prices", "a", 1), ("sales", "s", 5), ("prices", "a", 4)], []),
        (
            [("prices", "a", 1), ("sales", "s", 5), ("prices", "b", 3), ("prices", "c", 4)],
            [(1, "sa", "sb", 5), (2, "sb", "sc", 5)],
        ),
        (
            [("prices", "a", 1), ("sales", "s", 5), ("sales", "t", 99), ("prices", "b", 4)],
            [(1, "sa", "sb", 5), (1, "ta", "tb", 99)],
        ),
    ],
    ids=[
        "late",
        "later than it",
        "hidden by a newer",
        "first match",
        "tombstone",
        "the same",
        "twice",
        "behind a sale",
    ],
)
def test_an_answer_is_corrected_when_what_was_valid_at_its_time_changes(
    steps: list[tuple[str, Any, int]], wanted: list[tuple[Any, ...]]
) -> None:
    assert _told(steps) == wanted


@pytest.mark.parametrize(("newest", "wanted"), [(65, [(1, "sa", "sc", 5)]), (66, [])])
def test_an_answer_is_corrected_up_to_the_retention_and_no_longer(newest: int, wanted: list[tuple[Any, ...]]) -> None:
    steps = [("prices", "a", 1), ("sales", "s", 5), ("prices", "b", newest), ("prices", "c", 4)]
    assert _told(steps) == wanted


def test_an_answer_that_a_lagging_partition_keeps_is_not_corrected_by_one_that_has_passed_it() -> None:
    driver = TopologyTestDriver(_topology())
    driver.pipe_input("prices", "other", "a", 1_000_000, partition=1)
    for topic, value, second in [("prices", "a", 1), ("sales", "s", 5), ("prices", "b", 66), ("prices", "c", 4)]:
        driver.pipe_input(topic, "k", value, second * 1_000_000, partition=0)
    assert driver.read_output("corrections") == []


@pytest.mark.parametrize(("first", "wanted"), [(None, 1), (1, 1), (40, 0)], ids=["none yet", "slow", "fast"])
def test_an_answer_is_remembered_until_the_changes_of_its_own_partition_have_passed_it(
    first: int | None, wanted: int
) -> None:
    driver = TopologyTestDriver(_topology("left_join", "10 seconds"))
    driver.pipe_input("sales", "k", "s", 5_000_000, partition=1)
    steps = [(50, 0), (51, 0), (4, 1)] if first is None else [(first, 1), (50, 0), (51, 0), (4, 1)]
    for second, partition in steps:
        key = "k" if partition == 1 and second == 4 else "other"
        driver.pipe_input("prices", key, "a", second * 1_000_000, partition=partition)
    assert len(driver.read_output("corrections")) == wanted


@pytest.mark.parametrize(
    ("new_key", "first"), [(False, 40), (True, 50)], ids=["of its own partition", "of any, if its key has changed"]
)
def test_an_answer_that_the_changes_have_passed_is_forgotten_by_partitions_that_come_later(
    new_key: bool, first: int
) -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour"), key="k", value="v")
    sales = builder.stream("sales", key="k", value="v")
    if new_key:
        sales = sales.select_key(lambda key, value: {"k": key.k})
    options = Joined().with_corrections("10 seconds")
    priced = sales.left_join(prices, lambda left, right: {"j": right.v}, joined=options)
    priced.corrections().to_changelog("corrections")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("sales", "k", "s", 5_000_000, partition=1)
    for key, second, partition in [("other", first, 1), ("k", 4, 2)]:
        driver.pipe_input("prices", key, "a", second * 1_000_000, partition=partition)
    assert driver.read_output("corrections") == []


@pytest.mark.parametrize(
    ("kind", "on_expired", "wanted"),
    [("left_join", "null", 1), ("join", "null", 1), ("left_join", "drop", 0), ("join", "side_table", 0)],
)
def test_a_record_that_was_left_out_as_expired_has_no_answer_to_correct(
    kind: str, on_expired: OnExpired, wanted: int
) -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 second", name="history"), key="k", value="v")
    options = Joined().with_corrections("1 hour").with_on_expired(on_expired)
    sales = builder.stream("sales", key="k", value="v")
    priced = getattr(sales, kind)(prices, lambda left, right: {"j": concat(left.v, right.v)}, joined=options)
    priced.corrections().to_changelog("corrections")
    driver = TopologyTestDriver(builder.build())
    # The sale is older than the history of its own partition, and the change comes from another, which lags behind.
    for topic, second, partition in [("prices", 1, 0), ("prices", 9, 0), ("sales", 5, 0), ("prices", 4, 1)]:
        driver.pipe_input(topic, "k", "v", second * 1_000_000, partition=partition)
    assert len(driver.read_output("corrections")) == wanted


@pytest.mark.parametrize("on_expired", ["null", "drop", "side_table"])
def test_an_answer_that_was_found_is_corrected_whatever_becomes_of_expired_look_ups(on_expired: OnExpired) -> None:
    steps = [("prices", "a", 1), ("sales", "s", 5), ("prices", "b", 4)]
    assert _told(steps, "left_join", "1 minute", on_expired) == [(1, "sa", "sb", 5)]


def test_an_answer_that_has_another_nan_now_is_the_same() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour"), key="k", value="v")
    sales = builder.stream("sales", key="k", value="v")
    options = Joined().with_corrections("1 day")
    priced = sales.join(prices, lambda left, right: {"j": right.v}, joined=options)
    priced.corrections().to_changelog("corrections")
    driver = TopologyTestDriver(builder.build())
    for topic, value, ts in [("prices", float("nan"), 0), ("sales", 1.0, 9), ("prices", float("nan"), 5)]:
        driver.pipe_input(topic, "k", value, ts)
    assert driver.read_output("corrections") == []


def _corrected_places(joined: Joined, reorder: str | None = None) -> list[tuple[int, int, str]]:
    """Which record each correction names, and which one it is about: a change comes late for three of four sales."""
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour"), key="k", value="v")
    sales = builder.stream("sales", key="k", value="v")
    if reorder is not None:
        sales = builder.table("sales", key="k", value="v", reorder=reorder, name="in-order").to_stream()
    options = joined.with_corrections("1 day")
    priced = sales.join(prices, lambda left, right: {"j": concat(left.v, right.v)}, joined=options)
    priced.corrections().to_changelog("corrections")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", "k", "-", 0)
    for number, ts in enumerate([1, 3, 2, 50]):
        driver.pipe_input("sales", "k", f"s{number}", ts, partition=4)
    driver.pipe_input("prices", "k", "+", 1, partition=4)
    values = [record.value for record in driver.read_output("corrections") if record.value is not None]
    return [(value.original_scope, value.original_seq, value.new.j) for value in values]


@pytest.mark.parametrize(
    ("joined", "reorder"),
    [(Joined.with_grace_period("10 us"), None), (Joined(), "10 us")],
    ids=["by the join", "by a table that is put in order"],
)
def test_a_correction_names_the_record_that_waited_not_the_one_that_released_it(
    joined: Joined, reorder: str | None
) -> None:
    assert _corrected_places(joined, reorder) == [(4, 0, "s0+"), (4, 2, "s2+"), (4, 1, "s1+")]


def test_only_a_join_that_remembers_its_answers_can_be_corrected() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour"), key="k", value="v")
    joined = builder.stream("sales", key="k", value="v").join(prices, lambda left, right: {"j": right.v})
    with pytest.raises(TopologyError, match="with_corrections"):
        joined.corrections()
