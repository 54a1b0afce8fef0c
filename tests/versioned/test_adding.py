"""Columns that a table gets after it was made: null in what it has, and there at once whenever a kill comes."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from crashing import Crash, crash_at, then
from pyspark.sql import DataFrame, SparkSession

from versioned import faults
from versioned.errors import ConfigurationError, SchemaError
from versioned.restore import restore
from versioned.spec import known_target
from versioned.statistics import always_hidden
from versioned.table import VersionedTable
from versioned.table_details import properties_of
from versioned.table_log import history

_NEW = "mail STRING, n INT"


def _made(spark: SparkSession, folder: Path, *, system_history: bool = False, values: str = ", v STRING") -> Any:
    made = VersionedTable.create(
        spark, f"{folder}/t", f"k STRING{values}", keys="k", history_retention="1 day", system_history=system_history
    )
    made.put(spark.sql("SELECT 'a' AS k, 'x' AS v, TIMESTAMP_SECONDS(s) AS ts FROM VALUES (10), (30) AS t(s)"))
    return made


def _wider(spark: SparkSession, second: int, mail: str = "m@x") -> DataFrame:
    return spark.sql(f"SELECT 'a' AS k, 'y' AS v, '{mail}' AS mail, 7 AS n, TIMESTAMP_SECONDS({second}) AS ts")


def _versions(table: VersionedTable) -> list[tuple[Any, ...]]:
    rows = table.rows().selectExpr("unix_seconds(validFrom) AS s", *table.spec.values)
    return sorted((tuple(row) for row in rows.collect()), key=lambda row: row[0])


def test_stored_versions_have_nulls_in_a_new_column_and_records_behind_it_and_late_ones_have_its_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _made(spark, tmp_path)
    times = table.stream_times()
    table.add_columns(_NEW)
    commits = [row["operation"] for row in history(spark, table.target, 3)]
    assert commits == ["SET TBLPROPERTIES", "ADD COLUMNS", "SET TBLPROPERTIES"]
    assert table.stream_times() == times
    for second in (40, 20):
        table.put(_wider(spark, second))
    assert _versions(table) == [
        (10, "x", None, None), (20, "y", "m@x", 7), (30, "x", None, None), (40, "y", "m@x", 7)
    ]  # fmt: skip
    opened = VersionedTable.open(spark, table.target)
    assert opened.spec == table.spec
    assert opened.verify().is_sound
    asked = spark.sql("SELECT 'a' AS k, TIMESTAMP_SECONDS(s) AS at FROM VALUES (15), (25), (45) AS t(s)")
    found = opened.lookup(asked, at="at").orderBy("at").select("v", "mail", "n").collect()
    assert [tuple(row) for row in found] == [("x", None, None), ("y", "m@x", 7), ("y", "m@x", 7)]


def test_two_who_add_columns_at_once_add_them_all(spark: SparkSession, tmp_path: Path) -> None:
    table = _made(spark, tmp_path)
    other = VersionedTable.open(spark, table.target)
    with faults.armed(then("before:t/columns", lambda: other.add_columns("n INT"))):
        table.add_columns("mail STRING")
    opened = VersionedTable.open(spark, table.target)
    assert (set(opened.spec.values), opened.spec) == ({"v", "mail", "n"}, table.spec)
    opened.put(_wider(spark, 40))
    assert opened.current().select("v", "mail", "n").collect() == [("y", "m@x", 7)]


def test_a_table_of_presence_gets_its_first_value(spark: SparkSession, tmp_path: Path) -> None:
    table = _made(spark, tmp_path, values="")
    table.add_columns("n INT")
    table.put(_wider(spark, 40))
    assert _versions(table) == [(10, None), (30, None), (40, 7)]
    assert VersionedTable.open(spark, table.target).rows().columns == [
        "k", "validFrom", "validTo", "n", "deleted", "_current"
    ]  # fmt: skip


def test_what_was_known_before_has_nulls_in_a_column_that_came_later(spark: SparkSession, tmp_path: Path) -> None:
    table = _made(spark, tmp_path, system_history=True)
    before = datetime.now(timezone.utc)
    table.add_columns(_NEW)
    table.put(_wider(spark, 20))
    at = datetime.fromtimestamp(25, timezone.utc)
    then, now = (table.as_of(at, known_at=known) for known in (before, datetime.now(timezone.utc)))
    assert [tuple(row) for row in then.select("v", "mail", "n").collect()] == [("x", None, None)]
    assert [tuple(row) for row in now.select("v", "mail", "n").collect()] == [("y", "m@x", 7)]


@pytest.mark.parametrize(
    ("point", "is_there"),
    [("after:t_known/columns", False), ("before:t/columns", False), ("after:t/columns", True)],
)
def test_wherever_it_is_cut_off_the_table_has_all_new_columns_or_none_and_doing_it_again_ends_it(
    spark: SparkSession, tmp_path: Path, point: str, is_there: bool
) -> None:
    table = _made(spark, tmp_path, system_history=True)
    with faults.armed(crash_at(point)), pytest.raises(Crash):
        table.add_columns(_NEW)
    opened = VersionedTable.open(spark, table.target)
    assert opened.spec.values == (("v", "mail", "n") if is_there else ("v",))
    opened.put(_wider(spark, 40))
    opened.add_columns(_NEW)
    opened.put(_wider(spark, 50))
    assert _versions(VersionedTable.open(spark, table.target))[2:] == [
        (40, "y", "m@x", 7) if is_there else (40, "y", None, None), (50, "y", "m@x", 7)
    ]  # fmt: skip


def test_another_handle_is_told_to_open_the_table_again_and_a_restored_table_goes_on_without_the_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _made(spark, tmp_path, system_history=True)
    before = history(spark, table.target, 1)[0]["version"]
    other = VersionedTable.open(spark, table.target)
    table.add_columns(_NEW)
    table.put(_wider(spark, 40))
    with pytest.raises(SchemaError, match=r"If add_columns gave it \['mail', 'n'\] since it was opened, open it again"):
        other.put(_wider(spark, 50))
    restore(spark, table.target, before)
    opened = VersionedTable.open(spark, table.target)
    opened.put(_wider(spark, 60))
    assert _versions(opened) == [(10, "x"), (30, "x"), (60, "y")]


@pytest.mark.parametrize(
    ("schema", "error", "said"),
    [
        ("v INT", SchemaError, 'has the column "v" already, as string, not int'),
        ("k STRING", ConfigurationError, '"k"'),
        ("validFrom TIMESTAMP", ConfigurationError, '"validFrom"'),
        ("V STRING", ConfigurationError, '"V"'),
        ("deleted BOOLEAN", ConfigurationError, '"deleted"'),
        ("`a b` INT", ConfigurationError, '"a b"'),
        ("n INTERVAL DAY", ConfigurationError, "Use types that Delta keeps"),
        ("n VARCHAR(3)", ConfigurationError, "texts have no bounded length"),
        ("n", ConfigurationError, "names no columns"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused_and_the_table_stays_as_it_is(
    spark: SparkSession, plain: VersionedTable, schema: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as told:
        plain.add_columns(schema)
    assert said in str(told.value)
    opened = VersionedTable.open(spark, plain.target)
    assert opened.spec == plain.spec
    opened.put(spark.sql("SELECT 'b' AS k, 'x' AS v, TIMESTAMP_SECONDS(10) AS ts"))


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    made: VersionedTable = _made(spark, tmp_path_factory.mktemp("plain"))
    return made


def test_a_new_column_with_personal_data_is_told_by_no_log_and_its_table_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _made(spark, tmp_path, system_history=True)
    with pytest.raises(ConfigurationError, match='there is no column "maik"'):
        table.add_columns(_NEW, pii_columns=["maik"])
    table.add_columns(_NEW, pii_columns=["mail"])
    table.put(_wider(spark, 40, "secret@x"))
    for target in (table.target, known_target(table.target)):
        assert always_hidden(properties_of(spark, target)) == {"mail"}
    told = "".join(file.read_text(encoding="utf-8") for file in tmp_path.rglob("_delta_log/*.json"))
    assert "secret" not in told
    assert "validFrom" in told
