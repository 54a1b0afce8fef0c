"""A batch that dies between any two writes and is replayed leaves every table as an uninterrupted run does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, application, write_records
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from random_plans import random_records

from streams.functions import coalesce, concat, substring
from streams.nodes import Joined, Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows
from versioned import faults

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS = 60
#: One point per kind of step; the rest by ``make test-all``.
_SOME = ["after:calm/main", "before:waits/hold", "after:history/splice"]


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def _topology() -> Topology:
    """Every kind of state: stores, buffers, windows, answers, records that wait."""
    builder = StreamsBuilder()
    plain = builder.table("a", Materialized.key_value("plain_store"), name="plain", **_SOURCE)
    history = builder.table("c", Materialized.versioned(_ms(1000), name="history_store"), name="history", **_SOURCE)
    left, right = (builder.stream(topic, name=f"stream_{topic}", **_SOURCE) for topic in "ac")
    plain.suppress(Suppressed.until_time_limit(_ms(60), BufferConfig.max_records(3)), name="calm").to_changelog("o1")
    plain.outer_join(history, _pair, materialized=Materialized.key_value("both"), name="joined").to_changelog("o2")
    foreign = history.left_join(plain, _pair, foreign_key=lambda value: substring(value.v, 1, 1), name="foreign")
    foreign.to_changelog("o3")
    windows = JoinWindows(20_000, 20_000, 20_000)
    left.outer_join(right, _pair, windows=windows, name="pairs").to_changelog("o4")
    left.join(history, _pair, joined=Joined.with_grace_period(_ms(40)), name="waits").to_changelog("o5")
    corrected = left.left_join(history, _pair, joined=Joined().with_corrections(_ms(400)), name="answers")
    corrected.corrections(name="corrected").to_changelog("o6")
    sessions = left.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(_ms(25), _ms(50)))
    sessions.count(name="sessions").suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded()), name="final"
    ).to_changelog("o7")
    plain.group_by(lambda value: substring(value.v, 1, 1)).min(lambda value: value.v, name="counts").to_changelog("o8")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"j": concat(coalesce(left.v, "-"), "/", coalesce(right.v, "-"))}


class _Crash(Exception):
    """Stands for the end of the process at a write."""


def _crash_at(point: str) -> Callable[[str], None]:
    def action(name: str) -> None:
        if name == point:
            raise _Crash(point)

    return action


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, Counter[str]]]:
    """The points that the second batch of an uninterrupted run passes, and its tables."""
    heard: list[str] = []
    app = _run(spark, tmp_path_factory.mktemp("whole"), random_records(3, _RECORDS), [], heard.append)
    return list(dict.fromkeys(heard)), _tables(spark, app)


def _run(
    spark: SparkSession,
    folder: Path,
    records: list[Input],
    points: list[str],
    listen: Callable[[str], None] = lambda name: None,
) -> StreamingApplication:
    """Two batches; the second dies at each of the points in turn, then runs to its end."""
    topology, half = _topology(), _RECORDS // 2
    write_records(spark, folder, topology, records[:half])
    application(spark, folder, topology).run()
    write_records(spark, folder, topology, records[half:], half)
    for point in points:
        with faults.armed(_crash_at(point)), pytest.raises(StreamingQueryException, match="_Crash"):
            application(spark, folder, topology).run()
    app = application(spark, folder, topology)
    with faults.armed(listen):
        app.run()
    return app


def _tables(spark: SparkSession, app: StreamingApplication) -> dict[str, Counter[str]]:
    told = {}
    for table in app.tables():
        # When a row came into a buffer by the wall clock is another instant in every run.
        frame = spark.read.format("delta").load(str(table)).drop("arrivedAt")
        told[table.short_name] = Counter(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())
    return told


def _differences(got: dict[str, Counter[str]], wanted: dict[str, Counter[str]]) -> dict[str, Any]:
    return {
        table: {"lost": list(rows - got[table])[:3], "more": list(got[table] - rows)[:3]}
        for table, rows in wanted.items()
        if got[table] != rows
    }


@pytest.mark.slow
def test_a_crash_at_one_write_of_each_kind_changes_nothing(
    spark: SparkSession, tmp_path: Path, whole: tuple[list[str], dict[str, Counter[str]]]
) -> None:
    assert set(_SOME) <= set(whole[0])
    app = _run(spark, tmp_path, random_records(3, _RECORDS), _SOME)
    assert _differences(_tables(spark, app), whole[1]) == {}


@pytest.mark.slow
def test_a_crash_at_every_write_changes_nothing(
    spark: SparkSession, tmp_path: Path, whole: tuple[list[str], dict[str, Counter[str]]]
) -> None:
    points = whole[0]
    assert len(points) >= 40
    app = _run(spark, tmp_path, random_records(3, _RECORDS), points)
    assert _differences(_tables(spark, app), whole[1]) == {}
