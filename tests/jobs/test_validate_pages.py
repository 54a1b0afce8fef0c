"""The pages of Great Expectations: values of rows stay text in them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from jobs.expectations import Judge, harmless
from streams.spark.invariants import Invariant

_SCRIPT = "<script>alert('x')</script>"


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (_SCRIPT, "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"),
        ({_SCRIPT[:3]: ["a&b"]}, {"&lt;sc": ["a&amp;b"]}),
        ((Row(name="<b>"), b"<i>"), [["&lt;b&gt;"], "b&#x27;&lt;i&gt;&#x27;"]),
        ([None, True, 1, 1.5, Decimal("1.50"), datetime(2026, 1, 1)],) * 2,
    ],
)
def test_text_is_escaped_wherever_it_stands_and_nothing_else_is_changed(found: Any, shown: Any) -> None:
    assert harmless(found) == shown


def test_a_value_that_is_html_is_shown_as_text_and_judged_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(_SCRIPT,), ("tea",)], "item STRING")
    said = {"column": "item", "value_set": ["tea"]}
    rules = [
        Invariant("each", "Each is tea.", "expect_column_values_to_be_in_set", said),
        # What it observed is shown even if no examples are asked for.
        Invariant("all", "All are tea.", "expect_column_distinct_values_to_be_in_set", said),
        Invariant("none", "Not judged.", "expect_column_values_to_not_be_null", {"column": "size"}),
    ]
    judge = Judge(examples=2)
    each, whole, none = judge.judge("items", rows, rules)
    assert (each.broken, whole.holds) == (1, False)
    assert "size" in str(none.error)
    judge.write_docs(tmp_path)
    text = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "validations").rglob("*.html"))
    assert text.count("&lt;script&gt;alert") >= 2
    assert "<script>alert" not in text
