"""The rules (docs/reference/rules.md) that the traces of an operation prove, on whichever engine they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

_TRACES: Final = Path(__file__).parent / "traces"
RULES: Final = {
    "versioned_store": ("R172", "R173", "R174", "R180", "R181", "R182", "R183", "R184", "R185"),
    "stream_table_join": ("R138", "R139", "R140", "R141", "R144", "R145"),
    "table_table_join": ("R146", "R147", "R148", "R151", "R152", "R153", "R156", "R158"),
    "fk_join": ("R155",),
    "table_filter": ("R160", "R161", "R162", "R167"),
    "table_aggregate": ("R163", "R164", "R168"),
    "propagation": ("R127", "R128", "R129", "R130", "R131", "R132", "R133", "R134", "R136", "R165", "R166"),
    "windowed_aggregate": ("R6", "R8", "R10"),
    "suppress_windowed": ("R4", "R35", "R39", "R51", "R52", "R54"),
    "suppress_time_limit": ("R33", "R35", "R40", "R55", "R56", "R60", "R85", "R86", "R87", "R89", "R90", "R91", "R92"),
    "stream_stream_join": ("R7",),
}


def cases(*operations: str) -> list[Any]:
    """The scenarios of some operations, as parameters that are marked with the rules that they prove."""
    return [
        pytest.param(scenario, marks=pytest.mark.rule(*RULES[operation]), id=scenario["id"])
        for operation in operations
        for scenario in json.loads((_TRACES / f"{operation}.json").read_text(encoding="utf-8"))
    ]
