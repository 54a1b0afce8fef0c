"""What follows a join with complete history on the driver: aggregates, stores without versions, filters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.expressions import Expr
from streams.functions import coalesce, when
from streams.nodes import JoinKind
from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import KTable, Materialized, StreamsBuilder

Put = tuple[str, str, int | None, int]

_KINDS: tuple[JoinKind, ...] = ("inner", "left", "outer")
_VALUES = st.one_of(st.none(), st.integers(1, 3))
#: Topic, key, value, ts: few keys and times, so that most records are late for somebody.
PUTS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), _VALUES, st.integers(0, 7)), max_size=14)


def _joined(kind: JoinKind, **options: Any) -> tuple[StreamsBuilder, KTable]:
    builder = StreamsBuilder()
    left, right = (
        builder.table(topic, Materialized.versioned("1 day", name=topic), key="id", value=topic, name=topic)
        for topic in "ab"
    )
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    return builder, join(right, history="complete", name="join", **options)


def _amount(value: Expr) -> Expr:
    return coalesce(value.a, 0) * 10 + coalesce(value.b, 0)


def _piped(builder: StreamsBuilder, *puts: Put) -> TopologyTestDriver:
    driver = TopologyTestDriver(builder.build())
    for topic, key, value, ts in puts:
        driver.pipe_input(topic, key, value, ts)
    return driver


def _told(driver: TopologyTestDriver, sink: str) -> list[tuple[Any, ...]]:
    return [(told.key, told.op, told.old, told.value, told.ts_us, told.cause) for told in driver.read_output(sink)]


@pytest.mark.rule("R150", "R163")
def test_a_deletion_behind_the_newest_result_is_taken_from_a_count_once() -> None:
    builder, join = _joined("left")
    join.group_by(lambda value: "all").count(name="count").to_changelog("counts")
    driver = _piped(builder, ("a", "k", 1, 10), ("b", "k", 1, 40), ("a", "k", None, 20))
    assert [told.value.count for told in driver.read_output("counts")] == [1, 1, 0]


@pytest.mark.rule("R150", "R163")
@pytest.mark.parametrize("kind", _KINDS)
@given(puts=PUTS)
def test_an_aggregate_is_that_of_the_latest_rows(kind: JoinKind, puts: list[Put]) -> None:
    builder, join = _joined(kind)
    join.to_latest("latest")
    grouped = join.group_by(lambda value: "all")
    grouped.count(name="count")
    grouped.sum(_amount, name="sum")
    driver = _piped(builder, *puts)
    rows = [value for _, value, _ in driver.stores["latest"].items() if value is not None]
    count, total = (driver.stores[name].get("all") for name in ("count", "sum"))
    assert (count[0]["count"] if count and count[0] else 0) == len(rows)
    amounts = [(row.a or 0) * 10 + (row.b or 0) for row in rows]
    assert ((total[0]["sum"] if total and total[0] else None) or 0) == sum(amounts)


@pytest.mark.rule("R150", "R163")
@pytest.mark.parametrize("kind", _KINDS)
@given(puts=PUTS)
def test_a_count_of_results_of_which_the_store_refuses_some_is_that_of_the_latest_stored(
    kind: JoinKind, puts: list[Put]
) -> None:
    builder, join = _joined(kind, materialized=Materialized.versioned("3 microseconds", name="store"))
    join.to_latest("latest")
    join.group_by(lambda value: "all").count(name="count")
    driver = _piped(builder, *puts)
    stored = {key: driver.stores["store"].get(key) for key in "kl"}
    count = driver.stores["count"].get("all")
    assert (count[0]["count"] if count and count[0] else 0) == sum(dated is not None for dated in stored.values())
    latest = {key.id: value for key, value, _ in driver.stores["latest"].items()}
    assert latest == {key: dated[0] for key, dated in stored.items() if dated is not None}


@pytest.mark.rule("R150")
def test_an_older_result_that_is_told_again_is_not_what_a_key_value_store_holds() -> None:
    builder, _ = _joined("inner", materialized=Materialized.key_value("store"))
    driver = _piped(builder, ("a", "k", 1, 0), ("b", "k", 1, 2), ("a", "k", 3, 5), ("a", "k", 2, 1))
    assert driver.stores["store"].get("k") == (Row(a=3, b=1), 5)


@pytest.mark.rule("R150")
def test_the_joiner_sees_the_key_even_if_the_plan_does_not_know_its_fields() -> None:
    builder = StreamsBuilder()
    left, right = (
        builder.stream(topic, key="k", value=topic)
        .select_key(lambda key, value: when(key.k == "k", {"id": "known"}).otherwise({"id": "other"}))
        .to_table(Materialized.versioned("1 day", name=topic))
        for topic in "ab"
    )
    left.join(
        right,
        lambda key, left, right: {"of": key.id, "a": left.a, "b": right.b},
        history="complete",
        materialized=Materialized.versioned("1 day", name="store"),
    )
    driver = _piped(builder, ("a", "k", 1, 0), ("b", "k", 2, 3))
    assert [(value, ts_us) for _, value, ts_us in driver.stores["store"].items()] == [(Row(of="known", a=1, b=2), 3)]


@pytest.mark.rule("R150")
@pytest.mark.parametrize("kind", _KINDS)
@given(puts=PUTS)
def test_a_key_value_store_holds_the_latest_results(kind: JoinKind, puts: list[Put]) -> None:
    builder, _ = _joined(kind, materialized=Materialized.key_value("store"))
    versions, _ = _joined(kind, materialized=Materialized.versioned("1 day", name="store"))
    driver, latest = _piped(builder, *puts), _piped(versions, *puts)
    for key in "kl":
        stored, wanted = driver.stores["store"].get(key), latest.stores["store"].get(key)
        assert (stored and stored[0]) == (wanted and wanted[0])


@pytest.mark.rule("R150")
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("store", [Materialized.key_value("store"), Materialized.versioned("1 day", name="store")])
@given(puts=PUTS)
def test_a_store_keeps_no_change_from_who_reads_them(kind: JoinKind, store: Materialized, puts: list[Put]) -> None:
    stored, bare = _joined(kind, materialized=store), _joined(kind)
    for _, join in (stored, bare):
        join.to_changelog("out")
    assert _told(_piped(stored[0], *puts), "out") == _told(_piped(bare[0], *puts), "out")


@pytest.mark.rule("R150")
@given(puts=PUTS)
def test_a_filter_in_a_key_value_store_holds_what_passes_of_the_latest_results(puts: list[Put]) -> None:
    builder, join = _joined("outer")
    join.to_latest("latest")
    join.filter(lambda value: coalesce(value.a, 0) >= 2, materialized=Materialized.key_value("store"), name="filter")
    driver = _piped(builder, *puts)
    passing = {key: value for key, value, _ in driver.stores["latest"].items() if value is not None}
    passing = {key: value for key, value in passing.items() if (value.a or 0) >= 2}
    assert {key: value for key, value, _ in driver.stores["store"].items()} == passing


@pytest.mark.rule("R150", "R161")
@pytest.mark.parametrize("materialized", [None, Materialized.key_value("store")])
@given(puts=PUTS)
def test_the_changes_behind_a_filter_give_the_filtered_result_at_every_instant(
    materialized: Materialized | None, puts: list[Put]
) -> None:
    builder, join = _joined("inner")
    join.filter(lambda value: value.b >= 2, materialized=materialized, name="filter").to_changelog("out")
    starts: dict[str, dict[int, Any]] = {"k": {}, "l": {}}
    for told in _piped(builder, *puts).read_output("out"):
        starts[told.key.id][told.ts_us] = told.value
    whole = _piped(_joined("inner", materialized=Materialized.versioned("1 day", name="whole"))[0], *puts)
    for key in "kl":
        for at in range(8):
            result = whole.stores["whole"].as_of(key, at)
            newest = max((start for start in starts[key] if start <= at), default=None)
            wanted = result if result is not None and result.b >= 2 else None
            assert (None if newest is None else starts[key][newest]) == wanted


def test_what_looks_at_an_ended_result_is_as_old_as_itself() -> None:
    builder, join = _joined("inner")
    others = builder.table("x", key="id", value="x", name="x")
    others.left_join(join, lambda left, right: {"x": left.x, "seen": right.a}, name="behind").to_changelog("out")
    driver = _piped(builder, ("a", "k", 1, 5), ("b", "k", 1, 10), ("a", "k", None, 20), ("x", "k", 1, 7))
    assert [told.ts_us for told in driver.read_output("out")] == [7]
