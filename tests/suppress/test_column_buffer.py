"""Which rules the buffer on columns takes; what it does is compared with ``SuppressBuffer`` where Spark calls it."""

from __future__ import annotations

from typing import Any

import pytest

from suppress.buffer_rules import BufferRule
from suppress.column_buffer import fits_columns


@pytest.mark.rule("R35", "R85")
@pytest.mark.parametrize(
    ("bounds", "fits"),
    [
        ({}, True),
        ({"max_records": 2, "when_full": "emit_early"}, True),
        ({"max_records": 2}, False),
        ({"max_bytes": 2}, False),
        ({"max_records": 2, "when_full": "spill"}, False),
    ],
)
def test_a_bound_that_shuts_down_or_spills_is_not_for_columns(bounds: dict[str, Any], fits: bool) -> None:
    assert fits_columns(BufferRule("n", wait_us=5, **bounds), "record") == fits
