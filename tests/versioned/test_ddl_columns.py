"""DDL without Spark: what is told of it is what Spark reads, and of what may be otherwise nothing is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from versioned.ddl_columns import columns_if_known
from versioned.identifiers import quote
from versioned.sql_types import nullable

_TYPES = (
    "BIGINT", "binary", "Boolean", "byte", "date", "double", "float", "int", "integer", "long", "real", "short",
    "smallint", "string", "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "variant", "void", "decimal",
    "dec(5)", "numeric( 38 , 38 )", "varchar(3)",
)  # fmt: skip
_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True) | st.text("ab `,<>:é'1", min_size=1).map(quote)


def _within(kinds: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(st.tuples(_NAMES, st.sampled_from(": ") | st.just(" : "), kinds), min_size=1, max_size=3)
    rows = fields.map(lambda parts: f"struct<{', '.join(''.join(part) for part in parts)}>")
    return kinds.map("array<{}>".format) | st.tuples(kinds, kinds).map(lambda two: f"map<{two[0]},{two[1]}>") | rows


_KINDS = st.recursive(st.sampled_from(_TYPES), _within, max_leaves=4)
_FIELDS = st.tuples(_NAMES, _KINDS, st.sampled_from(("", " NOT NULL", " comment 'a, b'", " not null COMMENT 'it\\'s'")))
_TEXTS = st.lists(_FIELDS, min_size=1, max_size=4).map(
    lambda fields: ", ".join(f"{name} {kind}{more}" for name, kind, more in fields)
)


@settings(max_examples=150)
@given(text=_TEXTS)
def test_columns_are_those_that_spark_reads(spark: SparkSession, text: str) -> None:
    told = columns_if_known(text)
    read = DataType.fromDDL(text)
    assert told is not None
    assert nullable(told).json() == nullable(_bare(read)).json()


def _bare(kind: DataType) -> DataType:
    """Without comments."""
    return type(kind).fromJson(_without_comments(kind.jsonValue()))  # type: ignore[attr-defined]


def _without_comments(said: object) -> object:
    if isinstance(said, dict):
        return {name: {} if name == "metadata" else _without_comments(part) for name, part in said.items()}
    return [_without_comments(part) for part in said] if isinstance(said, list) else said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id STRING,",
        "id STRING name STRING",
        "id STRNG",
        "id INTERVAL DAY TO SECOND",
        "id INTERVAL",
        "id TIME(3)",
        "id STRING COLLATE UTF8_LCASE",
        "id CHAR(3)",
        "id DECIMAL(39, 0)",
        "id DECIMAL(3, 4)",
        f"id DECIMAL({'9' * 5_000})",
        "id array<string",
        "id array<string>>",
        "id `string`",
        "id STRING -- the key",
        "id STRING DEFAULT 'a'",
        "id STRING COMMENT name",
        "1a STRING",
        "été STRING",
        "bigint",
        "array<bigint>",
        "id " + "array<" * 2_000 + "int" + ">" * 2_000,
    ],
)
def test_nothing_is_told_of_what_spark_alone_understands(text: str) -> None:
    assert columns_if_known(text) is None


def test_one_struct_is_its_fields() -> None:
    assert columns_if_known("struct<id: bigint, day: date>") == columns_if_known("id bigint, day date")
