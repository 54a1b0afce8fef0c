"""Time zones by the names that Java, and so Spark, knows."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2}))?|([0-9]{2})([0-9]{2}))")
_FARTHEST: Final = timedelta(hours=18)

#: Short names that Java gives a meaning of its own, where the time zone database has none or another one.
_SHORT: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def zone_of(name: str) -> tzinfo:
    """The time zone that a name or an offset from UTC stands for; ``""`` is UTC.

    Raises:
        LookupError, OSError, ValueError: there is none.

    >>> zone_of("+05:30"), zone_of("JST")
    (datetime.timezone(datetime.timedelta(seconds=19800)), zoneinfo.ZoneInfo(key='Asia/Tokyo'))
    """
    if name in ("", "Z", "UTC", "UT"):
        return timezone.utc
    found = _OFFSET.fullmatch(name)
    if found is None:
        return ZoneInfo(_SHORT.get(name, name))
    sign, hours, minutes, packed_hours, packed_minutes = found.groups()
    of_hour = int(minutes or packed_minutes or 0)
    offset = timedelta(hours=int(hours or packed_hours), minutes=of_hour)
    if of_hour > 59 or offset > _FARTHEST:
        raise ValueError(f"{name} is no offset from UTC: at most 18:00, with at most 59 minutes beside the hours.")
    return timezone(-offset if sign == "-" else offset)
