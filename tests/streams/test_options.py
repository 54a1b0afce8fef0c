"""Options of joins, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from streams.options import Joined, Materialized
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from versioned.errors import ConfigurationError


def test_a_grace_that_is_said_last_leaves_the_other_options_of_a_join_as_they_are() -> None:
    said = Joined(name="j", on_expired="drop", too_late="side_table", correction_retention=timedelta(hours=1))
    assert said.with_grace_period("1 minute") == replace(said, grace=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("with_name", "j"),
        ("with_grace_period", "1 minute"),
        ("with_retention", "1 minute"),
        ("with_on_expired", "drop"),
        ("with_too_late", "side_table"),
        ("with_corrections", "10 minutes"),
    ],
)
def test_each_option_of_a_join_may_be_the_first_that_is_said(method: str, given: str) -> None:
    first = getattr(Joined, method)(given)
    assert first == getattr(Joined(), method)(given) != Joined()


def test_a_grace_of_a_store_leaves_what_else_was_said_of_it() -> None:
    said = Materialized.versioned("1 day", name="s", time_scope="key", late_policy="side_table", system_history=True)
    assert said.with_grace("1 minute") == replace(said, grace=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("store", "grace", "told"),
    [
        (Materialized.versioned("1 day"), "26 hours", r"grace \(1 day 2 hours\) must not be larger"),
        (Materialized.versioned("1 day"), "-1 s", "grace must not be negative"),
        (Materialized.key_value(), "1 s", "A grace of 1 second needs a versioned store"),
    ],
)
def test_a_grace_that_a_store_cannot_have_is_refused(store: Materialized, grace: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{told}"):
        store.with_grace(grace)


@pytest.mark.parametrize("option", ["max_future_skew", "suppressed_record_retention"])
def test_a_span_that_is_negative_is_refused_with_its_name(option: str) -> None:
    builder = StreamsBuilder()
    builder.stream("s").to_changelog("out")
    with pytest.raises(ConfigurationError, match=f"{option} must not be negative; got -1 hour"):
        TopologyTestDriver(builder.build(), **{option: "-1 hour"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Joined.with_grace_period("-1 hour"), "Join grace must not be negative; got -1 hour."),
        (lambda: Materialized.versioned("1 day", grace="26 hours"), "grace (1 day 2 hours) must not be larger"),
    ],
)
def test_a_wrong_duration_is_told_in_the_words_that_people_write(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert told in str(refused.value)
