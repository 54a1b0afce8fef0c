"""How often a driver has its tables described: each time is a Spark job or two, of which a small batch has few."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from two_tables import application, write_batch


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Spark was asked to describe, and of which table."""
    asked, own = list[str](), SparkSession.sql

    def told(session: SparkSession, query: str, *more: Any, **named: Any) -> Any:
        if query.startswith("DESCRIBE"):
            asked.append(re.sub(r"delta\.`.*/(.*)`.*", r"\1", query))
        return own(session, query, *more, **named)

    monkeypatch.setattr(SparkSession, "sql", told)
    return asked


def test_a_batch_behind_another_asks_for_the_description_of_no_table(
    spark: SparkSession, tmp_path: Path, described: list[str]
) -> None:
    for number in range(3):
        write_batch(tmp_path / "in", number)
    asked: list[list[str]] = []

    def keep(_: object) -> None:
        asked.append(described[:])
        described.clear()

    application(spark, tmp_path / "in", tmp_path / "out", on_batch=keep).run()
    assert asked[1:] == [[], []]


def test_a_start_asks_once_what_an_output_table_is_and_what_was_done_to_it(
    spark: SparkSession, tmp_path: Path, described: list[str]
) -> None:
    write_batch(tmp_path / "in", 0)
    application(spark, tmp_path / "in", tmp_path / "out").run()
    described.clear()
    write_batch(tmp_path / "in", 1)
    application(spark, tmp_path / "in", tmp_path / "out").run()
    own = [each for each in described if each.endswith("priced_orders")]
    assert own == ["DESCRIBE DETAIL priced_orders", "DESCRIBE HISTORY priced_orders"]
