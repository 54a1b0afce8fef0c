"""Quotients and remainders: of which type they are, and where there is none."""

from __future__ import annotations

import math

import pytest

from streams.arithmetic import divided


@pytest.mark.parametrize(
    ("symbol", "left", "right", "wanted"),
    [
        ("/", 1, 2, 0.5),
        ("/", 1, 0, None),
        ("/", 1.0, 0.0, None),
        ("%", 7, 0, None),
        ("%", 7.0, 0.0, None),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", 7.5, 2, 1.5),
        ("%", math.inf, 2.0, math.nan),
    ],
)
def test_a_quotient_is_a_double_and_a_remainder_has_the_sign_of_its_dividend(
    symbol: str, left: float, right: float, wanted: float | None
) -> None:
    # By their texts, which tell 1 from 1.0 and know that NaN is NaN.
    assert repr(divided(symbol, left, right)) == repr(wanted)
