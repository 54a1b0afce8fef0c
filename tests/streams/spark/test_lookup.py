"""Looking up in a versioned table: which versions are of a record's key, and which stream time hides them from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.nodes import Materialized
from streams.spark import lookup
from streams.spark.flow import FOUND, KEY, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.lookup import _with_stream_time
from streams.spark.of_keys import Amount
from streams.spark.operator import Batch
from versioned.identifiers import TableRef
from versioned.put import PutBatch
from versioned.spec import VersionedTableSpec

_PUT = f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
_SCHEMA = f"{SCOPE} INT, {PLACE} ARRAY<BIGINT>, {US} LONG"


@dataclass(frozen=True)
class _Puts:
    """What the look-up asks of a batch of puts."""

    observed: dict[int, int]
    judged: DataFrame
    stream_times: dict[int, int]


@pytest.mark.parametrize(("has_puts", "wanted"), [(False, [50, 50]), (True, [50, 80])])
def test_a_table_with_one_stream_time_has_it_for_records_of_every_partition(
    spark: SparkSession, has_puts: bool, wanted: list[int]
) -> None:
    spec = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day", time_scope="store")
    asked = spark.createDataFrame([(0, [60, 1, 0, 1, 1], 5), (1, [90, 1, 0, 1, 1], 5)], _SCHEMA)
    put = spark.createDataFrame([(0, [80, 0, 0, 2, 1, 3], 80, False)], f"{_SCHEMA}, _refused BOOLEAN")
    puts = cast("PutBatch", _Puts({0: 50}, put, {0: 80}))
    timed = _with_stream_time(asked, spec, puts, has_puts, lambda frame: frame, across=False)
    assert [row["_observed_us"] for row in timed.sort(SCOPE).collect()] == wanted


@pytest.mark.rule("R138")
@pytest.mark.parametrize("few", [lookup.MANY_PUTS, 0], ids=["few puts", "many puts"])
def test_a_key_of_another_type_finds_the_versions_of_the_one_key_that_it_is(
    few: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MANY_PUTS", few)
    batches = (
        [("1", "stored", 10, 1), ("01", "no number", 11, 2), ("x", "no number", 11, 3)],
        [("1", "put", 20, 1), ("01", "no number", 21, 2), ("x", "no number", 21, 3), ("1", "put later", 22, 9)],
    )
    for number, rows in enumerate(batches):
        batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, number, 0, {})
        store = HistoryStore("node", "table", Materialized.versioned("1 day"))
        store.put(batch, Flow(spark.createDataFrame([((k,), (v,), us, 0, [at]) for k, v, us, at in rows], _PUT)))
        if number == 0:
            store.write(batch)
    # Of the batch's puts, a record at place 5 knows those before it.
    asked = spark.createDataFrame(
        [((key,), us, 0, [5, us]) for key, us in ((1, 12), (1, 21), (1, 23), (2, 23))],
        f"{KEY} STRUCT<id: BIGINT>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>",
    )

    def found(amount: Amount) -> list[str | None]:
        rows = store.find_valid(asked, 12, amount).sort(KEY, US).collect()
        return [row[FOUND] and row[FOUND]["v"] for row in rows]

    wanted = ["stored", "put", "put", None]
    assert (found("few"), found("unknown"), found("many")) == (wanted, wanted, wanted)
