"""A plan that was changed, died in its first batch, and was changed back: nothing of that batch is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import concat, substring
from streams.ktable import KTable
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.spark.rollback import rollback
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned import faults
from versioned.errors import ConfigurationError

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
#: The first batch, the one that dies, and one behind it.
_RECORDS: Final = [
    Input("a", "k", "x1", 10),
    Input("a", "l", "x2", 11),
    Input("a", "m", "x3", 12),
    Input("a", "n", "x4", 13),
]
_DIES_AFTER: Final = 3


def _plan(more: Callable[[KTable], None] | None) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE)
    table.to_changelog("told")
    if more is not None:
        more(table)
    return builder.build()


def _count(table: KTable) -> None:
    table.group_by(lambda value: {"g": substring(value.v, 1, 1)}).count(name="count").to_changelog("out")


def _window(table: KTable) -> None:
    hourly = table.to_stream(name="changes").group_by_key().windowed_by(TimeWindows.of("1 hour"))
    hourly.count(name="hourly").to_changelog("out")


def _join(table: KTable) -> None:
    stored = Materialized.key_value("pairs")
    pairs = table.join(table.filter(lambda value: value.v > "x1", name="some"), _pair, name="both", materialized=stored)
    pairs.to_changelog("out")


def _pair(left: object, right: object) -> object:
    return {"v": concat(left.v, right.v)}  # type: ignore[attr-defined]


def _limit(table: KTable) -> None:
    limit = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded())
    table.suppress(limit, name="limit").to_changelog("late")


def _dies(spark: SparkSession, folder: Path, before: Topology, changed: Topology, point: str) -> StreamingApplication:
    """One batch of a plan, and one of a changed one that ends at a point; the application with the former plan."""
    on_spark(spark, folder, before, _RECORDS[:1], [1])
    write_records(spark, folder, before, _RECORDS[1:_DIES_AFTER], 1)
    with faults.armed(crash_at(point)), pytest.raises(StreamingQueryException):
        application(spark, folder, changed).run()
    return application(spark, folder, before)


@pytest.mark.parametrize(
    ("more", "missed"),
    [
        (_count, "'count', 'out'"),
        pytest.param(_window, "'hourly', 'out'", marks=pytest.mark.slow),
        pytest.param(_join, "'both'", marks=pytest.mark.slow),
    ],
    ids=["aggregate", "windows", "join"],
)
def test_a_batch_that_was_begun_without_an_operator_is_not_finished_with_it_but_taken_back(
    spark: SparkSession, tmp_path: Path, more: Callable[[KTable], None], missed: str
) -> None:
    plan = _plan(more)
    app = _dies(spark, tmp_path, plan, _plan(None), "after:table/main")
    told = rf"Batch 1 was begun by a plan without \[{missed}\].* versioned rollback --batch 0"
    with pytest.raises(ConfigurationError, match=told):
        app.run()
    rollback(app, 0)
    write_records(spark, tmp_path, plan, _RECORDS[_DIES_AFTER:], _DIES_AFTER)
    app = application(spark, tmp_path, plan)
    app.run()
    assert sink_rows(spark, app, plan)["out"] == on_driver(plan, _RECORDS)["out"]


def test_what_an_unfinished_batch_has_wait_does_not_leave_the_plan_with_its_buffer(
    spark: SparkSession, tmp_path: Path
) -> None:
    limited = _plan(_limit)
    app = _dies(spark, tmp_path, _plan(None), limited, "before:ledger/row")
    with pytest.raises(ConfigurationError, match='2 rows wait in the table "limit"'):
        app.run()
    changed = application(spark, tmp_path, limited)
    changed.drain("limit")
    assert [value for _, value, _ in sink_rows(spark, changed, limited)["late"]] == [("x2",), ("x3",)]
    app.run()
