"""The contract of a versioned table: what it may promise, and that it travels with the table."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US, Resolution
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.spec import SPEC_PROPERTY, SYSTEM_FROM, VersionedTableSpec


def _spec(**changes: Any) -> VersionedTableSpec:
    return VersionedTableSpec.of(**{"keys": "id", "values": ["price"], "history_retention": "7 days"} | changes)


@pytest.mark.rule("R182")
def test_grace_is_the_history_retention_unless_it_is_given() -> None:
    spec = _spec()
    assert spec.grace_us == spec.history_retention_us == 7 * 24 * 3_600 * 1_000_000


def test_one_name_stands_for_a_list_of_one() -> None:
    assert _spec(keys="id", values="price") == _spec(keys=["id"], values=("price",))


def test_the_time_columns_have_their_documented_names_unless_given() -> None:
    spec = _spec()
    assert (spec.valid_from, spec.valid_to) == ("validFrom", "validTo")


@pytest.mark.rule("R186")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"history_retention": "-1 us"}, r"must not be negative; got -1 microsecond\.", id="retention < 0"),
        pytest.param({"grace": "-1 us"}, r"grace must not be negative; got -1 microsecond\.", id="grace < 0"),
        pytest.param({"grace": "8 days"}, r"grace \(8 days\) .* history_retention \(7 days\)", id="too long"),
    ],
)
def test_impossible_durations_are_refused_with_the_numbers(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _spec(**changes)


@pytest.mark.rule("R186")
@pytest.mark.parametrize("changes", [{"history_retention": "0 s"}, {"grace": "0 s"}, {"grace": "7 days"}])
def test_a_retention_and_a_grace_of_zero_are_valid(changes: dict[str, Any]) -> None:
    assert _spec(**changes).grace_us <= _spec(**changes).history_retention_us


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"keys": []}, "at least one key column", id="no key"),
        pytest.param({"values": ["id"]}, "named twice", id="a key that is a value"),
        pytest.param({"values": ["ID"]}, "differ only by case", id="a key that is a value but for case"),
        pytest.param({"values": ["validto"]}, "differ only by case", id="a value named as the end column"),
        pytest.param({"valid_to": "validFrom"}, "named twice", id="start and end of one name"),
        pytest.param({"values": ["deleted"]}, "reserved", id="a reserved value"),
        pytest.param({"valid_from": "_from"}, "beginning with a letter", id="a start column with underscore"),
        pytest.param({"time_scope": "topic"}, 'partition, store or key; got "topic"', id="an unknown scope"),
        pytest.param(
            {"time_resolution": "MILLISECOND"}, r"Resolution.MILLISECOND; got 'MILLISECOND'", id="a text as resolution"
        ),
        pytest.param({"first_stream_time_us": "x"}, 'whole microseconds .* got "x"', id="a text as first time"),
        pytest.param({"first_stream_time_us": -(10**19)}, "years 1 to 9999; got -10{19}", id="no instant as first"),
        pytest.param({"first_stream_time_us": True}, "got True", id="a boolean as first time"),
        pytest.param({"history_retention": None}, "None is not a duration", id="no retention"),
        pytest.param({"grace": 5}, "5 is not a duration", id="a number as grace"),
        pytest.param({"keys": ("id", 5)}, "a name, .*; got 5", id="a number as key"),
        pytest.param({"valid_from": None}, "valid_from takes the name of a column; got None", id="no start column"),
        pytest.param({"system_history": "no"}, 'system_history takes True or False; got "no"', id="a text as switch"),
    ],
)
def test_impossible_columns_and_settings_are_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _spec(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"keys": ("id", 5)}, "a name, .*; got 5", id="a number as key"),
        pytest.param({"values": None}, "a name, .*; got None", id="no values"),
        pytest.param({"valid_to": None}, "valid_to takes the name of a column; got None", id="no end column"),
        pytest.param(
            {"history_retention_us": "7 days"}, 'history_retention_us takes .*; got "7 days"', id="a duration"
        ),
        pytest.param({"grace_us": timedelta(0)}, "grace_us takes whole microseconds; .* got 0:00:00", id="a timedelta"),
        pytest.param({"system_history": "no"}, 'system_history takes True or False; got "no"', id="a text as switch"),
        pytest.param({"first_stream_time_us": "x"}, 'whole microseconds .* got "x"', id="a text as first time"),
    ],
)
def test_a_spec_is_checked_where_it_is_made_without_its_factory_too(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        replace(_spec(), **changes)


@pytest.mark.parametrize(
    "told",
    [{"first_stream_time_us": -7}, {"system_history": True}, {"time_scope": "store"}],
    ids=lambda told: next(iter(told)),
)
def test_a_spec_keeps_what_it_is_told_beside_its_columns(told: dict[str, Any]) -> None:
    assert (
        {name: getattr(_spec(**told), name) for name in told} == told != {name: getattr(_spec(), name) for name in told}
    )


@pytest.mark.parametrize("name", [SYSTEM_FROM, "systemTo"])
def test_a_column_may_be_called_like_a_system_time_only_without_system_history(name: str) -> None:
    assert _spec(values=name).values == (name,)
    with pytest.raises(ConfigurationError, match=name):
        _spec(values=name, system_history=True)


@pytest.mark.parametrize("edge_us", [FIRST_INSTANT_US, LAST_INSTANT_US])
def test_stream_time_may_begin_with_any_instant_of_the_calendar_and_no_other(edge_us: int) -> None:
    assert _spec(first_stream_time_us=edge_us).first_stream_time_us == edge_us
    beyond_us = edge_us + (1 if edge_us > 0 else -1)
    with pytest.raises(ConfigurationError, match=f"of the years 1 to 9999; got {beyond_us}"):
        _spec(first_stream_time_us=beyond_us)


@pytest.mark.rule("R159", "R184")
@pytest.mark.parametrize(
    ("scope", "stream_times", "horizon_us"),
    [
        ("partition", {0: 9, 1: 5}, 2),
        ("key", {0: 9}, None),
        ("store", {0: FIRST_INSTANT_US + 2}, FIRST_INSTANT_US),
    ],
    ids=["the slowest partition's", "none for all keys", "not before the calendar"],
)
def test_the_horizon_of_a_table_is_that_of_its_slowest_scope(
    scope: str, stream_times: dict[int, int], horizon_us: int | None
) -> None:
    assert _spec(history_retention="3 us", time_scope=scope).horizon_us(stream_times) == horizon_us


def test_a_table_may_have_no_value_columns() -> None:
    assert _spec(values=[]).values == ()


_SPECS = st.builds(
    lambda retention, early, **fields: VersionedTableSpec(
        history_retention_us=retention + early, grace_us=retention, **fields
    ),
    retention=st.integers(0, 2**62),
    early=st.integers(0, 2**40),
    keys=st.sampled_from([("id",), ("shop", "id")]),
    values=st.sampled_from([(), ("price",), ("price", "currency")]),
    valid_from=st.sampled_from(["validFrom", "since"]),
    valid_to=st.sampled_from(["validTo", "until"]),
    time_scope=st.sampled_from(["partition", "store", "key"]),
    time_resolution=st.sampled_from(list(Resolution)),
    first_stream_time_us=st.one_of(st.none(), st.integers(-(2**40), 2**40)),
)


@given(_SPECS)
def test_a_spec_comes_back_from_the_properties_of_its_table(spec: VersionedTableSpec) -> None:
    assert VersionedTableSpec.from_properties(spec.to_properties(), "t") == spec


def test_a_retention_that_never_ends_is_the_same_however_long_the_table_says_it_is() -> None:
    forever = _spec(history_retention=timedelta.max)
    said = json.loads(forever.to_properties()[SPEC_PROPERTY])
    longer = dict.fromkeys(("history_retention_us", "grace_us"), timedelta.max // timedelta(microseconds=1))
    assert VersionedTableSpec.from_properties({SPEC_PROPERTY: json.dumps(said | longer)}, "t") == forever


def test_a_table_that_was_made_with_a_first_stream_time_outside_the_calendar_still_opens() -> None:
    said = json.loads(_spec().to_properties()[SPEC_PROPERTY]) | {"first_stream_time_us": -(2**62)}
    stored = {SPEC_PROPERTY: json.dumps(said)}
    assert VersionedTableSpec.from_properties(stored, "t").first_stream_time_us == -(2**62)


def test_a_spec_is_stored_as_text_that_other_tools_can_read() -> None:
    stored = json.loads(_spec().to_properties()[SPEC_PROPERTY])
    assert (stored["keys"], stored["history_retention_us"]) == (["id"], 604_800_000_000)


def test_a_table_without_the_property_is_refused_by_name() -> None:
    with pytest.raises(NotAVersionedTableError, match=r"sales\.rates is not a versioned table.*VersionedTable\.create"):
        VersionedTableSpec.from_properties({"delta.minReaderVersion": "1"}, "sales.rates")


def test_a_table_that_a_later_version_made_is_refused_by_what_it_says() -> None:
    said = json.loads(_spec().to_properties()[SPEC_PROPERTY]) | {"shards": 4}
    with pytest.raises(ConfigurationError, match=r"rates was made by a later version.* says \['shards'\]"):
        VersionedTableSpec.from_properties({SPEC_PROPERTY: json.dumps(said)}, "rates")


@pytest.mark.parametrize(
    ("stream_times", "changes", "told"),
    [
        (
            {0: 8, 1: 1, 2: 9},
            {},
            "scope 1 (stream time 1970-01-02 00:00:00+00:00, 8 days behind that of scope 2)",
        ),
        ({0: 8, 1: 1}, {}, None),
        ({0: 8, 1: 0}, {"time_scope": "key"}, None),
        ({0: 8}, {}, None),
        ({}, {}, None),
    ],
    ids=["longer than the retention", "as long as the retention", "each key for itself", "one scope", "no record"],
)
def test_a_scope_that_is_silent_for_longer_than_the_retention_is_told(
    stream_times: dict[int, int], changes: dict[str, Any], told: str | None
) -> None:
    days_us = {scope: day * 86_400_000_000 for scope, day in stream_times.items()}
    assert _spec(**changes).held_back_by(days_us) == told
