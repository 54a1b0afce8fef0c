"""Which names the tables of an application may have."""

from __future__ import annotations

import pytest

from streams.spark.table_names import check_table_names
from versioned.errors import ConfigurationError


def test_tables_have_any_other_names() -> None:
    check_table_names(["prices", "prices_known", "price", "ledgers", "checkpoint"])


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["ledger"], '"ledger" is reserved or used twice'),
        (["held", "out", "held"], '"held" is reserved or used twice'),
        (["Out", "held", "out"], '"Out" and "out" differ only by case'),
        (["Ledger"], '"ledger" and "Ledger" differ only by case'),
        (["_CHECKPOINT"], '"_checkpoint" and "_CHECKPOINT" differ only by case'),
    ],
)
def test_a_name_that_is_taken_is_refused_in_whatever_case(names: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        check_table_names(names)
