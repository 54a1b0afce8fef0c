"""Which table a name means: the one that it meant when the handle was made; and how SQL names one at a path."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from versioned.identifiers import TableRef
from versioned.reading import in_full, sql_in
from versioned.session_settings import MISSING_FILES
from versioned.table import VersionedTable

_NAME = "named_rates"
#: A catalog that knows no Delta tables.
_DERBY = {
    "spark.sql.catalog.far": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.far.url": "jdbc:derby:memory:far;create=true",
    "spark.sql.catalog.far.driver": "org.apache.derby.jdbc.EmbeddedDriver",
}


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
        ("named_b.rates", "spark_catalog.named_b.rates"),
        ("elsewhere.rates", "elsewhere.rates"),
        ("Spark_Catalog.rates", "Spark_Catalog.rates"),
        ("elsewhere.named_b.rates", "elsewhere.named_b.rates"),
        ("/data/rates", "/data/rates"),
    ],
)
def test_a_name_is_told_with_the_schema_and_the_catalog_that_it_means_now(
    session: SparkSession, given: str, full: str
) -> None:
    # A catalog that the session knows and has not used yet.
    session.conf.set("spark.sql.catalog.elsewhere", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    assert str(in_full(session, TableRef.parse(given))) == full


def test_a_name_of_two_parts_means_a_schema_where_the_session_does_not_tell_its_settings() -> None:
    catalogs = Mock(listCatalogs=lambda: [Mock()], currentCatalog=lambda: "dev")
    session = Mock(catalog=catalogs, conf=Mock(get=Mock(side_effect=RuntimeError("CONFIG_NOT_AVAILABLE"))))
    assert str(in_full(session, TableRef.parse("sales.rates"))) == "dev.sales.rates"


@pytest.mark.parametrize(
    ("given", "current", "settings", "named"),
    [
        ("/data/rates", "spark_catalog", {"spark.sql.catalog.spark_catalog": "DeltaCatalog"}, "delta.`/data/rates`"),
        ("/data/rates", "far", {"spark.sql.catalog.far": "JDBCTableCatalog"}, "spark_catalog.delta.`/data/rates`"),
        ("/data/rates", "main", {}, "delta.`/data/rates`"),
        ("sales.rates", "far", {"spark.sql.catalog.far": "JDBCTableCatalog"}, "`sales`.`rates`"),
    ],
)
def test_sparks_own_catalog_is_named_for_a_path_where_the_settings_add_the_current_one(
    given: str, current: str, settings: dict[str, str], named: str
) -> None:
    session = Mock(catalog=Mock(currentCatalog=lambda: current), conf=settings)
    assert sql_in(session, TableRef.parse(given)) == named


@pytest.mark.parametrize("is_cut_off", [False, True], ids=["new", "over a log without a commit"])
def test_a_table_at_a_path_is_made_put_into_and_asked_in_sql_where_the_current_catalog_knows_no_paths(
    spark: SparkSession, tmp_path: Path, is_cut_off: bool
) -> None:
    own, path = spark.newSession(), tmp_path / "rates"
    for name, value in _DERBY.items():
        own.conf.set(name, value)
    own.sql("USE far")
    if is_cut_off:
        (path / "_delta_log").mkdir(parents=True)
    table = VersionedTable.create(
        own, str(path), "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True
    )
    table.put(_record(own, "x"), timestamp="ts")
    table.register_sql("far")
    known = own.sql("SELECT v FROM far_known_as_of(TIMESTAMP '2024-01-02', TIMESTAMP '9999-01-01')")
    assert [row["v"] for frame in (own.table("far_current"), known) for row in frame.collect()] == ["x", "x"]


_Write = Callable[[VersionedTable], object]


def _at(second: int, *rows: tuple[str, int]) -> _Write:
    """Puts values of keys, all at one second."""

    def put(table: VersionedTable) -> object:
        ts = datetime.fromtimestamp(second, timezone.utc)
        return table.put(table._spark.createDataFrame([(*row, ts) for row in rows], "k STRING, v INT, ts TIMESTAMP"))

    return put


def _in_another_process(spark: SparkSession, folder: Path, write: _Write) -> None:
    """A write of which this process is told nothing: made in a copy of the table, whose new files are added to it."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    write(VersionedTable.open(spark, str(copy)))
    shutil.copytree(copy, folder, dirs_exist_ok=True)


@pytest.mark.parametrize(
    ("elsewhere", "here", "wanted"),
    [
        (_at(2, ("a", 2), ("d", 2)), _at(3, ("a", 3)), ["a1", "a2", "a3", "b1", "d2"]),
        (_at(2, ("a", 2), ("d", 2)), _at(1, ("b", 9), ("c", 1)), ["a1", "a2", "b9", "c1", "d2"]),
    ],
    ids=["in order", "late"],
)
def test_a_put_keeps_what_another_process_wrote_whatever_a_user_has_in_sparks_cache(
    spark: SparkSession, tmp_path: Path, elsewhere: _Write, here: _Write, wanted: list[str]
) -> None:
    folder = tmp_path / "t"
    table = VersionedTable.create(spark, str(folder), "k STRING, v INT", keys="k", history_retention="1 day")
    _at(1, ("a", 1), ("b", 1))(table)
    kept = table.rows().cache()
    assert kept.count() == 2
    try:
        _in_another_process(spark, folder, elsewhere)
        here(table)
    finally:
        kept.unpersist()
    assert sorted(f"{row.k}{row.v}" for row in table.rows().collect()) == wanted


def test_a_put_over_a_file_that_is_gone_fails_and_writes_nothing_whatever_the_session_says_of_such_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = spark.newSession()
    own.conf.set(MISSING_FILES, "true")
    path = str(tmp_path / "rates")
    table = VersionedTable.create(own, path, "k STRING, v STRING", keys="k", history_retention="1 day")
    table.put(_record(own, "x"))
    for file in (tmp_path / "rates").rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    before = sorted((tmp_path / "rates" / "_delta_log").glob("*.json"))
    other = own.createDataFrame([("b", "y", datetime(2024, 1, 2))], "k STRING, v STRING, ts TIMESTAMP")
    own.conf.set(MISSING_FILES, "true")
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|does not exist"):
        VersionedTable.open(own, path).put(other)
    assert sorted((tmp_path / "rates" / "_delta_log").glob("*.json")) == before
