"""What the functions of the user take, as far as Python tells."""

from __future__ import annotations

import inspect
from typing import Any


def takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many values; true for those of Python's own that do not tell.

    >>> takes(lambda aggregate, value: aggregate, 2), takes(max, 2), takes(lambda value: value, 2), takes("max", 2)
    (True, True, False, False)
    """
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some of Python's own tell no signature
        return True
    return True
