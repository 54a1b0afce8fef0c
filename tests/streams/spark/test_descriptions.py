"""How often a driver has its tables described: each time is a Spark job or two, of which a small batch has few."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from two_tables import application, write_batch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def described(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What Spark was asked to describe, and of which table: by batch, three of one query and one of another."""
    folder, own = tmp_path_factory.mktemp("described"), SparkSession.sql
    asked: list[list[str]] = [[]]

    def told(session: SparkSession, query: str, *more: Any, **named: Any) -> Any:
        if query.startswith("DESCRIBE"):
            asked[-1].append(re.sub(r"delta\.`.*/(.*)`.*", r"\1", query))
        return own(session, query, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "sql", told)
        for numbers in (range(3), range(3, 4)):
            for number in numbers:
                write_batch(folder / "in", number)
            application(spark, folder / "in", folder / "out", on_batch=lambda _: asked.append([])).run()
    return asked


def test_a_batch_behind_another_asks_for_the_description_of_no_table(described: list[list[str]]) -> None:
    assert described[1:3] == [[], []]


def test_a_start_asks_once_what_an_output_table_is_and_what_was_done_to_it(described: list[list[str]]) -> None:
    own = [each for each in described[3] if each.endswith("priced_orders")]
    assert own == ["DESCRIBE DETAIL priced_orders", "DESCRIBE HISTORY priced_orders"]


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        # Whether it is there; what it is, and what was done to it; and by the first batch, who wrote it last.
        ("ledger", ["DETAIL", "DETAIL", "HISTORY", "HISTORY"]),
        ("rejects", ["DETAIL", "HISTORY"]),
    ],
)
def test_a_start_asks_no_more_than_it_must_about_its_own_tables(
    described: list[list[str]], table: str, asked: list[str]
) -> None:
    assert [each.split()[1] for each in described[3] if each.endswith(f" {table}")] == asked
