"""Every call of the versioned-store traces, on Spark and Delta.

All scenarios share one table: the scenario is part of the key and its own stream-time scope. The rules are about
differences of times only, so each scenario's times are scaled until all have the same history retention. A scenario is
cut into rounds of writes wherever reads come between them; what is stored after each round is kept, and all the reads
are asked of it at once.
"""

from __future__ import annotations

import json
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
from versioned.spec import VersionedTableSpec
from versioned.table import VersionedTable

_TRACES: Final = Path(__file__).parents[1] / "traces" / "versioned_store.json"
_RETENTION_MS: Final = 3_000
_KAFKA_START_US: Final = -1_000
_REFUSED: Final = -(2**63)
_WRITES: Final = ("put", "delete")
_KEYS: Final = ("round", "case", "k")
_ASKED: Final = "round INT, case INT, k STRING, step INT, first LONG, last LONG, oldest LONG"
_STORED: Final = "round INT, case INT, k STRING, v STRING, first LONG, last LONG, deleted BOOLEAN"

Place = tuple[int, int]
Answer = Any


@dataclass(frozen=True)
class Call:
    """One valid call: the scenario and step it is, and the round of writes that it belongs to or follows."""

    case: int
    index: int
    round: int
    step: dict[str, Any]
    factor: int
    expected: Answer

    @property
    def place(self) -> Place:
        return (self.case, self.index)

    def time(self, name: str) -> int | None:
        found: int | None = self.step.get(name)
        return None if found is None else found * self.factor


@dataclass(frozen=True)
class Run:
    """What the writes returned, what was stored after each round, and each scenario's horizon then (in ms)."""

    returned: dict[Place, Answer]
    stored: list[tuple[Any, ...]]
    horizons: dict[tuple[int, int], int]


def _factor(retention_ms: int) -> int:
    # Retention 0: any two different times must lie further apart than the common retention.
    return _RETENTION_MS // retention_ms if retention_ms else _RETENTION_MS + 1


def _scaled(told: dict[str, Any], factor: int) -> Answer:
    """What a call returns: a number, a version or versions as (value, from, to), with times scaled."""
    if "return" in told:
        return told["return"] if told["return"] in (-1, _REFUSED) else told["return"] * factor
    if "records" in told:
        return [_version(record, factor) for record in told["records"]]
    return None if told["record"] is None else _version(told["record"], factor)


def _version(record: dict[str, Any], factor: int) -> tuple[str, int, int | None]:
    end = record.get("valid_to")
    return (record["value"], record["timestamp"] * factor, None if end is None else end * factor)


def _calls(case: int, scenario: dict[str, Any]) -> Iterator[Call]:
    told = {answer["input_index"]: answer for answer in scenario["expected"]["returns"]}
    valid = [(i, step) for i, step in enumerate(scenario["steps"]) if "error" not in told[i]]
    factor = _factor(scenario["params"]["history_retention_ms"])
    number = -1
    for is_write, run in groupby(valid, key=lambda numbered: numbered[1]["call"] in _WRITES):
        number += is_write
        for i, step in run:
            yield Call(case, i, number, step, factor, _scaled(told[i], factor))


@pytest.fixture(scope="module")
def scenarios() -> list[dict[str, Any]]:
    """All scenarios of the file."""
    loaded: list[dict[str, Any]] = json.loads(_TRACES.read_text())
    return loaded


@pytest.fixture(scope="module")
def calls(scenarios: list[dict[str, Any]]) -> list[Call]:
    """The calls that are no errors."""
    return [call for case, scenario in enumerate(scenarios) for call in _calls(case, scenario)]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    """The one table of all scenarios."""
    return VersionedTable.create(
        spark,
        str(tmp_path_factory.mktemp("traces") / "store"),
        "case INT, k STRING, v STRING",
        keys=["case", "k"],
        history_retention=f"{_RETENTION_MS} milliseconds",
        time_resolution=Resolution.MILLISECOND,
        first_stream_time_us=_KAFKA_START_US,
    )


@pytest.fixture(scope="module")
def run(spark: SparkSession, table: VersionedTable, calls: list[Call]) -> Run:
    """All writes, round by round."""
    made = Run({}, [], {})
    for number in range(1 + max(call.round for call in calls)):
        writes = [call for call in calls if call.round == number and call.step["call"] in _WRITES]
        made.returned.update(_put_round(table, spark, writes))
        active = {call.case for call in writes}
        made.stored.extend((number, *row) for row in _rows(table) if row[0] in active)
        times = table.stream_times()
        for case in active:
            observed_us = max(times.get(case, _KAFKA_START_US), _KAFKA_START_US)
            made.horizons[number, case] = observed_us // 1_000 - _RETENTION_MS
    return made


def _put_round(table: VersionedTable, spark: SparkSession, writes: list[Call]) -> dict[Place, Answer]:
    """Put one round of all scenarios; a put gives put_result, a delete the version that was valid."""
    records = spark.createDataFrame(
        map(_record, writes), "case INT, k STRING, v STRING, ms LONG, step INT, dead BOOLEAN"
    )
    timed = records.selectExpr("case", "k", "v", "timestamp_millis(ms) AS ts", "step", "dead")
    told = table.put(timed, deleted="dead", partition="case", sequence="step")
    assert told.counts.accepted + told.counts.refused + told.rejected_count == len(writes)
    results = {(row["case"], row["sequence"]): row["put_result"] for row in told.outcomes.collect()}
    was = told.changes.selectExpr("case", "sequence", "old.v AS v", "unix_millis(old_valid_from) AS ms").collect()
    # The record of a delete says nothing of where the version ended before.
    valid = {(row["case"], row["sequence"]): None if row["v"] is None else (row["v"], row["ms"], None) for row in was}
    deletes = {call.place: valid.get(call.place) for call in writes if call.step["call"] == "delete"}
    return results | deletes


def _record(call: Call) -> tuple[Any, ...]:
    dead = call.step["call"] == "delete" or call.step["value"] is None
    return (call.case, call.step["key"], None if dead else call.step["value"], call.time("ts"), call.index, dead)


def _rows(table: VersionedTable) -> list[tuple[Any, ...]]:
    ends = "unix_millis(validTo) AS last"
    return list(
        map(
            tuple,
            table.rows().selectExpr("case", "k", "v", "unix_millis(validFrom) AS first", ends, "deleted").collect(),
        )
    )


def _stored(spark: SparkSession, run: Run) -> DataFrame:
    """The stored rows after every round, as rows of one table with the round in their key."""
    return spark.createDataFrame(run.stored, _STORED).selectExpr(
        *_KEYS,
        "timestamp_millis(first) AS validFrom",
        "timestamp_millis(last) AS validTo",
        "v",
        "deleted",
        "last IS NULL AS _current",
    )


def _asked(spark: SparkSession, run: Run, calls: list[Call], first: str, last: str) -> DataFrame:
    """The calls as rows: which round, scenario and key, two times of the call, and the horizon then."""
    rows = [
        (call.round, call.case, call.step["key"], call.index, call.time(first), call.time(last),
         run.horizons.get((call.round, call.case)))
        for call in calls
    ]  # fmt: skip
    times = [f"timestamp_millis({name}) AS {name}" for name in ("first", "last", "oldest")]
    return spark.createDataFrame(rows, _ASKED).selectExpr(*_KEYS, "step", *times)


def _spec(table: VersionedTable, *more: str) -> VersionedTableSpec:
    return replace(table.spec, keys=(*_KEYS, *more))


def _found(frame: DataFrame) -> dict[Place, list[Answer]]:
    """By (case, step): the versions in order of time."""
    times = [f"unix_millis({name}) AS {name}" for name in ("validFrom", "validTo")]
    rows = sorted(
        map(tuple, frame.selectExpr("case", "step", "v", *times).where("validFrom IS NOT NULL").collect()),
        key=lambda r: r[3],
    )
    return {place: [row[2:] for row in rows if row[:2] == place] for place in {row[:2] for row in rows}}


def _differences(
    scenarios: list[dict[str, Any]], calls: list[Call], answers: dict[Place, Answer]
) -> list[tuple[str, int, Answer, Answer]]:
    return [
        (scenarios[call.case]["id"], call.index, answers.get(call.place), call.expected)
        for call in calls
        if answers.get(call.place) != call.expected
    ]


def _of_kind(calls: list[Call], *kinds: str) -> list[Call]:
    return [call for call in calls if call.step["call"] in kinds]


def _first(found: dict[Place, list[Answer]]) -> dict[Place, Answer]:
    assert all(len(versions) == 1 for versions in found.values())
    return {place: versions[0] for place, versions in found.items()}


@pytest.mark.rule("R172", "R173", "R174", "R177", "R180", "R181", "R182", "R183", "R185")
def test_puts_and_deletes_return_what_every_trace_expects(
    scenarios: list[dict[str, Any]], calls: list[Call], run: Run
) -> None:
    assert _differences(scenarios, _of_kind(calls, *_WRITES), run.returned) == []


@pytest.mark.rule("R144", "R180")
def test_get_returns_what_every_trace_expects(
    spark: SparkSession, scenarios: list[dict[str, Any]], calls: list[Call], table: VersionedTable, run: Run
) -> None:
    asked = _of_kind(calls, "get")
    current = current_frame(_stored(spark, run), _spec(table))
    found = _found(_asked(spark, run, asked, "as_of", "as_of").select(*_KEYS, "step").join(current, list(_KEYS)))
    assert _differences(scenarios, asked, _first(found)) == []


@pytest.mark.rule("R138", "R139", "R140", "R181", "R184")
@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_lookup_finds_the_version_that_every_trace_expects(
    spark: SparkSession, scenarios: list[dict[str, Any]], calls: list[Call], table: VersionedTable, run: Run, how: Any
) -> None:
    asked = _of_kind(calls, "get_as_of")
    frame = _asked(spark, run, asked, "as_of", "as_of")
    found = _found(lookup_frame(frame, _stored(spark, run), _spec(table), "first", how, F.col("oldest")))
    assert _differences(scenarios, asked, _first(found)) == []


@pytest.mark.rule("R138", "R181", "R184")
def test_as_of_gives_the_version_that_every_trace_expects(
    spark: SparkSession, scenarios: list[dict[str, Any]], calls: list[Call], table: VersionedTable, run: Run
) -> None:
    asked = _of_kind(calls, "get_as_of")
    rows = _stored(spark, run).join(_asked(spark, run, asked, "as_of", "as_of"), list(_KEYS))
    found = _found(as_of_frame(rows, _spec(table, "step"), F.col("first"), F.col("oldest")))
    assert _differences(scenarios, asked, _first(found)) == []


@pytest.mark.rule("R181")
def test_a_range_gives_the_versions_that_every_trace_expects(
    spark: SparkSession, scenarios: list[dict[str, Any]], calls: list[Call], table: VersionedTable, run: Run
) -> None:
    asked = _of_kind(calls, "multi")
    rows = _stored(spark, run).join(_asked(spark, run, asked, "from", "to"), list(_KEYS))
    # A range without a bound has all the time on that side.
    first = F.coalesce("first", F.lit("0001-01-01").cast("timestamp"))
    last = F.coalesce("last", F.lit("9999-12-31").cast("timestamp"))
    found = _found(between_frame(rows, _spec(table, "step"), first, last))
    answers = {call.place: found.get(call.place, []) for call in asked}
    ordered = {call.place: answers[call.place][:: 1 if call.step["order"] == "asc" else -1] for call in asked}
    assert _differences(scenarios, asked, ordered) == []
