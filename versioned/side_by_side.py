"""Running independent pieces of a batch at the same time: a commit to a small table is mostly waiting."""

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

    The tasks must not change settings of the session, which they share.
    """
    in_turn(dict(enumerate(tasks)), {}, session)


def in_turn(tasks: Mapping[Name, Task], before: Mapping[Name, Collection[Name]], session: SparkSession) -> None:
    """Run each task as soon as all those that must come before it are done, several at once.

    Of those that could begin, the one that stands first in the mapping does.

    When one fails, those that run are waited for and no other is begun. Of several failures one that says what to do, a
    :class:`~versioned.errors.VersionedError`, is raised before any other, and of those the one whose task stands first
    in the mapping, however the threads ran; the others are logged.

    Args:
        tasks: By name.
        before: Name of a task -> names of the tasks that must be done first; nothing, if it is not in the mapping.
        session: Each thread works in it.

    Raises:
        ValueError: tasks wait for each other in a circle, or for one that is not there.
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
            # None waits in the pool: it would begin after a failure, and in an order that is left to chance.
            for name in ready[: _AT_ONCE - len(running)]:
                # Each thread sees the session and the job properties of this one.
                running[pool.submit(inheritable_thread_target(session)(waiting.pop(name)))] = name
            if not running:
                break
            _take_ended(running, done, failures)
    if failures:
        raise _foremost([(name, failures[name]) for name in tasks if name in failures])
    if waiting:
        raise ValueError(f"These wait for each other, or for others that are not there: {sorted(map(str, waiting))}.")


def _foremost(failures: Sequence[tuple[Name, BaseException]]) -> BaseException:
    """The failure to raise; the others, of which nobody would hear, are logged."""
    # Sorting keeps the order of those that are alike.
    (chosen, raised), *others = sorted(failures, key=lambda failed: not isinstance(failed[1], VersionedError))
    for name, failure in others:
        # What the library says on purpose says where it is wrong.
        stack = None if isinstance(failure, VersionedError) else failure
        _LOG.warning("Beside %s, %s failed as well: %s", chosen, name, failure, exc_info=stack)
    return raised


def _take_ended(running: dict[Future[object], Name], done: set[Name], failures: dict[Name, BaseException]) -> None:
    """Wait for the next that ends, and sort it into those that are done and those that failed."""
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ended:
        name, failure = running.pop(future), future.exception()
        if failure is None:
            done.add(name)
        else:
            failures[name] = failure
