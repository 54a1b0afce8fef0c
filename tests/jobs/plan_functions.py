"""Plain Python functions that the plans of these tests name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streams.topology import StreamsBuilder, Topology
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows


def label(key: Any, value: Any) -> str:
    return f"{key['key']}:{value['a']}"


def zero() -> int:
    return 0


def add(key: Any, value: Any, total: int) -> int:
    return total + int(value["a"])


def subtract(key: Any, value: Any, total: int) -> int:
    return total - int(value["a"])


def merge(key: Any, left: int, right: int) -> int:
    return left + right


def larger(left: Any, right: Any) -> Any:
    return max(left, right, key=lambda row: row["a"])


def weight(row: Any) -> int:
    return len(row.key) + len(row.value or ())


def decoded(frame: Any) -> Any:
    return frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset")


NOT_CALLABLE = 3


def topology(size: timedelta) -> Topology:
    """A plan as a user writes it, in a module of their own."""
    builder = StreamsBuilder()
    builder.stream("s").group_by_key().windowed_by(TimeWindows.of(size)).count(name="counts")
    return builder.build()


def suppressed() -> Topology:
    """A plan that is refused, with a message that says nothing of settings."""
    builder = StreamsBuilder()
    builder.table("s", value="n").suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    return builder.build()


def no_topology() -> int:
    return 3
