"""Partitions that meet behind a change of key, or in stores with one stream time, give what they give on the driver."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from fault_plans import millis
from pyspark.sql import SparkSession

from streams.functions import coalesce, concat
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windows

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_UNBOUNDED: Final = BufferConfig.unbounded()
_COUNT: Final = 90


def _topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)
    other = builder.stream("c", name="other", **_SOURCE)
    table = builder.table("c", Materialized.key_value("plain"), name="table", **_SOURCE)
    rekeyed = stream.select_key(lambda key, value: coalesce(value.v, "none"), name="rekeyed")
    near = JoinWindows.of(millis(40)).grace(millis(20))
    for name, joined in (
        ("right_moves", rekeyed.join(other, _pair, windows=near, name="inner")),
        ("left_moves", other.left_join(rekeyed, _pair, windows=near, name="left")),
    ):
        joined.to_changelog(name)
    behind = rekeyed.to_table(Materialized.versioned(millis(40)), name="behind")
    other.left_join(behind, _pair, name="looked_up").to_changelog("looked_up_out")
    kept = builder.table("c", Materialized.versioned(millis(40)), name="kept", **_SOURCE)
    rekeyed.left_join(kept, _pair, name="looks_up").to_changelog("looks_up_out")
    limited = Suppressed.until_time_limit(millis(30), BufferConfig.max_records(1_000))
    both = rekeyed.to_table(name="as_table").outer_join(table, _pair, name="both")
    both.suppress(limited, name="limited").to_changelog("limited_out")
    final = Suppressed.until_window_closes(_UNBOUNDED)
    stored = Materialized(time_scope="store")
    tumbling = stream.group_by_key().windowed_by(TimeWindows.of(millis(50)).grace(millis(20)))
    tumbling.count(name="tumbling", materialized=stored).suppress(final, name="final").to_changelog("final_out")
    versioned = Materialized.versioned(millis(200), name="versions", time_scope="store")
    versions = builder.table("a", versioned, name="history", **_SOURCE).to_stream().group_by_key()
    versions.windowed_by(TimeWindows.of(millis(30))).count(name="of_versions").to_changelog("versions_out")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"j": concat(coalesce(left.v, "-"), coalesce(right.v, "-"))}


@pytest.fixture(scope="module")
def records() -> list[Input]:
    """Keys that are values of the other topic too, in three partitions, some late."""
    chance = random.Random(5)
    told = []
    for number in range(_COUNT):
        ms = max(0, number * 5 - chance.choice((0, 0, 15, 60)))
        value = None if chance.random() < 0.1 else chance.choice("xyz")
        told.append(Input(chance.choice("ac"), chance.choice("xyz"), value, ms, chance.randrange(3)))
    return told


@pytest.fixture(scope="module")
def app(spark: SparkSession, records: list[Input], tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("scopes"), _topology(), records, [40, _COUNT])


@pytest.mark.slow
@pytest.mark.rule("R7")
def test_partitions_that_meet_give_what_the_driver_gives(
    spark: SparkSession, app: StreamingApplication, records: list[Input]
) -> None:
    got, wanted = sink_rows(spark, app, app.topology), on_driver(app.topology, records)
    assert got == wanted
    assert all(wanted.values())


def _meets_clicks() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("a", name="orders", **_SOURCE).select_key(lambda key, value: value.v, name="by_customer")
    clicks = builder.stream("c", name="clicks", **_SOURCE)
    orders.join(clicks, _pair, windows=JoinWindows.of(millis(10)), name="joined").to_changelog("out")
    return builder.build()


def test_behind_a_change_of_key_a_stream_meets_the_records_of_all_partitions() -> None:
    clicks = [Input("c", "k", f"click{partition}", 1, partition) for partition in range(4)]
    told = on_driver(_meets_clicks(), [Input("a", "order", "k", 0, 2), *clicks])
    assert [value for _, value, _ in told["out"]] == [(f"kclick{partition}",) for partition in range(4)]


def _looks_behind_a_change_of_key() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("a", name="orders", **_SOURCE).select_key(lambda key, value: key.k, name="by_customer")
    newest = orders.to_table(Materialized.versioned(millis(10)), name="newest")
    builder.stream("c", name="clicks", **_SOURCE).left_join(newest, _pair, name="joined").to_changelog("out")
    return builder.build()


@pytest.mark.rule("R184")
def test_a_table_behind_a_change_of_key_has_one_horizon_for_look_ups_of_all_partitions() -> None:
    orders = [Input("a", "k", "old", 0, 2), Input("a", "k", "new", 100, 3)]
    clicks = [Input("c", "k", f"click{partition}", 50, partition) for partition in range(4)]
    told = on_driver(_looks_behind_a_change_of_key(), [*orders, *clicks])
    assert [value for _, value, _ in told["out"]] == [(f"click{partition}-",) for partition in range(4)]


def _looked_up_across(customers: list[Input], at_ms: int) -> tuple[Any, ...]:
    """What an order from partition 1 finds behind a change of key."""
    builder = StreamsBuilder()
    kept = builder.table("c", Materialized.versioned(millis(100)), name="customers", **_SOURCE)
    orders = builder.stream("a", name="orders", **_SOURCE).select_key(lambda key, value: value.v, name="by_customer")
    orders.left_join(kept, _pair, name="joined").to_changelog("out")
    ((_, value, _),) = on_driver(builder.build(), [*customers, Input("a", "order", "x", at_ms, 1)])["out"]
    return tuple(value)


@pytest.mark.rule("R138", "R139")
@pytest.mark.parametrize(
    ("customers", "at_ms", "found"),
    [
        pytest.param([("a", "A", 1000, 0), ("x", "old", 50, 1), ("x", "new", 90, 1)], 60, "old", id="another is ahead"),
        pytest.param([("x", "v1", 10, 1), ("x", "v2", 50, 1), ("x", "v3", 1000, 1)], 20, "-", id="all are ahead"),
    ],
)
def test_behind_a_change_of_key_a_look_up_goes_by_the_partition_of_the_table_that_is_furthest_behind(
    customers: list[tuple[str, str, int, int]], at_ms: int, found: str
) -> None:
    assert _looked_up_across([Input("c", *customer) for customer in customers], at_ms) == (f"x{found}",)


def _sessions() -> Topology:
    builder = StreamsBuilder()
    sessions = builder.stream("a", name="stream", **_SOURCE).group_by_key().windowed_by(SessionWindows.of(millis(10)))
    final = Suppressed.until_window_closes(_UNBOUNDED)
    sessions.count(name="sessions").suppress(final, name="final").to_changelog("out")
    tumbling = builder.stream("c", name="others", **_SOURCE).group_by_key().windowed_by(TimeWindows.of(millis(100)))
    tumbling.count(name="tumbling").suppress(final, name="closed").to_changelog("tumbling_out")
    # By a function of the user, which is called in a task of its own.
    folded = tumbling.aggregate(lambda: {"n": 0}, _one_more, schema="n LONG", name="folded")
    folded.suppress(final, name="folded_closed").to_changelog("folded_out")
    return builder.build()


def _one_more(key: Any, value: Any, total: Any) -> Any:
    return {"n": total.n + 1}


#: Sessions of "a", then tumbling windows of "c", by the batches in which they come.
_MEETING: Final = (
    (Input("a", "k", "v", 12, 0), Input("a", "z", "v", 90, 1)),
    (Input("a", "k", "v", 100, 1), Input("a", "z", "v", 60, 0)),
    (
        Input("a", "z", "v", 200, 1),
        Input("c", "k", "v", 10, 1),
        Input("c", "k", "v", 20, 0),
        Input("c", "z", "v", 500, 0),
    ),
    (
        Input("c", "w", "v", 520, 0),
        Input("c", "w", "v", 510, 1),
        Input("c", "t", "v", 530, 0),
        Input("c", "t", "v", 530, 1),
        Input("c", "z", "v", 900, 1),
    ),
    (Input("c", "z", "v", 900, 0),),
)


@pytest.fixture(scope="module")
def meeting(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Told], dict[str, Told]]:
    """What Spark and the driver tell of windows whose keys come from two partitions."""
    records, ends = list(chain(*_MEETING)), list(accumulate(map(len, _MEETING)))
    app = on_spark(spark, tmp_path_factory.mktemp("sessions"), _sessions(), records, ends)
    return sink_rows(spark, app, app.topology), on_driver(_sessions(), records)


@pytest.mark.slow
@pytest.mark.rule("R4")
def test_a_window_stays_with_its_partition_when_another_one_brings_its_key(
    meeting: tuple[dict[str, Told], dict[str, Told]],
) -> None:
    got, wanted = (_final_keys(told["out"]) for told in meeting)
    assert got == wanted
    assert ("k", 12_000, 12_000) in got


@pytest.mark.slow
@pytest.mark.rule("R4")
@pytest.mark.parametrize("sink", ["tumbling_out", "folded_out"])
def test_a_tumbling_window_closes_once_and_by_the_partition_of_its_newest_record(
    meeting: tuple[dict[str, Told], dict[str, Told]], sink: str
) -> None:
    got, wanted = (told[sink] for told in meeting)
    assert got == wanted
    # Of "t" two records are the newest: of these it is the greatest partition.
    assert [(key[0], value) for key, value, _ in got] == [("k", (2,)), ("t", (2,)), ("w", (2,)), ("z", (1,))]


_STRICT: Final = BufferConfig.max_records(100).shut_down_when_full()
_SPILLING: Final = BufferConfig.max_records(1).spill_to_disk_when_full()
#: Final results that have buffers of their own: bounded, spilling, idle windows closed, looked into by a join.
_BUFFERED: Final = {
    "bounded": Suppressed.until_window_closes(_STRICT),
    "spilling": Suppressed.until_window_closes(_SPILLING),
    "idle": Suppressed.until_window_closes(_UNBOUNDED, retention="1000 days"),
    "seen": Suppressed.until_window_closes(_UNBOUNDED),
}
#: By topic the windows, and what holds them back.
_HELD: Final[dict[str, tuple[Windows, tuple[str, ...]]]] = {
    "a": (SessionWindows.of(millis(10)), ("bounded", "idle")),
    "c": (TimeWindows.of(millis(100)), ("spilling", "seen")),
    "d": (SlidingWindows.of_time_difference_and_grace(millis(30), millis(50)), ("bounded",)),
    # Of one suppression, and of two, before which the plan has a fork.
    "e": (TimeWindows.of(millis(10)).grace(millis(5)), ("bounded",)),
    "f": (TimeWindows.of(millis(10)).grace(millis(5)), ("bounded", "spilling")),
    "g": (SessionWindows.of(millis(10)).grace(millis(5)), ("bounded",)),
}
#: Of "e", "f" and "g", by batch: "j" comes from one partition, "k" from two.
_BESIDE: Final[tuple[list[tuple[str, int, int]], ...]] = (
    [],
    [("j", 1, 1), ("k", 18, 0), ("k", 11, 1)],
    [("k", 12, 1), ("x", 12, 1)],
    [("j", 8, 1), ("y", 60, 1)],
    [("j", 61, 1), ("k", 78, 0), ("k", 71, 1), ("j", 68, 1), ("y", 100, 0), ("y", 130, 1)],
)
_QUICK, _SLOW = "efg", "acd"


def _buffered(topics: str) -> Topology:
    builder = StreamsBuilder()
    for topic, (windows, kinds) in ((topic, _HELD[topic]) for topic in topics):
        windowed = builder.stream(topic, name=f"{topic}_stream", **_SOURCE).group_by_key().windowed_by(windows)
        counts = windowed.count(name=f"{topic}_counts")
        for kind in kinds:
            final = counts.suppress(_BUFFERED[kind], name=f"{topic}_{kind}")
            final.to_changelog(f"{topic}_{kind}_out")
            if kind == "seen":
                both = final.join(counts, lambda left, right: {"n": left.count, "now": right.count}, name="both")
                both.to_changelog(f"{topic}_both_out")
    if topics == _QUICK:
        ties = builder.stream("h", name="h_stream", **_SOURCE).group_by_key().windowed_by(TimeWindows.of(millis(10)))
        ties.count(name="h_counts").to_changelog("h_out")
    return builder.build()


def _on_both(
    spark: SparkSession, folder: Path, topics: str, batches: list[list[Input]]
) -> tuple[dict[str, Told], dict[str, Told]]:
    """As ``meeting``, of the final results that have buffers; the first two batches are one, as are the last two."""
    records, ends = list(chain(*batches)), list(accumulate(map(len, batches)))
    app = on_spark(spark, folder, _buffered(topics), records, [ends[1], ends[2], ends[-1]])
    return sink_rows(spark, app, app.topology), on_driver(app.topology, records)


@pytest.fixture(scope="module")
def buffered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Told], dict[str, Told]]:
    """The records of ``meeting``; sliding windows of the tumbling ones' records."""
    batches = [[*batch, *(replace(one, topic="d") for one in batch if one.topic == "c")] for batch in _MEETING]
    return _on_both(spark, tmp_path_factory.mktemp("buffered"), _SLOW, batches)


@pytest.fixture(scope="module")
def beside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Told], dict[str, Told]]:
    """A key that comes from two partitions beside one that comes from one of them."""
    batches = [[Input(topic, k, "v", ms, part) for topic in "efg" for k, ms, part in batch] for batch in _BESIDE]
    # Partitions number their records themselves, so two may have the same number.
    batches[0] += [Input("h", "k", "v", 5, 1), Input("h", "k", "v", 5, 2, sequence=len(batches[0]))]
    return _on_both(spark, tmp_path_factory.mktemp("beside"), _QUICK, batches)


def _held(topics: str) -> list[str]:
    return [f"{topic}_{kind}" for topic in topics for kind in _HELD[topic][1]]


@pytest.mark.slow
@pytest.mark.rule("R4", "R81", "R82", "R117")
@pytest.mark.parametrize(
    ("fixture", "held"),
    [
        *(("beside", held) for held in _held(_QUICK)),
        *(("buffered", held) for held in _held(_SLOW)),
    ],
)
def test_a_window_whose_records_come_from_two_partitions_leaves_a_buffer_once(
    request: pytest.FixtureRequest, fixture: str, held: str
) -> None:
    got, wanted = (told[f"{held}_out"] for told in request.getfixturevalue(fixture))
    assert got == wanted
    assert len(_final_keys(got)) == len(got) > 0


@pytest.mark.slow
@pytest.mark.parametrize("held", _held(_QUICK))
def test_a_key_that_comes_from_two_partitions_closes_no_window_of_another_key_too_early(
    beside: tuple[dict[str, Told], dict[str, Told]], held: str
) -> None:
    counts = [value for told in beside for key, value, _ in told[f"{held}_out"] if key[0] == "j"]
    assert counts == [(2,)] * 4


@pytest.mark.slow
def test_of_records_at_the_same_place_a_window_counts_that_of_the_greatest_scope_last(
    beside: tuple[dict[str, Told], dict[str, Told]],
) -> None:
    got, wanted = (told["h_out"] for told in beside)
    assert got == wanted
    assert [value for _, value, _ in got] == [(1,), (2,)]


@pytest.mark.slow
def test_a_join_with_final_results_of_two_partitions_gives_what_the_driver_gives(
    buffered: tuple[dict[str, Told], dict[str, Told]],
) -> None:
    got, wanted = (told["c_both_out"] for told in buffered)
    assert got == wanted
    assert wanted


def _final_keys(told: Told) -> set[Any]:
    return {key for key, _, _ in told}


#: Limits whose rules run row by row, on columns, and with a bound that the other partition's rows fill.
_LIMITS: Final = {
    "rows": Suppressed.until_time_limit(millis(5), _UNBOUNDED, retention="1000 days"),
    "columns": Suppressed.until_time_limit(millis(5), BufferConfig.max_records(100)),
    "bounded": Suppressed.until_time_limit(millis(5), BufferConfig.max_records(1)),
}
#: Of "k" both come in one batch, of "m" in two.
_LIMITED: Final = (
    [("k", 10, 0), ("k", 11, 1), ("m", 11, 0)],
    [("m", 12, 1), ("x", 30, 1)],
    [("y", 30, 0)],
)


def _limited() -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("a", name="stream", **_SOURCE).group_by_key().count(name="counts")
    for name, limit in _LIMITS.items():
        counts.suppress(limit, name=name).to_changelog(f"{name}_out")
    return builder.build()


@pytest.mark.rule("R25")
def test_a_limited_key_that_comes_from_two_partitions_ends_on_its_newest_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [Input("a", k, "v", ms, part) for batch in _LIMITED for k, ms, part in batch]
    app = on_spark(spark, tmp_path, _limited(), records, list(accumulate(map(len, _LIMITED))))
    got, wanted = sink_rows(spark, app, app.topology), on_driver(app.topology, records)
    assert got == wanted
    for told in got.values():
        newest = {key: value for key, value, _ in told}
        assert (newest[("k",)], newest[("m",)]) == ((2,), (2,))


def _two_clocks() -> Topology:
    builder = StreamsBuilder()
    wall = Suppressed.until_wall_clock_time_limit(millis(1_000), BufferConfig.max_records(10))
    left, right = (
        builder.table(topic, Materialized.key_value(f"{topic}_store"), name=topic, **_SOURCE) for topic in "ac"
    )
    held = left.suppress(wall, name="held_left"), right.suppress(wall, name="held_right")
    joined = held[0].join(held[1], _pair, name="joined")
    joined.to_changelog("out")
    joined.group_by(lambda value: value.j).count(name="counted").to_changelog("counts")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R27")
def test_two_suppressions_that_are_emptied_together_give_one_result(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topology = _two_clocks()
    records = [Input("a", "k", "l", 1), Input("c", "k", "r", 2)]
    app = on_spark(spark, tmp_path_factory.mktemp("clocks"), topology, records, [2])
    app.drain("held_left", "held_right")
    told = sink_rows(spark, app, topology)
    assert [value for _, value, _ in told["out"]] == [("lr",)]
    assert [value for _, value, _ in told["counts"]] == [(1,)]
