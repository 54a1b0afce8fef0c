"""A table is made with all that guards it, or not at all: whatever kills the process, nothing has to be added later."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from crashing import then
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from versioned import faults
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.making import make_table
from versioned.reading import read_table
from versioned.schema import create_plain
from versioned.session_settings import session_settings
from versioned.spec import VersionedTableSpec, known_target
from versioned.statistics import always_hidden
from versioned.system_history import make_versioned
from versioned.table import VersionedTable
from versioned.table_details import properties_of
from versioned.table_log import history

#: What every stored instant is, whatever a session takes plain "timestamp" for.
_NO_ZONES = {"spark.sql.timestampType": "TIMESTAMP_NTZ"}
_HIDDEN = frozenset({"email", "called"})


class _Kill(Exception):
    """Stands for the end of the process."""


def _create(spark: SparkSession, target: TableRef) -> VersionedTable:
    return VersionedTable.create(
        spark, target, "email STRING, called STRING, n LONG",
        keys="email", history_retention="1 day", system_history=True, pii_columns=_HIDDEN,
    )  # fmt: skip


def _create_until(spark: SparkSession, target: TableRef, point: str) -> None:
    def die(name: str) -> None:
        if name == point:
            raise _Kill(name)

    with faults.armed(die), pytest.raises(_Kill):
        _create(spark, target)


def _is_guarded(spark: SparkSession, target: TableRef) -> bool:
    """Whether a row is refused that ends as it begins."""
    ends_at_once = spark.sql(
        "SELECT 'a' AS email, 'b' AS called, 1L AS n, false AS deleted, false AS _current,"
        " TIMESTAMP_SECONDS(5) AS validFrom, TIMESTAMP_SECONDS(5) AS validTo"
    ).select(*read_table(spark, target).columns)
    try:
        ends_at_once.write.format("delta").mode("append").save(str(target))
    except Exception as error:  # of the write's own tasks: no class of its own
        return "versioned_interval" in str(error)
    return False


def _targets(folder: Path) -> tuple[TableRef, TableRef]:
    target = TableRef.parse(str(folder / "people"))
    return target, known_target(target)


def test_a_table_that_a_kill_cut_off_right_after_its_making_is_guarded_and_hides_its_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, known = _targets(tmp_path)
    _create_until(spark, target, "after:people")
    assert [always_hidden(properties_of(spark, each)) for each in (target, known)] == [_HIDDEN, _HIDDEN]
    assert VersionedTable.open(spark, target).verify().is_sound
    assert _is_guarded(spark, target)


def test_a_table_whose_system_history_alone_was_made_is_made_by_the_next_try(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, known = _targets(tmp_path)
    _create_until(spark, target, "after:people_known")
    assert _create(spark, target).spec.system_history
    assert [always_hidden(properties_of(spark, each)) for each in (target, known)] == [_HIDDEN, _HIDDEN]


def test_a_table_over_a_log_without_a_commit_is_guarded_and_hides_its_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, known = _targets(tmp_path)
    for each in (target, known):
        (Path(str(each)) / "_delta_log").mkdir(parents=True)
    _create(spark, target)
    assert [always_hidden(properties_of(spark, each)) for each in (target, known)] == [_HIDDEN, _HIDDEN]
    assert _is_guarded(spark, target)


def test_a_kill_between_the_first_commit_of_a_log_and_its_table_leaves_both_to_the_next_try(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, known = _targets(tmp_path)
    for each in (target, known):
        (Path(str(each)) / "_delta_log").mkdir(parents=True)
    for each in (known, target):
        # The point of the commit comes before that of the table.
        _create_until(spark, target, f"after:{each.short_name}")
        assert read_table(spark, each).columns == ["id"]
    _create(spark, target)
    assert [always_hidden(properties_of(spark, each)) for each in (target, known)] == [_HIDDEN, _HIDDEN]
    assert _is_guarded(spark, target)


@pytest.mark.parametrize("at", [("before:people", 2), ("after:people", 1)])
def test_what_was_put_into_a_table_that_another_maker_made_over_the_same_cut_off_log_stays(
    spark: SparkSession, tmp_path: Path, at: tuple[str, int]
) -> None:
    target = TableRef.parse(str(tmp_path / "people"))
    (tmp_path / "people" / "_delta_log").mkdir(parents=True)
    makers, reached = ["this one", "the other"], list[str]()

    def make(or_take: bool = False) -> None:
        make_table(spark, target, create_plain(target, StructType().add("n", LongType())), or_take=or_take)

    def outrun(point: str) -> None:
        reached.append(point)
        # Around the log's first commit, whose points are named as those of the table.
        if (point, reached.count(point)) == at and len(makers) > 1:
            makers.pop()
            make()
            spark.range(3).toDF("n").write.format("delta").mode("append").save(str(target))

    with faults.armed(outrun), pytest.raises(ConfigurationError, match="made by somebody else meanwhile"):
        make()
    make(or_take=True)
    assert makers == ["this one"]
    assert read_table(spark, target).count() == 3


def test_a_table_without_rows_that_others_made_is_never_made_again(spark: SparkSession, tmp_path: Path) -> None:
    target, _ = _targets(tmp_path)
    spark.range(0).write.format("delta").save(str(target))
    with pytest.raises(ConfigurationError, match="exists already"):
        _create(spark, target)


def test_a_path_with_files_of_others_is_taken_already(spark: SparkSession, tmp_path: Path) -> None:
    target, _ = _targets(tmp_path)
    spark.range(3).write.parquet(str(target))
    with pytest.raises(ConfigurationError, match="people exists already, and holds files that are no Delta table"):
        _create(spark, target)
    assert spark.read.parquet(str(target)).count() == 3


@pytest.mark.parametrize("kind", ["VOID", "ARRAY<VOID>", "DOUBLE", "VARIANT", "MAP<INT, INT>"])
def test_what_has_no_order_or_no_values_is_no_key(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigurationError, match=r'"k" has type .* no order or no exact equality, or only nulls'):
        VersionedTable.create(spark, f"{tmp_path}/t", f"k {kind}, v INT", keys="k", history_retention="1 day")


@pytest.mark.parametrize(
    "schema",
    [
        "k STRING, v INTERVAL DAY TO SECOND",
        "k INTERVAL YEAR, v INT",
        "k STRING, v ARRAY<STRING COLLATE UTF8_LCASE>",
        "k STRING COLLATE UTF8_LCASE, v INT",
        "k STRING, v TIME",
    ],
)
def test_columns_that_delta_does_not_keep_are_refused_in_words(
    spark: SparkSession, tmp_path: Path, schema: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"t cannot be made with these columns: .* Use types that Delta keeps"):
        VersionedTable.create(spark, f"{tmp_path}/t", schema, keys="k", history_retention="1 day")


def test_nothing_is_added_to_a_table_after_the_statement_that_makes_it(spark: SparkSession, tmp_path: Path) -> None:
    target, known = _targets(tmp_path)
    _create(spark, target)
    assert [len(history(spark, each, 9)) for each in (target, known)] == [1, 1]


def test_no_log_of_a_new_table_tells_a_value_of_a_hidden_column(spark: SparkSession, tmp_path: Path) -> None:
    target, known = _targets(tmp_path)
    rows = spark.sql("SELECT 'mallory@example' AS email, 'Mallory' AS called, 7L AS n, TIMESTAMP_SECONDS(5) AS ts")
    _create(spark, target).put(rows)
    logs = [file.read_text("utf-8") for each in (target, known) for file in Path(str(each)).glob("_delta_log/*.json")]
    told = [word for word in ("mallory", "Mallory", '\\"n\\":7') if any(word in text for text in logs)]
    assert told == ['\\"n\\":7']


def test_a_table_with_rows_is_never_made_again(spark: SparkSession, tmp_path: Path) -> None:
    target, _ = _targets(tmp_path)
    _create(spark, target)
    with pytest.raises(ConfigurationError, match="exists already"):
        _create(spark, target)


@dataclass
class _Outrun:
    """A session in which another driver makes each table first; Delta then says that it is no more what it was."""

    session: SparkSession
    error: str

    @property
    def conf(self) -> Any:
        return self.session.conf

    @property
    def catalog(self) -> Any:
        return self.session.catalog

    def sql(self, text: str) -> Any:
        done = self.session.sql(text)
        if text.startswith("CREATE TABLE"):
            raise RuntimeError(self.error)
        return done


@pytest.mark.parametrize(
    "error",
    [
        "io.delta.exceptions.ProtocolChangedException: [DELTA_X] the table was changed by a concurrent update.",
        "io.delta.exceptions.MetadataChangedException: [DELTA_X] the table was changed by a concurrent update.",
        "[DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY] The specified properties do not match the existing properties.",
        "[DELTA_CREATE_TABLE_SCHEME_MISMATCH] The specified schema does not match the existing schema.",
    ],
    ids=lambda error: error.split()[0],
)
def test_a_table_that_another_driver_makes_at_the_same_time_is_taken_where_that_will_do(
    spark: SparkSession, tmp_path: Path, error: str
) -> None:
    session, target = cast(SparkSession, _Outrun(spark, error)), TableRef.parse(f"{tmp_path}/t")
    create = create_plain(target, StructType().add("n", LongType()))
    make_table(session, target, create, or_take=True)
    assert read_table(spark, target).columns == ["n"]
    other = TableRef.parse(f"{tmp_path}/other")
    with pytest.raises(ConfigurationError, match="/other was made by somebody else meanwhile"):
        make_table(session, other, create_plain(other, StructType().add("n", LongType())))


@pytest.mark.parametrize("or_take", [True, False])
@pytest.mark.parametrize("point", ["before:t_known", "after:t_known", "before:t"])
def test_a_versioned_table_that_another_driver_makes_and_puts_into_meanwhile_is_taken_where_that_will_do(
    spark: SparkSession, tmp_path: Path, point: str, or_take: bool
) -> None:
    target, columns = TableRef.parse(f"{tmp_path}/t"), StructType().add("k", LongType())
    spec = VersionedTableSpec.of(keys=("k",), values=(), history_retention="1 day", system_history=True)

    def other() -> None:
        assert make_versioned(spark, target, columns, spec, ())
        VersionedTable.open(spark, target).put(spark.sql("SELECT 1L AS k, TIMESTAMP_SECONDS(5) AS ts"))

    refused = pytest.raises(ConfigurationError, match="made by somebody else meanwhile")
    with faults.armed(then(point, other)), nullcontext() if or_take else refused:
        assert make_versioned(spark, target, columns, spec, (), or_take=or_take) is False
    assert [read_table(spark, each).count() for each in (target, known_target(target))] == [1, 1]


def test_a_table_takes_puts_where_new_tables_are_append_only(spark: SparkSession, tmp_path: Path) -> None:
    with session_settings(spark, {"spark.databricks.delta.properties.defaults.appendOnly": "true"}):
        made = _create(spark, TableRef.parse(f"{tmp_path}/people"))
    for n in (1, 2):
        made.put(spark.sql(f"SELECT 'a' AS email, 'b' AS called, {n}L AS n, TIMESTAMP_SECONDS({n}) AS ts"))
    assert [row["n"] for row in made.current().collect()] == [2]


def test_a_table_without_versions_has_the_columns_that_it_is_made_with(spark: SparkSession, tmp_path: Path) -> None:
    asked = spark.sql(
        "SELECT 1L AS n, CAST(2 AS DECIMAL(38, 10)) AS d, 'a' AS t, CAST('a' AS BINARY) AS b, parse_json('1') AS v, "
        "CAST('2026-01-01' AS TIMESTAMP_NTZ) AS z, array(map('k', named_struct('odd-name', 1))) AS nested, "
        "named_struct('a`b', array(1)) AS deep, true AS _open"
    )
    target = TableRef.parse(f"{tmp_path}/plain")
    make_table(
        spark, target, create_plain(target, asked.schema, {"t"}, partitioned_by=("_open",), properties={"x.y": "z"})
    )
    assert read_table(spark, target).schema.simpleString() == asked.schema.simpleString()
    assert all(field.nullable for field in read_table(spark, target).schema.fields)
    told = properties_of(spark, target)
    assert (told["x.y"], always_hidden(told)) == ("z", frozenset("t"))
    asked.write.format("delta").mode("append").save(str(target))
    assert read_table(spark, target).count() == 1


def test_a_table_is_made_and_put_into_the_same_whatever_the_session_takes_timestamps_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    with session_settings(spark, _NO_ZONES):
        table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
        told = table.put(spark.sql("SELECT 'a' AS k, 1 AS v, timestamp_seconds(10) AS ts"))
        assert VersionedTable.open(spark, table.target).current().count() == 1
        table.register_sql("no_zones")
        found = spark.sql("SELECT v FROM no_zones_as_of(timestamp_seconds(10))").collect()
    assert (told.counts.accepted, [row["v"] for row in found]) == (1, [1])
    kinds = {name: kind for name, kind in table.rows().dtypes if name in ("validFrom", "validTo")}
    assert kinds == {"validFrom": "timestamp", "validTo": "timestamp"}


def test_a_column_given_as_timestamp_is_an_instant_whatever_the_session_takes_timestamps_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    with session_settings(spark, _NO_ZONES):
        columns = "k INT, at TIMESTAMP, local TIMESTAMP_NTZ"
        table = VersionedTable.create(spark, f"{tmp_path}/t", columns, keys="k", history_retention="1 day")
        table.add_columns("all ARRAY<TIMESTAMP>")
        assert spark.conf.get("spark.sql.timestampType") == "TIMESTAMP_NTZ"
    kinds = {name: kind for name, kind in table.rows().dtypes if name in ("at", "local", "all")}
    assert kinds == {"at": "timestamp", "local": "timestamp_ntz", "all": "array<timestamp>"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("k STRING, v VARCHAR(5)", r'"v" is varchar\(5\), .*Use STRING'),
        ("k CHAR(2), v INT", r'"k" is char\(2\)'),
        ("k STRING, v ARRAY<STRUCT<m: MAP<STRING, VARCHAR(5)>>>", '"v" is array'),
        ("int", "names no columns"),
        ("k INT, k STRING, v INT", '"k" is named twice'),
        ("k STRING, v STRUCT<a: INT, A: INT>", "Name each field of a struct once"),
        ("k STRING, v STRUCT<`a b`: INT>", "with letters, digits and _"),
        ("k STRNG, v INT", '"k STRNG, v INT" names no columns with types: .*STRNG.* Write it as in'),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused_with_what_to_write(
    spark: SparkSession, tmp_path: Path, schema: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        VersionedTable.create(spark, f"{tmp_path}/t", schema, keys="k", history_retention="1 day")
