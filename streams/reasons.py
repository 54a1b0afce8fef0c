"""Why a record was rejected or a lookup found nothing: the codes in ``reason`` columns on both engines."""

from __future__ import annotations

from typing import Final

from versioned.store_rules import Reason

#: Invalid records: counted in ``skipped-records`` and kept in the rejects unless the source's contract drops them.
NULL_TS: Final = "NULL_TS"
FUTURE_TS: Final = "FUTURE_TS"
TS_RANGE: Final = "TS_RANGE"
NULL_KEY: Final = "NULL_KEY"
NULL_VALUE: Final = "NULL_VALUE"
BEFORE_WINDOWS: Final = "BEFORE_WINDOWS"
AFTER_WINDOWS: Final = "AFTER_WINDOWS"
BAD_TYPE: Final = "BAD_TYPE"
TOO_LARGE: Final = "TOO_LARGE"
DUPLICATE: Final = "DUPLICATE"
#: Breaks a rule that its source declares; the rule's name follows: ``QUALITY:amount_is_positive``.
QUALITY: Final = "QUALITY"
#: All reasons of invalid records.
INVALID: Final = (
    NULL_TS, FUTURE_TS, TS_RANGE, NULL_KEY, NULL_VALUE, BEFORE_WINDOWS, AFTER_WINDOWS, BAD_TYPE, TOO_LARGE, DUPLICATE,
    QUALITY,
)  # fmt: skip

#: Valid records that came too late, kept only where the node's policy says so.
LATE: Final = "LATE"
TOO_LATE: Final = "TOO_LATE"

#: Lookups without a result (R139-R143).
NO_MATCH: Final = Reason.NO_MATCH.value
TOMBSTONE: Final = Reason.TOMBSTONE.value
EXPIRED: Final = Reason.EXPIRED.value
