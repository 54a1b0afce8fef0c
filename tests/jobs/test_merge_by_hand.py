"""README's first table: what the usual slowly-changing-dimension MERGE makes of a late row, and what a put makes of it.

The rows are real: aircraft N14168 left Newark for Oklahoma City on 2 January 2013, and the quickstart hears of it a day
late, after the flight to Buffalo that came next.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from versioned import VersionedTable

_LANDINGS = [
    ("N14168", "BUF", "2013-01-01 21:03"),
    ("N14168", "BUF", "2013-01-02 17:06"),
    ("N14168", "OKC", "2013-01-02 01:16"),  # late
]
# A row that matches ends the current version; the same row once more, under no key, becomes the new one.
_MERGE = """
    MERGE INTO delta.`{path}` AS t
    USING (SELECT tailnum AS found, * FROM landed UNION ALL SELECT NULL AS found, * FROM landed) AS s
    ON t.tailnum = s.found AND t.validTo IS NULL
    WHEN MATCHED THEN UPDATE SET validTo = s.ts
    WHEN NOT MATCHED AND s.found IS NULL THEN
        INSERT (tailnum, dest, validFrom, validTo) VALUES (s.tailnum, s.dest, s.ts, NULL)
"""


def _landed(spark: SparkSession, row: tuple[str, str, str]) -> DataFrame:
    tailnum, dest, departure = row
    return spark.sql(f"SELECT '{tailnum}' AS tailnum, '{dest}' AS dest, TIMESTAMP '{departure}:00' AS ts")


def _versions(rows: DataFrame) -> list[tuple[str, str, str | None]]:
    shown = rows.selectExpr("dest", "date_format(validFrom, 'dd HH:mm')", "date_format(validTo, 'dd HH:mm')")
    return sorted((tuple(row) for row in shown.collect()), key=lambda version: version[1])


@pytest.fixture(scope="module")
def by_hand(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("by_hand"))
    spark.sql(
        f"CREATE TABLE delta.`{path}` (tailnum STRING, dest STRING, validFrom TIMESTAMP, validTo TIMESTAMP) USING DELTA"
    )
    for row in _LANDINGS:
        _landed(spark, row).createOrReplaceTempView("landed")
        spark.sql(_MERGE.format(path=path))
    return spark.read.format("delta").load(path)


@pytest.fixture(scope="module")
def versioned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    path = str(tmp_path_factory.mktemp("versioned") / "aircraft")
    table = VersionedTable.create(
        spark, path, "tailnum STRING, dest STRING", keys="tailnum", history_retention="3 days"
    )
    for row in _LANDINGS:
        table.put(_landed(spark, row))
    return table


def test_the_merge_by_hand_ends_a_version_before_it_begins_and_calls_the_late_row_current(by_hand: DataFrame) -> None:
    assert _versions(by_hand) == [
        ("BUF", "01 21:03", "02 17:06"),
        ("OKC", "02 01:16", None),
        ("BUF", "02 17:06", "02 01:16"),
    ]


@pytest.mark.rule("R172", "R181")
def test_a_put_splits_just_the_interval_that_the_late_row_falls_into(versioned: VersionedTable) -> None:
    assert _versions(versioned.rows()) == [
        ("BUF", "01 21:03", "02 01:16"),
        ("OKC", "02 01:16", "02 17:06"),
        ("BUF", "02 17:06", None),
    ]


def test_verify_finds_what_the_merge_by_hand_broke(versioned: VersionedTable, by_hand: DataFrame) -> None:
    assert versioned.verify().is_sound
    assert by_hand.where("validTo <= validFrom").count() == 1
