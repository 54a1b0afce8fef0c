"""The SQL surface: a view, two table functions, and both time axes in one query."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from keyed_records import keyed_records
from pyspark.sql import SparkSession

from versioned.errors import ConfigurationError
from versioned.session_settings import session_settings
from versioned.table import VersionedTable


def _asked(spark: SparkSession, query: str) -> list[Any]:
    return [tuple(row) for row in spark.sql(query).collect()]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    """a: x@10, y@20, deleted@30; b: p@15. Registered as rates."""
    path = str(tmp_path_factory.mktemp("sql") / "my-rates")
    made = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="1 day")
    made.put(keyed_records(spark, ("a", "x", 10), ("a", "y", 20), ("a", None, 30), ("b", "p", 15)), deleted="dead")
    made.register_sql("rates")
    return made


def test_the_names_come_from_the_table_if_none_are_given(table: VersionedTable) -> None:
    endings = ("current", "history", "as_of", "between")
    assert table.register_sql() == [f"my_rates_{ending}" for ending in endings]


def test_the_view_has_what_is_current(spark: SparkSession, table: VersionedTable) -> None:
    assert _asked(spark, "SELECT k, v FROM rates_current") == [("b", "p")]


def test_the_history_has_every_version_and_tells_deletions(spark: SparkSession, table: VersionedTable) -> None:
    query = "SELECT v, unix_seconds(validFrom), unix_seconds(validTo), deleted FROM rates_history WHERE k = 'a'"
    assert sorted(_asked(spark, query), key=lambda row: row[1]) == [
        ("x", 10, 20, False), ("y", 20, 30, False), (None, 30, None, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "expected"),
    [(9, []), (10, [("a", "x")]), (19, [("a", "x"), ("b", "p")]), (20, [("a", "y"), ("b", "p")]), (30, [("b", "p")])],
)
@pytest.mark.rule("R138", "R181")
def test_as_of_in_sql_says_what_it_says_in_python(
    spark: SparkSession, table: VersionedTable, second: int, expected: list[tuple[str, str]]
) -> None:
    at = datetime.fromtimestamp(second, timezone.utc)
    assert _asked(spark, f"SELECT k, v FROM rates_as_of(timestamp_seconds({second})) ORDER BY k") == expected
    assert sorted(tuple(row) for row in table.as_of(at).select("k", "v").collect()) == expected


def test_where_keywords_are_reserved_the_functions_are_made_and_asked_as_elsewhere(
    spark: SparkSession, table: VersionedTable
) -> None:
    with session_settings(spark, {"spark.sql.ansi.enforceReservedKeywords": "true"}):
        table.register_sql("strict")
        query = "SELECT k, v FROM strict_as_of(timestamp_seconds(19)) ORDER BY k"
        assert _asked(spark, query) == [("a", "x"), ("b", "p")]
        assert spark.conf.get("spark.sql.ansi.enforceReservedKeywords") == "true"


def test_between_includes_both_ends_and_the_version_that_began_before(
    spark: SparkSession, table: VersionedTable
) -> None:
    query = "SELECT v FROM rates_between(timestamp_seconds({}), timestamp_seconds({})) ORDER BY v"
    found = {bounds: [v for (v,) in _asked(spark, query.format(*bounds))] for bounds in ((12, 14), (12, 15), (20, 30))}
    assert found == {(12, 14): ["x"], (12, 15): ["p", "x"], (20, 30): ["p", "y"]}
    # The wrong way round there is no instant between the two.
    assert _asked(spark, query.format(14, 12)) == []


def test_a_bound_that_is_null_is_none(spark: SparkSession, table: VersionedTable) -> None:
    bounds = ("NULL, timestamp_seconds(14)", "timestamp_seconds(20), NULL", "NULL, NULL")
    found = [sorted(v for (v,) in _asked(spark, f"SELECT v FROM rates_between({both})")) for both in bounds]
    assert found == [["x"], ["p", "y"], ["p", "x", "y"]]


def test_a_table_function_can_be_joined_laterally_to_events(spark: SparkSession, table: VersionedTable) -> None:
    query = """
        SELECT e.k, r.v FROM VALUES ('a', timestamp_seconds(12)), ('a', timestamp_seconds(25)) e(k, at),
        LATERAL (SELECT v FROM rates_as_of(e.at) r WHERE r.k = e.k) r ORDER BY 2"""
    assert _asked(spark, query) == [("a", "x"), ("a", "y")]


def test_a_column_named_as_an_argument_does_not_shadow_it(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "shadow")
    schema = "k STRING, ts TIMESTAMP, from_ts TIMESTAMP, until_ts TIMESTAMP"
    made = VersionedTable.create(spark, path, schema, keys="k", history_retention="1 day")
    row = spark.sql(
        "SELECT 'a' AS k, timestamp_seconds(99) AS ts, timestamp_seconds(1) AS from_ts,"
        " timestamp_seconds(99) AS until_ts, timestamp_seconds(50) AS at"
    )
    made.put(row, timestamp="at")
    made.register_sql("shadow")
    assert _asked(spark, "SELECT k FROM shadow_as_of(timestamp_seconds(10))") == []
    assert _asked(spark, "SELECT k FROM shadow_between(timestamp_seconds(10), timestamp_seconds(20))") == []


def test_a_column_named_as_a_function_does_not_shadow_its_arguments(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "named")
    schema = "k STRING, Named_as_of STRUCT<ts: TIMESTAMP>, named_between DATE, v STRING"
    made = VersionedTable.create(spark, path, schema, keys="k", history_retention="1 day", system_history=True)
    row = "SELECT 'a' AS k, struct(timestamp_seconds(99) AS ts) AS Named_as_of, DATE '2026-01-01' AS named_between"
    made.put(spark.sql(f"{row}, 'x' AS v, timestamp_seconds(50) AS ts"))
    made.register_sql("named")
    told = [_asked(spark, f"SELECT k, v FROM named_as_of(timestamp_seconds({at}))") for at in (10, 60)]
    assert told == [[], [("a", "x")]]
    told = [_asked(spark, f"SELECT v FROM named_between(timestamp_seconds({at}), NULL)") for at in (10, 60)]
    assert told == [[("x",)], [("x",)]]
    query = "SELECT r.v FROM VALUES (timestamp_seconds(60)) e(at), LATERAL (SELECT v FROM named_as_of(e.at)) r"
    assert _asked(spark, query) == [("x",)]


def test_in_the_catalog_the_names_outlive_the_session(spark: SparkSession) -> None:
    made = VersionedTable.create(spark, "default.kept", "k STRING, v STRING", keys="k", history_retention="1 day")
    made.put(keyed_records(spark, ("a", "x", 10)))
    names = made.register_sql("spark_catalog.default.kept", temporary=False)
    assert names[0] == "spark_catalog.default.kept_current"
    assert made.register_sql(temporary=False) == names
    other = spark.newSession()
    assert _asked(other, "SELECT v FROM default.kept_current") == [("x",)]
    assert _asked(other, "SELECT v FROM default.kept_as_of(timestamp_seconds(10))") == [("x",)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/data/rates", "is a path"),
        ("a.rates", "has 2 parts"),
        ("x; DROP", "is not a table name"),
        ("", '"" is not a table name'),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_what_to_write(table: VersionedTable, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        table.register_sql(name)


@pytest.mark.slow
def test_views_and_functions_can_be_made_for_a_version(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(spark, f"{tmp_path}/then", "k STRING, v STRING", keys="k", history_retention="1 day")
    made.put(keyed_records(spark, ("a", "x", 10)))
    monday = _asked(spark, f"DESCRIBE HISTORY delta.`{tmp_path}/then` LIMIT 1")[0][0]
    made.put(keyed_records(spark, ("a", "late", 5), ("a", "y", 20)))
    assert made.register_sql("monday", version=monday)[0] == "monday_current"
    made.register_sql("today")
    both = "SELECT (SELECT max(v) FROM {0}_current), (SELECT count(*) FROM {0}_as_of(timestamp_seconds(7)))"
    assert [_asked(spark, both.format(name))[0] for name in ("monday", "today")] == [("x", 0), ("y", 1)]


@pytest.mark.slow
def test_what_was_known_is_told_in_sql_as_in_python(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(
        spark, f"{tmp_path}/kept", "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True
    )
    made.put(keyed_records(spark, ("a", "x", 10), ("b", "p", 10)))
    reported = datetime.now(timezone.utc)
    made.put(keyed_records(spark, ("a", "late", 5), ("a", "corrected", 10), ("b", None, 15)), deleted="dead")
    assert made.register_sql("kept")[-1] == "kept_known_as_of"
    for at in (7, 12, 20):
        instant = datetime.fromtimestamp(at, timezone.utc)
        query = f"SELECT k, v FROM kept_known_as_of(timestamp_seconds({at}), TIMESTAMP '{reported.isoformat()}')"
        told = made.as_of(instant, known_at=reported).select("k", "v").collect()
        assert sorted(_asked(spark, query)) == sorted(tuple(row) for row in told)
    assert len(told) == 2


def test_what_did_we_believe_on_monday_about_last_friday(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "beliefs")
    made = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="30 days")
    made.put(keyed_records(spark, ("price", "10", 0), ("price", "12", 500)))
    monday = _asked(spark, f"DESCRIBE HISTORY delta.`{path}` LIMIT 1")[0][0]
    made.put(keyed_records(spark, ("price", "11", 100)))
    friday = "validFrom <= timestamp_seconds(200) AND (validTo IS NULL OR timestamp_seconds(200) < validTo)"
    both = f"""
        SELECT then.v AS believed_on_monday, now.v AS known_now
        FROM (SELECT k, v FROM delta.`{path}` VERSION AS OF {monday} WHERE {friday}) then
        JOIN (SELECT k, v FROM delta.`{path}` WHERE {friday}) now USING (k)"""
    assert _asked(spark, both) == [("10", "11")]
