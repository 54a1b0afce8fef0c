"""What a stored table refuses, and its types, which operators of several branches may ask for at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.flow import FOUND, KEY, PLACE, SCOPE, US, VALUE
from streams.spark.lookup_table import LookupTable, check_fields_apart, latest_at_place
from versioned.errors import ConfigurationError


class _Table(LookupTable):
    """A table that waits for another to be asked as well before it tells its types."""

    def __init__(self, frame: DataFrame, both: threading.Barrier) -> None:
        self._frame, self._both = frame, both

    def rows(self) -> DataFrame:
        self._both.wait(30)  # Breaks if the other cannot be asked meanwhile.
        return self._frame

    def find_latest(self, asked: DataFrame) -> DataFrame:
        return asked


def test_a_table_that_waits_for_another_does_not_keep_it_from_telling_its_types(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<v: LONG>")
    both = threading.Barrier(2)
    tables = [_Table(frame, both) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda table: table.key_type.names, tables))
    assert told == [["k"], ["k"]]


_ROW = f"{VALUE} STRUCT<v: STRING>, {US} LONG"


def test_a_key_that_the_asking_side_cannot_hold_is_found_by_nobody_and_ends_nothing(spark: SparkSession) -> None:
    asked = spark.createDataFrame([((7,), 0, [5])], f"{KEY} STRUCT<customer: INT>, {SCOPE} INT, {PLACE} ARRAY<LONG>")
    rows = [((7,), ("seven",), 1), ((3_000_000_000,), ("large",), 1)]
    table = spark.createDataFrame(rows, f"{KEY} STRUCT<id: LONG>, {_ROW}")
    changes = [((3_000_000_001,), ("larger",), 2, 0, [1])]
    batch = spark.createDataFrame(changes, f"{KEY} STRUCT<id: LONG>, {_ROW}, {SCOPE} INT, {PLACE} ARRAY<LONG>")
    found = latest_at_place(asked, table, batch).select(f"{FOUND}.v").collect()
    assert [row.v for row in found] == ["seven"]


def test_a_field_of_both_key_and_value_is_refused_with_the_node_and_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r'"latest" would hold \[\'carrier\'\] twice.*map_values'):
        check_fields_apart("latest", ["carrier", "flight"], ["delay", "carrier"])


def test_fields_that_differ_are_taken() -> None:
    check_fields_apart("latest", ["carrier"], ["delay"])
