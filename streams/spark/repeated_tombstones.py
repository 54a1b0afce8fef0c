"""Tombstones that a versioned store is spared, since its key's latest version is one already (R160).

Whether a key's latest version is a tombstone depends on which records before it were stored, and that on stream time:
so the batch's records are gone through one by one, without their values. The rule is the versioned store's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from streams.driver.keys import key_parts
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import OUT, PlainRow, Told, fold_groups, told_rows
from streams.spark.of_keys import of_keys
from versioned import spark_functions as F
from versioned.spec import VersionedTableSpec
from versioned.store_rules import VersionedStore

_ALL = "_all"


@dataclass(frozen=True)
class TombstoneFold:
    """Tells the places of tombstones that follow a tombstone. Values are only whether there is one.

    Args:
        spec: The store.
        times: Its stream time per scope before the batch, microseconds.
    """

    spec: VersionedTableSpec
    times: Mapping[int, int]

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        store = self._store(states)
        for event in events:
            key = key_parts(event[KEY])
            if event[VALUE] is not None or store.get(key) is not None:
                store.put(key, event[VALUE], event[US], event[SCOPE])
            else:
                yield ("out", {SCOPE: event[SCOPE], PLACE: event[PLACE]})

    def _store(self, states: Iterator[PlainRow]) -> VersionedStore:
        spec = self.spec
        store = VersionedStore(
            spec.history_retention_us,
            spec.grace_us,
            spec.time_scope,
            first_stream_time_us=spec.first_stream_time_us,
        )
        for state in states:
            store.restore(key_parts(state[KEY]), state[VALUE], state[US])
        for scope, us in self.times.items():
            store.observe(us, scope)
        return store


def without_repeated_tombstones(
    records: DataFrame, current: DataFrame, spec: VersionedTableSpec, times: Mapping[int, int], *, few: bool = False
) -> DataFrame:
    """The records but for the tombstones of keys whose latest version is a tombstone, or that have none.

    Args:
        records: ``_key _value _us _scope _place`` and others.
        current: The latest version of each key before the batch: ``_key _value _us``.
        spec: The store.
        times: Its stream time per scope before the batch, microseconds.
        few: Whether the records are few: then only versions of their keys are moved.
    """
    has_value = F.when(F.col(VALUE).isNotNull(), True).alias(VALUE)
    everything = F.lit(True).alias(_ALL)
    touched = of_keys(current, records, few=few)
    events = records.select(everything, KEY, has_value, US, SCOPE, PLACE)
    states = touched.select(everything, KEY, has_value, US)
    out = records.select(SCOPE, PLACE).schema
    told = fold_groups(events, states, [_ALL], TombstoneFold(spec, dict(times)), out, states.schema)
    spared = told_rows(told, "out", OUT).select(SCOPE, PLACE)
    return records.join(spared, [SCOPE, PLACE], "left_anti").select(*records.columns)
