"""Tombstones that are not put into a versioned store, since their key's latest version is one already (R160).

Whether a key's latest version is a tombstone depends on which records before it were stored, and that depends on stream
time, which a dropped tombstone does not advance. So records are processed one by one, without their values, by the
versioned store's own rule.

Mostly it is clear without that which records are late. Stream time lies between the newest of the earlier records that
are certainly stored, and the newest of all earlier records. If a record is late by both bounds, or by neither, there is
nothing to decide. If that holds for all records of a batch, keys are independent, and many tasks can process many
records. Otherwise, and for few records, one task processes all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame

from streams.driver.keys import Key, key_parts
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, lookup_times
from streams.spark.kernel import OUT, PlainRow, Told, fold_groups, told_rows
from streams.spark.of_keys import of_keys
from versioned import put_frames
from versioned import spark_functions as F
from versioned.durations import LONGEST_US
from versioned.spec import VersionedTableSpec
from versioned.store_rules import VersionedStore

_ALL: Final = "_all"
#: Columns: whether a record is known to be late; and whether that depends on which records before it are stored.
_IS_LATE: Final = "_is_late"
_IS_OPEN: Final = "_is_open"


@dataclass(frozen=True)
class TombstoneFold:
    """Yields the places of tombstones that follow a tombstone. Values only say whether there is one.

    A group is a key, or all keys together: then events and states have the key as a column.

    Args:
        spec: The store's contract.
        times: Its stream time per scope before the batch, in microseconds.
    """

    spec: VersionedTableSpec
    times: Mapping[int, int]

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        own = key_parts(group[KEY]) if KEY in group else None
        store = self._store(own, states)
        for event in events:
            key = key_parts(event[KEY]) if own is None else own
            if event[VALUE] is None and store.get(key) is None:
                yield ("out", {SCOPE: event[SCOPE], PLACE: event[PLACE]})
            elif not event[_IS_LATE]:
                store.put(key, event[VALUE], event[US], event[SCOPE])

    def _store(self, own: Key | None, states: Iterator[PlainRow]) -> VersionedStore:
        spec = self.spec
        store = VersionedStore(
            spec.history_retention_us,
            spec.grace_us,
            spec.time_scope,
            first_stream_time_us=spec.first_stream_time_us,
        )
        for state in states:
            store.restore(key_parts(state[KEY]) if own is None else own, state[VALUE], state[US])
        for scope, us in self.times.items():
            store.observe(us, scope)
        return store


def without_repeated_tombstones(
    records: DataFrame,
    current: DataFrame,
    spec: VersionedTableSpec,
    times: Mapping[int, int],
    *,
    few: bool = False,
    cut: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """The records without tombstones of keys whose latest version is a tombstone, or that have no version.

    Args:
        records: ``_key _value _us _scope _place`` and others.
        current: The latest version of each key before the batch: ``_key _value _us``.
        spec: The store's contract.
        times: Its stream time per scope before the batch, in microseconds.
        few: Whether there are few records: then only versions of their keys are shuffled.
        cut: Computes a frame once. Given for many records: a job then finds out whether several tasks can process them.
            None = one task processes all.
    """
    has_value = F.when(F.col(VALUE).isNotNull(), True).alias(VALUE)
    events = records.select(KEY, has_value, US, SCOPE, PLACE)
    states = of_keys(current, records, few=few).select(KEY, has_value, US)
    judged = None if cut is None else _judged(events, spec, times, cut)
    out = records.select(SCOPE, PLACE).schema
    if judged is not None:
        # It is known which records are late, or each key has its own stream time.
        own = spec if spec.time_scope == "key" else _never_late(spec)
        told = fold_groups(judged, states, [KEY], TombstoneFold(own, {}), out, states.schema)
    else:
        everything, unknown = F.lit(True).alias(_ALL), F.lit(False).alias(_IS_LATE)
        fold = TombstoneFold(spec, dict(times))
        told = fold_groups(
            events.select("*", everything, unknown), states.select("*", everything), [_ALL], fold, out, states.schema
        )
    spared = told_rows(told, "out", OUT).select(SCOPE, PLACE)
    return records.join(spared, [SCOPE, PLACE], "left_anti").select(*records.columns)


def _judged(
    events: DataFrame, spec: VersionedTableSpec, times: Mapping[int, int], cut: Callable[[DataFrame], DataFrame]
) -> DataFrame | None:
    """The events, each with whether it is late; None if that needs all events to be processed one by one."""
    if spec.time_scope == "key" or spec.grace_us >= LONGEST_US:
        return events.withColumn(_IS_LATE, F.lit(False))
    before, grace, never = lookup_times(times), F.lit(spec.grace_us).cast("long"), F.lit(False)
    at_most = put_frames.stream_time_before(before, [SCOPE], spec)
    may_be = events.withColumn(_IS_OPEN, F.coalesce(F.col(US) < at_most - grace, never))
    is_stored = F.col(VALUE).isNotNull() & ~F.col(_IS_OPEN)
    at_least = put_frames.stream_time_before(before, [SCOPE], spec, F.when(is_stored, F.col(US)))
    told = may_be.withColumn(_IS_LATE, F.coalesce(F.col(US) < at_least - grace, never))
    judged = cut(told.withColumn(_IS_OPEN, F.col(_IS_OPEN) & ~F.col(_IS_LATE)))
    return judged.drop(_IS_OPEN) if judged.where(_IS_OPEN).isEmpty() else None


def _never_late(spec: VersionedTableSpec) -> VersionedTableSpec:
    return replace(spec, history_retention_us=LONGEST_US, grace_us=LONGEST_US, first_stream_time_us=None)
