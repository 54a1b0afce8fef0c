"""Versions of keys as a picture: one lane per key, one bar per version along valid time. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from versioned.drawing import Picture, headline, quantity
from versioned.errors import ConfigurationError
from versioned.lane_parts import FADE, KEY_SIZE, LANE, MARGIN, TOP, Sheet, fades, ground, lane_parts
from versioned.lanes import Columns, Lane, Span, lanes_of
from versioned.svg import text_width
from versioned.time_axis import TimeAxis, given_us, instant_text

_BOTTOM: Final = 52
_LONGEST_KEY: Final = 200
#: Leaves room for half of the label of a tick at the left end of the axis.
_SHORTEST_KEY: Final = 24


def version_timeline(
    rows: Iterable[Any],
    *,
    keys: str | Sequence[str],
    values: str | Sequence[str] | None = None,
    valid_from: str = "validFrom",
    valid_to: str = "validTo",
    deleted: str = "deleted",
    start: Any = None,
    end: Any = None,
    title: str = "Versions",
    width: int = 1000,
    most_keys: int = 100,
) -> Picture:
    """Draw the versions of some keys over valid time.

    Bars are versions with their values; a dashed line is time in which a key has no value (a tombstone, or no rows);
    what fades away to the right is still valid. Hovering over an element shows its exact bounds.

    Args:
        rows: Collected rows of ``VersionedTable.history(...)`` or ``rows()``, or similar mappings. Instants are
            datetimes (without a zone: UTC) or microseconds since 1970. Spark collects timestamps without a zone, in the
            time zone of this process: if that is not UTC, set ``TZ=UTC`` or select ``unix_micros(...)``.
        keys: The key columns.
        values: The columns to show; None = all others.
        valid_from: The column of inclusive starts.
        valid_to: The column of exclusive ends; null = open.
        deleted: The column that is true for tombstones; rows without it are not tombstones.
        start: The first instant to draw; None = the earliest of the rows.
        end: The last one; None = the latest of the rows.
        title: The title above the picture.
        width: Of the picture, in pixels; at least 480.
        most_keys: The most keys to draw; the picture says how many are not drawn.

    Returns:
        The picture; its table has every row, drawn or not.

    Raises:
        ConfigurationError: the end is before the start, or the picture too narrow.
        SchemaError: a row lacks a column.
        RecordError: a start is null, or a bound is not an instant.
        InvariantError: versions of a key overlap, or one ends before it begins.

    Example:
        >>> old = {"item": "tea", "price": 10.0, "validFrom": 0, "validTo": 5_000_000}
        >>> new = {"item": "tea", "price": 12.0, "validFrom": 5_000_000, "validTo": None}
        >>> version_timeline([old, new], keys="item").rows[1]
        ('tea', '12.0', '1970-01-01 00:00:05 UTC', 'open')
    """
    columns = Columns(_names(keys), None if values is None else _names(values), valid_from, valid_to, deleted)
    lanes = lanes_of(rows, columns)
    sheet = _sheet(lanes[:most_keys], given_us(start, "start"), given_us(end, "end"), width)
    hidden = len(lanes) - most_keys
    parts = [*headline(title, _small_print(lanes, hidden)), *(ground(sheet) if lanes else ())]
    for place, lane in enumerate(lanes[:most_keys]):
        parts += lane_parts(lane, place, sheet, columns)
    table = tuple((*lane.names, *_cells(span)) for lane in lanes for span in lane.spans if span.is_stored)
    names = (*columns.keys, "value", valid_from, valid_to)
    return Picture(title, width, int(sheet.bottom) + _BOTTOM, tuple(parts), fades(sheet), names, table)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _sheet(lanes: Sequence[Lane], start_us: int | None, end_us: int | None, width: int) -> Sheet:
    told = [us for lane in lanes for span in lane.spans for us in (span.from_us, span.to_us) if us is not None]
    if start_us is not None and end_us is not None and end_us < start_us:
        raise ConfigurationError(f"{instant_text(end_us)} is before {instant_text(start_us)}. Swap start and end.")
    # If all versions lie beyond the only bound given, it is both ends.
    first_us = min(told, default=0) if start_us is None else start_us
    last_us = max([first_us, *told]) if end_us is None else end_us
    first_us = min(first_us, last_us)
    if width < 480:
        raise ConfigurationError(f"width is {width}. Lanes with their keys need 480 pixels or more.")
    keys_width = min(max((text_width(lane.key, KEY_SIZE) for lane in lanes), default=0), _LONGEST_KEY)
    labels = dict.fromkeys(span.label for lane in lanes for span in lane.spans if span.values is not None)
    # Ids are shared by all pictures on a page, so they are derived from what is drawn.
    mark = f"f{zlib.crc32(repr((lanes, first_us, last_us, width)).encode('utf-8', 'replace')):08x}"
    axis = TimeAxis(first_us, last_us, MARGIN + max(keys_width, _SHORTEST_KEY) + 14, width - MARGIN - FADE)
    colours = {label: n for n, label in enumerate(labels)}
    return Sheet(axis, TOP + max(len(lanes), 1) * LANE, colours, keys_width, mark)


def _small_print(lanes: Sequence[Lane], hidden: int) -> list[str]:
    versions = sum(span.values is not None for lane in lanes for span in lane.spans)
    if not versions:
        return ["no versions"]
    spans = [span for lane in lanes for span in lane.spans]
    told = [
        quantity(len(lanes), "key"),
        quantity(versions, "version"),
        *(["dashed: no value"] if any(span.values is None for span in spans) else []),
        *(["fading: still valid"] if any(span.values is not None and span.to_us is None for span in spans) else []),
        "UTC",
    ]
    are = "is" if hidden == 1 else "are"
    return [*told, f"{quantity(hidden, 'more key')} {are} not drawn"] if hidden > 0 else told


def _cells(span: Span) -> tuple[str, str, str]:
    return (span.label if span.values is not None else "(deleted)", instant_text(span.from_us), span.until)
