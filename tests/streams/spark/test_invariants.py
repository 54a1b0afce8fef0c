"""The columns that invariants of stored tables speak of, beside those of users."""

from __future__ import annotations

from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from streams.spark import invariants
from streams.spark.guards import counts
from streams.spark.invariants import Facts, invariants_of, with_facts
from streams.spark.stored_kinds import StoredTable
from versioned.identifiers import is_column
from versioned.spec import CURRENT, DELETED, VersionedTableSpec

_ADDED = ("NEXT_START", "IS_OPEN", "HAS_VALUES", "STREAM_TIME", "DUE_AT", "NEXT_CLOCK", "UNBALANCED", "CODE")


@pytest.mark.parametrize("added", _ADDED)
def test_no_column_of_a_user_is_called_like_one_that_invariants_add(added: str) -> None:
    assert not is_column(getattr(invariants, added))


def test_keys_are_judged_as_they_are_whatever_they_are_called(spark: SparkSession) -> None:
    keys = ("shop", "is_open", "stream_time")
    spec = VersionedTableSpec.of(keys=keys, values=["v"], history_retention="1 day")
    columns = (*keys, "v", DELETED, CURRENT, "validFrom", "validTo")
    rows = spark.createDataFrame(
        [("a", is_open, 1, 7, False, True, datetime(2026, 1, 1), None) for is_open in (True, False)],
        f"shop STRING, is_open BOOLEAN, stream_time INT, v INT, {DELETED} BOOLEAN, {CURRENT} BOOLEAN, "
        "validFrom TIMESTAMP, validTo TIMESTAMP",
    )
    table = StoredTable("shops", "versions", columns, keys, None, spec)
    told = with_facts(rows, table, Facts({0: 2**60}))
    broken = {row["rule"]: row["n"] for row in counts(told, invariants_of(table), "shops").collect() if row["n"]}
    assert broken == {"shops.rows": 2}
