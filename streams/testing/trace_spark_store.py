"""Traces of versioned stores on Spark and Delta: all calls of all scenarios on one versioned table.

Wherever reads come between writes, all writes up to there are a *story* of their own, which is part of the key and a
stream-time scope. So all stories are put at once, and all reads ask the same stored rows. The rules depend only on
differences of times, so each scenario's times are multiplied until few history retentions are left, each with its own
table.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from streams.testing.trace_packing import Cut
from streams.testing.trace_run import Actual, Scenario
from streams.testing.trace_scaling import LATEST_MS, common_unit
from versioned import spark_functions as F
from versioned.durations import Resolution
from versioned.lookup_frames import as_of_frame, between_frame, current_frame
from versioned.table import VersionedTable

_KAFKA_START_US: Final = -1_000
_CODES: Final = (-1, -(2**63))
_WRITES: Final = ("put", "delete")
_NO_STORY: Final = -1
_RECORDS: Final = "story INT, k STRING, v STRING, ms LONG, step INT, dead BOOLEAN"
_ASKED: Final = "story INT, k STRING, call INT, first LONG, last LONG, oldest LONG"

Version = dict[str, Any]


@dataclass(frozen=True)
class _Call:
    """A valid call: its number over all scenarios; how many runs of writes came before it, its own included."""

    number: int
    case: int
    index: int
    runs: int
    step: Mapping[str, Any]
    factor: int

    @property
    def kind(self) -> str:
        return str(self.step["call"])

    def time(self, name: str) -> int | None:
        found: int | None = self.step.get(name)
        return None if found is None else found * self.factor


def run_store_on_spark(spark: SparkSession, scenarios: Sequence[Scenario], cut: Cut) -> dict[str, Actual]:
    """What each call of each scenario returns, by scenario id; the writes are put in ``cut.batches`` batches."""
    calls: list[_Call] = []
    answers: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for retention_ms, cases in _by_retention(scenarios).items():
            own = [call for case, factor in cases.items() for call in _calls(case, scenarios[case], factor)]
            stories = _Stories(spark, Path(folder) / str(retention_ms), retention_ms, own, cut)
            answers |= stories.written | stories.read()
            calls += own
    numbers = {(call.case, call.index): call.number for call in calls}
    outcomes: dict[str, Actual] = {}
    for case, scenario in enumerate(scenarios):
        returns = []
        for index in range(len(scenario["steps"])):
            number = numbers.get((case, index))
            said = {"error": {"input_index": index}} if number is None else answers[number]
            returns.append({"input_index": index, **said})
        outcomes[scenario["id"]] = {"returns": returns}
    return outcomes


def _by_retention(scenarios: Sequence[Scenario]) -> dict[int, dict[int, int]]:
    """By history retention after scaling: the places of the scenarios, and the factors of their times.

    >>> _by_retention([{"params": {"history_retention_ms": r}, "steps": []} for r in (300, 0, 20)])
    {300: {0: 1, 1: 301, 2: 15}}
    """
    asked = [scenario["params"]["history_retention_ms"] for scenario in scenarios]
    common = common_unit([retention_ms for retention_ms in asked if retention_ms])
    groups: dict[int, dict[int, int]] = {}
    for case, (scenario, retention_ms) in enumerate(zip(scenarios, asked, strict=True)):
        shared, factor = _scaled(retention_ms, common)
        if _latest_ms(scenario) * factor > LATEST_MS:
            shared, factor = _scaled(retention_ms, max(1, retention_ms))
        groups.setdefault(min(shared, LATEST_MS), {})[case] = factor
    return groups


def _scaled(retention_ms: int, common: int) -> tuple[int, int]:
    """A retention after scaling, the common one if possible, and the factor."""
    if not retention_ms:
        # Without a retention, any two different times must lie further apart than the common retention.
        return common, common + 1
    return (common, common // retention_ms) if common % retention_ms == 0 else (retention_ms, 1)


def _latest_ms(scenario: Scenario) -> int:
    times = (step.get(name) for step in scenario["steps"] for name in ("ts", "as_of", "from", "to"))
    return max((abs(time) for time in times if time is not None), default=0)


def _calls(case: int, scenario: Scenario, factor: int) -> Iterator[_Call]:
    valid = [(index, step) for index, step in enumerate(scenario["steps"]) if _is_valid(step)]
    runs = 0
    for is_write, run in groupby(valid, key=lambda numbered: numbered[1]["call"] in _WRITES):
        runs += is_write
        for index, step in run:
            yield _Call(case * 1_000 + index, case, index, runs, step, factor)


def _is_valid(step: Mapping[str, Any]) -> bool:
    """Whether a call has a key and no range that ends before it starts; others are refused without asking a table."""
    first, last = step.get("from"), step.get("to")
    return step["key"] is not None and (first is None or last is None or first <= last)


class _Stories:
    """The table after all stories, and what each write returned."""

    def __init__(self, spark: SparkSession, path: Path, retention_ms: int, calls: Sequence[_Call], cut: Cut) -> None:
        self._spark = spark
        self._retention_ms = retention_ms
        self._calls = calls
        self._table = VersionedTable.create(
            spark,
            str(path),
            "story INT, k STRING, v STRING",
            keys=["story", "k"],
            history_retention=f"{retention_ms} milliseconds",
            time_resolution=Resolution.MILLISECOND,
            first_stream_time_us=_KAFKA_START_US,
        )
        writes = [call for call in calls if call.kind in _WRITES]
        ends = dict.fromkeys((call.case, call.runs) for call in writes)
        self._number = {place: story for story, place in enumerate(ends)}
        self.written: dict[int, dict[str, Any]] = {}
        for batch in self._batches(writes, cut):
            if batch:
                self.written.update(self._put(batch))

    def _batches(self, writes: Sequence[_Call], cut: Cut) -> list[list[tuple[int, _Call]]]:
        """The writes of all stories by batch, each story cut at other places."""
        chance = random.Random(cut.seed)  # noqa: S311
        batches: list[list[tuple[int, _Call]]] = [[] for _ in range(cut.batches)]
        for (case, runs), story in self._number.items():
            told = [call for call in writes if call.case == case and call.runs <= runs]
            places = sorted(chance.choices(range(cut.batches), k=len(told)))
            for place, call in zip(places, told, strict=True):
                batches[place].append((story, call))
        return batches

    def _put(self, writes: Sequence[tuple[int, _Call]]) -> dict[int, dict[str, Any]]:
        """Put one batch and return what each write returned, which is the same in every story that has the write."""
        records = self._spark.createDataFrame([_record(story, call) for story, call in writes], _RECORDS)
        timed = records.selectExpr("story", "k", "v", "timestamp_millis(ms) AS ts", "step", "dead")
        told = self._table.put(timed, deleted="dead", partition="story", sequence="step")
        results = {(row["story"], row["sequence"]): row["put_result"] for row in told.outcomes.collect()}
        was = told.changes.selectExpr("story", "sequence", "old.v AS v", "unix_millis(old_valid_from) AS ms").collect()
        valid = {(row["story"], row["sequence"]): (row["v"], row["ms"]) for row in was if row["v"] is not None}
        returned: dict[int, dict[str, Any]] = {}
        for story, call in writes:
            if call.kind == "put":
                result = results[story, call.index]
                returned[call.number] = {"return": result if result in _CODES else result // call.factor}
            else:
                # The record of a delete does not say where the version ended before.
                before = valid.get((story, call.index))
                returned[call.number] = {"record": None if before is None else _version(*before, None, call.factor)}
        return returned

    def read(self) -> dict[int, dict[str, Any]]:
        """What each read finds."""
        spec = self._table.spec
        by_call = replace(spec, keys=("story", "k", "call"))
        gets, points, ranges = (self._of_kind(kind) for kind in ("get", "get_as_of", "multi"))
        newest = current_frame(self._table.rows(), spec)
        current = self._found(self._asked(gets, "as_of", "as_of").join(newest, ["story", "k"]))
        rows = self._table.rows().join(self._asked(points, "as_of", "as_of"), ["story", "k"])
        at = self._found(as_of_frame(rows, by_call, F.col("first"), F.col("oldest")))
        rows = self._table.rows().join(self._asked(ranges, "from", "to"), ["story", "k"])
        # A range without a bound is open on that side.
        first = F.coalesce("first", F.lit("0001-01-01").cast("timestamp"))
        last = F.coalesce("last", F.lit("9999-12-31").cast("timestamp"))
        between = self._found(between_frame(rows, by_call, first, last))
        answers: dict[int, dict[str, Any]] = {}
        for call in (*gets, *points):
            versions = (current if call.kind == "get" else at).get(call.number, [None])
            answers[call.number] = {"record": versions[0]} if len(versions) == 1 else {"records": versions}
        for call in ranges:
            found = between.get(call.number, [])
            answers[call.number] = {"records": found if call.step["order"] == "asc" else found[::-1]}
        return answers

    def _of_kind(self, kind: str) -> list[_Call]:
        return [call for call in self._calls if call.kind == kind]

    def _asked(self, calls: Iterable[_Call], first: str, last: str) -> DataFrame:
        """The calls as rows: story and key, two times of the call, and the horizon of the story."""
        times_us = self._table.stream_times()
        rows = []
        for call in calls:
            story = self._number.get((call.case, call.runs), _NO_STORY)
            oldest = max(times_us.get(story, _KAFKA_START_US), _KAFKA_START_US) // 1_000 - self._retention_ms
            rows.append((story, call.step["key"], call.number, call.time(first), call.time(last), oldest))
        times = [f"timestamp_millis({name}) AS {name}" for name in ("first", "last", "oldest")]
        return self._spark.createDataFrame(rows, _ASKED).selectExpr("story", "k", "call", *times)

    def _found(self, frame: DataFrame) -> dict[int, list[Any]]:
        """The versions that each call found, in order of time, by the number of the call."""
        factors = {call.number: call.factor for call in self._calls}
        times = [f"unix_millis({name})" for name in ("validFrom", "validTo")]
        rows = frame.where("validFrom IS NOT NULL").selectExpr("call", "v", *times).collect()
        found: dict[int, list[Any]] = {}
        for number, value, start, end in sorted(rows, key=lambda row: row[2]):
            found.setdefault(number, []).append(_version(value, start, end, factors[number]))
        return found


def _version(value: str, start_ms: int, end_ms: int | None, factor: int) -> Version:
    return {
        "value": value,
        "timestamp": start_ms // factor,
        "valid_to": None if end_ms is None else end_ms // factor,
    }


def _record(story: int, call: _Call) -> tuple[Any, ...]:
    dead = call.kind == "delete" or call.step["value"] is None
    return (story, call.step["key"], None if dead else call.step["value"], call.time("ts"), call.index, dead)
