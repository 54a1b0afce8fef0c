"""A constraint of somebody else is told by its name; those of the library are none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from versioned.constraints import refused_by_others
from versioned.errors import SchemaError
from versioned.identifiers import TableRef
from versioned.schema import INTERVAL
from versioned.table import VersionedTable

_TABLE: Final = TableRef.parse("main.shop.prices")
_VIOLATED: Final = "CHECK constraint {} (price\n > 0) violated by row with values:\n - price : -1"


def test_a_constraint_of_somebody_else_is_told_with_what_drops_it_and_no_value() -> None:
    told = f"does not conform to partial table overwrite condition\n{_VIOLATED.format('positive')}"
    said = str(refused_by_others(_TABLE, ValueError(told)))
    assert 'The constraint "positive" of main.shop.prices refuses' in said
    assert f"ALTER TABLE {_TABLE.sql} DROP CONSTRAINT `positive`" in said
    assert "-1" not in said


@pytest.mark.parametrize(
    "told", [_VIOLATED.format(INTERVAL), _VIOLATED.format("Generated Column"), "no conflict, no CHECK constraint"]
)
def test_what_is_no_constraint_of_somebody_else_is_left_as_it_is(told: str) -> None:
    assert refused_by_others(_TABLE, ValueError(told)) is None


def test_a_put_that_a_constraint_refuses_names_it_and_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    table.put(spark.sql("SELECT 'a' AS k, 1 AS v, timestamp_seconds(5) AS ts"))
    spark.sql(f"ALTER TABLE {table.target.sql} ADD CONSTRAINT positive CHECK (v > 0)")
    with pytest.raises(SchemaError, match='constraint "positive"'):
        table.put(spark.sql("SELECT 'a' AS k, -1 AS v, timestamp_seconds(6) AS ts"))
    with pytest.raises(SchemaError, match='constraint "positive"'):
        table.delete(spark.sql("SELECT 'a' AS k, timestamp_seconds(6) AS ts"))
    assert [row["v"] for row in table.rows().collect()] == [1]
