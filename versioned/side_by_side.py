"""Runs independent parts of a batch at the same time: a commit to a small table is mostly waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from versioned.errors import VersionedError

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 4
Task = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


def side_by_side(tasks: Sequence[Task], session: SparkSession) -> None:
    """Run tasks in threads and wait for all of them; of several failures one is raised, as by :func:`in_turn`.

    The tasks share the session, so they must not change its settings.
    """
    in_turn(dict(enumerate(tasks)), {}, session)


def in_turn(tasks: Mapping[Name, Task], before: Mapping[Name, Collection[Name]], session: SparkSession) -> None:
    """Run each task as soon as all tasks that must come before it are done, several at once.

    Among the tasks that are ready, those that come first in the mapping begin first.

    When a task fails, the running ones are waited for and no other one begins. Of several failures, a
    :class:`~versioned.errors.VersionedError`, which says what to do, is preferred, and among equals the one whose task
    comes first in the mapping, however the threads ran. The others are logged.

    Args:
        tasks: The tasks by name.
        before: For a task's name, the names of the tasks that must be done first; a task not in it waits for none.
        session: The session that each thread uses.

    Raises:
        ValueError: tasks wait for each other in a circle, or for one that does not exist.
    """
    if len(tasks) < 2:
        for task in tasks.values():
            task()
        return
    waiting, done = dict(tasks), set[Name]()
    running: dict[Future[object], Name] = {}
    failures: dict[Name, BaseException] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while True:
            ready = [name for name in waiting if not failures and done.issuperset(before.get(name, ()))]
            # No task may queue in the pool: it would begin even after a failure, and in random order.
            for name in ready[: _AT_ONCE - len(running)]:
                # Each thread inherits the session and the job properties of this one.
                running[pool.submit(inheritable_thread_target(session)(waiting.pop(name)))] = name
            if not running:
                break
            _take_ended(running, done, failures)
    if failures:
        raise _foremost([(name, failures[name]) for name in tasks if name in failures])
    if waiting:
        raise ValueError(f"These wait for each other, or for others that are not there: {sorted(map(str, waiting))}.")


def _foremost(failures: Sequence[tuple[Name, BaseException]]) -> BaseException:
    """Choose the failure to raise, and log the others, which would go unnoticed."""
    # Sorting is stable: equals keep their order.
    (chosen, raised), *others = sorted(failures, key=lambda failed: not isinstance(failed[1], VersionedError))
    for name, failure in others:
        # An error that the library raises on purpose needs no stack trace.
        stack = None if isinstance(failure, VersionedError) else failure
        _LOG.warning("Beside %s, %s failed as well: %s", chosen, name, failure, exc_info=stack)
    return raised


def _take_ended(running: dict[Future[object], Name], done: set[Name], failures: dict[Name, BaseException]) -> None:
    """Wait until at least one running task ends, and record whether it is done or has failed."""
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ended:
        name, failure = running.pop(future), future.exception()
        if failure is None:
            done.add(name)
        else:
            failures[name] = failure
