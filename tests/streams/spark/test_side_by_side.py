"""Tasks side by side: all of them run to their end, whatever becomes of the others."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import SparkSession

from streams.spark.side_by_side import side_by_side


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_every_task_runs_once(spark: SparkSession, count: int) -> None:
    done: list[int] = []
    side_by_side([lambda n=number: done.append(n) for number in range(count)], spark)  # type: ignore[misc]
    assert sorted(done) == list(range(count))


def test_the_first_failure_is_raised_after_all_have_ended(spark: SparkSession) -> None:
    done: list[str] = []

    def slow() -> None:
        time.sleep(0.3)
        done.append("slow")

    def fails() -> None:
        raise ValueError("first")

    def fails_too() -> None:
        raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        side_by_side([fails, slow, fails_too], spark)
    assert done == ["slow"]
