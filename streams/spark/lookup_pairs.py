"""Looks many records up in stored versions by pairing: an equi-join on the key, with a time range.

For a million records and five million versions this takes 4 s, where sorting both on one timeline (``lookup.py``) takes
7.5 s. But all versions of a key meet all of its records: with very many of both, the pairs are their product. Keys with
many records are therefore put on timelines, which are sorted once, however much is on them.

Most of the time goes into shuffling and sorting versions that no record finds. Where these may be many, keys and
instants of the records are broadcast beforehand, and versions that none of them finds are not shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame

from streams.spark.flow import US, VALUE
from streams.spark.of_keys import MOST_SENT
from versioned import spark_functions as F
from versioned.identifiers import quote

#: Column: the version found, with its start, value and end.
STORED: Final = "_stored"
#: Up to this many records of a key are paired with its versions; those of keys with more are put on timelines.
MOST_PAIRED: Final = 32
_RECORDS, _FROM_US, _TO_US, _AT_US = "_records", "_from_us", "_to_us", "_at_us"

Lines = Callable[[DataFrame, DataFrame], DataFrame]


def version() -> Column:
    """The column ``_stored`` of a stored version."""
    us, value = F.col(US).alias("us"), F.col(VALUE).alias("value")
    return F.struct(us, value, F.col(_TO_US).alias("to_us")).alias(STORED)


def with_versions(
    asked: DataFrame,
    stored: DataFrame,
    keys: Sequence[str],
    stored_keys: Sequence[str],
    cut: Callable[[DataFrame], DataFrame],
    lines: Lines,
    *,
    sends: bool = False,
) -> DataFrame:
    """Records with the stored version of their key that is valid at their instant, in ``_stored``; null if none is.

    Runs one job to find the keys with many records.

    Args:
        asked: Flat key columns ``keys``, ``_us`` and others.
        stored: Flat key columns ``stored_keys`` of the same types, ``_us``, ``_to_us`` and ``_value``.
        keys: The key columns of the records.
        stored_keys: Those of the versions, in the same order.
        cut: Computes a frame once.
        lines: The same by timelines, for records and versions of some keys, however many there are.
        sends: Whether keys and instants of the records are broadcast, so that only versions which one of them finds
            are shuffled.
    """
    counted = asked.groupBy(*map(quote, keys)).agg(F.count("*").alias(_RECORDS))
    crowded = cut(counted.where(F.col(_RECORDS) > MOST_PAIRED).drop(_RECORDS))
    number = crowded.limit(MOST_SENT + 1).count()
    if number == 0:
        return _pairs(asked, stored, keys, stored_keys, sends=sends)
    if number > MOST_SENT:
        # Too many keys to broadcast, and most records are theirs.
        return lines(asked, stored)
    mine, theirs = F.broadcast(crowded), F.broadcast(crowded.toDF(*stored_keys))
    paired = _pairs(asked.join(mine, list(keys), "left_anti"), stored, keys, stored_keys, sends=sends)
    lined = lines(asked.join(mine, list(keys), "left_semi"), stored.join(theirs, list(stored_keys), "left_semi"))
    return paired.unionByName(lined)


def _pairs(
    asked: DataFrame, stored: DataFrame, keys: Sequence[str], stored_keys: Sequence[str], *, sends: bool
) -> DataFrame:
    named = {f"_k{number}": name for number, name in enumerate(stored_keys)}
    start, end = F.col(US).alias(_FROM_US), F.col(_TO_US)
    versions = stored.select(*(F.col(quote(name)).alias(to) for to, name in named.items()), start, end, version())
    if sends:
        sent = {f"_a{number}": F.col(quote(name)) for number, name in enumerate(keys)}
        instants = asked.select(*(key.alias(name) for name, key in sent.items()), F.col(US).alias(_AT_US))
        same = _finds(dict(zip(named, map(F.col, sent), strict=True)), F.col(_AT_US))
        versions = versions.join(F.broadcast(instants), same, "left_semi")
    valid = _finds(dict(zip(named, (F.col(quote(name)) for name in keys), strict=True)), F.col(US))
    return asked.join(versions, valid, "left").drop(*named, _FROM_US, _TO_US)


def _finds(keys: Mapping[str, Column], us: Column) -> Column:
    """Whether a version has these keys (by its own column names) and is valid at an instant."""
    valid = (F.col(_FROM_US) <= us) & (F.col(_TO_US).isNull() | (us < F.col(_TO_US)))
    return reduce(Column.__and__, (F.col(name) == key for name, key in keys.items()), valid)
