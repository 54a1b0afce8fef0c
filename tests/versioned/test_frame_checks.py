"""Arguments that name columns of DataFrames."""

from __future__ import annotations

import pytest

from versioned.errors import ConfigurationError
from versioned.frame_checks import check_column_names


@pytest.mark.parametrize(("given", "told"), [("", '""'), (7, "7"), (["ts"], r"\['ts'\]")])
def test_what_names_no_column_is_told_by_its_argument(given: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^deleted takes the name of a column; got {told}"):
        check_column_names(timestamp="ts", deleted=given)


def test_a_column_that_is_not_asked_for_needs_no_name() -> None:
    check_column_names(timestamp="ts", deleted=None)
