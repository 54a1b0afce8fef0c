"""Every call of the versioned-store traces, on Spark and Delta.

All scenarios share one table. Wherever reads come between writes, the writes until there are a *story* of their own,
part of the key and a stream-time scope: so all stories are put at once, in a few batches cut at random, and all reads
are asked of the same stored rows. The rules are about differences of times only, so each scenario's times are scaled
until all have the same history retention.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.durations import Resolution
from versioned.lookup_frames import as_of_frame, between_frame, current_frame, lookup_frame
from versioned.table import VersionedTable

_TRACES: Final = Path(__file__).parents[1] / "traces" / "versioned_store.json"
_RETENTION_MS: Final = 3_000
_KAFKA_START_US: Final = -1_000
_REFUSED: Final = -(2**63)
_WRITES: Final = ("put", "delete")
_BATCHES: Final = 3
_NO_STORY: Final = -1
_RECORDS: Final = "story INT, k STRING, v STRING, ms LONG, step INT, dead BOOLEAN"
_ASKED: Final = "story INT, k STRING, call INT, first LONG, last LONG, oldest LONG"

Answer = Any
Version = tuple[str, int, int | None]


@dataclass(frozen=True)
class Call:
    """A valid call: its number over all scenarios, how many runs of writes came before it (its own included)."""

    number: int
    case: int
    name: str
    index: int
    runs: int
    step: dict[str, Any]
    factor: int
    expected: Answer

    @property
    def kind(self) -> str:
        return str(self.step["call"])

    def time(self, name: str) -> int | None:
        found: int | None = self.step.get(name)
        return None if found is None else found * self.factor


@dataclass(frozen=True)
class Stories:
    """The table after all stories, which story a call can be asked of, and what each write returned in each story."""

    table: VersionedTable
    number: dict[tuple[int, int], int]
    returned: dict[tuple[int, int], Answer]

    def of(self, call: Call) -> int:
        return self.number.get((call.case, call.runs), _NO_STORY)


def _factor(retention_ms: int) -> int:
    # Retention 0: any two different times must lie further apart than the common retention.
    return _RETENTION_MS // retention_ms if retention_ms else _RETENTION_MS + 1


def _scaled(told: dict[str, Any], factor: int) -> Answer:
    """What a call returns: a number, or a version or versions as (value, from, to), with times scaled."""
    if "return" in told:
        return told["return"] if told["return"] in (-1, _REFUSED) else told["return"] * factor
    if "records" in told:
        return [_version(record, factor) for record in told["records"]]
    return None if told["record"] is None else _version(told["record"], factor)


def _version(record: dict[str, Any], factor: int) -> Version:
    end = record.get("valid_to")
    return (record["value"], record["timestamp"] * factor, None if end is None else end * factor)


def _calls(case: int, scenario: dict[str, Any]) -> Iterator[Call]:
    told = {answer["input_index"]: answer for answer in scenario["expected"]["returns"]}
    valid = [(i, step) for i, step in enumerate(scenario["steps"]) if "error" not in told[i]]
    factor = _factor(scenario["params"]["history_retention_ms"])
    runs = 0
    for is_write, run in groupby(valid, key=lambda numbered: numbered[1]["call"] in _WRITES):
        runs += is_write
        for i, step in run:
            yield Call(case * 1_000 + i, case, scenario["id"], i, runs, step, factor, _scaled(told[i], factor))


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """The calls of all scenarios that are no errors."""
    scenarios = json.loads(_TRACES.read_text())
    return [call for case, scenario in enumerate(scenarios) for call in _calls(case, scenario)]


def _stories(calls: list[Call]) -> dict[tuple[int, int], list[Call]]:
    """By scenario and number of runs: the writes until there."""
    writes = [call for call in calls if call.kind in _WRITES]
    ends = dict.fromkeys((call.case, call.runs) for call in writes)
    return {(case, runs): [w for w in writes if w.case == case and w.runs <= runs] for case, runs in ends}


@pytest.fixture(scope="module")
def stories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, calls: list[Call]) -> Stories:
    """All writes of all stories, in batches that are cut elsewhere in each story."""
    table = VersionedTable.create(
        spark,
        str(tmp_path_factory.mktemp("traces") / "store"),
        "story INT, k STRING, v STRING",
        keys=["story", "k"],
        history_retention=f"{_RETENTION_MS} milliseconds",
        time_resolution=Resolution.MILLISECOND,
        first_stream_time_us=_KAFKA_START_US,
    )
    chance = random.Random(889)
    told = list(_stories(calls).items())
    batches: list[list[tuple[int, Call]]] = [[] for _ in range(_BATCHES)]
    for story, (_, writes) in enumerate(told):
        places = sorted(chance.choices(range(_BATCHES), k=len(writes)))
        for batch, call in zip(places, writes, strict=True):
            batches[batch].append((story, call))
    returned: dict[tuple[int, int], Answer] = {}
    for batch in batches:
        returned.update(_put(table, spark, batch))
    return Stories(table, {place: story for story, (place, _) in enumerate(told)}, returned)


def _put(table: VersionedTable, spark: SparkSession, writes: list[tuple[int, Call]]) -> dict[tuple[int, int], Answer]:
    """Put one batch; a put gives put_result, a delete the version that was valid."""
    records = spark.createDataFrame([_record(story, call) for story, call in writes], _RECORDS)
    timed = records.selectExpr("story", "k", "v", "timestamp_millis(ms) AS ts", "step", "dead")
    told = table.put(timed, deleted="dead", partition="story", sequence="step")
    assert told.counts.accepted + told.counts.refused + told.rejected_count == len(writes)
    results = {(row["story"], row["sequence"]): row["put_result"] for row in told.outcomes.collect()}
    was = told.changes.selectExpr("story", "sequence", "old.v AS v", "unix_millis(old_valid_from) AS ms").collect()
    # The record of a delete says nothing of where the version ended before.
    valid = {(row["story"], row["sequence"]): (row["v"], row["ms"], None) for row in was if row["v"] is not None}
    deletes = {(story, call.index) for story, call in writes if call.kind == "delete"}
    return {place: valid.get(place) if place in deletes else result for place, result in results.items()}


def _record(story: int, call: Call) -> tuple[Any, ...]:
    dead = call.kind == "delete" or call.step["value"] is None
    return (story, call.step["key"], None if dead else call.step["value"], call.time("ts"), call.index, dead)


def _asked(spark: SparkSession, stories: Stories, calls: list[Call], first: str, last: str) -> DataFrame:
    """The calls as rows: story and key, two times of the call, and the horizon of the story."""
    times_us = stories.table.stream_times()
    rows = []
    for call in calls:
        story = stories.of(call)
        observed_us = max(times_us.get(story, _KAFKA_START_US), _KAFKA_START_US)
        oldest = observed_us // 1_000 - _RETENTION_MS
        rows.append((story, call.step["key"], call.number, call.time(first), call.time(last), oldest))
    times = [f"timestamp_millis({name}) AS {name}" for name in ("first", "last", "oldest")]
    return spark.createDataFrame(rows, _ASKED).selectExpr("story", "k", "call", *times)


def _found(frame: DataFrame) -> dict[int, list[Version]]:
    """By the number of the call: the versions in order of time."""
    times = [f"unix_millis({name})" for name in ("validFrom", "validTo")]
    rows = frame.where("validFrom IS NOT NULL").selectExpr("call", "v", *times).collect()
    found: dict[int, list[Version]] = {}
    for number, value, start, end in sorted(rows, key=lambda row: row[2]):
        found.setdefault(number, []).append((value, start, end))
    return found


def _single(found: dict[int, list[Version]]) -> dict[int, Version]:
    assert all(len(versions) == 1 for versions in found.values())
    return {number: versions[0] for number, versions in found.items()}


def _differences(calls: list[Call], answers: dict[int, Any]) -> list[tuple[str, int, Answer, Answer]]:
    return [
        (call.name, call.index, answers.get(call.number), call.expected)
        for call in calls
        if answers.get(call.number) != call.expected
    ]


def _of_kind(calls: list[Call], kind: str) -> list[Call]:
    return [call for call in calls if call.kind == kind]


@pytest.mark.rule("R172", "R173", "R174", "R177", "R180", "R181", "R182", "R183", "R185")
def test_puts_and_deletes_return_what_every_trace_expects(calls: list[Call], stories: Stories) -> None:
    expected = {
        (stories.number[place], call.index): (call.name, call.expected)
        for place, writes in _stories(calls).items()
        for call in writes
    }
    assert {place: (expected[place][0], told) for place, told in stories.returned.items()} == expected


@pytest.mark.rule("R144", "R180")
def test_get_returns_what_every_trace_expects(spark: SparkSession, calls: list[Call], stories: Stories) -> None:
    asked = _of_kind(calls, "get")
    current = current_frame(stories.table.rows(), stories.table.spec)
    frame = _asked(spark, stories, asked, "as_of", "as_of")
    assert _differences(asked, _single(_found(frame.join(current, ["story", "k"])))) == []


@pytest.mark.rule("R138", "R139", "R140", "R181", "R184")
@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_lookup_finds_the_version_that_every_trace_expects(
    spark: SparkSession, calls: list[Call], stories: Stories, how: Any
) -> None:
    asked = _of_kind(calls, "get_as_of")
    frame = _asked(spark, stories, asked, "as_of", "as_of")
    found = lookup_frame(frame, stories.table.rows(), stories.table.spec, "first", how, F.col("oldest"))
    assert _differences(asked, _single(_found(found))) == []


@pytest.mark.rule("R138", "R181", "R184")
def test_as_of_gives_the_version_that_every_trace_expects(
    spark: SparkSession, calls: list[Call], stories: Stories
) -> None:
    asked = _of_kind(calls, "get_as_of")
    rows = stories.table.rows().join(_asked(spark, stories, asked, "as_of", "as_of"), ["story", "k"])
    spec = replace(stories.table.spec, keys=("story", "k", "call"))
    assert _differences(asked, _single(_found(as_of_frame(rows, spec, F.col("first"), F.col("oldest"))))) == []


@pytest.mark.rule("R181")
def test_a_range_gives_the_versions_that_every_trace_expects(
    spark: SparkSession, calls: list[Call], stories: Stories
) -> None:
    asked = _of_kind(calls, "multi")
    rows = stories.table.rows().join(_asked(spark, stories, asked, "from", "to"), ["story", "k"])
    spec = replace(stories.table.spec, keys=("story", "k", "call"))
    # A range without a bound has all the time on that side.
    first = F.coalesce("first", F.lit("0001-01-01").cast("timestamp"))
    last = F.coalesce("last", F.lit("9999-12-31").cast("timestamp"))
    found = _found(between_frame(rows, spec, first, last))
    forward = {call.number: 1 if call.step["order"] == "asc" else -1 for call in asked}
    answers = {number: found.get(number, [])[::step] for number, step in forward.items()}
    assert _differences(asked, answers) == []


def test_the_table_is_sound_after_all_traces(stories: Stories) -> None:
    assert stories.table.verify().is_sound
