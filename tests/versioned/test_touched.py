"""Small batches on a large table with deletion vectors replace the rows of their own keys only."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, LongType, StringType, StructType

from versioned import touched
from versioned.commit import Step
from versioned.put import PutBatch
from versioned.put_records import shape_records
from versioned.table import VersionedTable
from versioned.table_log import history, own_details

_KEYS: Final = 600
_DAY_US: Final = 86_400_000_000
_SCHEMA: Final = "k LONG, us LONG, v STRING"

Put = tuple[int, int, str]


def _table(spark: SparkSession, path: Path, pii_columns: Iterable[str] = ()) -> VersionedTable:
    table = VersionedTable.create(
        spark, str(path), "k LONG, v STRING", keys="k", history_retention="30 days", pii_columns=pii_columns
    )
    spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('{touched.DELETION_VECTORS}' = 'true')")
    return VersionedTable.open(spark, table.target)


def _puts(spark: SparkSession, puts: Iterable[Put]) -> DataFrame:
    return spark.createDataFrame(list(puts), _SCHEMA).withColumn("ts", F.timestamp_micros("us"))


def _day(spark: SparkSession, number: int) -> DataFrame:
    return _puts(spark, [(key, number * _DAY_US, f"{number}") for key in range(_KEYS)])


def _rows(table: VersionedTable) -> list[Row]:
    times = (F.unix_micros(name).alias(name) for name in ("validFrom", "validTo"))
    return sorted(table.rows().select("k", *times, "v", "deleted", "_current").collect(), key=lambda row: row[:2])


def _removed(table: VersionedTable, spark: SparkSession) -> int:
    """How many rows the newest write took away; of those it wrote Delta also counts what it did not touch."""
    return int(history(spark, table.target, 1)[0]["operationMetrics"]["numDeletedRows"])


def _said(table: VersionedTable, spark: SparkSession) -> Any:
    said = own_details(history(spark, table.target, 1)[0])
    assert said is not None
    return said["details"].get("currentRows")


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "ROWS_PER_PUT", 10)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of each key, put by batches of all keys."""
    path = tmp_path_factory.mktemp("touched") / "made"
    table = _table(spark, path)
    for number in range(1, 4):
        table.put(_day(spark, number))
    return path


@pytest.fixture
def full(spark: SparkSession, tmp_path: Path, made: Path) -> VersionedTable:
    """A copy of it."""
    copy = shutil.copytree(made, tmp_path / "full")
    return VersionedTable.open(spark, str(copy))


def test_a_small_batch_replaces_the_rows_of_its_keys_and_gives_what_a_whole_replacement_gives(
    spark: SparkSession, tmp_path: Path, full: VersionedTable
) -> None:
    plain = VersionedTable.open(spark, str(shutil.copytree(full.target.path or "", tmp_path / "plain")))
    spark.sql(f"ALTER TABLE {plain.target.sql} SET TBLPROPERTIES ('{touched.DELETION_VECTORS}' = 'false')")
    plain = VersionedTable.open(spark, plain.target)
    small: list[list[Put]] = [
        [(1, 4 * _DAY_US, "ahead"), (2, 4 * _DAY_US, "ahead"), (2, 5 * _DAY_US, "twice"), (_KEYS, 4 * _DAY_US, "new")],
        [(1, 6 * _DAY_US, "in order"), (7, 2 * _DAY_US + 1, "late"), (7, 3 * _DAY_US, "replaces")],
        [(9, 1 * _DAY_US - 1, "before all"), (7, 2 * _DAY_US + 1, "replaces late")],
    ]
    removed = []
    for puts in small:
        said = [table.put(_puts(spark, puts)) for table in (full, plain)]
        assert said[0].counts == said[1].counts
        removed.append(_removed(full, spark))
    # Of each key that came: what is current, or ends after the oldest late record of the batch.
    assert removed == [2, 3 + 2, 3 + 4]
    assert _rows(full) == _rows(plain)
    assert full.verify().is_sound


def test_a_commit_tells_how_many_rows_there_are_and_how_many_records_came_since(
    spark: SparkSession, full: VersionedTable
) -> None:
    assert _said(full, spark) == {}
    full.put(_puts(spark, [(1, 4 * _DAY_US, "a"), (2, 4 * _DAY_US, "b")]))
    full.optimize()
    full.put(_puts(spark, [(3, 4 * _DAY_US, "c")]))
    # The last whole replacement wrote a current row and a closed one of each key.
    assert _said(full, spark) == {"written": 2 * _KEYS, "records": 3, "puts": 2}


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        pytest.param("MOST_IN_A_ROW", 0, marks=pytest.mark.slow),
        ("MOST_TOUCHED", 0),
        ("ROWS_PER_NAMED", 10_000),
        ("ROWS_PER_PUT", 10_000),
    ],
)
def test_at_the_limits_all_current_rows_are_replaced_again(
    spark: SparkSession, full: VersionedTable, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(touched, limit, value)
    full.put(_puts(spark, [(1, 4 * _DAY_US, "a")]))
    assert _removed(full, spark) == _KEYS
    assert _said(full, spark) == {}


def test_a_table_that_was_just_written_is_not_asked_for_its_history(
    spark: SparkSession, full: VersionedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.put(_day(spark, 7))
    monkeypatch.setattr("versioned.table_log.history", lambda *_: pytest.fail("it was asked"))
    full.put(_puts(spark, [(1, 8 * _DAY_US, "a")]))
    assert _said(full, spark)["records"] == 1


def test_without_deletion_vectors_all_current_rows_are_replaced_and_nothing_is_said_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "plain"), "k LONG, v STRING", keys="k", history_retention="30 days"
    )
    table.put(_day(spark, 1))
    table.put(_puts(spark, [(1, 2 * _DAY_US, "a")]))
    assert _removed(table, spark) == _KEYS
    assert _said(table, spark) is None


def test_rows_of_another_key_with_the_same_hash_stay_as_they_are(
    spark: SparkSession, full: VersionedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _rows(full)
    monkeypatch.setattr(touched, "_HASHES", 2)
    full.put(_puts(spark, [(1, 4 * _DAY_US, "a")]))
    assert 1 < _removed(full, spark) < _KEYS
    assert [row for row in _rows(full) if row["k"] != 1] == [row for row in before if row["k"] != 1]


_LOWER: Final = StringType("UTF8_LCASE")


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (DecimalType(10, 2), True),
        (StructType().add("a", LongType()).add("b", ArrayType(StringType())), True),
        (_LOWER, False),
        (ArrayType(_LOWER), False),
        (StructType().add("a", LongType()).add("b", _LOWER), False),
    ],
)
def test_only_keys_that_are_equal_bit_by_bit_are_named_by_their_hash(kind: DataType, can: bool) -> None:
    assert touched.can_be_named(StructType().add("k", kind)) is can


def test_a_hash_of_personal_data_is_never_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    hidden = _table(spark, tmp_path / "hidden", pii_columns=["K"])
    hidden.put(_day(spark, 1))
    hidden.put(_puts(spark, [(1, 2 * _DAY_US, "a")]))
    assert _removed(hidden, spark) == _KEYS


@pytest.mark.slow
@pytest.mark.parametrize("named_first", [True, False])
def test_a_replay_that_chooses_another_way_writes_nothing(
    spark: SparkSession, full: VersionedTable, named_first: bool
) -> None:
    late_too = _puts(spark, [(1, 4 * _DAY_US, "a"), (2, 2 * _DAY_US + 1, "late")])

    def write(names_keys: bool, is_replay: bool) -> None:
        records = shape_records(late_too, full.rows().schema, full.spec, "ts").drop("_reason")
        batch = PutBatch(full.target, full.spec, records, {0: 3 * _DAY_US}, None, 2, names_keys=names_keys)
        batch.write(lambda name: Step("app", "node", name, 1, 7), is_replay=is_replay)
        batch.release()

    write(named_first, is_replay=False)
    landed, rows = history(spark, full.target, 1)[0]["version"], _rows(full)
    write(not named_first, is_replay=True)
    assert history(spark, full.target, 1)[0]["version"] == landed
    assert _rows(full) == rows
    assert [row["v"] for row in rows if row["k"] < 3][-1:] == ["3"]
    assert full.verify().is_sound


@pytest.mark.slow
def test_keys_of_every_kind_are_found_by_their_hash(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {"d": "DECIMAL(10,2)", "t": "TIMESTAMP", "u": "TIMESTAMP_NTZ", "x": "DATE", "b": "BINARY", "o": "BOOLEAN"}
    kinds |= {"s": "STRUCT<a: INT, b: STRING>", "l": "ARRAY<INT>"}
    columns = ", ".join(f"{name} {kind}" for name, kind in {**kinds, "v": "STRING"}.items())
    table = VersionedTable.create(spark, str(tmp_path / "kinds"), columns, keys=list(kinds), history_retention="9 days")
    spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('{touched.DELETION_VECTORS}' = 'true')")
    told = spark.range(_KEYS).selectExpr(
        "CAST(id / 4 AS DECIMAL(10,2)) AS d", "timestamp_micros(id) AS t", "CAST('2025-11-01' AS TIMESTAMP_NTZ) AS u",
        "DATE'2025-11-01' AS x", "CAST(CAST(id AS STRING) AS BINARY) AS b", "id % 2 = 0 AS o",
        "named_struct('a', CAST(id AS INT), 'b', 'b') AS s", "array(CAST(id AS INT)) AS l", "'old' AS v",
    )  # fmt: skip
    table.put(told.withColumn("ts", F.timestamp_micros(F.lit(1))))
    table.put(told.limit(3).withColumns({"ts": F.timestamp_micros(F.lit(2)), "v": F.lit("new")}))
    assert _removed(table, spark) == 3
    assert table.current().where("v = 'new'").count() == 3
    assert table.verify().is_sound


def test_closed_files_from_before_the_oldest_late_record_can_be_left_out(
    spark: SparkSession, full: VersionedTable
) -> None:
    full.put(_puts(spark, [(1, 2 * _DAY_US + 1, "late")]))
    predicate = history(spark, full.target, 1)[0]["operationParameters"]["predicate"]
    # Delta compares the bounds of a file with literals only, and with no expression that makes one.
    assert "validTo > TIMESTAMP_LTZ '1970-01-03 00:00:00.000001+00:00'" in predicate.replace("`", "")


def test_a_key_is_found_though_the_records_have_it_in_another_type(spark: SparkSession, full: VersionedTable) -> None:
    full.put(_puts(spark, [(1, 4 * _DAY_US, "a")]).withColumn("k", F.col("k").cast("int")))
    assert _removed(full, spark) == 1
    assert [row["v"] for row in full.current().where("k = 1").collect()] == ["a"]
