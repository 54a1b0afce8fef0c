"""Which values can be constants of an expression."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from streams.expressions import trace
from versioned.errors import ConfigurationError


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, Decimal("1e50"), Decimal("9" * 39), Decimal("NaN"), {1, 2}, object(), 1j, [{1}]]
)
def test_what_spark_has_no_constant_of_is_refused_when_the_plan_is_built(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no constant of an expression"):
        trace(lambda row: {"x": value}, "value")


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), Decimal("9" * 38), Decimal("1e37"), Decimal("1e-38")])
def test_the_largest_that_spark_has_are_constants(value: Any) -> None:
    trace(lambda row: {"x": value}, "value")
