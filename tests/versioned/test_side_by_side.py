"""Tasks side by side: those that run do so to their end, whatever becomes of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from versioned import side_by_side as side_by_side_module
from versioned.errors import FencedError, RecordError
from versioned.side_by_side import Task, in_turn, side_by_side

_Failing = Callable[[Mapping[str, Exception]], None]


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


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> _Failing:
    """Lets tasks fail at the same time, each with its error; no session is needed."""
    monkeypatch.setattr(side_by_side_module, "inheritable_thread_target", lambda _: lambda task: task)

    def fail(errors: Mapping[str, Exception]) -> None:
        together = threading.Barrier(len(errors))

        def task(error: Exception) -> None:
            together.wait(30)
            raise error

        in_turn({name: partial(task, error) for name, error in errors.items()}, {}, Mock())

    return fail


def test_of_several_failures_one_that_says_what_to_do_is_raised(failing: _Failing) -> None:
    with pytest.raises(FencedError, match="stop this one"):
        failing({"left": ValueError("Job 7 cancelled"), "right": FencedError("stop this one")})


def test_of_failures_that_are_alike_the_first_in_the_mapping_is_raised(failing: _Failing) -> None:
    with pytest.raises(FencedError, match="tables"):
        failing({"spark": ValueError("Job 7"), "tables": FencedError("tables"), "source": RecordError("source")})


def test_the_failures_that_are_not_raised_are_logged_with_where_they_happened(
    failing: _Failing, caplog: pytest.LogCaptureFixture
) -> None:
    lost = KeyError("other")
    with pytest.raises(ValueError, match="first"):
        failing({"left": ValueError("first"), "right": lost})
    (record,) = caplog.records
    assert (record.levelname, record.exc_info and record.exc_info[1]) == ("WARNING", lost)
    assert "Beside left, right failed as well" in record.message


def test_of_one_that_says_what_to_do_only_that_is_logged(failing: _Failing, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RecordError, match="first"):
        failing({"left": RecordError("first"), "right": RecordError("second")})
    assert [(record.message, record.exc_info) for record in caplog.records] == [
        ("Beside left, right failed as well: second", None)
    ]


def test_a_task_begins_when_all_that_must_come_before_it_are_done(spark: SparkSession) -> None:
    ended: list[str] = []

    def task(name: str, seconds: float) -> Task:
        def run() -> None:
            time.sleep(seconds)
            ended.append(name)

        return run

    tasks = {name: task(name, wait_s) for name, wait_s in (("store", 0), ("left", 0.3), ("sink", 0.1), ("other", 0.6))}
    in_turn(tasks, {"store": ["left", "sink"], "left": ["sink"], "sink": []}, spark)
    assert ended == ["sink", "left", "store", "other"]


def test_nothing_begins_after_a_failure(spark: SparkSession) -> None:
    begun: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        in_turn({"store": lambda: begun.append("store"), "sink": fails}, {"store": ["sink"]}, spark)
    assert begun == []


def test_what_waits_for_a_place_does_not_begin_after_a_failure(spark: SparkSession) -> None:
    begun: list[int] = []

    def fails() -> None:
        raise ValueError("no")

    def slow(number: int) -> Task:
        def run() -> None:
            begun.append(number)
            time.sleep(0.3)

        return run

    with pytest.raises(ValueError, match="no"):
        side_by_side([fails, *(slow(number) for number in range(20))], spark)
    assert len(begun) < 4


def test_one_at_a_time_they_begin_in_an_order_that_is_not_left_to_chance(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side_module, "_AT_ONCE", 1)
    begun: list[str] = []
    tasks: dict[str, Task] = {name: partial(begun.append, name) for name in "abcd"}
    in_turn(tasks, {"a": ["d"], "b": ["c"]}, spark)
    assert begun == ["c", "b", "d", "a"]


@pytest.mark.parametrize("before", [{"a": ["b"], "b": ["a"]}, {"a": ["nobody"]}], ids=["a circle", "one not there"])
def test_tasks_that_could_never_begin_are_refused(spark: SparkSession, before: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="wait for each other"):
        in_turn({"a": lambda: None, "b": lambda: None}, before, spark)
