"""Names of tables and columns: what is taken, what is refused, and that no name can break out of its quotes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioned.errors import ConfigurationError
from versioned.identifiers import RESERVED, TableRef, check_columns, quote, text_literal


@pytest.mark.parametrize(
    ("name", "quoted"), [("a", "`a`"), ("a.b", "`a.b`"), ("a b", "`a b`"), ("a`b", "`a``b`"), ("``", "``````")]
)
def test_a_name_is_quoted_as_one_part(name: str, quoted: str) -> None:
    assert quote(name) == quoted


@given(st.text())
def test_no_name_ends_its_quotes_early(name: str) -> None:
    inside = quote(name)[1:-1]
    assert "`" not in inside.replace("``", "")


@given(st.text())
def test_no_text_ends_its_literal_early(text: str) -> None:
    inside = text_literal(text)[1:-1]
    assert "'" not in inside.replace("\\\\", "").replace("\\'", "")


@pytest.mark.parametrize("name", ["a", "A", "price2", "unit_price", "validTo", "x" * 128])
def test_plain_column_names_are_taken(name: str) -> None:
    check_columns([name])


@pytest.mark.parametrize(
    "name", ["", "_a", "1a", "a b", "a.b", "a`b", "a-b", "a;b", "a\n", "é", "x" * 129, "_metadata", "_current"]
)
def test_a_malformed_column_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ConfigurationError, match="at most 128, beginning with a letter"):
        check_columns([name])


@pytest.mark.parametrize("name", ["deleted", "Deleted", "DELETED"])
def test_a_reserved_column_name_is_refused_whatever_its_case(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f'"{name}" is reserved'):
        check_columns([name])


def test_a_caller_can_reserve_more_names() -> None:
    with pytest.raises(ConfigurationError, match='"Reason" is reserved'):
        check_columns(["Reason"], reserved=["reason"])


def test_the_columns_that_delta_adds_to_its_change_feed_are_reserved() -> None:
    assert {"_change_type", "_commit_version", "_commit_timestamp", "_metadata"} <= RESERVED


def test_two_columns_that_differ_only_by_case_are_refused_with_both() -> None:
    with pytest.raises(ConfigurationError, match='"price" and "Price" differ only by case'):
        check_columns(["price", "item", "Price"])


@pytest.mark.parametrize(
    ("target", "sql"),
    [
        ("rates", "`rates`"),
        ("sales.rates", "`sales`.`rates`"),
        ("main.sales.rates-eu", "`main`.`sales`.`rates-eu`"),
        ("`sales`.`rates`", "`sales`.`rates`"),
        ("/data/rates", "delta.`/data/rates`"),
        ("s3a://bucket/rates", "delta.`s3a://bucket/rates`"),
        ("/data/o`dd", "delta.`/data/o``dd`"),
        ("delta.`/data/rates`", "delta.`/data/rates`"),
        ("DELTA.`s3a://bucket/o``dd`", "delta.`s3a://bucket/o``dd`"),
    ],
)
def test_a_target_is_a_path_if_it_has_a_slash_and_else_a_name_of_parts(target: str, sql: str) -> None:
    assert TableRef.parse(target).sql == sql


@pytest.mark.parametrize(
    "target", ["", ".", "a.", ".a", "a..b", "a b", "a;b", "a b.c", "a`b", "`a.b`.c", "`", "x" * 256, "a\n"]
)
def test_a_malformed_table_name_is_refused_with_what_to_write(target: str) -> None:
    with pytest.raises(ConfigurationError, match='Write a path with a "/", or name parts'):
        TableRef.parse(target)


@pytest.mark.parametrize("target", [Path("/data/rates"), None, 5])
def test_a_target_that_is_no_text_is_refused_with_what_to_write(target: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"target takes a path or .* of a Path it is str\(path\); got"):
        TableRef.parse(target)


@pytest.mark.parametrize(
    "target", ["data/../secret", "../x", "data/..", "data/*", "data/a?", "data/[a]", "data/{a}", "a/\n"]
)
def test_a_path_that_climbs_or_is_a_pattern_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="is refused"):
        TableRef.parse(target)


def test_dots_within_a_path_name_are_no_climbing() -> None:
    assert TableRef.parse("/data/a..b").path == "/data/a..b"


def test_a_relative_path_is_made_absolute_since_sql_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TableRef.parse("data/rates").path == str(tmp_path / "data" / "rates")


def test_a_reference_is_parsed_as_itself() -> None:
    ref = TableRef.parse("a.b")
    assert TableRef.parse(ref) is ref


@pytest.mark.parametrize(
    ("target", "name"), [("sales.rates-eu", "rates_eu"), ("data/rates", "rates"), ("data/my rates/", "my_rates")]
)
def test_the_short_name_is_one_plain_word(target: str, name: str) -> None:
    assert TableRef.parse(target).short_name == name


@pytest.mark.parametrize(
    ("target", "child", "sql"),
    [
        ("/data/app", "rates", "delta.`/data/app/rates`"),
        ("/data/app/", "rates", "delta.`/data/app/rates`"),
        ("main.app", "rates", "`main`.`app`.`rates`"),
        ("main.app", "count/suppress", "`main`.`app`.`count_suppress`"),
    ],
)
def test_the_table_of_a_node_lies_below_its_application(target: str, child: str, sql: str) -> None:
    assert TableRef.parse(target).child(child).sql == sql


def test_a_node_cannot_climb_out_of_its_application() -> None:
    with pytest.raises(ConfigurationError, match="is refused"):
        TableRef.parse("data/app").child("../other")


@pytest.mark.parametrize("target", ["sales.rates", "/data/rates"])
def test_a_reference_is_shown_as_it_was_written(target: str) -> None:
    assert str(TableRef.parse(target)) == target
