"""The versioned store, record by record: R172-R186 and what a brute-force definition says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioned.errors import ConfigurationError, RecordError
from versioned.store_rules import LATEST, REFUSED, Reason, Version, VersionedStore


def filled(*puts: tuple[str, str | None, int], retention_us: int = 100, **options: Any) -> VersionedStore:
    store = VersionedStore(retention_us, **options)
    for key, value, ts_us in puts:
        store.put(key, value, ts_us)
    return store


def value_at(store: VersionedStore, key: str, at_us: int) -> Any:
    found = store.as_of(key, at_us)
    return found if isinstance(found, Reason) else found.value


@pytest.mark.rule("R172", "R173", "R174", "R175", "R176", "R177", "R182")
@pytest.mark.parametrize(
    ("puts", "ts_us", "outcome"),
    [
        ([], 10, LATEST),
        ([("k", "a", 10)], 20, LATEST),
        ([("k", "a", 20)], 10, 20),
        ([("k", "a", 10), ("k", "b", 30)], 20, 30),
        ([("k", "a", 10)], 10, LATEST),
        ([("k", "a", 10), ("k", "b", 30)], 10, 30),
        ([("k", None, 30)], 10, 30),
        ([("other", "a", 200)], 100, LATEST),
        ([("other", "a", 200)], 99, REFUSED),
        ([("k", "a", -20)], -30, -20),
    ],
)
def test_put_tells_when_the_version_ends_or_that_it_is_the_latest_or_that_it_is_refused(
    puts: list[tuple[str, str | None, int]], ts_us: int, outcome: int
) -> None:
    assert filled(*puts).put("k", "new", ts_us) == outcome


@pytest.mark.rule("R172", "R173")
@pytest.mark.parametrize(("ts_us", "is_latest"), [(-5, False), (-1, True), (0, True)])
def test_an_outcome_tells_a_version_that_ends_just_before_1970_from_the_latest(ts_us: int, is_latest: bool) -> None:
    outcome = filled(("k", None, -1)).take("k", "a", ts_us)
    assert (outcome.is_latest, outcome.result) == (is_latest, -1)


@pytest.mark.rule("R174")
def test_the_outcome_of_a_refused_put_is_not_the_latest() -> None:
    outcome = filled(("k", "a", 1_000)).take("other", "b", 899)
    assert (outcome.is_refused, outcome.is_latest, outcome.result) == (True, False, REFUSED)


@pytest.mark.rule("R174")
def test_the_outcomes_are_the_numbers_of_the_paper() -> None:
    assert (LATEST, REFUSED) == (-1, -9_223_372_036_854_775_808)


@pytest.mark.rule("R182", "R176")
def test_a_refused_put_changes_nothing_and_does_not_move_stream_time() -> None:
    store = filled(("k", "a", 1_000))
    before = list(store)
    assert store.put("other", "b", 899) == REFUSED
    assert (list(store), store.stream_time_us()) == (before, 1_000)


@pytest.mark.rule("R183")
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("a", None), (None, "b")])
def test_of_two_records_of_one_key_and_time_the_later_in_the_input_stays(first: str | None, second: str | None) -> None:
    store = filled(("k", first, 10), ("k", second, 10))
    assert [(version.value, version.valid_from_us) for version in store] == [(second, 10)]


def test_what_was_stored_before_comes_back_without_moving_stream_time() -> None:
    store = VersionedStore(100)
    store.restore("k", "a", 500)
    assert (store.stream_time_us(), store.get("k")) == (None, Version("k", "a", 500, None))
    store.observe(300)
    store.observe(200)
    assert (store.put("k", "late", 199), store.put("k", "in time", 200)) == (REFUSED, 500)


def test_a_stream_time_per_key_comes_back_with_its_versions() -> None:
    store = VersionedStore(100, scope="key")
    store.restore("k", "a", 500)
    assert (store.put("k", "late", 399), store.put("other", "b", 1)) == (REFUSED, LATEST)


@pytest.mark.rule("R189")
def test_input_that_is_read_again_changes_nothing_that_is_past_grace() -> None:
    changelog = [("k", "a", 10), ("k", "b", 500), ("k", None, 550), ("other", "c", 600)]
    store = filled(*changelog)
    store.put("k", "corrected", 500)
    before = list(store)
    again = [store.put(key, value, ts_us) for key, value, ts_us in changelog[:1]]
    assert (again, list(store)) == ([REFUSED], before)


@pytest.mark.rule("R181")
def test_a_version_is_valid_from_its_start_inclusive_to_the_next_start_exclusive() -> None:
    store = filled(("k", "a", 10), ("k", "b", 20))
    assert [value_at(store, "k", at) for at in (9, 10, 19, 20, 21)] == [Reason.NO_MATCH, "a", "a", "b", "b"]


@pytest.mark.rule("R181")
def test_a_late_put_splits_just_the_version_that_was_valid_then() -> None:
    store = filled(("k", "a", 10), ("k", "c", 30), ("k", "b", 20))
    assert list(store) == [Version("k", "a", 10, 20), Version("k", "b", 20, 30), Version("k", "c", 30, None)]


@pytest.mark.rule("R180")
def test_a_tombstone_at_the_time_of_the_latest_value_keeps_a_late_older_put_from_reviving_the_key() -> None:
    store = filled(("k", "v", 32), ("k", None, 32), ("k", "w", 29))
    assert (store.get("k"), value_at(store, "k", 31), value_at(store, "k", 32)) == (None, "w", Reason.TOMBSTONE)


@pytest.mark.rule("R185")
def test_delete_gives_what_was_valid_before_and_leaves_a_tombstone() -> None:
    store = filled(("k", "a", 10))
    assert store.delete("k", 15) == Version("k", "a", 10, None)
    assert value_at(store, "k", 15) is Reason.TOMBSTONE


@pytest.mark.rule("R185")
def test_a_delete_that_is_too_late_gives_nothing_and_changes_nothing() -> None:
    store = filled(("k", "a", 10), ("other", "b", 200))
    assert store.delete("k", 50) is None
    assert value_at(store, "k", 199) == "a"


@pytest.mark.rule("R184")
@pytest.mark.parametrize(
    ("at_us", "found"), [(899, Reason.EXPIRED), (900, "a"), (949, "a"), (950, "b"), (1_000, "b"), (9_999, "b")]
)
def test_before_the_horizon_an_older_version_is_not_served(at_us: int, found: Any) -> None:
    store = filled(("k", "a", 100), ("k", "b", 950), ("other", "x", 1_000))
    assert value_at(store, "k", at_us) == found


@pytest.mark.rule("R184")
def test_the_latest_version_never_expires() -> None:
    store = filled(("k", "a", 10), ("other", "x", 1_000_000))
    assert [value_at(store, "k", at) for at in (9, 10, 500)] == [Reason.EXPIRED, "a", "a"]


@pytest.mark.rule("R158", "R182")
def test_grace_may_be_shorter_than_the_history_retention() -> None:
    store = filled(("k", "a", 10), ("k", "b", 100), retention_us=100, grace_us=20)
    assert (store.put("k", "c", 79), store.put("k", "c", 80), value_at(store, "k", 15)) == (REFUSED, 100, "a")


@pytest.mark.rule("R159")
@pytest.mark.parametrize(("scope", "outcome"), [("partition", REFUSED), ("store", REFUSED), ("key", LATEST)])
def test_a_fast_key_expels_another_keys_only_record_unless_each_key_has_its_own_time(scope: Any, outcome: int) -> None:
    store = filled(("fast", "x", 1_000), scope=scope)
    assert store.put("slow", "y", 10) == outcome


@pytest.mark.rule("R159")
@pytest.mark.parametrize(("scope", "outcome"), [("partition", LATEST), ("store", REFUSED), ("key", LATEST)])
def test_partitions_share_a_stream_time_only_if_the_whole_store_does(scope: Any, outcome: int) -> None:
    store = VersionedStore(100, scope=scope)
    store.put("fast", "x", 1_000, partition=0)
    assert store.put("slow", "y", 10, partition=1) == outcome


@pytest.mark.rule("R182")
@pytest.mark.parametrize(("ts_us", "outcome"), [(-301, LATEST), (-300, LATEST)])
def test_negative_times_are_times_like_any_other(ts_us: int, outcome: int) -> None:
    assert filled(retention_us=300).put("k", "a", ts_us) == outcome


def test_a_store_can_begin_to_count_where_kafkas_does() -> None:
    store = VersionedStore(300, first_stream_time_us=-1)
    assert (store.put("k", "a", -302), store.put("k", "a", -301)) == (REFUSED, LATEST)


@pytest.mark.parametrize("use", ["put", "restore"])
def test_a_version_before_the_first_stream_time_leaves_it_as_it_is(use: str) -> None:
    store = VersionedStore(300, first_stream_time_us=-1)
    getattr(store, use)("k", "a", -5)
    assert (store.stream_time_us("k"), store.horizon_us("k")) == (-1, -301)


@pytest.mark.parametrize(
    ("from_us", "to_us", "values"),
    [
        (None, None, ["a", "b", "d"]),
        (15, 20, ["a", "b"]),
        (19, 19, ["a"]),
        (30, 39, []),
        (29, 40, ["b", "d"]),
        (None, 9, []),
        (50, None, ["d"]),
    ],
)
def test_a_range_gives_every_version_that_was_valid_in_it(from_us: int | None, to_us: int | None, values: Any) -> None:
    store = filled(("k", "a", 10), ("k", "b", 20), ("k", None, 30), ("k", "d", 40))
    assert [version.value for version in store.history("k", from_us, to_us, ascending=True)] == values
    assert [version.value for version in store.history("k", from_us, to_us)] == values[::-1]


def test_a_range_that_ends_before_it_begins_is_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigurationError, match=r"ends \(89 us\) before it begins \(91 us\)"):
        filled(("k", "a", 10)).history("k", 91, 89)


@pytest.mark.rule("R180")
def test_a_null_key_is_refused_with_the_time() -> None:
    with pytest.raises(RecordError, match="no null key; got one at 7 us"):
        filled().put(None, "a", 7)


@pytest.mark.rule("R186")
@pytest.mark.parametrize(
    ("retention_us", "grace_us", "said"),
    [
        (-1, None, "history_retention must not be negative; got -1 microsecond"),
        (10, -1, "grace must not be negative; got -1 microsecond"),
        (10, 11, r"grace \(11 microseconds\) .* history_retention \(10 microseconds\)"),
    ],
)
def test_a_negative_retention_or_a_grace_outside_it_is_refused_with_the_numbers(
    retention_us: int, grace_us: int | None, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        VersionedStore(retention_us, grace_us)


def test_a_purge_keeps_what_can_be_looked_up_and_every_latest_value() -> None:
    store = filled(("old", "x", 5), ("dead", None, 5), ("k", "a", 10), ("k", "b", 20), ("k", "c", 150))
    store.put("tick", "t", 240)
    assert store.purge() == 2
    assert [(version.key, version.value) for version in store] == [("old", "x"), ("k", "b"), ("k", "c"), ("tick", "t")]


@pytest.mark.parametrize(
    ("died_us", "answer"), [(139, Reason.NO_MATCH), (140, Reason.TOMBSTONE), (150, Reason.TOMBSTONE)]
)
def test_a_purge_forgets_a_deleted_key_only_when_its_tombstone_is_older_than_the_horizon(
    died_us: int, answer: Reason
) -> None:
    store = filled(("k", "a", 10), ("k", None, died_us), ("tick", "t", 240))
    store.purge()
    assert value_at(store, "k", 240) is answer
    assert list(store.keys()) == (["tick"] if answer is Reason.NO_MATCH else ["k", "tick"])


def test_a_store_that_has_seen_no_record_purges_nothing() -> None:
    store = VersionedStore(10)
    store.restore("k", "a", 5)
    assert store.purge() == 0


@dataclass(frozen=True)
class Call:
    key: str
    value: str | None
    ts_us: int


CALLS = st.lists(
    st.builds(Call, st.sampled_from("ab"), st.one_of(st.none(), st.sampled_from("xyz")), st.integers(-60, 60)),
    max_size=25,
)


def brute_force(calls: list[Call], grace_us: int) -> tuple[dict[tuple[str, int], str | None], int | None]:
    """Accepted records by (key, time), the last one of each, and stream time."""
    kept: dict[tuple[str, int], str | None] = {}
    observed: int | None = None
    for call in calls:
        if observed is None or call.ts_us >= observed - grace_us:
            kept[call.key, call.ts_us] = call.value
            observed = call.ts_us if observed is None else max(observed, call.ts_us)
    return kept, observed


@pytest.mark.rule("R172", "R180", "R181", "R182", "R183", "R184")
@given(CALLS, st.integers(0, 80), st.integers(0, 80), st.integers(-70, 70))
def test_every_look_up_equals_a_search_through_the_accepted_records(
    calls: list[Call], grace_us: int, more_us: int, at_us: int
) -> None:
    store = VersionedStore(grace_us + more_us, grace_us)
    for call in calls:
        store.put(call.key, call.value, call.ts_us)
    kept, observed = brute_force(calls, grace_us)
    for key in "ab":
        times = sorted(ts for name, ts in kept if name == key)
        starts = [ts for ts in times if ts <= at_us]
        expired = observed is not None and at_us < observed - store.retention_us and starts != times
        expected: Any = kept[key, starts[-1]] if starts and not expired else None
        found = store.as_of(key, at_us)
        assert (None if isinstance(found, Reason) else found.value) == expected
        latest = store.get(key)
        assert (latest and latest.value) == (kept[key, times[-1]] if times else None)


@given(CALLS, st.integers(0, 80))
def test_the_versions_of_a_key_follow_each_other_without_gap_or_overlap(calls: list[Call], grace_us: int) -> None:
    store = VersionedStore(grace_us)
    for call in calls:
        store.put(call.key, call.value, call.ts_us)
    for key in {call.key for call in calls}:
        versions = [version for version in store if version.key == key]
        ends = [version.valid_to_us for version in versions]
        assert ends == [*(version.valid_from_us for version in versions[1:]), *([None] if versions else [])]


@given(CALLS, st.integers(0, 80), st.integers(-60, 60))
def test_a_purge_changes_no_answer_from_the_horizon_on(calls: list[Call], grace_us: int, at_us: int) -> None:
    store, purged = VersionedStore(grace_us), VersionedStore(grace_us)
    for call in calls:
        assert store.put(call.key, call.value, call.ts_us) == purged.put(call.key, call.value, call.ts_us)
        purged.purge()
    for key in "ab":
        before, after = store.as_of(key, at_us), purged.as_of(key, at_us)
        assert isinstance(before, Reason) == isinstance(after, Reason)
        if not isinstance(before, Reason) and not isinstance(after, Reason):
            assert (before.value, before.valid_from_us) == (after.value, after.valid_from_us)


@pytest.mark.rule("R184")
def test_without_a_partition_a_look_up_goes_by_the_time_of_the_keys_last_put() -> None:
    store = VersionedStore(100)
    store.put("k", "a", 10, partition=0)
    store.put("fast", "x", 1_000, partition=1)
    assert value_at(store, "k", 5) is Reason.NO_MATCH
    store.put("k", "b", 950, partition=1)
    assert value_at(store, "k", 10) is Reason.EXPIRED


@pytest.mark.rule("R184")
@pytest.mark.parametrize(("partition", "reason"), [(0, Reason.NO_MATCH), (1, Reason.EXPIRED)])
def test_a_look_up_of_a_partition_goes_by_the_time_of_that_partition(partition: int, reason: Reason) -> None:
    store = VersionedStore(100)
    store.put("k", "a", 10, partition=0)
    store.put("fast", "x", 1_000, partition=1)
    assert store.as_of("k", 5, partition=partition) is reason


@pytest.mark.rule("R184")
@pytest.mark.parametrize(
    ("scope", "slowest", "reason"),
    [
        ("partition", False, Reason.EXPIRED),
        ("partition", True, Reason.NO_MATCH),
        ("key", True, Reason.EXPIRED),
    ],
)
def test_a_look_up_may_go_by_the_time_of_the_slowest_partition_but_of_no_other_key(
    scope: Any, slowest: bool, reason: Reason
) -> None:
    store = VersionedStore(100, scope=scope)
    store.put("slow", "a", 10, partition=0)
    store.put("k", "x", 1_000, partition=1)
    assert store.as_of("k", 5, slowest=slowest) is reason


def test_in_a_store_that_has_seen_no_record_nothing_has_expired() -> None:
    store = VersionedStore(10)
    for value, ts_us in (("a", 5), ("b", 500)):
        store.restore("k", value, ts_us)
    assert [value_at(store, "k", at_us) for at_us in (4, 5, 500)] == [Reason.NO_MATCH, "a", "b"]
