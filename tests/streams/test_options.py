"""Options of joins, as values."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from streams.options import Joined


def test_a_grace_that_is_said_last_leaves_the_other_options_of_a_join_as_they_are() -> None:
    said = Joined(name="j", on_expired="drop", too_late="side_table", correction_retention=timedelta(hours=1))
    assert said.with_grace_period("1 minute") == replace(said, grace=timedelta(minutes=1))
