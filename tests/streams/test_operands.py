"""Two values of different types as one type."""

from __future__ import annotations

from datetime import datetime, timezone

from streams.operands import alike


def test_beside_an_instant_with_its_zone_one_without_is_in_utc() -> None:
    naive, aware = datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert alike(naive, aware) == (aware, aware)
