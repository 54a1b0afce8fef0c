"""Work that removes rows is refused before it begins where a table's properties forbid that."""

from __future__ import annotations

import re

import pytest

from versioned.append_only import refuse_append_only
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef


@pytest.mark.parametrize("told", [{}, {"delta.appendOnly": "false"}])
def test_tables_whose_rows_may_go_refuse_nothing(told: dict[str, str]) -> None:
    refuse_append_only({TableRef.parse("/out/a"): told}, "This")


def test_all_tables_whose_rows_must_stay_are_told_at_once_each_with_what_lets_them_go() -> None:
    kept, other = {"delta.appendOnly": "True"}, TableRef.parse("main.shop.b")
    lets_go = re.escape(f"ALTER TABLE {other.sql} UNSET TBLPROPERTIES ('delta.appendOnly')")
    with pytest.raises(ConfigurationError, match=rf"This removes rows of \['a', 'b'\].* {lets_go}$"):
        refuse_append_only({TableRef.parse("/out/a"): kept, TableRef.parse("/out/c"): {}, other: kept}, "This")
