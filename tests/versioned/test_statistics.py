"""Of which columns Delta's log tells bounds: of what a versioned table is asked by, and of nothing that is hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.statistics import hide
from versioned.table import VersionedTable


def _bounded(folder: Path) -> set[str]:
    """The columns whose least values the newest commit tells."""
    newest = max((folder / "_delta_log").glob("*.json"))
    added = [json.loads(line).get("add") for line in newest.read_text(encoding="utf-8").splitlines()]
    return {name for add in filter(None, added) for name in json.loads(add["stats"])["minValues"]}


def test_a_hidden_name_that_is_no_column_nor_a_field_in_one_is_refused_and_nothing_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id LONG, mail STRING, at ARRAY<STRUCT<city: STRING>>"
    with pytest.raises(ConfigurationError, match='pii_columns: there is no column "mial"; did you mean "mail"'):
        VersionedTable.create(
            spark, f"{tmp_path}/people", schema, keys="id", history_retention="1 day", pii_columns=["city", "mial"]
        )
    assert list(tmp_path.iterdir()) == []
    VersionedTable.create(
        spark, f"{tmp_path}/people", schema, keys="id", history_retention="1 day", pii_columns=["City", "Mail"]
    )


def test_keys_and_times_have_statistics_values_have_none_and_hidden_keys_lose_theirs(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = TableRef.parse(f"{tmp_path}/people")
    people = VersionedTable.create(
        spark, target, "id LONG, mail STRING, name STRING", keys=["id", "mail"], history_retention="1 day"
    )
    rows = "SELECT 1L AS id, 'a@b' AS mail, 'A' AS name, TIMESTAMP_SECONDS({}) AS ts"
    for second in (5, 6):
        people.put(spark.sql(rows.format(second)))
    assert _bounded(tmp_path / "people") == {"id", "mail", "validFrom", "validTo"}
    assert hide(spark, target, ["mail"])
    people.put(spark.sql(rows.format(7)))
    assert _bounded(tmp_path / "people") == {"id", "validFrom", "validTo"}
