"""The parts of a lane of versions in a picture: bars, gaps and the axis below. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from versioned.lanes import Columns, Lane, Span, shown
from versioned.svg import SOFT_INK, STRIPE, line, number, rect, shortened, text
from versioned.time_axis import TimeAxis, instant_text

LANE: Final = 30
TOP: Final = 68
MARGIN: Final = 24
#: Room at the right, where open versions fade away.
FADE: Final = 64
#: Keys have size 12 and are bold, which is wider than the width estimated for that size.
KEY_SIZE: Final = 13.2
_BAR: Final = 20
_PAD: Final = (LANE - _BAR) / 2
#: Narrower bars have the colour of their edge: a pale line would not be seen.
_NARROW: Final = 4
#: Fill and edge. Equal values have equal colours; with more values than colours, colours are used again.
_COLOURS: Final = (
    ("#c6dafc", "#3367d6"), ("#ceead6", "#188038"), ("#fde293", "#b06000"), ("#e4cffa", "#8430ce"),
    ("#fad2cf", "#c5221f"), ("#c4eef0", "#12858d"), ("#fbcfe8", "#b5177c"), ("#dadce0", "#5f6368"),
)  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """The layout of a picture of lanes.

    Args:
        axis: The time axis, from left to right.
        bottom: Where the lanes end.
        colours: The number of each label, in order of appearance.
        keys_width: Room for the keys, in pixels.
        mark: Prefix of the ids in this picture.
    """

    axis: TimeAxis
    bottom: float
    colours: Mapping[str, int]
    keys_width: float
    mark: str

    @property
    def edge(self) -> float:
        """The right edge of everything."""
        return self.axis.right + FADE

    def colour(self, label: str) -> int:
        """The index of a label's colour."""
        return self.colours[label] % len(_COLOURS)


def fades(sheet: Sheet) -> tuple[str, ...]:
    """A gradient per colour, from opaque at the end of the axis to transparent at the edge."""
    ends = f'x1="{number(sheet.axis.right)}" x2="{number(sheet.edge)}" y1="0" y2="0"'
    return tuple(
        f'<linearGradient id="{sheet.mark}-{place}" gradientUnits="userSpaceOnUse" {ends}>'
        f'<stop offset="0" stop-color="{fill}"/><stop offset="1" stop-color="{fill}" stop-opacity="0"/>'
        "</linearGradient>"
        for place, (fill, _) in enumerate(_COLOURS[: len(sheet.colours)])
    )


def ground(sheet: Sheet) -> Iterator[str]:
    """The ticks of the axis, with their labels below."""
    for tick in sheet.axis.ticks():
        x = sheet.axis.x(tick.at_us)
        yield line((x, TOP - 4), (x, sheet.bottom + 4), class_="tick")
        yield text(x, sheet.bottom + 18, tick.text, size=11, fill=SOFT_INK, text_anchor="middle")
        if tick.within:
            yield text(x, sheet.bottom + 33, tick.within, size=11, fill=SOFT_INK, text_anchor="middle")


def lane_parts(lane: Lane, place: int, sheet: Sheet, columns: Columns) -> Iterator[str]:
    """The name of a key, and those of its spans that the axis shows."""
    y = TOP + place * LANE
    if place % 2 == 0:
        # Half transparent, so that the ticks stay visible.
        yield rect(MARGIN - 8, y, sheet.edge - MARGIN + 8, LANE, STRIPE, class_="stripe", fill_opacity="0.6")
    title = "\n".join(f"{column}: {name}" for column, name in zip(columns.keys, lane.names, strict=True))
    yield text(MARGIN, y + 19, shortened(lane.key, sheet.keys_width, KEY_SIZE), size=12, font_weight="600", title=title)
    for span in lane.spans:
        if _is_seen(span, sheet.axis):
            said = f"{title}\n{_in_words(span, columns)}"
            yield from _gap(span, y, sheet, said) if span.values is None else _bar(span, y, sheet, said)


def _is_seen(span: Span, axis: TimeAxis) -> bool:
    return span.from_us <= axis.end_us and (
        span.to_us is None or span.to_us > axis.start_us or span.from_us >= axis.start_us
    )


def _ends(span: Span, sheet: Sheet) -> tuple[float, float]:
    """The left and right end of a span; one that goes on beyond the axis ends at the edge."""
    goes_on = span.to_us is None or span.to_us > sheet.axis.end_us
    return sheet.axis.x(span.from_us), sheet.edge if goes_on else sheet.axis.x(span.to_us or 0)


def _bar(span: Span, y: float, sheet: Sheet, said: str) -> Iterator[str]:
    left, right = _ends(span, sheet)
    place = sheet.colour(span.label)
    fill, edge = _COLOURS[place]
    # Even a moment among years must remain visible.
    width = max(right - left, 1)
    paint = f"url(#{sheet.mark}-{place})" if span.to_us is None else fill if width >= _NARROW else edge
    yield rect(left, y + _PAD, width, _BAR, paint, said, class_="version")
    if width >= _NARROW and span.from_us >= sheet.axis.start_us:
        yield rect(left, y + _PAD, 2, _BAR, edge, said, class_="start")
    label = shortened(span.label, width - 10, 11.5)
    if label:
        yield text(left + 6, y + 19, label, title=said, class_="label")


def _gap(span: Span, y: float, sheet: Sheet, said: str) -> Iterator[str]:
    left, right = _ends(span, sheet)
    middle = y + LANE / 2
    dashed = "gap deleted" if span.deleted else "gap"
    yield line((left, middle), (right, middle), "#9aa0a6", class_=dashed, stroke_dasharray="2 4")
    # A line is too thin to point at.
    yield rect(left, y + _PAD, max(right - left, 1), _BAR, "none", said, class_="hover", pointer_events="all")


def _in_words(span: Span, columns: Columns) -> str:
    values = [f"{name}: {shown(value)}" for name, value in (span.values or {}).items()]
    if span.values is None:
        values = ["deleted" if span.deleted else "no version"]
    return "\n".join(
        [*values, f"{columns.valid_from}: {instant_text(span.from_us)}", f"{columns.valid_to}: {span.until}"]
    )
