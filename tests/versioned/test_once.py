"""A value is worked out once, however many threads ask for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from versioned.once import Once


def test_those_who_ask_meanwhile_wait_for_the_first() -> None:
    begun, go_on, times = threading.Event(), threading.Event(), []

    def work_out() -> object:
        times.append(1)
        begun.set()
        assert go_on.wait(10)
        return object()

    value = Once(work_out)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(value)
        assert begun.wait(10)
        others = [pool.submit(value) for _ in range(2)]
        go_on.set()
        assert {id(other.result(10)) for other in others} == {id(first.result(10))}
    assert times == [1]


def test_a_failure_is_not_kept() -> None:
    answers = iter([ValueError("not yet"), 7])

    def work_out() -> object:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    value = Once(work_out)
    with pytest.raises(ValueError, match="not yet"):
        value()
    assert value() == 7
