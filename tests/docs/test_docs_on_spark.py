"""The few blocks of the documentation that need Spark, run page by page in one session.

Blocks of SQL ask the tables that the tutorial makes.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import DOCS, PAGES, Block, BrokenBlockError, blocks_of, run_python
from pyspark.sql import SparkSession

from jobs.ask import register_tables

_WITH_SPARK = [page for page in PAGES if any(b.needs_spark for b in blocks_of(page.read_text(encoding="utf-8")))]
_TUTORIAL = DOCS / "tutorial.md"
_IDS = [str(page.relative_to(DOCS)) for page in _WITH_SPARK]


def _run(spark: SparkSession, blocks: list[Block], work: Path) -> None:
    """Run the blocks one after the other and compare what they print with the text blocks behind them."""
    names: dict[str, Any] = {"__name__": "docs", "spark": spark, "work": str(work)}
    printed = ""
    for block in blocks:
        if block.language == "python":
            printed = run_python(block, names)
        elif block.language == "sql":
            printed = _answer(spark, block.text)
        elif block.text.rstrip() != printed.rstrip():
            raise BrokenBlockError(f"line {block.line}: it prints\n{printed}\nthe page says\n{block.text}")


def _answer(spark: SparkSession, query: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        spark.sql(query).show(truncate=False)
    return shown.getvalue()


def _blocks(page: Path) -> list[Block]:
    found = blocks_of(page.read_text(encoding="utf-8"))
    return [block for block in found if block.language in ("python", "sql", "text")]


@pytest.fixture(scope="module")
def tutorial(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tutorial has run, and its tables are known to SQL."""
    work = tmp_path_factory.mktemp("tutorial")
    _run(spark, [block for block in _blocks(_TUTORIAL) if block.language == "python"], work)
    names = register_tables(spark, work / "tables")
    yield work / "tables"
    for name in names:
        spark.catalog.dropTempView(name)


@pytest.mark.slow
@pytest.mark.parametrize("page", _WITH_SPARK, ids=_IDS)
def test_every_block_that_needs_spark_does_what_its_page_says(
    spark: SparkSession, tmp_path: Path, tutorial: Path, page: Path
) -> None:
    blocks = _blocks(page)
    if page == _TUTORIAL:  # Its Python has run already.
        after_sql = [before is not None and before.language == "sql" for before in [None, *blocks]]
        blocks = [block for block, after in zip(blocks, after_sql, strict=False) if after or block.language == "sql"]
    try:
        _run(spark, blocks, tmp_path)
    finally:
        if any("register_application_sql(" in block.text for block in blocks):
            register_tables(spark, tutorial)  # The page has put tables of its own under the same names.


def test_every_kind_of_block_for_spark_is_on_some_page() -> None:
    kinds = {block.language for page in _WITH_SPARK for block in _blocks(page) if block.needs_spark}
    assert kinds == {"python", "sql"}


@pytest.mark.slow
@pytest.mark.usefixtures("tutorial")
def test_a_wrong_answer_of_sql_is_found(spark: SparkSession, tmp_path: Path) -> None:
    blocks = blocks_of("```sql\nSELECT count(*) AS n FROM rejects\n```\n\n```text\nnothing\n```\n")
    with pytest.raises(BrokenBlockError, match="the page says\nnothing"):
        _run(spark, blocks, tmp_path)
