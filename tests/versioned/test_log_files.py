"""Looking into Delta's log itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from versioned.identifiers import TableRef
from versioned.log_files import commit_infos, versions_there

_ALONE = TableRef.parse("/data/prices")
_IN_A_CATALOG = TableRef.parse("some_catalog.some_schema.t")


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> TableRef:
    """A table with one version."""
    ref = TableRef.parse(str(tmp_path / "t"))
    spark.range(1).write.format("delta").option("userMetadata", 'of "mine"').save(str(ref))
    return ref


def test_the_log_has_a_version_once_it_is_committed(spark: SparkSession, target: TableRef) -> None:
    assert [versions_there(spark, {target: asked}) for asked in ((0, 1), (1, 2))] == [[0], None]
    assert versions_there(spark, {target: (0,), _IN_A_CATALOG: (0,)}) is None


def test_of_several_tables_all_versions_are_told_that_are_there(
    spark: SparkSession, target: TableRef, tmp_path: Path
) -> None:
    other = TableRef.parse(str(tmp_path / "u"))
    for _ in range(2):
        spark.range(1).write.format("delta").mode("append").save(str(other))
    assert versions_there(spark, {target: (0, 1), other: (0, 1)}) == [0, 0, 1]
    assert versions_there(spark, {target: (1, 2), other: (0, 1)}) is None


def test_a_commit_tells_what_was_done_and_what_the_writer_said(spark: SparkSession, target: TableRef) -> None:
    told = commit_infos(spark, target, (0, 1), 0)
    assert [*told] == [0]
    assert (told[0]["operation"], told[0]["userMetadata"]) == ("WRITE", 'of "mine"')


def test_a_commit_whose_writer_said_nothing_tells_so(spark: SparkSession, target: TableRef) -> None:
    spark.range(1).write.format("delta").mode("append").save(str(target))
    told = commit_infos(spark, target, (0, 1), 0)
    assert [told[version]["userMetadata"] for version in (0, 1)] == ['of "mine"', None]


def test_only_what_was_asked_for_is_told(spark: SparkSession, target: TableRef) -> None:
    spark.range(1).write.format("delta").mode("append").save(str(target))
    assert [*commit_infos(spark, target, (1, 2), 0)] == [1]


@pytest.mark.parametrize(
    "look",
    [
        lambda session: versions_there(session, {_ALONE: (0, 1)}),
        lambda session: commit_infos(session, _ALONE, (1, 2), 0),
    ],
    ids=["versions", "what they say"],
)
def test_spark_is_not_asked_for_a_single_pattern_which_it_takes_for_a_folder_and_warns_of(
    look: Callable[[SparkSession], object],
) -> None:
    session = MagicMock()
    look(session)
    (asked,) = session.read.format.return_value.load.call_args.args
    assert len(asked) == 2


def test_of_a_version_that_is_not_there_or_not_to_be_found_nothing_is_told(
    spark: SparkSession, target: TableRef
) -> None:
    assert [commit_infos(spark, target, (1,), 0), commit_infos(spark, _IN_A_CATALOG, (0,), 0)] == [{}, {}]


def test_an_empty_or_broken_log_file_tells_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("")
    (log / f"{1:020}.json").write_text('{"commitInfo": {\n')
    (log / f"{2:020}.json").write_text('{"commitInfo":{\n')
    assert commit_infos(spark, TableRef.parse(str(tmp_path / "t")), range(3), 0) == {}
