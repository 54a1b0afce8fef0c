"""Types as DDL: a misspelt word is refused without Spark, and nothing that Spark reads is."""

from __future__ import annotations

import pytest

from streams.ddl import check_ddl
from versioned.errors import ConfigurationError


@pytest.mark.parametrize(
    "text",
    [
        "double",
        "decimal(10, 2)",
        "string collate utf8_lcase",
        "interval day to second",
        "double precision",
        "map<string, array<int>>",
        "a: int, b: string",
        "`a b` int, c struct<d: int, e: map<string, int>>",
        "a int not null comment 'x, y z'",
        "a int, -- the amount in cents, which is whole\n b string",
        "a int, /* in cents, which is whole */ b string",
        "a int, `b c, d e` int, `f g:h i` string",
        "`a`int, `b`DECIMAL(10, 2)",
    ],
)
def test_types_that_spark_reads_are_taken(text: str) -> None:
    check_ddl("returns", text)


@pytest.mark.parametrize(
    ("text", "word"), [("doubel", "doubel"), ("a int, b sting", "sting"), ("a: map<string, int>, b: bool3", "bool")]
)
def test_a_type_that_there_is_not_is_refused_with_the_word(text: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=f'returns: there is no type "{word}'):
        check_ddl("returns", text)
