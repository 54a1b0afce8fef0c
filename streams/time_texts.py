"""Texts as dates and instants, and instants as texts, in the forms that Spark's casts accept; in UTC.

Texts that depend on the clock (``now``, ``today``, a time without a date) are not read: a replay would read them
differently.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from typing import Final

from versioned.clock_texts import TIME_ALONE
from versioned.zone_ids import zone_of

_DAY: Final = r"\+?([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_DATE: Final = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.DOTALL)
_TIME: Final = r"[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?"
_INSTANT: Final = re.compile(_DAY + rf"(?:{_TIME})?)?)?", re.DOTALL)

_OF_NOW: Final = re.compile(r"[\s\x00-\x20]*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TIME_ALONE: Final = re.compile(TIME_ALONE)
#: The characters that Java's ``trim`` removes; Spark's own casts also remove DEL. Python's ``strip`` removes others.
BLANKS: Final = "".join(map(chr, range(0x21)))
_TRIMMED: Final = BLANKS + "\x7f"


def trimmed(text: str) -> str:
    """A text without the characters at both ends that Spark's casts ignore.

    >>> trimmed("\\t7 "), trimmed("\u00a07")
    ('7', '\\xa07')
    """
    return text.strip(_TRIMMED)


def asks_for_now(text: str) -> bool:
    """Whether Spark reads a constant text as an instant or a day relative to now.

    >>> asks_for_now(" Today"), asks_for_now("nowhere")
    (True, False)
    """
    return _OF_NOW.match(text) is not None


def is_time_alone(text: str) -> bool:
    """Whether Spark reads a text as a time of today when it casts it to an instant.

    >>> is_time_alone("9:30"), is_time_alone("2026-01-01 09:30")
    (True, False)
    """
    return _TIME_ALONE.match(text) is not None


def date_of(text: str) -> date | None:
    """The date that a text begins with; null if there is none.

    >>> date_of("2026-1-5T10:00:00Z")
    datetime.date(2026, 1, 5)
    """
    found = _DATE.fullmatch(trimmed(text))
    try:
        return found and date(*(int(part or 1) for part in found.groups()))
    except (ValueError, OverflowError):
        return None


def instant_of(text: str) -> datetime | None:
    """The instant that a text names, in UTC unless it says otherwise; null if there is none.

    >>> instant_of("2026-01-05 10:00:00+01:00")
    datetime.datetime(2026, 1, 5, 9, 0, tzinfo=datetime.timezone.utc)
    """
    found = _INSTANT.fullmatch(trimmed(text))
    if found is None:
        return None
    *day, hour, minute, second, fraction, zone = found.groups()
    try:
        time = (*(int(part or 0) for part in (hour, minute, second)), int((fraction or "").ljust(6, "0")[:6]))
        local = datetime(*(int(part or 1) for part in day), *time, tzinfo=zone_of((zone or "").strip(BLANKS)))  # type: ignore[arg-type, misc]
        return local.astimezone(timezone.utc)
    except (ValueError, OverflowError, LookupError, OSError):
        return None


def as_instant(value: date) -> datetime:
    """A value as an instant: a date as its midnight, a datetime without a zone as UTC."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def instant_text(value: datetime) -> str:
    """An instant as Spark writes it in a session in UTC: no zone, no zeros at the end of a fraction.

    >>> instant_text(datetime(2026, 1, 5, 9, 0, 0, 500_000))
    '2026-01-05 09:00:00.5'
    """
    text = as_instant(value).astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if value.microsecond else text
