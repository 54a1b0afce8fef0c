"""Joins of two tables on the driver: the paper's examples, complete history, foreign keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from versioned.errors import TopologyError

Puts = tuple[str, ...]


_DAY = Materialized.versioned("1 day")


def joining(
    left: bool = True,
    right: bool = True,
    kind: str = "join",
    history: Any = "latest",
    versions: Materialized = _DAY,
    **options: Any,
) -> TopologyTestDriver:
    """Two tables ``a`` and ``b``, each versioned or not."""
    builder = StreamsBuilder()
    sides = [
        builder.table(
            name,
            versions.with_name(name) if is_versioned else Materialized.key_value(name),
            key=key,
            value=name,
            name=name,
        )
        for name, key, is_versioned in (("a", "id", left), ("b", "code", right))
    ]
    getattr(sides[0], kind)(sides[1], history=history, name="join", **options).to_changelog("out")
    return TopologyTestDriver(builder.build())


def results(driver: TopologyTestDriver, *puts: str) -> list[tuple[Any, ...]]:
    """``a4`` puts that value at 4 into table ``a``, ``a4-`` a tombstone; gives (a, b, ts) of what comes out."""
    for text in puts:
        value = None if text.endswith("-") else text
        driver.pipe_input(text[0], "k", value, int(text[1:].rstrip("-")))
    return [
        (record.value.a, record.value.b, record.ts_us) if record.value is not None else (None, record.ts_us)
        for record in driver.read_output("out")
    ]


@pytest.mark.rule("R148", "R147")
def test_a_late_record_does_not_replace_the_join_of_the_latest() -> None:
    assert results(joining(), "a0", "a4", "b2", "b1") == [("a4", "b2", 4)]


@pytest.mark.rule("R151")
def test_a_record_in_order_gives_the_latest_and_a_late_one_nothing() -> None:
    driver = joining()
    assert results(driver, "a0", "a5", "b2", "b3", "b4") == [("a5", "b2", 5), ("a5", "b3", 5), ("a5", "b4", 5)]
    assert results(driver, "a1") == []


@pytest.mark.rule("R153")
def test_an_older_result_may_be_wrong_and_stays() -> None:
    driver = joining()
    assert results(driver, "a0", "b2", "a5") == [("a0", "b2", 2), ("a5", "b2", 5)]
    assert results(driver, "a1") == []


@pytest.mark.rule("R149")
def test_one_look_up_at_the_records_time_is_never_what_a_late_record_gives() -> None:
    driver = joining()
    results(driver, "a0", "b0", "a4", "b3", "b2")
    assert results(driver, "a1") == []


@pytest.mark.rule("R156")
@pytest.mark.parametrize(
    ("left", "right", "late", "emits"),
    [(True, False, "a1", False), (True, False, "b1", True), (False, True, "a1", True), (False, True, "b1", False)],
)
def test_of_a_mixed_join_only_the_unversioned_side_emits_late_records(
    left: bool, right: bool, late: str, emits: bool
) -> None:
    driver = joining(left, right)
    results(driver, "a5", "b5")
    assert bool(results(driver, late)) is emits


@pytest.mark.rule("R156")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.booleans()), max_size=25))
def test_the_last_result_of_a_mixed_join_is_that_of_the_latest_by_ts_and_the_latest_by_arrival(
    puts: list[tuple[str, int, bool]],
) -> None:
    driver = joining(left=True, right=False, kind="outer_join")
    latest: dict[str, tuple[int, str | None]] = {}
    out: list[tuple[Any, ...]] = []
    for side, ts, is_tombstone in puts:
        text = f"{side}{ts}" + ("-" if is_tombstone else "")
        out += results(driver, text)
        if side == "b" or side not in latest or ts >= latest[side][0]:
            latest[side] = (ts, None if is_tombstone else text)
    expected = tuple(latest.get(side, (0, None))[1] for side in "ab")
    assert out == [] or out[-1][:-1] == (expected if any(expected) else (None,))


@pytest.mark.rule("R146", "R152")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.booleans()), max_size=25))
def test_between_versioned_tables_the_last_result_is_the_join_of_the_latest_and_times_never_go_back(
    puts: list[tuple[str, int, bool]],
) -> None:
    driver = joining(kind="outer_join")
    latest: dict[str, tuple[int, str | None]] = {}
    out: list[tuple[Any, ...]] = []
    for side, ts, is_tombstone in puts:
        text = f"{side}{ts}" + ("-" if is_tombstone else "")
        out += results(driver, text)
        if side not in latest or ts >= latest[side][0]:
            latest[side] = (ts, None if is_tombstone else text)
    expected = tuple(latest.get(side, (0, None))[1] for side in "ab")
    assert [row[-1] for row in out] == sorted(row[-1] for row in out)
    if out:
        assert out[-1][:-1] == (expected if any(expected) else (None,))


@pytest.mark.rule("R158")
@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.booleans()), max_size=25), st.integers(0, 15))
def test_of_a_join_only_grace_matters_and_not_how_long_history_is_kept(
    kind: str, puts: list[tuple[str, int, bool]], grace: int
) -> None:
    texts = [f"{side}{ts}" + ("-" if is_tombstone else "") for side, ts, is_tombstone in puts]
    long = joining(kind=kind, versions=Materialized.versioned("1 day", grace=f"{grace} us"))
    short = joining(kind=kind, versions=Materialized.versioned(f"{grace} us", grace=f"{grace} us"))
    assert [results(long, text) for text in texts] == [results(short, text) for text in texts]


@pytest.mark.rule("R158")
@pytest.mark.parametrize(("grace", "emits"), [(4, True), (3, False)])
def test_a_record_beyond_grace_gives_nothing_however_long_the_history(grace: int, emits: bool) -> None:
    builder = StreamsBuilder()
    # Stream time is the partition's: that of another key makes the record late, not out of order for its own.
    sides = [
        builder.table(name, Materialized.versioned("1 day", grace=f"{grace} us"), value=name, name=name)
        for name in "ab"
    ]
    sides[0].join(sides[1], name="join").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for topic, key, ts in (("b", "k", 1), ("a", "other", 10), ("a", "k", 6)):
        driver.pipe_input(topic, key, topic, ts)
    assert bool(driver.read_output("out")) is emits


def test_results_have_the_left_tables_key_whichever_side_brought_them() -> None:
    driver = joining()
    for topic in "ab":
        driver.pipe_input(topic, "k", topic, 1)
    assert [record.key for record in driver.read_output("out")] == [Row(id="k")]


@pytest.mark.rule("R150", "R154")
def test_with_complete_history_a_late_record_gives_every_result_that_it_changes() -> None:
    driver = joining(history="complete")
    assert results(driver, "a0", "a5", "b2") == [("a0", "b2", 2), ("a5", "b2", 5)]
    assert results(driver, "b3") == [("a0", "b3", 3), ("a5", "b3", 5)]
    assert results(driver, "b4") == [("a0", "b4", 4), ("a5", "b4", 5)]
    assert results(driver, "a1") == [("a1", "b2", 2), ("a1", "b3", 3), ("a1", "b4", 4)]


@pytest.mark.rule("R150")
def test_a_complete_change_says_what_happened_and_which_record_did_it() -> None:
    driver = joining(history="complete")
    for topic, value, ts in (("a", "a0", 0), ("b", "b2", 2), ("a", "a1", 1)):
        driver.pipe_input(topic, "k", value, ts)
    found = [(record.op, record.cause, record.old, record.is_latest) for record in driver.read_output("out")]
    assert found == [("insert", "right@2", None, True), ("update", "left@1", Row(a="a0", b="b2"), True)]


@pytest.mark.rule("R150")
@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("seed", range(3))
def test_a_complete_result_that_is_stored_with_versions_answers_at_every_time(kind: str, seed: int) -> None:
    driver = joining(kind=kind, history="complete", materialized=Materialized.versioned("1 day", name="result"))
    puts = [(("a", "b")[(seed + n * n) % 2], (7 * n + seed * 5) % 19, n % 5 == seed) for n in range(20)]
    versions: dict[str, dict[int, str | None]] = {"a": {}, "b": {}}
    for side, ts, is_tombstone in puts:
        value = None if is_tombstone else f"{side}{ts}"
        versions[side][ts] = value
        driver.pipe_input(side, "k", value, ts)
    for at in range(20):
        left, right = (value_at(versions[side], at) for side in "ab")
        is_there = {"join": left and right, "left_join": left, "outer_join": left or right}[kind]
        assert driver.stores["result"].as_of("k", at) == (Row(a=left, b=right) if is_there else None)


def value_at(versions: dict[int, str | None], at: int) -> str | None:
    starts = [start for start in versions if start <= at]
    return versions[max(starts)] if starts else None


@pytest.mark.rule("R150")
@pytest.mark.parametrize(
    ("left", "right", "named"), [(False, True, "a"), (True, False, "b"), (False, False, "a and b")]
)
def test_a_complete_join_of_tables_without_versions_is_refused(left: bool, right: bool, named: str) -> None:
    with pytest.raises(TopologyError, match=rf"{named} keep none.*\[R150\]"):
        joining(left, right, history="complete")


def pointing(left: bool = True, right: bool = True, kind: str = "join") -> TopologyTestDriver:
    """People point to their city."""
    builder = StreamsBuilder()
    people, cities = (
        builder.table(
            topic,
            Materialized.versioned("1 day", name=topic) if is_versioned else Materialized.key_value(topic),
            key=key,
            value=value,
            name=topic,
        )
        for topic, key, value, is_versioned in (("people", "id", "city", left), ("cities", "code", "name", right))
    )
    getattr(people, kind)(cities, lambda left, right: {"x": right.name}, foreign_key="city", name="join").to_changelog(
        "out"
    )
    return TopologyTestDriver(builder.build())


def told(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [
        (None if record.key is None else record.key.id, record.value and record.value.x, record.ts_us)
        for record in driver.read_output("out")
    ]


@pytest.mark.rule("R155")
def test_a_right_row_changes_every_left_row_that_points_to_it_in_order_of_keys() -> None:
    driver = pointing()
    for person in ("zoe", "ann"):
        driver.pipe_input("people", person, "b", 1)
    driver.pipe_input("cities", "b", "Berlin", 2)
    assert told(driver) == [("ann", "Berlin", 2), ("zoe", "Berlin", 2)]


@pytest.mark.rule("R155")
def test_an_inner_join_takes_the_result_back_when_a_row_points_to_nothing_any_more() -> None:
    driver = pointing()
    driver.pipe_input("cities", "b", "Berlin", 1)
    for city, ts in (("b", 2), ("unknown", 3), (None, 4)):
        driver.pipe_input("people", "ann", {"city": city}, ts)
    assert told(driver) == [("ann", "Berlin", 2), ("ann", None, 3), ("ann", None, 4)]


@pytest.mark.rule("R155", "R151")
@pytest.mark.parametrize(("left", "right"), [(True, True), (False, False)])
def test_late_records_of_either_side_give_nothing_between_versioned_tables_only(left: bool, right: bool) -> None:
    driver = pointing(left, right)
    driver.pipe_input("cities", "b", "Berlin", 10)
    driver.pipe_input("people", "ann", "b", 10)
    told(driver)
    driver.pipe_input("cities", "b", "Bonn", 5)
    driver.pipe_input("people", "ann", "b", 5)
    assert (told(driver) == []) is (left and right)


@pytest.mark.rule("R152", "R155")
@given(
    st.lists(st.tuples(st.sampled_from("pc"), st.sampled_from("xy"), st.integers(0, 20), st.booleans()), max_size=30)
)
def test_between_versioned_tables_the_times_of_a_left_keys_results_never_go_back(records: list[Any]) -> None:
    driver = pointing(kind="left_join")
    for side, key, ts, is_tombstone in records:
        value = None if is_tombstone else ("x" if ts % 2 else "y") if side == "p" else f"{key}{ts}"
        driver.pipe_input("people" if side == "p" else "cities", key, value, ts)
    out = told(driver)
    for key in "xy":
        times = [ts for name, _, ts in out if name == key]
        assert times == sorted(times)


@pytest.mark.rule("R155")
def test_a_left_row_that_is_a_join_itself_counts_with_the_ts_of_what_its_sides_hold() -> None:
    builder = StreamsBuilder()
    plain = Materialized.key_value
    people = builder.table("people", plain("people-store"), key="id", value=("name", "city"))
    notes = builder.table("notes", plain("notes-store"), value="text")
    cities = builder.table("cities", plain("cities-store"), value="name")
    noted = people.left_join(notes, lambda left, right: {"city": left.city, "note": right.text}, name="noted")
    noted.join(cities, lambda left, right: {"x": right.name}, foreign_key="city", name="join").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("people", "ann", {"name": "Ann", "city": "de"}, 10)
    driver.pipe_input("notes", "ann", "moved", 20)
    driver.pipe_input("notes", "ann", None, 30)
    driver.pipe_input("cities", "de", "DE", 15)
    assert told(driver) == [("ann", "DE", 15)]


@pytest.mark.rule("R155")
def test_a_row_that_is_deleted_with_the_row_that_it_points_to_takes_its_result_back() -> None:
    builder = StreamsBuilder()
    people = builder.table("people", Materialized.key_value("people"), key="id", value=("name", "boss"))
    # The view comes first, so that the join hears of the boss before it hears of the person.
    bosses = people.map_values(lambda value: {"name": value.name})
    people.join(bosses, lambda left, right: {"x": right.name}, foreign_key="boss", name="join").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("people", "ann", {"name": "Ann", "boss": "ann"}, 1)
    driver.pipe_input("people", "ann", None, 2)
    assert dict.fromkeys(told(driver)) == dict.fromkeys([("ann", "Ann", 1), ("ann", None, 2)])


@pytest.mark.rule("R150")
def test_a_complete_join_without_a_store_answers_with_its_latest_result() -> None:
    driver = joining(history="complete")
    results(driver, "a10", "b20")
    assert driver.stores["join"].get("k") == (Row(a="a10", b="b20"), 20)


@pytest.mark.parametrize("history", ["latest", "complete"])
def test_a_join_without_a_store_has_nothing_for_a_key_that_never_came(history: str) -> None:
    assert joining(history=history).stores["join"].get("nobody") is None


@pytest.mark.rule("R62")
@pytest.mark.parametrize(("running", "topic"), [(joining, "a"), (pointing, "people")])
def test_a_late_record_between_versioned_tables_is_counted_as_ignored(
    running: Callable[[], TopologyTestDriver], topic: str
) -> None:
    driver = running()
    for ts in (10, 5):
        driver.pipe_input(topic, "k", "v", ts)
    assert driver.counters("join")["ignored"] == 1
