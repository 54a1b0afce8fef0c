"""Which batches are interpreted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streams.nodes import Materialized
from streams.spark import interpreted
from streams.spark.engine import operators_of, tables_read
from streams.spark.interpreted import (
    FEW_RECORDS,
    FIRST_RECORDS,
    LOG_FIELDS,
    MOST_FIELDS,
    PLANNED_ONCE_RECORDS,
    Interpretation,
    Measured,
    measure,
)
from streams.topology import StreamsBuilder
from versioned.identifiers import TableRef
from versioned.session_settings import put_back

_WHOLE, _ADAPTIVE = "spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session as users have it."""
    own = spark.newSession()
    own.conf.set(_WHOLE, "true")
    own.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return own


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> TableRef:
    """A table of a few hundred bytes."""
    target = TableRef.parse(str(tmp_path / "t"))
    spark.range(10).write.format("delta").save(str(tmp_path / "t"))
    return target


def test_small_batches_are_interpreted_and_the_session_is_as_before_for_large_ones(
    session: SparkSession, table: TableRef
) -> None:
    interpretation = Interpretation([table])
    told = []
    for records in (FEW_RECORDS, FEW_RECORDS + 1, 0):
        is_interpreted = interpretation.choose(session, records)
        told.append((is_interpreted, session.conf.get(_WHOLE), session.conf.get("spark.sql.codegen.factoryMode")))
    small, large = (True, "false", "NO_CODEGEN"), (False, "true", "FALLBACK")
    assert told == [small, large, small]


@pytest.mark.parametrize(("records", "is_less"), [(FIRST_RECORDS, True), (FIRST_RECORDS + 1, False)])
def test_a_first_batch_of_some_size_goes_without_the_code_of_whole_stages(
    session: SparkSession, table: TableRef, records: int, is_less: bool
) -> None:
    interpretation = Interpretation([table])
    told = []
    for _ in range(2):
        assert not interpretation.choose(session, records)
        told.append((session.conf.get(_WHOLE) == "false", session.conf.get("spark.sql.codegen.factoryMode")))
    assert told == [(is_less, "FALLBACK"), (False, "FALLBACK")]


@pytest.mark.parametrize(("partitions", "adaptive"), [(8, "false"), (9, "true")])
def test_batches_of_some_size_are_planned_once_where_a_shuffle_has_few_partitions(
    session: SparkSession, table: TableRef, partitions: int, adaptive: str
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    session.conf.set(_ADAPTIVE, "true")
    interpretation = Interpretation([table])
    told = []
    for records in (FEW_RECORDS, PLANNED_ONCE_RECORDS, PLANNED_ONCE_RECORDS + 1):
        interpretation.choose(session, records)
        told.append(session.conf.get(_ADAPTIVE))
    assert told == [adaptive, adaptive, "true"]


def test_batches_on_large_tables_are_planned_once_too(
    session: SparkSession, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreted, "SMALL_TABLES", 100)
    session.conf.set(_ADAPTIVE, "true")
    Interpretation([table]).choose(session, PLANNED_ONCE_RECORDS)
    assert session.conf.get(_ADAPTIVE) == "false"


def test_a_plan_made_once_waits_for_what_it_sends_as_long_as_that_takes(session: SparkSession, table: TableRef) -> None:
    setting = "spark.sql.broadcastTimeout"
    interpretation, former = Interpretation([table]), session.conf.get(setting)
    told = []
    for records in (PLANNED_ONCE_RECORDS, PLANNED_ONCE_RECORDS + 1):
        interpretation.choose(session, records)
        told.append(session.conf.get(setting))
    assert told == ["-1", former]


@pytest.mark.parametrize(("own", "compiled"), [(None, "200"), ("50", "200"), ("300", "300")])
def test_what_is_compiled_is_so_for_the_rows_of_logs_too(
    session: SparkSession, table: TableRef, own: str | None, compiled: str
) -> None:
    put_back(session, MOST_FIELDS, own)
    former = session.conf.get(MOST_FIELDS)
    interpretation, told = Interpretation([table]), []
    for records in (FIRST_RECORDS + 1, FIRST_RECORDS + 1, 1, FIRST_RECORDS + 1):
        interpretation.choose(session, records)
        told.append(session.conf.get(MOST_FIELDS))
    assert told == [compiled, compiled, former, compiled]


def test_the_rows_of_a_log_are_no_wider_than_what_is_compiled(spark: SparkSession) -> None:
    """As Spark counts them, in the types that Delta has for them; below 100 the setting would not be needed."""
    of_spark: Any = spark
    sql = of_spark._jvm.org.apache.spark.sql
    rows = getattr(getattr(sql.delta.actions, "Action$"), "MODULE$").logSchema()
    fields = getattr(getattr(sql.execution, "WholeStageCodegenExec$"), "MODULE$").numOfNestedFields(rows)
    assert 100 < fields <= LOG_FIELDS - 20


def test_on_large_tables_every_batch_is_compiled(
    session: SparkSession, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreted, "SMALL_TABLES", 100)
    assert not Interpretation([table]).choose(session, 1)
    assert session.conf.get(_WHOLE) == "true"


def test_tables_are_measured_again_as_they_grow(
    session: SparkSession, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreted, "_MEASURED_EVERY", 2)
    monkeypatch.setattr(interpreted, "SMALL_TABLES", measure(session, [table]).size_bytes)
    interpretation = Interpretation([table])
    assert interpretation.choose(session, 1)
    session.range(10).write.format("delta").mode("append").save(table.path or "")
    assert [interpretation.choose(session, 1) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(("records", "is_small"), [(FIRST_RECORDS + 1, False), (FIRST_RECORDS, True)])
def test_tables_are_measured_again_after_many_records(
    session: SparkSession, table: TableRef, monkeypatch: pytest.MonkeyPatch, records: int, is_small: bool
) -> None:
    monkeypatch.setattr(interpreted, "_MEASURED_AFTER", FIRST_RECORDS + 1)
    monkeypatch.setattr(interpreted, "SMALL_TABLES", measure(session, [table]).size_bytes)
    interpretation = Interpretation([table])
    interpretation.choose(session, records)
    session.range(10).write.format("delta").mode("append").save(table.path or "")
    assert interpretation.choose(session, 1) is is_small


def test_a_changelog_is_not_read_by_any_batch() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.key_value("store"), key="k", value=["v"])
    table.to_changelog("out")
    read = tables_read(operators_of(builder.build()), TableRef.parse("/app"))
    assert [target.short_name for target in read] == ["store"]


@pytest.mark.parametrize(
    ("size", "is_small"), [(interpreted.SMALL_TABLES, True), (interpreted.SMALL_TABLES + 1, False)]
)
def test_a_size_that_is_known_is_not_measured_before_the_first_batch(
    session: SparkSession, table: TableRef, monkeypatch: pytest.MonkeyPatch, size: int, is_small: bool
) -> None:
    monkeypatch.delattr(interpreted, "measure")
    assert Interpretation([table], Measured(size)).choose(session, 1) is is_small


def test_tables_that_are_not_there_yet_have_no_size(session: SparkSession, tmp_path: Path) -> None:
    missing = [TableRef.parse(str(tmp_path / "none"))]
    assert measure(session, missing) == Measured(0, all_are_there=False, all_are_plain=False)


def _reads_all_files(session: SparkSession) -> bool:
    return session.conf.get("spark.databricks.delta.stats.skipping") == "false"


@pytest.mark.parametrize("has_vectors", [False, True])
def test_all_files_are_read_only_where_no_table_has_rows_marked_as_removed(
    session: SparkSession, table: TableRef, has_vectors: bool
) -> None:
    if has_vectors:
        session.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    session.sql(f"DELETE FROM {table.sql} WHERE id = 3")
    Interpretation([table]).choose(session, 1)
    assert _reads_all_files(session) is not has_vectors
    assert session.read.format("delta").load(table.path or "").count() == 9


def test_rows_marked_in_a_table_that_guards_read_count_too_and_those_of_unknown_ones(
    session: SparkSession, table: TableRef, tmp_path: Path
) -> None:
    changelog = TableRef.parse(str(tmp_path / "changelog"))
    session.range(9).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(
        changelog.path or ""
    )
    told = {}
    for name, choice in {
        "alone": Interpretation([table]),
        "beside a changelog": Interpretation([table], None, [changelog]),
        "beside a known one": Interpretation([table], Measured(0, all_are_plain=False), [changelog]),
        "beside functions": Interpretation([table], reads_more=True),
    }.items():
        choice.choose(session, 1)
        told[name] = _reads_all_files(session)
        choice.choose(session, PLANNED_ONCE_RECORDS + 1)
    assert told == {
        "alone": True, "beside a changelog": False, "beside a known one": False, "beside functions": False,
    }  # fmt: skip


def test_tables_that_the_first_batch_makes_are_looked_at_before_the_second(
    session: SparkSession, tmp_path: Path
) -> None:
    made = TableRef.parse(str(tmp_path / "made"))
    interpretation, told = Interpretation([made]), []
    for _ in range(2):
        interpretation.choose(session, 1)
        told.append(_reads_all_files(session))
        session.range(1).write.format("delta").mode("append").save(made.path or "")
    assert told == [False, True]
