"""Tables on the driver: late policies, time scopes, reordering, filters, aggregates, global tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.driver.table_source import TableSourceProcessor
from streams.ktable import KTable
from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from versioned.durations import Resolution

VERSIONED = Materialized.versioned("100 us", name="t")
PLAIN = Materialized.key_value("t")
NAN = float("nan")


def table(materialized: Materialized | None = VERSIONED, **options: Any) -> tuple[StreamsBuilder, KTable]:
    builder = StreamsBuilder()
    return builder, builder.table("t", materialized, value="v", name="t", **options)


def running(materialized: Materialized | None = VERSIONED, **options: Any) -> TopologyTestDriver:
    builder, source = table(materialized, **options)
    source.to_changelog("out")
    return TopologyTestDriver(builder.build())


def pipe(driver: TopologyTestDriver, *records: tuple[str | None, Any, int], topic: str = "t") -> None:
    for key, value, ts in records:
        driver.pipe_input(topic, key, value, ts)


def seen(driver: TopologyTestDriver, sink: str = "out") -> list[tuple[Any, Any, int]]:
    return [
        (
            None if record.key is None else next(iter(record.key.values())),
            None if record.value is None else next(iter(record.value.values())),
            record.ts_us,
        )
        for record in driver.read_output(sink)
    ]


@pytest.mark.rule("R174", "R176")
@pytest.mark.parametrize(("policy", "rejects"), [("drop", []), ("side_table", [("LATE", "k", 99)])])
def test_a_refused_record_goes_nowhere_but_to_the_rejects_if_the_policy_says_so(
    policy: Any, rejects: list[Any]
) -> None:
    driver = running(VERSIONED.with_late_policy(policy))
    pipe(driver, ("other", 1, 200), ("k", 2, 99), ("k", 3, 100))
    assert seen(driver) == [("other", 1, 200), ("k", 3, 100)]
    assert [(reject.reason, reject.key.key, reject.ts_us) for reject in driver.rejects if reject.key] == rejects
    assert driver.counters("t")["late"] == driver.counters("t")["dropped"] == 1


@pytest.mark.rule("R159", "R111")
@pytest.mark.parametrize(
    ("scope", "taken"), [("partition", ["a", "a2", "b"]), ("store", ["a", "a2"]), ("key", ["a", "a2", "b", "c"])]
)
def test_late_is_measured_by_partition_by_store_or_by_key(scope: Any, taken: list[str]) -> None:
    driver = running(VERSIONED.with_time_scope(scope))
    for value, key, ts, partition in (("a", "k", 0, 0), ("a2", "k", 1_000, 0), ("b", "l", 5, 1), ("c", "m", 5, 0)):
        driver.pipe_input("t", key, value, ts, partition=partition)
    assert [value for _, value, _ in seen(driver)] == taken


@pytest.mark.rule("R175")
def test_a_record_that_is_out_of_order_flows_on_marked_with_the_value_valid_then_as_old() -> None:
    driver = running()
    pipe(driver, ("k", "a", 10), ("k", "c", 30), ("k", "b", 20))
    record = driver.read_output("out")[-1]
    assert (record.is_latest, record.old, record.value) == (False, Row(v="a"), Row(v="b"))


def test_a_net_changelog_tells_no_change_that_is_out_of_order_and_counts_it_as_ignored() -> None:
    builder, source = table()
    source.to_changelog("out", emit="net")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("k", "a", 10), ("k", "c", 30), ("k", "b", 20))
    assert seen(driver) == [("k", "a", 10), ("k", "c", 30)]
    assert driver.counters("out")["ignored"] == 1


@pytest.mark.rule("R175")
def test_a_record_that_is_out_of_order_by_a_version_just_before_1970_is_not_the_latest() -> None:
    driver = running()
    pipe(driver, ("k", "a", -20), ("k", None, -1), ("k", "b", -5))
    assert [record.is_latest for record in driver.read_output("out")] == [True, True, False]


@pytest.mark.rule("R175")
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(1, 9)), st.integers(-4, 2)), max_size=20)
)
def test_the_latest_state_of_a_versioned_table_is_what_its_store_has(records: list[Any]) -> None:
    builder, source = table()
    source.to_latest("latest")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *records)
    stored, latest = driver.stores["t"], driver.stores["latest"]
    assert [latest.get(key) for key in "ab"] == [stored.get(key) for key in "ab"]


def test_a_stream_of_a_versioned_tables_changes_knows_no_versions_its_last_record_is_the_last_that_came() -> None:
    builder, source = table()
    source.to_stream().to_latest("latest")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("k", "a", 50), ("k", "late", 40))
    assert driver.stores["latest"].get("k") == (Row(v="late"), 40)


@pytest.mark.rule("R180")
@pytest.mark.parametrize(
    "add",
    [
        lambda builder: builder.table("t", VERSIONED, name="t"),
        lambda builder: builder.stream("t", name="s").to_table(VERSIONED, name="t"),
        lambda builder: builder.stream("t", name="s").to_latest("t"),
    ],
    ids=["table", "to_table", "to_latest"],
)
def test_a_null_key_is_rejected_and_counted_as_skipped_by_what_keeps_a_row_per_key(
    add: Callable[[StreamsBuilder], object],
) -> None:
    builder = StreamsBuilder()
    add(builder)
    driver = TopologyTestDriver(builder.build())
    pipe(driver, (None, "a", 10))
    assert [(reject.node, reject.reason) for reject in driver.rejects] == [("t", "NULL_KEY")]
    assert (driver.counters("t")["skipped"], list(driver.stores["t"].items())) == (1, [])


@pytest.mark.rule("R62")
@pytest.mark.parametrize(
    ("key", "value", "reason"), [("a", None, "NULL_VALUE"), (None, 1, "NULL_KEY"), (None, None, "NULL_KEY")]
)
def test_a_record_of_a_stream_without_a_key_or_a_value_is_skipped_by_its_aggregate(
    key: str | None, value: int | None, reason: str
) -> None:
    builder = StreamsBuilder()
    builder.stream("t", value="v").group_by_key().count(name="counts").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", 1, 1), (key, value, 2))
    assert seen(driver) == [("a", 1, 1)]
    assert driver.counters("counts")["skipped"] == 1
    assert [(reject.node, reject.reason, reject.offset) for reject in driver.rejects] == [("counts", reason, 1)]


@pytest.mark.rule("R64", "R174")
def test_the_lateness_of_a_record_that_is_refused_is_measured_too() -> None:
    driver = running()
    pipe(driver, ("k", 1, 10_000), ("k", 2, 1_000))
    told = {metric.name: metric.value for metric in driver.metrics if metric.tags.get("processor-node-id") == "t"}
    assert told["record-lateness-max"] == 9.0


def test_finer_times_are_rounded_down_to_the_resolution_of_the_table() -> None:
    driver = running(Materialized.versioned("1 s", name="t", time_resolution=Resolution.MILLISECOND))
    pipe(driver, ("k", "a", 1_999), ("k", "b", -1))
    assert seen(driver) == [("k", "a", 1_000), ("k", "b", -1_000)]


@pytest.mark.rule("R169")
def test_with_reorder_a_late_record_comes_to_the_table_in_its_place() -> None:
    driver = running(reorder="10 us")
    pipe(driver, ("k", "c", 20), ("k", "a", 11), ("k", "b", 15), ("tick", "-", 26))
    assert seen(driver) == [("k", "a", 11), ("k", "b", 15)]
    assert isinstance(processor := driver.processor("t"), TableSourceProcessor)
    assert processor.held == 2


@pytest.mark.rule("R169", "R159")
@pytest.mark.parametrize(("scope", "out"), [("partition", ["a"]), ("store", ["a", "b"]), ("key", [])])
def test_with_reorder_records_wait_by_the_stream_time_of_their_partition_of_the_store_or_of_their_key(
    scope: Any, out: list[str]
) -> None:
    driver = running(VERSIONED.with_time_scope(scope), reorder="10 us")
    for value, key, ts, partition in (("a", "k", 10, 0), ("b", "l", 30, 0), ("c", "m", 50, 1)):
        driver.pipe_input("t", key, value, ts, partition=partition)
    assert [value for _, value, _ in seen(driver)] == out


@pytest.mark.rule("R169", "R151")
def test_with_reorder_a_join_of_tables_never_sees_the_late_record_that_the_paper_drops() -> None:
    builder = StreamsBuilder()
    left, right = (
        builder.table(side, Materialized.versioned("1 s", name=side), value=side, reorder="100 us", name=side)
        for side in ("a", "b")
    )
    left.join(right, name="join").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for topic, ts in (("a", 0), ("a", 5), ("b", 2), ("b", 3), ("a", 1), ("a", 1_000), ("b", 1_000)):
        driver.pipe_input(topic, "k", f"{topic}{ts}", ts)
    assert driver.total("dropped") == driver.total("ignored") == 0


@pytest.mark.rule("R169")
@pytest.mark.parametrize("of_stream", [False, True], ids=["table", "to_table"])
@given(records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30))
def test_no_record_less_late_than_the_wait_comes_out_of_order(of_stream: bool, records: list[tuple[str, int]]) -> None:
    builder, stored = StreamsBuilder(), Materialized.versioned("1 day", name="t")
    if of_stream:
        source = builder.stream("t", value="v").to_table(stored, reorder="20 us")
    else:
        source = builder.table("t", stored, value="v", reorder="20 us")
    source.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    in_time = set()
    newest = 0
    for number, (key, ts) in enumerate(records):
        newest = max(newest, ts)
        in_time |= {number} if newest - ts < 20 else set()
        driver.pipe_input("t", key, number, ts)
    driver.pipe_input("t", "flush", -1, 1_000)
    out = [(record.value.v, record.is_latest) for record in driver.read_output("out") if record.value is not None]
    assert sorted(number for number, _ in out) == list(range(len(records)))
    assert all(is_latest for number, is_latest in out if number in in_time)


FILTER_INPUT = (("k", 1, 2), ("k", 2, 4), ("k", 9, 3))


@pytest.mark.rule("R160", "R161", "R162")
@pytest.mark.parametrize(
    ("materialized", "out"),
    [
        (VERSIONED, [("k", None, 2), ("k", None, 4), ("k", 9, 3)]),
        (PLAIN, [("k", 9, 3)]),
        (None, [("k", None, 2), ("k", None, 4), ("k", 9, 3)]),
    ],
)
def test_a_filter_drops_repeated_tombstones_only_of_a_plain_stored_table(
    materialized: Materialized | None, out: list[Any]
) -> None:
    builder, source = table(materialized)
    source.filter(lambda value: value.v > 5).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *FILTER_INPUT)
    assert seen(driver) == out


@pytest.mark.rule("R162")
def test_how_the_result_is_stored_does_not_change_which_tombstones_a_filter_of_a_versioned_table_keeps() -> None:
    builder, source = table()
    source.filter(lambda value: value.v > 5, materialized=Materialized.key_value("big")).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *FILTER_INPUT)
    assert [ts for *_, ts in seen(driver)] == [2, 4, 3]


@pytest.mark.rule("R161", "R138")
def test_a_stream_joined_to_a_filtered_versioned_table_sees_the_filter_at_its_time() -> None:
    builder, source = table()
    filtered = source.filter(lambda value: value.v > 5)
    stream = builder.stream("s", value="s")
    stream.left_join(filtered, lambda left, right: {"x": right.v}).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("k", 9, 10), ("k", 1, 20))
    pipe(driver, ("k", 0, 15), ("k", 0, 25), topic="s")
    assert [(record.value.x, record.reason) for record in driver.read_output("out") if record.value] == [
        (9, None),
        (None, "TOMBSTONE"),
    ]


#: An operation on a table, and what it makes of a value; null for a tombstone.
VIEWS: dict[str, tuple[Callable[[KTable], KTable], Callable[[int], int | None]]] = {
    "map_values": (lambda t: t.map_values(lambda value: value.v * 2), lambda v: v * 2),
    "transform_values": (
        lambda t: t.transform_values(lambda key, value: value["v"] * 2, "bigint"),
        lambda v: v * 2,
    ),
    "filter": (lambda t: t.filter(lambda value: value.v > 5), lambda v: v if v > 5 else None),
    "filter_not": (lambda t: t.filter_not(lambda value: value.v > 5), lambda v: None if v > 5 else v),
}


@pytest.mark.rule("R167")
@pytest.mark.parametrize(("view", "expected"), VIEWS.values(), ids=VIEWS)
@given(
    records=st.lists(
        st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 150)), max_size=20
    )
)
def test_a_view_of_a_versioned_table_tells_every_change_of_it_in_the_same_order(
    view: Callable[[KTable], KTable], expected: Callable[[int], int | None], records: list[Any]
) -> None:
    builder, source = table()
    source.to_changelog("all")
    view(source).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *records)
    told, seen_by_view = driver.read_output("all"), driver.read_output("out")
    assert [(r.key, r.ts_us, r.is_latest) for r in seen_by_view] == [(r.key, r.ts_us, r.is_latest) for r in told]
    values = [None if r.value is None else expected(r.value.v) for r in told]
    assert [r.value and next(iter(r.value.values())) for r in seen_by_view] == values
    # As many as the table took.
    assert len(seen_by_view) == len(records) - driver.counters("t")["late"]


@pytest.mark.rule("R163", "R164")
@pytest.mark.parametrize(
    ("materialized", "steps"),
    [
        (VERSIONED, [("add", 1), ("subtract", 1), ("add", 2)]),
        (PLAIN, [("add", 1), ("subtract", 1), ("add", 2), ("subtract", 2), ("add", 3)]),
    ],
)
def test_a_late_record_changes_the_aggregate_of_a_plain_table_only(
    materialized: Materialized, steps: list[tuple[str, int]]
) -> None:
    done: list[tuple[str, int]] = []

    def told(what: str) -> Any:
        def apply(key: Row, value: Row, aggregate: Any) -> int:
            done.append((what, value.v))
            return 0

        return apply

    builder, source = table(materialized)
    grouped = source.group_by(lambda key, value: key)
    grouped.aggregate(lambda: 0, told("add"), told("subtract"), name="agg").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("k", 1, 1), ("k", 2, 10), ("k", 3, 5))
    assert done == steps
    assert driver.counters("agg")["ignored"] == (1 if materialized is VERSIONED else 0)


@pytest.mark.rule("R163")
def test_where_the_subtractor_leaves_nothing_the_adder_begins_anew() -> None:
    builder, source = table(PLAIN)
    grouped = source.group_by(lambda key, value: {"group": "all"})
    grouped.aggregate(
        lambda: 100, lambda key, value, total: total + value.v, lambda key, value, total: None, name="agg"
    ).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", 1, 0), ("a", 2, 1))
    assert seen(driver) == [("all", 101, 0), ("all", 102, 1)]


@pytest.mark.rule("R163")
def test_what_leaves_a_group_that_has_no_aggregate_makes_none() -> None:
    builder, source = table(PLAIN)
    grouped = source.group_by(lambda value: {"group": "all"})
    grouped.aggregate(lambda: 0, lambda key, value, total: None, lambda key, value, total: total).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", 1, 1), ("a", None, 2))
    assert [value for _, value, _ in seen(driver) if value is not None] == []


def _sum_until_null(key: Any, value: Any, total: Any) -> Any:
    return None if value.v is None or value.v < 0 else total + value.v


@pytest.mark.rule("R163")
@pytest.mark.parametrize("of_table", [False, True])
def test_an_aggregate_begins_anew_behind_a_tombstone_until_a_result_is_its_store_s_latest(of_table: bool) -> None:
    builder = StreamsBuilder()
    store = Materialized.versioned("100 us", name="agg")
    if of_table:
        grouped = builder.table("t", PLAIN, value="v", name="t").group_by(lambda value: {"group": "all"})
        result = grouped.aggregate(lambda: 0, _sum_until_null, lambda key, value, total: total, materialized=store)
    else:
        stream = builder.stream("t", value="v").group_by(lambda key, value: {"group": "all"})
        result = stream.aggregate(lambda: 0, _sum_until_null, materialized=store)
    result.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", 1, 0), ("b", -1, 50), ("c", 2, 10), ("d", 3, 20), ("e", 4, 60), ("f", 5, 30))
    assert seen(driver) == [
        ("all", 1, 0), ("all", None, 50), ("all", 2, 10), ("all", 3, 20), ("all", 4, 60), ("all", 9, 60),
    ]  # fmt: skip


@pytest.mark.rule("R163")
@pytest.mark.parametrize(
    ("kind", "results"),
    [
        ("count", [1, 2, 1, 1]),
        ("sum", [5, 7, 2, 9]),
        ("avg", [5.0, 3.5, 2.0, 9.0]),
        ("min", [5, 2, 2, 9]),
        ("max", [5, 5, 2, 9]),
    ],
)
def test_the_built_in_aggregates_take_old_values_away(kind: str, results: list[float]) -> None:
    builder, source = table(PLAIN)
    grouped = source.group_by(lambda value: "all")
    aggregate = grouped.count() if kind == "count" else getattr(grouped, kind)("v")
    aggregate.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", 5, 1), ("b", 2, 2), ("a", None, 3), ("b", 9, 4))
    assert [value for _, value, _ in seen(driver)] == results


@pytest.mark.rule("R163")
def test_when_the_group_changes_the_old_groups_result_comes_first() -> None:
    builder, source = table(PLAIN)
    source.group_by(lambda value: value.v).count().to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", "red", 1), ("a", "blue", 2))
    assert seen(driver) == [("red", 1, 1), ("red", 0, 2), ("blue", 1, 2)]


@pytest.mark.rule("R168")
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=30), st.booleans())
def test_the_times_of_an_aggregates_results_never_go_back(records: list[tuple[str, int]], is_versioned: bool) -> None:
    builder, source = table(Materialized.versioned("1 day", name="t") if is_versioned else PLAIN)
    source.group_by(lambda value: "all").count().to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *((key, 1, ts) for key, ts in records))
    times = [ts for *_, ts in seen(driver)]
    assert times == sorted(times)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 50)), max_size=30
    )
)
def test_a_sum_over_a_plain_table_is_the_sum_of_its_rows(records: list[Any]) -> None:
    builder, source = table(PLAIN)
    source.group_by(lambda value: "all").sum("v", name="total").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, *records)
    rows = {key: value for key, value, _ in records}
    expected = [value for value in rows.values() if value is not None]
    total = driver.stores["total"].get("all")
    assert (total[0].sum if total and total[0] else None) == (sum(expected) if expected else None)


@pytest.mark.rule("R133", "R134")
def test_a_stream_becomes_a_versioned_table_again_if_stored_so() -> None:
    builder, source = table()
    source.to_stream().to_table(Materialized.versioned("1 s", name="again")).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("k", "b", 20), ("k", "a", 10))
    assert driver.stores["again"].as_of("k", 15) == Row(v="a")


@pytest.mark.parametrize(
    ("kind", "out", "misses", "reasons"),
    [
        ("inner", [("o1", "DE")], 1, ["NULL_KEY", "NULL_VALUE"]),
        ("left", [("o1", "DE"), ("o2", None), ("o3", None)], 2, ["NULL_VALUE"]),
    ],
)
def test_a_stream_finds_a_global_table_by_a_computed_key_whatever_the_time(
    kind: str, out: list[Any], misses: int, reasons: list[str]
) -> None:
    builder = StreamsBuilder()
    countries = builder.global_table("countries", key="code", value="name")
    orders = builder.stream("orders", value="place")
    join = orders.join if kind == "inner" else orders.left_join
    joined = join(
        countries, lambda key, left, right: {"order": key.key, "name": right.name}, key=lambda v: v.place, name="join"
    )
    joined.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("countries", "de", "DE", 1_000)
    for order, place in (("o1", "de"), ("o2", "fr"), ("o3", None)):
        driver.pipe_input("orders", order, {"place": place}, 5)
    driver.pipe_input("orders", "o4", None, 5)
    found = [(record.value.order, record.value.name) for record in driver.read_output("out") if record.value]
    assert found == out
    assert [reject.reason for reject in driver.rejects] == reasons
    counts = driver.counters("join")
    assert (counts["match"], counts["no_match"]) == (1, misses)


@pytest.mark.rule("R144")
@pytest.mark.parametrize("stored", [None, PLAIN], ids=["no store", "stored"])
@pytest.mark.parametrize("by", ["item", lambda key, value: value], ids=["field", "whole value"])
def test_a_stream_finds_the_groups_of_an_aggregate_whatever_their_key_is_called(
    by: Any, stored: Materialized | None
) -> None:
    builder = StreamsBuilder()
    # What the fields of a whole value are only its records tell.
    totals = builder.stream("orders", key="order").group_by(by).count(materialized=stored, name="totals")
    returns = builder.stream("returns", key="product", value="why")
    returns.join(totals, lambda left, right: {"count": right["count"]}).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for number in range(3):
        driver.pipe_input("orders", number, {"item": "pen"}, number)
    driver.pipe_input("returns", "pen", "broken", 9)
    assert [record.value["count"] for record in driver.read_output("out") if record.value] == [3]


def _counted(history: str) -> TopologyTestDriver:
    builder = StreamsBuilder()
    grouped = builder.stream("orders", value="item").group_by_key()
    counts = grouped.count(materialized=Materialized.versioned(history, name="counts"))
    returns = builder.stream("returns", value="why")
    returns.join(counts, lambda left, right: {"count": right["count"]}).to_changelog("out")
    return TopologyTestDriver(builder.build())


@pytest.mark.rule("R138")
def test_a_stream_finds_the_count_that_was_valid_at_its_time_if_counts_have_a_history() -> None:
    driver = _counted("100 us")
    pipe(driver, ("pen", "o1", 10), ("pen", "o2", 20), topic="orders")
    pipe(driver, ("pen", "broken", 15), ("pen", "lost", 25), topic="returns")
    assert seen(driver) == [("pen", 1, 15), ("pen", 2, 25)]


@pytest.mark.rule("R174")
def test_a_count_that_its_history_refuses_counts_nothing() -> None:
    driver = _counted("20 us")
    pipe(driver, ("pen", "o1", 10), ("ink", "o2", 100), ("pen", "o3", 70), ("pen", "o4", 90), topic="orders")
    pipe(driver, ("pen", "broken", 95), topic="returns")
    assert seen(driver) == [("pen", 2, 95)]


@pytest.mark.rule("R163")
@pytest.mark.parametrize(("kind", "results"), [("min", [NAN, 1.0, 1.0]), ("max", [NAN, NAN, 1.0])])
def test_not_a_number_is_the_largest_and_leaves_an_extreme_as_any_value_does(kind: str, results: list[float]) -> None:
    builder, source = table(PLAIN)
    getattr(source.group_by(lambda value: "all"), kind)(lambda value: value.v, name=kind).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, ("a", float("nan"), 1), ("b", 1.0, 2), ("a", None, 3))
    assert repr([value for _, value, _ in seen(driver)]) == repr(results)
