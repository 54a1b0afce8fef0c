"""What tests of plans build beside a table, in the same plan."""

from __future__ import annotations

from typing import Final

from streams.nodes import Materialized
from streams.topology import KTable, StreamsBuilder

_WEEK: Final = Materialized.versioned("7 days")


def beside(table: KTable) -> StreamsBuilder:
    """A builder of the plan that has the table."""
    builder = StreamsBuilder()
    builder._graph = table.graph
    return builder


def other_table(table: KTable, materialized: Materialized = _WEEK) -> KTable:
    """Another table of the same plan."""
    return beside(table).table("other", materialized)
