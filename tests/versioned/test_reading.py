"""Which table a name means: the one that it meant when the handle was made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from versioned.identifiers import TableRef
from versioned.reading import in_full
from versioned.table import VersionedTable

_NAME = "named_rates"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own with two schemas, in the first of them."""
    own = spark.newSession()
    for schema in ("named_a", "named_b"):
        own.sql(f"CREATE SCHEMA {schema}")
    own.sql("USE named_a")
    yield own
    for schema in ("named_a", "named_b"):
        own.sql(f"DROP SCHEMA {schema} CASCADE")


def _create(session: SparkSession) -> VersionedTable:
    return VersionedTable.create(session, _NAME, "k STRING, v STRING", keys="k", history_retention="1 day")


def _record(session: SparkSession, value: str) -> DataFrame:
    return session.createDataFrame([("a", value, datetime(2024, 1, 1))], "k STRING, v STRING, ts TIMESTAMP")


def _values(table: VersionedTable) -> list[str]:
    return [row["v"] for row in table.current().collect()]


def test_a_handle_stays_with_its_table_when_the_session_goes_to_another_schema(session: SparkSession) -> None:
    first = _create(session)
    session.sql("USE named_b")
    second = _create(session)
    first.put(_record(session, "of the first"), timestamp="ts")
    assert (_values(first), _values(second)) == (["of the first"], [])


def test_a_temporary_view_does_not_stand_in_for_a_table_of_its_name(session: SparkSession) -> None:
    session.sql(f"CREATE TEMP VIEW {_NAME} AS SELECT 'zz' AS k, 'of the view' AS v")
    _create(session).put(_record(session, "of the table"), timestamp="ts")
    assert _values(VersionedTable.open(session, _NAME)) == ["of the table"]


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("rates", "spark_catalog.named_a.rates"),
        ("named_b.rates", "named_b.rates"),
        ("/data/rates", "/data/rates"),
    ],
)
def test_only_names_of_one_part_depend_on_the_session(session: SparkSession, given: str, full: str) -> None:
    assert str(in_full(session, TableRef.parse(given))) == full
