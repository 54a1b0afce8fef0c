"""Lateness and sizes of buffers, read from what batches told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from streams.ledger_readings import BufferReading, buffer_readings, lateness_classes
from versioned.errors import SchemaError

_CLOCK = datetime(1970, 1, 1, 0, 0, 1)


@dataclass(frozen=True)
class _Report:
    """As ``on_batch`` hears them."""

    batch_id: int
    clock: datetime
    counts: Mapping[str, int] = field(default_factory=dict)


def _row(batch_id: int, **counts: int) -> dict[str, Any]:
    return {"batch_id": batch_id, "clock": _CLOCK, "counts": {f"calm.{what}": n for what, n in counts.items()}}


def test_lateness_is_summed_over_batches_for_one_node() -> None:
    rows = [{"counts": {"a.lateness<=0": 3, "a.late": 9, "b.lateness<=0": 7}}, {"counts": {"a.lateness<=1000": 2}}]
    assert lateness_classes(rows, "a") == {0: 3, 1000: 2}


def test_a_node_whose_lateness_was_not_measured_has_no_classes() -> None:
    assert lateness_classes([_row(0, records=1)], "calm") == {}


def test_readings_come_in_the_order_of_batches() -> None:
    rows = [_row(2, records=5, bytes=50), _row(0, records=1, bytes=10)]
    assert buffer_readings(rows, "calm") == (
        BufferReading(0, 1, 10, clock_us=1_000_000),
        BufferReading(2, 5, 50, clock_us=1_000_000),
    )


def test_readings_tell_how_full_it_was_within_the_batch() -> None:
    (reading,) = buffer_readings([_row(0, records=1, bytes=10, records_max=4, bytes_max=40)], "calm")
    assert (reading.most_records, reading.most_bytes) == (4, 40)


def test_a_batch_that_did_not_touch_the_buffer_has_no_reading() -> None:
    assert buffer_readings([_row(0, emitted=3), _row(1, records=0, bytes=0)], "calm")[0].batch_id == 1


def test_batch_reports_are_read_as_the_ledger_is() -> None:
    row = _row(3, records=1, bytes=10)
    assert buffer_readings([_Report(**row)], "calm") == buffer_readings([row], "calm")


@pytest.mark.parametrize("row", [{"batch_id": 1}, object()])
def test_a_row_of_something_else_is_refused(row: Any) -> None:
    with pytest.raises(SchemaError, match='no "counts"'):
        buffer_readings([row], "calm")
