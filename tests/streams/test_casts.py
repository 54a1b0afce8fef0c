"""Casts: null where there is no value of the type."""

from __future__ import annotations

from typing import Any

import pytest

from streams.casts import LARGEST, SMALLEST, to_bigint, to_boolean


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.9, 1),
        (-1.9, -1),
        (float("inf"), None),
        (LARGEST, LARGEST),
        (SMALLEST, SMALLEST),
        (LARGEST + 1, None),
        (SMALLEST - 1, None),
    ],
)
def test_a_number_is_cut_off_to_a_bigint_or_null_where_it_fits_in_none(value: float, wanted: int | None) -> None:
    assert to_bigint(value) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"), [("true", True), ("no", False), ("0", False), ("maybe", None), (0, False), (2, True)]
)
def test_a_boolean_is_what_a_text_says_and_whether_a_number_is_not_zero(value: Any, wanted: bool | None) -> None:
    assert to_boolean(value) is wanted
