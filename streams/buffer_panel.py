"""One curve in the picture of a suppression buffer: one number per batch, drawn as steps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams.ledger_readings import BufferReading
from versioned.svg import SOFT_INK, compact, line, number, path, rect, text
from versioned.time_axis import instant_text

WIDTH: Final = 1000
LEFT: Final = 96
RIGHT: Final = 28
HEIGHT: Final = 130
_LIMIT: Final = "#c5221f"


@dataclass(frozen=True)
class Panel:
    """What a curve shows and where: a number after each batch, its maximum within the batch, and the bound.

    Args:
        name: What is counted.
        colours: Fill and edge.
        top: The upper edge, in pixels.
        batches: The numbers of the batches, ascending.
        values: The number after each batch.
        most: The maximum within each batch; None = not known.
        limit: The buffer's bound; None = unbounded.
    """

    name: str
    colours: tuple[str, str]
    top: float
    batches: tuple[int, ...]
    values: tuple[int, ...]
    most: tuple[int | None, ...]
    limit: int | None

    @property
    def floor(self) -> float:
        """The lower edge, in pixels."""
        return self.top + HEIGHT

    @property
    def highest(self) -> int:
        """The upper end of the scale: a round number that no value and no bound exceeds."""
        return round_up(max(1, self.limit or 0, *self.values, *(most or 0 for most in self.most)))

    def x(self, batch: float) -> float:
        """The horizontal position of a batch; a single batch is in the middle."""
        first, last = self.batches[0], self.batches[-1]
        share = 0.5 if first == last else (batch - first) / (last - first)
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def y(self, value: int) -> float:
        """The vertical position of a number."""
        return self.floor - HEIGHT * value / self.highest


def panel_parts(panel: Panel, readings: Sequence[BufferReading]) -> Iterator[str]:
    """The parts of a panel: the scale, the steps, the bound, and a mark per batch."""
    yield text(LEFT, panel.top - 10, panel.name, size=12, font_weight="600")
    for value in sorted({0, panel.highest // 2, panel.highest}):
        yield line((LEFT, panel.y(value)), (WIDTH - RIGHT, panel.y(value)), class_="grid")
        yield text(LEFT - 10, panel.y(value) + 4, compact(value), size=11, fill=SOFT_INK, text_anchor="end")
    yield from _curve(panel)
    if panel.limit is not None:
        y = panel.y(panel.limit)
        yield line((LEFT, y), (WIDTH - RIGHT, y), _LIMIT, class_="limit", stroke_dasharray="6 4")
        yield text(WIDTH - RIGHT, y - 5, f"at most {panel.limit:,}", size=11, fill=_LIMIT, text_anchor="end")
    yield from _points(panel, readings)


def _curve(panel: Panel) -> Iterator[str]:
    """The curve as steps: what a batch left stays until the next one."""
    fill, edge = panel.colours
    steps = f"M{number(panel.x(panel.batches[0]))} {number(panel.y(panel.values[0]))}"
    for batch, value in zip(panel.batches[1:], panel.values[1:], strict=True):
        steps += f" H{number(panel.x(batch))} V{number(panel.y(value))}"
    floor, first = number(panel.floor), number(panel.x(panel.batches[0]))
    yield path(f"{steps} V{floor} H{first} Z", fill=fill, fill_opacity="0.7")
    yield path(steps, fill="none", stroke=edge, stroke_width="1.8")


def _points(panel: Panel, readings: Sequence[BufferReading]) -> Iterator[str]:
    edge = panel.colours[1]
    widths = [panel.x(b) - panel.x(a) for a, b in pairwise(panel.batches)]
    mark = max(1.0, min([6.0, *(width * 0.6 for width in widths)]))
    for reading, value, most in zip(readings, panel.values, panel.most, strict=True):
        x, said = panel.x(reading.batch_id), _in_words(panel, reading, value, most)
        if most is not None and most > value:
            yield rect(x - mark / 4, panel.y(most), mark / 2, panel.y(value) - panel.y(most), edge, class_="most")
        yield rect(x - mark / 2, panel.y(value) - mark / 2, mark, mark, edge, class_="reading")
        # Marks are small, so the whole column can be pointed at.
        yield rect(x - 4, panel.top, 8, HEIGHT, "none", said, class_="hover", pointer_events="all")


def _in_words(panel: Panel, reading: BufferReading, value: int, most: int | None) -> str:
    words = [f"batch {reading.batch_id}", f"{value:,} {panel.name} after it"]
    words += [f"at most {most:,} within it"] if most is not None else []
    words += [instant_text(reading.clock_us)] if reading.clock_us is not None else []
    return "\n".join(words)


def round_up(value: int) -> int:
    """The smallest number from ``value`` on that is 1, 2, 4, 6 or 8 times a power of ten.

    >>> [round_up(value) for value in (1, 3, 87, 101)]
    [1, 4, 100, 200]
    """
    power = 10 ** (len(str(value)) - 1)
    return int(next(n * power for n in (1, 2, 4, 6, 8, 10) if n * power >= value))
