"""Statements of SQL, from a console or a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.ask import answer, register_tables, statements
from versioned import VersionedTable
from versioned.errors import ConfigurationError


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], []),
        (["", "  "], []),
        (["SELECT 1;"], ["SELECT 1"]),
        (["SELECT 1", "AS one;"], ["SELECT 1\nAS one"]),
        (["SELECT 1;", "", "SELECT 2"], ["SELECT 1", "SELECT 2"]),
        (["SELECT ';' AS semicolon", ";"], ["SELECT ';' AS semicolon\n"]),
        (["SELECT 1;", "-- that is all"], ["SELECT 1"]),
        (["-- one;", "SELECT 1;", ";", "/* that", "is all */"], ["SELECT 1"]),
        (["-- one", "SELECT 1"], ["-- one\nSELECT 1"]),
        (["SELECT '--'"], ["SELECT '--'"]),
    ],
)
def test_a_statement_ends_with_a_semicolon_at_the_end_of_a_line(lines: list[str], expected: list[str]) -> None:
    assert list(statements(lines)) == expected


def test_tables_are_known_by_their_names_and_one_whose_making_was_cut_off_is_left_out(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/rates", "c STRING, r INT", keys="c", history_retention="7 days")
    table.put(spark.sql("SELECT 'EUR' AS c, 3 AS r, TIMESTAMP '2026-01-01' AS ts"))
    spark.range(2).write.format("delta").save(f"{tmp_path}/counts")
    (tmp_path / "half" / "_delta_log").mkdir(parents=True)
    endings = ("", "_current", "_history", "_as_of", "_between")
    assert register_tables(spark, tmp_path) == ["counts", *(f"rates{ending}" for ending in endings)]
    assert spark.sql("SELECT r FROM rates_as_of(TIMESTAMP '2026-01-02'), counts").count() == 2
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert re.fullmatch(rf"{tmp_path}/half cannot be opened, and is left out: .+", told)


def test_a_folder_in_which_no_table_can_be_opened_says_so(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "half" / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"None of the tables below .* can be opened"):
        register_tables(spark, tmp_path)


def test_a_folder_without_tables_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"make quickstart.*name the folder"):
        register_tables(spark, tmp_path)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("SELECT * FROM not_there_at_all", "not_there_at_all"),
        # Of an error of Delta, Spark itself has no words.
        ("SELECT * FROM delta.`{there}` VERSION AS OF 99", "version"),
        ("CREATE TABLE delta.`{there}_too` (i INTERVAL DAY TO SECOND) USING DELTA", "DELTA_UNSUPPORTED_DATA_TYPES"),
    ],
)
def test_a_wrong_question_is_answered_with_the_reason(
    spark: SparkSession, question: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "VERSION" in question:
        spark.range(1).write.format("delta").save(f"{tmp_path}/there")
    assert not answer(spark, question.format(there=f"{tmp_path}/there"))
    said = capsys.readouterr().err
    assert (told in said, "JVM stacktrace" in said) == (True, False), said
