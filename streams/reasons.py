"""Why a record was put aside, or why a look-up found nothing: the codes of the ``reason`` columns on both engines."""

from __future__ import annotations

from typing import Final

#: Invalid records: counted in ``skipped-records`` and kept in the rejects table.
NULL_TS: Final = "NULL_TS"
FUTURE_TS: Final = "FUTURE_TS"
NULL_KEY: Final = "NULL_KEY"
NULL_VALUE: Final = "NULL_VALUE"
BEFORE_WINDOWS: Final = "BEFORE_WINDOWS"

#: Valid records that came too late, kept only where the node's policy says so.
LATE: Final = "LATE"
TOO_LATE: Final = "TOO_LATE"

#: Look-ups without a result (R139-R143).
NO_MATCH: Final = "NO_MATCH"
TOMBSTONE: Final = "TOMBSTONE"
EXPIRED: Final = "EXPIRED"
