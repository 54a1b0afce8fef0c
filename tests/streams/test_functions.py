"""Functions of expressions: what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.functions import cast, coalesce, concat, greatest, is_in, least, lit, substring
from versioned.errors import ConfigurationError


@pytest.mark.parametrize(
    "make",
    [
        lambda: cast(lit(1), "decimal"),
        lambda: substring(lit("a"), 0, 1),
        lambda: substring(lit("a"), 1, -1),
        lambda: substring(lit("a"), "1", 3),  # type: ignore[arg-type]
        lambda: substring(lit("a"), 1, None),  # type: ignore[arg-type]
        lambda: least(lit(1)),
        lambda: greatest(),
        lambda: is_in(lit(1)),
        lambda: coalesce(),
        lambda: concat(),
    ],
)
def test_arguments_that_never_work_are_refused_when_the_plan_is_built(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError):
        make()
