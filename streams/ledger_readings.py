"""What the batches of an application reported about lateness and buffers, read from plain rows. Pure.

The rows are those of the ledger table as Spark collects them, the same as mappings, or the ``BatchReport`` values that
``on_batch`` is called with: each has ``batch_id``, ``clock`` and ``counts`` (``<node>.<what>`` -> number).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams.lateness import added
from versioned.errors import SchemaError
from versioned.time_axis import given_us

_CLASS: Final = "lateness<="


@dataclass(frozen=True)
class BufferReading:
    """A suppression buffer after a batch, and how full it was within the batch; ``clock_us`` None = not known."""

    batch_id: int
    records: int
    bytes: int
    most_records: int | None = None
    most_bytes: int | None = None
    clock_us: int | None = None


def lateness_classes(rows: Iterable[Any], node: str) -> dict[int, int]:
    """The lateness of a node's records over all batches, if they were run with ``metrics_level="debug"``.

    Args:
        rows: Rows of the ledger, or batch reports.
        node: The node's name.

    Returns:
        Records by upper bound of their lateness in microseconds; empty if none was measured.

    Raises:
        SchemaError: a row has no ``counts``.

    Example:
        >>> lateness_classes([{"counts": {"hourly.lateness<=0": 3}}, {"counts": {"hourly.lateness<=0": 4}}], "hourly")
        {0: 7}
    """
    prefix = f"{node}.{_CLASS}"
    told = (_field(row, "counts") for row in rows)
    return added(
        {int(what.removeprefix(prefix)): n for what, n in counts.items() if what.startswith(prefix)} for counts in told
    )


def buffer_readings(rows: Iterable[Any], node: str) -> tuple[BufferReading, ...]:
    """How full a suppression's buffer was after each batch that it took part in, in order of batches.

    Args:
        rows: Rows of the ledger, or batch reports.
        node: The suppression's name.

    Raises:
        SchemaError: a row lacks ``batch_id``, ``clock`` or ``counts``.

    Example:
        >>> row = {"batch_id": 7, "clock": None, "counts": {"calm.records": 2, "calm.bytes": 64}}
        >>> buffer_readings([row], "calm")[0].bytes
        64
    """
    read = []
    for row in rows:
        counts: Mapping[str, int] = _field(row, "counts")
        if f"{node}.records" not in counts or f"{node}.bytes" not in counts:
            continue
        after, most = _pair(counts, node, ""), _pair(counts, node, "_max")
        clock_us = given_us(_field(row, "clock"), "clock")
        read.append(BufferReading(int(_field(row, "batch_id")), after[0] or 0, after[1] or 0, *most, clock_us))
    return tuple(sorted(read, key=lambda reading: reading.batch_id))


def _pair(counts: Mapping[str, int], node: str, part: str) -> tuple[int | None, int | None]:
    return counts.get(f"{node}.records{part}"), counts.get(f"{node}.bytes{part}")


def _field(row: Any, name: str) -> Any:
    try:
        return row[name] if hasattr(row, "__getitem__") else getattr(row, name)
    except (KeyError, ValueError, AttributeError) as error:
        raise SchemaError(f'A row has no "{name}": {row!r:.200}. Take rows of the ledger, or batch reports.') from error
