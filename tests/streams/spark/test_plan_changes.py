"""Plans that are changed while rows wait, or a batch is unfinished: nothing of it is lost, or the change is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import Input, application, on_spark, sink_rows, write_records
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import cast, coalesce, concat, length, substring
from streams.kstream import KStream
from streams.nodes import Joined, Materialized, Topology
from streams.spark import SparkSource, StreamingApplication
from streams.spark.contract import InputContract
from streams.spark.engine import operators_of
from streams.spark.rollback import rollback
from streams.spark.suppress import SuppressOperator
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig, StrictBufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, TimeWindows
from versioned import faults
from versioned.durations import Resolution
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}


def _waiting(grace_ms: int | None) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.versioned("1 hour", name="history"), name="table", **_SOURCE)
    joined = Joined() if grace_ms is None else Joined.with_grace_period(timedelta(milliseconds=grace_ms))
    stream = builder.stream("a", name="stream", **_SOURCE)
    stream.left_join(table, _pair, joined=joined, name="join").to_changelog("out")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"j": concat(left.v, coalesce(right.v, "-"))}


@pytest.mark.rule("R145")
@pytest.mark.slow
def test_a_shorter_grace_lets_out_what_has_waited_long_enough_and_none_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _waiting(100), [Input("a", "x", "1", 10), Input("a", "y", "2", 60)], [2])
    with pytest.raises(ConfigurationError, match='2 rows wait in the table "join_waiting"'):
        application(spark, tmp_path, _waiting(None)).run()
    write_records(spark, tmp_path, _waiting(20), [Input("a", "z", "3", 61)], 2)
    changed = application(spark, tmp_path, _waiting(20))
    changed.run()
    assert sink_rows(spark, changed, changed.topology)["out"] == [(("x",), ("1-",), 10_000)]


def _suppressed(more: bool) -> Topology:
    builder = StreamsBuilder()

    def shown(value: Any) -> dict[str, Any]:
        return {"v": value.v, "w": value.v} if more else {"v": value.v}

    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE).map_values(shown, name="shown")
    table.suppress(Suppressed.until_time_limit("1 hour", BufferConfig.max_records(9)), name="held").to_latest("latest")
    return builder.build()


@pytest.mark.slow
def test_a_field_that_waiting_rows_would_lose_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = on_spark(spark, tmp_path, _suppressed(False), [Input("a", "k", "1", 10)], [1])
    before = sorted(Path(str(app.root)).rglob("_delta_log/*.json"))
    write_records(spark, tmp_path, _suppressed(True), [Input("a", "l", "2", 11)], 1)
    with pytest.raises(Exception, match=r'The plan of "(held|latest)" was changed'):
        application(spark, tmp_path, _suppressed(True)).run()
    assert sorted(Path(str(app.root)).rglob("_delta_log/*.json")) == before


def _of_another_field(more: bool) -> Topology:
    builder = StreamsBuilder()
    value = ["v", "part"] if more else ["v"]
    builder.table("a", Materialized.key_value("store"), key="k", value=value, name="table").to_changelog("out")
    return builder.build()


def _of_another_kind(more: bool) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("a", name="stream", **_SOURCE).map_values(lambda _: {"n": 1}, name="ones").group_by_key()
    totals = grouped.sum("n", name="totals") if more else grouped.max("n", name="totals")
    totals.to_changelog("out")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "named"),
    [(_of_another_field, r'"store".*: \[.part.\]'), (_of_another_kind, '"totals.*sum')],
    ids=["field", "kind"],
)
def test_a_table_that_lacks_what_the_plan_has_now_is_told_by_name(
    spark: SparkSession, tmp_path: Path, plan: Callable[[bool], Topology], named: str
) -> None:
    on_spark(spark, tmp_path, plan(False), [Input("a", "k", "1", 10)], [1])
    write_records(spark, tmp_path, plan(True), [Input("a", "l", "2", 11)], 1)
    with pytest.raises(Exception, match=f"the table {named}"):
        application(spark, tmp_path, plan(True)).run()


def _added(aggregates: bool) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("rows"), name="table", **_SOURCE)
    if aggregates:
        grouped = table.group_by(lambda value: substring(value.v, 1, 1))
        grouped.count(name="count").to_changelog("counts")
        grouped.sum(lambda value: length(value.v), name="sum").to_changelog("sums")
        grouped.avg(lambda value: length(value.v), name="avg").to_changelog("means")
        grouped.reduce(
            lambda total, value: {"v": f"{total.v}+{value.v}"},
            lambda total, value: {"v": f"{total.v}-{value.v}"},
            name="of",
        ).to_changelog("texts")
    else:
        table.to_changelog("changes")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_an_aggregate_that_is_added_to_a_table_with_rows_takes_nothing_from_groups_that_have_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [Input("a", "k1", "aa", 0), Input("a", "k2", "ab", 1), Input("a", "k3", "b", 2)]
    on_spark(spark, tmp_path, _added(False), rows, [3])
    plan = _added(True)
    write_records(
        spark, tmp_path, plan, [Input("a", "k1", "bbb", 3), Input("a", "k2", "ac", 4), Input("a", "k3", None, 5)], 3
    )
    app = application(spark, tmp_path, plan)
    app.run()
    told = {
        sink: [(key[0], value and value[0]) for key, value, _ in rows]
        for sink, rows in sink_rows(spark, app, plan).items()
    }
    # From a group without an aggregate nothing is taken; what was there before it, it does not know.
    assert told == {
        "counts": [("a", None), ("b", 1), ("a", 1), ("b", 0)],
        "sums": [("a", None), ("b", 3), ("a", 2), ("b", None)],
        "means": [("a", None), ("b", 3.0), ("a", 2.0), ("b", None)],
        "texts": [("a", None), ("b", "bbb"), ("a", "ac"), ("b", "bbb-b")],
    }


def _kept(changed: str = "none") -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)

    def shown(name: str) -> KStream:
        kind = "double" if changed == name else "bigint"
        return stream.map_values(lambda value: {"v": cast(value.v, kind)}, name=f"as_{name}")

    shown("store").to_table(Materialized.key_value("store"), name="table")
    names = ("latest", "changelog") if changed == "sinks" else ("changelog", "latest")
    shown(names[0]).to_changelog(names[0])
    shown(names[1]).to_latest(names[1])
    of_both = stream.group_by(lambda key, value: {"k": key.k} if changed == "group" else {"k": key.k, "v": value.v})
    of_both.count(name="groups")
    grouped = stream.group_by_key()
    hourly = grouped.windowed_by(TimeWindows.of("1 hour"))
    if changed == "type":
        grouped.sum(lambda value: cast(value.v, "double"), output="n", name="totals")
    else:
        (grouped.max if changed == "kind" else grouped.sum)("v", output="n", name="totals")
    (hourly.max if changed == "kind by windows" else hourly.sum)("v", output="n", name="hourly")
    hourly.count(output="m" if changed == "column by windows" else "n", name="hours")
    steps = Materialized(time_resolution=Resolution.MILLISECOND if changed == "steps" else Resolution.MICROSECOND)
    grouped.windowed_by(SessionWindows.of("1 hour")).count(name="sessions", materialized=steps)
    return builder.build()


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    on_spark(spark, folder, _kept(), [Input("a", "k", 5, 10)], [1], "LONG")
    write_records(spark, folder, _kept(), [Input("a", "k", 7, 11)], 1, "LONG")
    return folder


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("kind", 'the table "totals" holds results of sum of a stream, and max of a stream cannot go on'),
        ("type", r"""the table "totals" holds other columns than it makes now: \['n: bigint, now double'\]"""),
        *(
            (name, rf"""the table "{name}" .*: \['v: bigint, now double'\]""")
            for name in ("store", "changelog", "latest")
        ),
        ("sinks", '"(changelog|latest)" holds .* is not to become one of .*Give the sink another name'),
        ("group", r"""the table "groups" has the key \['k', 'v'\], but the plan now gives \['k'\]"""),
        ("kind by windows", 'the table "hourly" holds results of sum, and max cannot go on from them'),
        (
            "column by windows",
            r""""hours" holds other columns than it makes now: \['n is gone', 'm is new'\]""",
        ),
        ("steps", "sessions closes its windows 3600000001 microseconds after .* it is 3600001000: windows that are"),
    ],
)
def test_what_cannot_go_on_from_what_is_stored_is_refused_before_anything_is_written(
    spark: SparkSession, kept: Path, changed: str, told: str
) -> None:
    before = sorted(kept.rglob("_delta_log/*.json"))
    with pytest.raises(Exception, match=told):
        application(spark, kept, _kept(changed), "LONG").run()
    assert sorted(kept.rglob("_delta_log/*.json")) == before


def _sunk(changed: str = "none") -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)
    names = ("second", "first") if changed == "kinds" else ("first", "second")
    stream.to_changelog(names[0])
    if changed == "key":
        # The value as the key, and the former key as the value: the same columns.
        wide = stream.map_values(lambda key, value: {"k": key.k, "v": value.v}, name="wide")
        stream = wide.select_key("v", name="turned").map_values(lambda value: {"k": value.k}, name="former")
    stream.to_latest(names[1])
    return builder.build()


@pytest.mark.slow
def test_sinks_of_tables_that_do_not_tell_their_kind_go_by_what_was_written_into_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = on_spark(spark, tmp_path, _sunk(), [Input("a", "k", "1", 10)], [1])
    for name in ("first", "second"):
        told = "('versioned.sink', 'versioned.keys')"
        spark.sql(f"ALTER TABLE {app.table(name).sql} UNSET TBLPROPERTIES IF EXISTS {told}")
    write_records(spark, tmp_path, _sunk(), [Input("a", "k", "2", 11)], 1)
    # What shuts older drivers out appends nothing, to either of them.
    rollback(app, 0)
    application(spark, tmp_path, _sunk()).run()
    write_records(spark, tmp_path, _sunk(), [Input("a", "k", "3", 12)], 2)
    for changed, told in (("kinds", "is not to become one of"), ("key", "has a key that begins with")):
        with pytest.raises(Exception, match=told):
            application(spark, tmp_path, _sunk(changed)).run()
    counts = {name: spark.read.format("delta").load(str(app.table(name))).count() for name in ("first", "second")}
    assert counts == {"first": 2, "second": 1}


def _counted(name: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)
    stream.to_changelog("out")
    stream.group_by_key().count(name=name).to_changelog("counts")
    return builder.build()


@pytest.mark.slow
def test_an_unfinished_batch_is_finished_though_a_node_that_put_records_aside_is_renamed(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [Input("a", None, "1", 10), Input("a", "k", "2", 11)]
    with faults.armed(crash_at("after:out/main")), pytest.raises(StreamingQueryException):
        on_spark(spark, tmp_path, _counted("first"), records, [2])
    renamed = application(spark, tmp_path, _counted("second"))
    renamed.run()
    assert [value for _, value, _ in sink_rows(spark, renamed, renamed.topology)["counts"]] == [(1,)]
    rejects = spark.read.format("delta").load(str(renamed.table("rejects"))).select("node", "reason").collect()
    assert [tuple(row) for row in rejects] == [("first", "NULL_KEY")]


@pytest.mark.slow
def test_an_operator_that_was_out_of_the_plan_goes_on_from_no_rows_that_lack_what_came_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    with_counts, without = _counted("totals"), StreamsBuilder()
    without.stream("a", name="stream", **_SOURCE).to_changelog("out")
    on_spark(spark, tmp_path, with_counts, [Input("a", "k", "1", 10)], [1])
    on_spark(spark, tmp_path, without.build(), [Input("a", "k", "2", 11)], [1])
    write_records(spark, tmp_path, with_counts, [Input("a", "k", "3", 12)], 2)
    told = 'table totals of "totals" was left at batch 0; the plan was without it since'
    with pytest.raises(ConfigurationError, match=told):
        application(spark, tmp_path, with_counts).run()
    rollback(application(spark, tmp_path, with_counts), 1)
    with pytest.raises(ConfigurationError, match=told):
        application(spark, tmp_path, with_counts).run()
    shutil.rmtree(tmp_path / "out" / "totals")
    app = application(spark, tmp_path, with_counts)
    app.run()
    # The sinks have a gap where the plan was without them, and go on.
    assert [value for _, value, _ in sink_rows(spark, app, with_counts)["counts"]] == [(1,), (1,)]


def test_of_a_suppression_it_matters_what_joins_find_of_it() -> None:
    builder = StreamsBuilder()
    stream, root = builder.stream("a", name="stream", **_SOURCE), TableRef.parse("/data")
    limited = (
        stream.group_by_key()
        .count(name="counts")
        .suppress(Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()), name="limited")
    )
    stream.left_join(limited, lambda left, right: {"v": left.v, "n": right["count"]}, name="j").to_changelog("out")
    operator = operators_of(builder.build())["limited"]
    assert isinstance(operator, SuppressOperator)
    found = [table.short_name for table in operator.tables(root) if operator.joins_find(table, root)]
    assert found == ["limited_emitted"]


@pytest.mark.slow
def test_what_comes_only_once_is_known_again_by_a_node_of_another_name_and_from_an_older_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    def run(name: str, sequence: int = 7) -> int:
        builder = StreamsBuilder()
        builder.stream("a", name=name, **_SOURCE).to_changelog("out")
        write_records(spark, tmp_path, builder.build(), [Input("a", "k", "1", 10, sequence=sequence)])
        source = SparkSource(
            "parquet",
            {"path": str(tmp_path / "a")},
            "k STRING, v STRING, ts TIMESTAMP, seq LONG, part INT, dead BOOLEAN",
            sequence_by="seq",
            contract=InputContract(unique=True),
        )
        app = StreamingApplication(spark, "once", builder.build(), str(tmp_path / "out"), {"a": source})
        app.run()
        return spark.read.format("delta").load(str(app.table("out"))).count()

    assert (run("orders"), run("orders_in")) == (1, 1)
    ledger = f"delta.`{tmp_path / 'out' / 'ledger'}`"
    spark.sql(f"UPDATE {ledger} SET state = replace(state, 'topic a/_offset', 'orders_in/_offset')")
    # What was known goes on beside what the batch brings, which may be a repeat alone.
    assert (run("orders_in", 5), run("orders_in", 6), run("orders_in", 8)) == (1, 1, 2)


def _final(bound: StrictBufferConfig | None, name: str = "final") -> Topology:
    """Final results of hourly windows; without a bound, every change."""
    builder = StreamsBuilder()
    hourly = builder.stream("a", name="stream", **_SOURCE).group_by_key().windowed_by(TimeWindows.of("1 hour"))
    counts = hourly.count(name="hourly")
    told = counts if bound is None else counts.suppress(Suppressed.until_window_closes(bound), name=name)
    told.to_changelog("out")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R59")
def test_final_results_without_a_bound_that_are_taken_out_while_a_window_is_open_are_warned_of_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = list[int]()
    unbounded = BufferConfig.unbounded()
    # Under another name they go on with the same windows.
    plans = (_final(unbounded), _final(unbounded, "renamed"), _final(None), _final(None))
    for number, plan in enumerate(plans):
        write_records(spark, tmp_path, plan, [Input("a", "k", "1", 10 + number)], number)
        application(spark, tmp_path, plan).run()
        told.append(caplog.text.count('without the suppression "renamed" now, and windows are open in the table'))
    assert (told, caplog.text.count("The plan is without the suppression")) == ([0, 0, 1, 1], 1)


@pytest.mark.slow
@pytest.mark.rule("R59")
def test_final_results_that_were_kept_in_the_window_store_get_no_buffer_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _final(BufferConfig.unbounded()), [Input("a", "k", "1", 10)], [1])
    bounded = BufferConfig.max_records(9).shut_down_when_full()
    with pytest.raises(ConfigurationError, match='"final" has kept its windows in their own store'):
        application(spark, tmp_path, _final(bounded)).run()


def _held(suppressed: Suppressed) -> Topology:
    builder = StreamsBuilder()
    hourly = builder.stream("a", name="stream", **_SOURCE).group_by_key().windowed_by(TimeWindows.of("1 hour"))
    hourly.count(name="hourly").suppress(suppressed, name="held").to_changelog("out")
    return builder.build()


_LIMIT: Final = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded())
_FINAL: Final = Suppressed.until_window_closes(BufferConfig.max_records(9).shut_down_when_full())
_FINAL_UNBOUNDED: Final = Suppressed.until_window_closes(BufferConfig.unbounded())


@pytest.mark.slow
@pytest.mark.rule("R51", "R59")
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (_LIMIT, _FINAL, "1 rows wait in the table .held. as a limit by the time of records had them wait"),
        (_FINAL, _LIMIT, "1 rows wait in the table .held. as final results had them wait"),
        (_FINAL_UNBOUNDED, _LIMIT, ".held. has kept its windows in their own store"),
    ],
    ids=["limit", "final", "unbounded"],
)
def test_what_a_limit_holds_does_not_become_final_results_nor_the_reverse(
    spark: SparkSession, tmp_path: Path, before: Suppressed, after: Suppressed, told: str
) -> None:
    former = on_spark(spark, tmp_path, _held(before), [Input("a", "k", "1", 10)], [1])
    with pytest.raises(ConfigurationError, match=told):
        application(spark, tmp_path, _held(after)).run()
    if before is _LIMIT:
        former.drain("held")
        application(spark, tmp_path, _held(after)).run()


@pytest.mark.slow
@pytest.mark.rule("R59")
def test_final_results_that_lose_their_bound_are_each_told_once_by_their_windows_store(
    spark: SparkSession, tmp_path: Path
) -> None:
    former = on_spark(spark, tmp_path, _held(_FINAL), [Input("a", "k", "1", 10)], [1])
    write_records(spark, tmp_path, _held(_FINAL_UNBOUNDED), [Input("a", "l", "2", 4_000_000)], 1)
    with pytest.raises(ConfigurationError, match=r"1 windows wait in the table .held.*Delete the table: each becomes"):
        application(spark, tmp_path, _held(_FINAL_UNBOUNDED)).run()
    shutil.rmtree(str(former.table("held").path))
    unbound = application(spark, tmp_path, _held(_FINAL_UNBOUNDED))
    unbound.run()
    assert [value for _, value, _ in sink_rows(spark, unbound, unbound.topology)["out"]] == [(1,)]


def _idle(suppressed: Any) -> Topology:
    return _held(replace(suppressed, close_idle=True, retention_us=1))


@pytest.mark.slow
@pytest.mark.rule("R117")
@pytest.mark.parametrize("final", [_FINAL, _FINAL_UNBOUNDED], ids=["bounded", "unbounded"])
def test_windows_that_the_wall_clock_closed_are_not_opened_again_by_a_plan_without_it(
    spark: SparkSession, tmp_path: Path, final: Suppressed
) -> None:
    # Each run closes what the one before has left, and its own record tells nothing.
    app = on_spark(spark, tmp_path, _idle(final), [Input("a", "k", "1", 10), Input("a", None, "2", 11)], [1, 2])
    assert [value for _, value, _ in sink_rows(spark, app, app.topology)["out"]] == [(1, "wall_clock")]
    with pytest.raises(ConfigurationError, match=r'closed 1 windows of "held" that stream time leaves open'):
        application(spark, tmp_path, _held(final)).run()


@pytest.mark.slow
@pytest.mark.rule("R117")
def test_closing_by_the_wall_clock_can_be_taken_away_once_stream_time_has_closed_the_windows_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [Input("a", "k", "1", 10), Input("a", "l", "2", 90_000_000)]
    on_spark(spark, tmp_path, _idle(_FINAL), records, [1, 2])
    write_records(spark, tmp_path, _held(_FINAL), [Input("a", "k", "late", 11), Input("a", "m", "3", 190_000_000)], 2)
    app = application(spark, tmp_path, _held(_FINAL))
    app.run()
    assert [value[0] for _, value, _ in sink_rows(spark, app, app.topology)["out"] if value] == [1, 1]


_BY_RECORDS: Final = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded())
_BY_STARTS: Final = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded(), clock="window_start")
_BY_ARRIVAL: Final = Suppressed.until_wall_clock_time_limit("1 hour", BufferConfig.unbounded())
_LIMITS: Final = {"plain": _BY_RECORDS, "idle": _BY_ARRIVAL, "records": _BY_RECORDS, "starts": _BY_STARTS}


def _limited(**limits: Suppressed) -> Topology:
    """Suppressions of a table (plain and idle) and of windows, which do not end in this hour."""
    builder = StreamsBuilder()
    grouped = builder.stream("a", name="stream", **_SOURCE).group_by_key()
    totals, windows = grouped.count(name="totals"), grouped.windowed_by(TimeWindows.of("1 hour")).count(name="hourly")
    for name, suppressed in {**_LIMITS, **limits}.items():
        (totals if name in ("plain", "idle") else windows).suppress(suppressed, name=name)
    return builder.build()


@pytest.fixture(scope="module")
def limited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limited")
    on_spark(spark, folder, _limited(), [Input("a", "k", "1", 10)], [1])
    return folder


@pytest.mark.slow
@pytest.mark.rule("R25")
@pytest.mark.parametrize(
    ("name", "after", "told"),
    [
        ("plain", _BY_ARRIVAL, "as a limit by the time of records had them wait. With a limit by the wall clock"),
        ("idle", _BY_RECORDS, "as a limit by the wall clock had them wait. With a limit by the time of records"),
        ("records", _BY_STARTS, "as a limit by the time of records had them wait. With a limit from the start of"),
        ("starts", _BY_RECORDS, "as a limit from the start of windows had them wait. With a limit by the time of"),
    ],
)
def test_rows_that_wait_by_one_clock_are_not_let_out_by_another(
    spark: SparkSession, limited: Path, name: str, after: Suppressed, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=f'1 rows wait in the table "{name}" {told}'):
        application(spark, limited, _limited(**{name: after})).run()


@pytest.mark.rule("R25", "R59")
@pytest.mark.slow
def test_another_clock_is_taken_once_nothing_waits_and_an_unfinished_batch_goes_on_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    former = on_spark(spark, tmp_path, _limited(), [Input("a", "k", "1", 10)], [1])
    former.drain("plain", "starts")
    changed = _limited(plain=_BY_ARRIVAL, starts=_BY_RECORDS)
    write_records(spark, tmp_path, changed, [Input("a", "l", "2", 11)], 1)
    with faults.armed(crash_at("after:plain/main")), pytest.raises(StreamingQueryException):
        application(spark, tmp_path, changed).run()
    app = application(spark, tmp_path, changed)
    app.run()
    held = {name: spark.read.format("delta").load(str(app.table(name))) for name in ("plain", "starts")}
    assert held["plain"].where("bufferTime = arrivedAt AND k = 'l'").count() == held["plain"].count() == 1
    assert held["starts"].where("bufferTime = ts AND k = 'l'").count() == held["starts"].count() == 1


def test_a_row_tells_that_another_clock_had_it_wait_where_no_ledger_does(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT name, value, timestamp_seconds(since) AS bufferTime, timestamp_seconds(at) AS ts, "
        "timestamp_seconds(came) AS arrivedAt, timestamp_seconds(0) AS windowStart, timestamp_seconds(9) AS windowEnd "
        "FROM VALUES ('record', 1, 3, 3, 50), ('updated', 1, 3, 4, 50), ('start', 1, 0, 4, 50), ('wall', 1, 50, 4, 50),"
        " ('end', 1, 9, 4, 50), ('tombstone', NULL, 8, 4, 50) AS t(name, value, since, at, came)"
    )
    plan = _limited(finals=_FINAL)
    told = {
        name: {row["name"] for row in rows.where(operator.waits_otherwise).select("name").collect()}
        for name, operator in operators_of(plan).items()
        if isinstance(operator, SuppressOperator)
    }
    others = {"record", "updated", "start", "end", "tombstone"}
    assert told == {
        "plain": {"wall"},
        "idle": others,
        "records": {"wall", "end"},
        "starts": (others | {"wall"}) - {"start"},
        "finals": {"record", "updated", "start", "wall"},
    }


def _summed(times: int = 1, above: int = 0) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("rows"), name="table", **_SOURCE)
    grouped = table.filter(lambda value: value.v > above, name="above").group_by(
        lambda key, value: {"g": length(key.k)}
    )
    grouped.sum(lambda value: value.v * times, output="n", name="totals").to_changelog("out")
    return builder.build()


@pytest.mark.slow
def test_an_aggregate_of_a_table_does_not_take_away_what_it_never_added(spark: SparkSession, tmp_path: Path) -> None:
    plan = _summed()
    app = on_spark(spark, tmp_path, plan, [Input("a", "k", 5, 10), Input("a", "m", 7, 11)], [2], "LONG")
    write_records(spark, tmp_path, plan, [Input("a", "k", None, 12)], 2, "LONG")
    before = sorted(Path(str(app.root)).rglob("_delta_log/*.json"))
    for changed in (_summed(times=10), _summed(above=6)):
        with pytest.raises(StreamingQueryException, match='"totals" holds results of other expressions'):
            application(spark, tmp_path, changed, "LONG").run()
    assert sorted(Path(str(app.root)).rglob("_delta_log/*.json")) == before
    former = application(spark, tmp_path, _summed(), "LONG")
    former.run()
    assert sink_rows(spark, former, former.topology)["out"][-1] == ((1,), (7,), 12_000)
