"""Named points at which a test can make the process fail. They do nothing unless a test arms them.

Points are named ``<moment>:<node>/<step>``: ``before:weather/main``, ``after:ledger/row``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Action = Callable[[str], None]

_action: Action | None = None


def point(name: str) -> None:
    """Call the armed action, if any, with the name of this point."""
    if _action is not None:
        _action(name)


@contextmanager
def armed(action: Action) -> Iterator[None]:
    """Call ``action`` with the name of every point reached inside the block (tests only).

    >>> reached: list[str] = []
    >>> with armed(reached.append):
    ...     point("before:store/main")
    >>> reached
    ['before:store/main']
    """
    global _action
    _action = action
    try:
        yield
    finally:
        _action = None
