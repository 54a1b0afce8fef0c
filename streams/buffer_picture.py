"""How full a suppression buffer was after each batch, as a picture: records above, bytes below. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streams.buffer_panel import HEIGHT, LEFT, WIDTH, Panel, panel_parts, round_up
from streams.ledger_readings import BufferReading
from versioned.drawing import Picture, headline
from versioned.svg import SOFT_INK, text
from versioned.time_axis import instant_text

_TOP: Final = 84
_BETWEEN: Final = 44
_BOTTOM: Final = 60
_APART: Final = 76
_RECORDS: Final = ("#c6dafc", "#3367d6")
_BYTES: Final = ("#e4cffa", "#8430ce")
_TITLE: Final = "Suppression buffer"


def buffer_sizes(
    readings: Sequence[BufferReading],
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    title: str = _TITLE,
) -> Picture:
    """Draw a buffer's records and bytes over the batches.

    A batch without a reading did not touch the buffer, so the line continues. Thin bars show how full the buffer was
    within a batch.

    Args:
        readings: As ``buffer_readings`` returns them, in any order.
        max_records: The buffer's bound, drawn as a line; None = no such bound.
        max_bytes: Likewise.
        title: The heading.

    Returns:
        The picture, whose table has every reading; without readings one that says so.

    Example:
        >>> picture = buffer_sizes([BufferReading(0, 3, 120), BufferReading(1, 0, 0)], max_records=5)
        >>> picture.rows[0][:3]
        ('0', '3', '120')
    """
    told = sorted(readings, key=lambda reading: reading.batch_id)
    if not told:
        return Picture(title, WIDTH, 96, headline(title, ["no batches"]))
    batches = tuple(reading.batch_id for reading in told)
    below = _TOP + HEIGHT + _BETWEEN
    records = Panel(
        "records", _RECORDS, _TOP, batches, tuple(r.records for r in told), tuple(r.most_records for r in told),
        max_records,
    )  # fmt: skip
    size = Panel(
        "bytes", _BYTES, below, batches, tuple(r.bytes for r in told), tuple(r.most_bytes for r in told), max_bytes
    )
    said = [
        f"{len(told):,} batch{'es' if len(told) > 1 else ''}",
        "line: after the batch",
        "thin bars: the most within it",
    ]
    parts = [*headline(title, said), *panel_parts(records, told), *panel_parts(size, told), *_batches(size)]
    columns = ("batch", "records", "bytes", "most records", "most bytes", "clock")
    return Picture(title, WIDTH, int(size.floor) + _BOTTOM, tuple(parts), columns=columns, rows=_table(told))


def _batches(panel: Panel) -> Iterator[str]:
    """Labels of the batches, at as many round numbers as there is room for."""
    first, last = panel.batches[0], panel.batches[-1]
    room = max(1, int((panel.x(last) - panel.x(first)) / _APART))
    step = round_up(max(1, -(-(last - first) // room)))
    for batch in range(-(-first // step) * step, last + 1, step):
        yield text(panel.x(batch), panel.floor + 18, str(batch), size=11, fill=SOFT_INK, text_anchor="middle")
    yield text(LEFT, panel.floor + 40, "batch", size=11, fill=SOFT_INK)


def _table(readings: Sequence[BufferReading]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            str(reading.batch_id), f"{reading.records:,}", f"{reading.bytes:,}",
            *("" if most is None else f"{most:,}" for most in (reading.most_records, reading.most_bytes)),
            "" if reading.clock_us is None else instant_text(reading.clock_us),
        )
        for reading in readings
    )  # fmt: skip
