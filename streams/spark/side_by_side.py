"""Running independent writes of a batch at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

_AT_ONCE: Final = 4


def side_by_side(tasks: Sequence[Callable[[], None]], session: SparkSession) -> None:
    """Run tasks in threads and wait for all of them; the first failure in their order is raised.

    The tasks must not change settings of the session, which they share.
    """
    if len(tasks) < 2:
        for task in tasks:
            task()
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Each thread sees the session and the job properties of this one.
        running = [pool.submit(inheritable_thread_target(session)(task)) for task in tasks]
        wait(running)
    for done in running:
        done.result()
