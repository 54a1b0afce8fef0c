"""Spark's functions; those that name a column or make a literal are called once and their results reused.

Without Spark Connect, each call of a function costs three messages to the JVM, and one more to release the result, a
tenth of a millisecond each. One batch names the same few columns thousands of times. The cached results are names and
values that belong to no DataFrame, so they can be reused; import this module as ``F`` instead of Spark's own. Names
passed to a frame as text are resolved each time: where each batch selects many, pass ``map(F.col, names)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as _functions
from pyspark.sql.functions import *  # noqa: F403 - whatever else Spark has, as it is

#: How many names, and how many literals, are cached.
_KEPT: Final = 4_096


def col(name: str) -> Column:  # type: ignore[no-redef] # in place of Spark's
    """The column of a name, cached.

    Args:
        name: As for Spark's own ``col``.
    """
    return _col(name, is_remote())


def lit(value: object) -> Column:  # type: ignore[no-redef] # in place of Spark's
    """A literal, cached if it is a text, a boolean, an integer or null.

    Args:
        value: As for Spark's own ``lit``.
    """
    # Not floats, since 0.0 and -0.0 are equal, nor lists, which have no hash.
    if type(value) in (str, bool, int) or value is None:
        return _lit(value, is_remote())
    return _functions.lit(value)


@lru_cache(_KEPT)
def _col(name: str, _: bool) -> Column:
    return _functions.col(name)


@lru_cache(_KEPT, typed=True)
def _lit(value: str | bool | int | None, _: bool) -> Column:
    return _functions.lit(value)
