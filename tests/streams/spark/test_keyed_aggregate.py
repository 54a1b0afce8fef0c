"""Aggregates of tables on Spark, equal to the test driver's."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows, write_records
from crashing import crash_at
from pyspark.sql import SparkSession

from jobs.exit_codes import reason
from streams.functions import coalesce, length, python_function
from streams.nodes import Materialized, Topology
from streams.rows import Row
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows
from versioned import faults
from versioned.durations import Resolution

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_a_difference_larger_than_the_columns_own_type_is_added_up(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value("store"), **_SOURCE)
    grouped = table.group_by(lambda value: "all")
    grouped.sum(lambda value: value.v, name="sum").to_changelog("sums")
    grouped.avg(lambda value: value.v, name="avg").to_changelog("averages")
    plan = builder.build()
    records = [Input("t", "a", -1_500_000_000, 1), Input("t", "b", 7, 2), Input("t", "a", 1_500_000_000, 3)]
    app = on_spark(spark, tmp_path, plan, records, [2, 3], "INT")
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_sums_and_means_of_decimals_go_on_from_batch_to_batch(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("s", key="k", value="v").group_by_key()
    hourly = grouped.windowed_by(TimeWindows.of("1 hour"))
    hourly.sum(lambda value: value.v, name="total").to_changelog("totals")
    sessions = grouped.windowed_by(SessionWindows.of("1 minute"))
    sessions.avg(lambda value: value.v, name="mean").to_changelog("means")
    hourly.avg(lambda value: value.v, name="hourly_mean").to_changelog("hourly_means")
    plan = builder.build()
    records = [
        Input("s", "a", Decimal(amount), ms) for ms, amount in enumerate(["1.50", "2.25", "-0.75", "99999999.99"])
    ]
    app = on_spark(spark, tmp_path, plan, records, [1, 2, 4], "DECIMAL(10, 2)")
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


def _sums() -> Topology:
    builder = StreamsBuilder()
    of_stream = builder.stream("s", key="k", value="v").group_by_key()
    of_table = builder.table("t", Materialized.key_value("store"), **_SOURCE).group_by(lambda value: "all")
    for name, grouped in (("stream", of_stream), ("table", of_table)):
        grouped.sum(lambda value: value.v, name=f"{name}_sum").to_changelog(f"{name}_sums")
        grouped.avg(lambda value: value.v, name=f"{name}_avg").to_changelog(f"{name}_averages")
    versioned = Materialized.versioned("1 hour", name="versions")
    of_table.sum(lambda value: value.v, name="kept", materialized=versioned).to_changelog("kept_sums")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R163")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param(
            "DECIMAL(38, 18)", [Decimal(v) for v in ("1E-18", "0.1", "0.2", "1.000000000000000004")], id="decimals"
        ),
        pytest.param("DOUBLE", [1e16, 1.0, 0.1, 0.2], id="doubles"),
    ],
)
def test_sums_and_means_lose_no_digit_that_those_of_the_driver_keep(
    kind: str, values: list[Any], spark: SparkSession, tmp_path: Path
) -> None:
    # In the table each value takes the place of the one before, and the last one goes.
    plan, rows = _sums(), [*values, None, values[0]]
    changes = [Input("t", "a", value, ms) for ms, value in enumerate(rows)]
    records = [*changes[:3], *(Input("s", "a", value, ms) for ms, value in enumerate(values)), *changes[3:]]
    app = on_spark(spark, tmp_path, plan, records, [5, len(records)], kind)
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_the_least_and_the_greatest_row_are_those_by_their_fields_in_turn(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    of_stream = builder.stream("s", key="k", value="v").group_by_key()
    of_table = builder.table("t", Materialized.key_value("store"), **_SOURCE).group_by(lambda value: "all")
    sessions = of_stream.windowed_by(SessionWindows.of(timedelta(milliseconds=5)))
    for name, grouped in (("stream", of_stream), ("table", of_table), ("sessions", sessions)):
        for kind in ("min", "max"):
            found = getattr(grouped, kind)(lambda value: {"n": length(value.v), "v": value.v}, name=f"{name}_{kind}")
            found.to_changelog(f"{name}_{kind}_out")
    plan, values = builder.build(), ["bb", "c", None, "ba", "c"]
    changes = [Input("t", key, value, ms) for ms, (key, value) in enumerate(zip("ababa", values, strict=True))]
    records = [*changes, *(Input("s", "a", value, ms) for ms, value in enumerate(values) if value)]
    app = on_spark(spark, tmp_path, plan, records, [3, 7, len(records)])
    told, wanted = sink_rows(spark, app, plan), on_driver(plan, records)
    # The rows within are of a class of each engine, and look alike.
    assert {sink: repr(rows) for sink, rows in told.items()} == {sink: repr(rows) for sink, rows in wanted.items()}


def _shout(key: Row, value: Row) -> str:
    return str(value.v).upper()


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_functions_of_the_user_are_not_asked_of_rows_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value("store"), **_SOURCE)
    other = builder.table("u", Materialized.key_value("others"), **_SOURCE)
    first = python_function(lambda text: text[0], "string")
    shouted = table.transform_values(_shout, "string")
    shouted.to_changelog("shouted")
    shouted.group_by(lambda value: value.value).count(name="count").to_changelog("counts")
    letters = python_function(len, "bigint")
    table.group_by(lambda value: "all").sum(lambda value: letters(value.v), name="of_table").to_changelog("letters")
    stream = builder.stream("t", name="stream", **_SOURCE)
    stream.group_by_key().sum(lambda value: letters(value.v), name="of_stream").to_changelog("more_letters")
    everywhere = builder.global_table("u", name="everywhere", **_SOURCE)
    found = stream.left_join(everywhere, lambda left, right: {"found": right.v}, key=lambda value: first(value.v))
    found.to_changelog("found")
    together = python_function(lambda left, right: f"{left.v}{right.v}", "string")
    table.join(other, lambda left, right: {"both": together(left, right)}).to_changelog("joined")
    plan = builder.build()
    values = [("t", "a", "x"), ("u", "b", "y"), ("u", "a", "z"), ("t", "a", None), ("t", "b", "w"), ("u", "b", None)]
    records = [Input(topic, key, value, ms) for ms, (topic, key, value) in enumerate(values)]
    app = on_spark(spark, tmp_path, plan, records, [2, 6])
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


def _divided(*args: Any) -> Any:
    return 1 // 0


@pytest.mark.parametrize(
    "is_aggregate",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["an aggregate's", "an expression's"],
)
def test_a_function_of_the_user_that_fails_is_told_with_the_name_of_its_node(
    spark: SparkSession, tmp_path: Path, is_aggregate: bool
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s", key="k", value="v")
    if is_aggregate:
        stream.group_by_key().aggregate(dict, _divided, schema="n BIGINT", name="shares").to_changelog("out")
    else:
        stream.transform_values(_divided, "double", name="shares").to_changelog("out")
    with pytest.raises(Exception, match="shares: its function failed with ZeroDivisionError") as told:
        on_spark(spark, tmp_path, builder.build(), [Input("s", "a", "x", 1)], [1])
    assert reason(told.value).startswith("Problem in the data: shares: its function failed with ZeroDivisionError")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: s.transform_values(lambda value: 1.5, "bigint", name="shares"), "a fraction for a result of bigint"),
        pytest.param(
            lambda s: s.group_by_key().aggregate(dict, lambda k, v, a: {"m": 1}, schema="n BIGINT", name="shares"),
            r"the fields \['m'\], and declared are \['n'\]",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["an expression's", "an aggregate's"],
)
def test_what_a_function_of_the_user_returned_and_its_column_does_not_hold_is_told_with_its_node(
    spark: SparkSession, tmp_path: Path, made: Any, told: str
) -> None:
    builder = StreamsBuilder()
    made(builder.stream("s", key="k", value="v")).to_changelog("out")
    with pytest.raises(Exception, match=f"shares: its function gave {told}"):
        on_spark(spark, tmp_path, builder.build(), [Input("s", "a", "x", 1)], [1])


def _text_or_end(key: Row, value: Row, state: Row | None) -> dict[str, Any] | None:
    return None if value.v == "END" else {"text": (state.text if state else "") + value.v}


@pytest.mark.slow
def test_a_replay_takes_the_results_that_the_store_took_by_the_time_of_the_key_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    store = Materialized.versioned("10 milliseconds", name="agg", time_scope="key")
    grouped = builder.stream("s", key="k", value="v").group_by_key()
    told = grouped.aggregate(lambda: None, _text_or_end, schema="text STRING", materialized=store, name="agg")
    told.to_changelog("out")
    plan = builder.build()
    # What ends an aggregate lets the next result be older: no more than the grace behind the newest before.
    steps = [("a", 100), ("END", 100), ("b", 95), ("c", 150), ("d", 160)]
    records = [Input("s", "k", text, ms) for text, ms in steps]
    app = on_spark(spark, tmp_path, plan, records, [1])
    write_records(spark, tmp_path, plan, records[1:4], 1)
    with faults.armed(crash_at("after:agg/main")), pytest.raises(Exception, match="after:agg/main"):
        app.run()
    app.run()
    write_records(spark, tmp_path, plan, records[4:], 4)
    app.run()
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


def _keep(key: Row, value: Row, state: Row | None) -> Row | None:
    return state


@pytest.mark.slow
@pytest.mark.rule("R163")
@pytest.mark.parametrize("scope", ["partition", "key"])
def test_an_aggregate_begins_anew_behind_a_tombstone_until_a_result_is_its_store_s_latest(
    scope: Any, spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    of_stream, of_table = (
        Materialized.versioned("1 second", name=name, time_scope=scope, time_resolution=Resolution.MILLISECOND)
        for name in ("of_stream", "of_table")
    )
    texts = builder.stream("s", key="k", value="v").group_by_key()
    texts.aggregate(lambda: None, _text_or_end, schema="text STRING", materialized=of_stream).to_changelog("a")
    known = builder.table("t", Materialized.key_value("known"), **_SOURCE).group_by(lambda value: "all")
    joined = known.aggregate(lambda: None, _text_or_end, _keep, schema="text STRING", materialized=of_table)
    joined.to_changelog("b")
    plan = builder.build()
    steps = [("1", 0), ("END", 50), ("2", 10), ("3", 20), ("4", 20), ("5", 50), ("6", 30)]
    records = [Input(topic, "all" if topic == "s" else text, text, ms) for text, ms in steps for topic in ("s", "t")]
    # The tombstone is one of the first batch; of the second only by its time in the store.
    app = on_spark(spark, tmp_path, plan, records, [6, 14])
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


@pytest.mark.slow
def test_what_is_folded_in_python_has_the_types_and_digits_that_spark_gives_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("s", key="k", value="v").group_by_key()
    for name, windows in (("tumbling", TimeWindows.of("1 hour")), ("sessions", SessionWindows.of("1 hour"))):
        windowed = grouped.windowed_by(windows)
        windowed.max(lambda value: value.v / 3, name=f"{name}_max").to_changelog(f"{name}_third")
        windowed.sum(lambda value: coalesce(value.v, 1.5), name=f"{name}_sum").to_changelog(f"{name}_mixed")
    table = builder.table("t", Materialized.key_value("store"), **_SOURCE).group_by(lambda value: "all")
    table.max(lambda value: value.v / 3, name="table_max").to_changelog("table_third")
    table.sum(lambda value: value.v, name="table_sum").to_changelog("table_sums")
    grouped.aggregate(
        lambda: Row(t=Decimal(0), d=0), _with_tax, schema="t decimal(12, 2), d double", name="taxed"
    ).to_changelog("taxes")
    large, small = "123456789012345678901234567890123.12", "1.00"
    records = [Input("s", "a", Decimal("2.00"), 1), Input("s", "a", Decimal("1.00"), 2)]
    records += [Input("t", "a", Decimal(large), 1), Input("t", "a", Decimal(small), 2)]
    app = on_spark(spark, tmp_path, builder.build(), records, [1, 3, 4], "DECIMAL(38, 2)")
    told = {sink: [value for _, value, _ in rows] for sink, rows in sink_rows(spark, app, builder.build()).items()}
    # A session that a record extends is told as ended first.
    third, mixed = ([value for value in told[f"sessions_{name}"] if value] for name in ("third", "mixed"))
    assert third == told["tumbling_third"]
    assert mixed == told["tumbling_mixed"] == [(2.0,), (3.0,)]
    assert len(told["table_third"]) == 2
    # Spark's minus would leave 34 digits of what is taken away.
    assert told["table_sums"] == [(Decimal(large),), (Decimal(small),)]
    assert told["taxes"] == [(Decimal("2.39"), 2.0), (Decimal("3.59"), 1.0)]


def _with_tax(key: Row, value: Row, sofar: Row) -> Row:
    return Row(t=sofar.t + value.v * Decimal("1.195"), d=value.v)
