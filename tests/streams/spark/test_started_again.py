"""The same object is started again, as in a notebook: what it knew of its tables is of no query but the last."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, Told, application, on_driver, on_spark, sink_rows, write_records
from pyspark.sql import SparkSession

from streams import Materialized, StreamsBuilder
from streams.nodes import Topology
from streams.spark.rollback import rollback
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned.statistics import always_hidden
from versioned.table_details import properties_of

_RECORDS: Final = (
    Input("prices", "k", "one", 1),
    Input("orders", "k", "first", 2),
    Input("prices", "k", "two", 3),
    Input("orders", "k", "second", 4),
)


def _plan(*, counts_prices: bool = False) -> Topology:
    """A keyed aggregate, a join to a versioned table, and the changelogs of both."""
    builder = StreamsBuilder()
    prices = builder.table(
        "prices", Materialized.versioned("1 hour", name="history"), key="k", value="v", deleted="dead"
    )
    orders = builder.stream("orders", key="k", value="v", deleted="dead")
    orders.group_by_key().count(name="counts").to_changelog("counted")
    orders.join(prices, lambda left, right: {"email": left.v, "price": right.v}, name="priced").to_changelog("out")
    if counts_prices:
        prices.to_stream().group_by_key().count(name="later").to_changelog("counted_later")
    return builder.build()


@pytest.fixture(scope="module")
def begun_twice(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Told], list[dict[str, object]]]:
    """What the sinks hold, and what the tables say of themselves, the first time and once all were deleted."""
    folder, said = tmp_path_factory.mktemp("twice"), list[dict[str, object]]()
    app = application(spark, folder, _plan(), pii_columns=["email"])
    write_records(spark, folder, _plan(), _RECORDS, 0)
    for is_again in (False, True):
        if is_again:
            shutil.rmtree(str(app.root))
        app.run()
        said.append({table.short_name: properties_of(spark, table) for table in app.tables()})
    return sink_rows(spark, app, _plan()), said


def test_what_is_started_again_over_no_tables_gives_the_results_of_a_first_start(
    begun_twice: tuple[dict[str, Told], list[dict[str, object]]],
) -> None:
    assert begun_twice[0] == on_driver(_plan(), _RECORDS)


def test_what_is_started_again_over_no_tables_makes_them_with_all_their_properties(
    begun_twice: tuple[dict[str, Told], list[dict[str, object]]],
) -> None:
    first, again = begun_twice[1]
    assert again == first
    assert always_hidden(again["out"]) == {"email"}  # type: ignore[arg-type]


def test_what_a_plan_is_warned_of_is_told_once_where_it_is_made(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    windows = builder.stream("orders", key="k", value="v").group_by_key().windowed_by(TimeWindows.of("1 hour"))
    idle = Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True)
    windows.count(name="counts").suppress(idle, name="final").to_changelog("out")
    application(spark, tmp_path, builder.build()).run()
    assert caplog.text.count("final: close_idle closes no window") == 1


@pytest.mark.slow
def test_tables_that_are_deleted_behind_a_rollback_to_before_they_were_there_are_made_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _plan(), _RECORDS[:2], [2])
    later = _plan(counts_prices=True)
    write_records(spark, tmp_path, later, _RECORDS[2:], 2)
    app = application(spark, tmp_path, later)
    app.run()
    before = sink_rows(spark, app, later)
    rollback(app, 0)
    for name in ("later", "counted_later"):
        shutil.rmtree(str(app.table(name)))
    app.run()
    assert sink_rows(spark, app, later) == before
