"""Which values can be constants of an expression."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from streams.expressions import trace
from versioned.errors import ConfigurationError


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, Decimal("1e50"), Decimal("NaN"), {1, 2}, object(), 1j, [{1}]])
def test_what_spark_has_no_constant_of_is_refused_when_the_plan_is_built(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no constant of an expression"):
        trace(lambda row: {"x": value}, "value")
