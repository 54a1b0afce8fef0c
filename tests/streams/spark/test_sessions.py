"""Work side by side in sessions of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from streams.testing.sessions import AT_ONCE, in_sessions

_SETTING = "spark.sql.shuffle.partitions"


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    def counting(rows: int) -> Callable[[SparkSession], int]:
        return lambda session: session.range(rows).count()

    assert in_sessions(spark, [counting(rows) for rows in (5, 0, 3, 1)]) == [5, 0, 3, 1]


def test_tasks_run_at_the_same_time(spark: SparkSession) -> None:
    together = threading.Barrier(AT_ONCE, timeout=60)
    assert sorted(in_sessions(spark, [lambda _: together.wait()] * AT_ONCE)) == list(range(AT_ONCE))


def test_a_setting_stays_in_its_session(spark: SparkSession) -> None:
    together = threading.Barrier(2, timeout=60)

    def told(number: int, session: SparkSession) -> str | None:
        session.conf.set(_SETTING, str(number))
        together.wait()
        return session.conf.get(_SETTING)

    before = spark.conf.get(_SETTING)
    assert in_sessions(spark, [lambda s: told(11, s), lambda s: told(12, s)]) == ["11", "12"]
    assert spark.conf.get(_SETTING) == before


def test_a_failure_is_raised(spark: SparkSession) -> None:
    def fails(_: SparkSession) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        in_sessions(spark, [lambda _: None, fails])
