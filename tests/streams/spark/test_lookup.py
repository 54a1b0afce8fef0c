"""Looking up in a versioned table: which stream time of the table hides its history from a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.flow import PLACE, SCOPE, US
from streams.spark.lookup import _with_stream_time
from versioned.put import PutBatch
from versioned.spec import VersionedTableSpec

_SCHEMA = f"{SCOPE} INT, {PLACE} ARRAY<BIGINT>, {US} LONG"


@dataclass(frozen=True)
class _Puts:
    """What the look-up asks of a batch of puts."""

    observed: dict[int, int]
    judged: DataFrame


@pytest.mark.parametrize(("has_puts", "wanted"), [(False, [50, 50]), (True, [50, 80])])
def test_a_table_with_one_stream_time_has_it_for_records_of_every_partition(
    spark: SparkSession, has_puts: bool, wanted: list[int]
) -> None:
    spec = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day", time_scope="store")
    asked = spark.createDataFrame([(0, [60, 1, 0, 1, 1], 5), (1, [90, 1, 0, 1, 1], 5)], _SCHEMA)
    put = spark.createDataFrame([(0, [80, 0, 0, 2, 1, 3], 80, False)], f"{_SCHEMA}, _refused BOOLEAN")
    puts = cast("PutBatch", _Puts({0: 50}, put))
    timed = _with_stream_time(asked, spec, puts, has_puts)
    assert [row["_observed_us"] for row in timed.sort(SCOPE).collect()] == wanted
