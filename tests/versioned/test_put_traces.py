"""Every put and delete of the versioned-store traces, on Spark and Delta.

All scenarios share one table: the scenario is part of the key and its own stream-time scope. The rules are about
differences of times only, so each scenario's times are scaled until all have the same history retention.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from versioned.durations import Resolution
from versioned.table import VersionedTable

_TRACES = Path(__file__).parents[1] / "traces" / "versioned_store.json"
_RETENTION_MS = 3_000
_REFUSED = -(2**63)
_WRITES = ("put", "delete")


def _factor(retention_ms: int) -> int:
    # Retention 0: any two different times must lie further apart than the common retention.
    return _RETENTION_MS // retention_ms if retention_ms else _RETENTION_MS + 1


def _writes(scenario: dict[str, Any]) -> list[list[tuple[int, dict[str, Any]]]]:
    """The valid writes of a scenario, cut wherever reads come between them."""
    wrong = {told["input_index"] for told in scenario["expected"]["returns"] if "error" in told}
    numbered = [step for step in enumerate(scenario["steps"]) if step[0] not in wrong]
    runs = groupby(numbered, key=lambda step: step[1]["call"] in _WRITES)
    return [list(run) for is_write, run in runs if is_write]


def _row(case: int, index: int, step: dict[str, Any], factor: int) -> tuple[Any, ...]:
    dead = step["call"] == "delete" or step["value"] is None
    return (case, step["key"], None if dead else step["value"], step["ts"] * factor, index, dead)


def _expected(scenario: dict[str, Any], index: int, factor: int) -> Any:
    """What the trace returns for a write, with its times scaled."""
    told = next(told for told in scenario["expected"]["returns"] if told["input_index"] == index)
    if "return" in told:
        return told["return"] if told["return"] in (-1, _REFUSED) else told["return"] * factor
    record = told["record"]
    return None if record is None else (record["value"], record["timestamp"] * factor)


def _put_round(table: VersionedTable, spark: SparkSession, rows: list[tuple[Any, ...]]) -> dict[tuple[int, int], Any]:
    """Put one round of all scenarios; per (case, step): put_result and the version that was valid."""
    records = spark.createDataFrame(rows, "case INT, k STRING, v STRING, ms LONG, step INT, dead BOOLEAN")
    timed = records.selectExpr("case", "k", "v", "timestamp_millis(ms) AS ts", "step", "dead")
    told = table.put(timed, deleted="dead", partition="case", sequence="step")
    assert told.counts.accepted + told.counts.refused + told.rejected_count == len(rows)
    results = {(row["case"], row["sequence"]): row["put_result"] for row in told.outcomes.collect()}
    was = told.changes.selectExpr("case", "sequence", "old.v AS v", "unix_millis(old_valid_from) AS ms").collect()
    valid = {(row["case"], row["sequence"]): None if row["v"] is None else (row["v"], row["ms"]) for row in was}
    return {place: (result, valid.get(place)) for place, result in results.items()}


@pytest.mark.rule("R172", "R173", "R174", "R177", "R180", "R181", "R182", "R183", "R185")
def test_puts_and_deletes_return_what_every_trace_expects(spark: SparkSession, tmp_path: Path) -> None:
    scenarios = json.loads(_TRACES.read_text())
    table = VersionedTable.create(
        spark,
        str(tmp_path / "store"),
        "case INT, k STRING, v STRING",
        keys=["case", "k"],
        history_retention=f"{_RETENTION_MS} milliseconds",
        time_resolution=Resolution.MILLISECOND,
        first_stream_time_us=-1_000,
    )
    factors = [_factor(scenario["params"]["history_retention_ms"]) for scenario in scenarios]
    cut = [_writes(scenario) for scenario in scenarios]
    differences = []
    for number in range(max(map(len, cut))):
        steps = {(case, i): step for case, runs in enumerate(cut) if number < len(runs) for i, step in runs[number]}
        rows = [_row(case, i, step, factors[case]) for (case, i), step in steps.items()]
        for (case, i), (result, valid) in _put_round(table, spark, rows).items():
            got = result if steps[case, i]["call"] == "put" else valid
            wanted = _expected(scenarios[case], i, factors[case])
            if got != wanted:
                differences.append((scenarios[case]["id"], i, got, wanted))
    assert differences == []
