"""The three patterns of KIP-328 as configurations: on the test driver, and by spark-submit on the same records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.job_plan import plan_of
from jobs.quickstart import submit_command
from jobs.settings import load
from streams.testing import TopologyTestDriver
from versioned.durations import instant
from versioned.errors import BufferFullError

_PROJECT = Path(__file__).parents[2]
_TIMEOUT_S = 300
_MORE_ROOM = {"VERSIONED_JOB__PLAN__LIMITED__BUFFER__MAX_RECORDS": "3"}


def _at(clock: str) -> datetime:
    hour, minute = map(int, clock.split(":"))
    return datetime(2026, 1, 1, hour, minute, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Pattern:
    """A configuration, its input (one list per file, so per micro-batch), and what must come out, in order.

    Input: key, value, clock. Output: key, value, clock of the update.
    """

    name: str
    topic: str
    fields: tuple[str, str]
    batches: list[list[tuple[str, Any, str]]]
    sink: str
    output: list[tuple[Any, ...]]
    environment: Mapping[str, str]

    @property
    def config(self) -> Path:
        return _PROJECT / "conf" / f"{self.name}.yaml"


_PRICES: list[list[tuple[str, Any, str]]] = [
    [("tea", 3.0, "8:00"), ("tea", 3.1, "8:02"), ("milk", 1.0, "8:03")],
    [
        ("bread", 2.0, "8:04"),  # the third item that waits
        ("tea", 3.2, "8:05"),
        ("bread", 2.1, "8:14"),
        ("milk", 1.1, "8:20"),
        ("milk", 1.2, "8:40"),
    ],
]
_ALERTS = Pattern(
    "alert_few_events", "events", ("device", "kind"),
    [
        [("d1", "door", "8:05"), ("d1", "door", "8:20"), ("d2", "door", "8:30"), ("d1", "door", "8:50")],
        [("d2", "door", "8:40"), ("d2", "lid", "9:05"), ("d1", "lid", "8:59"), ("d2", "door", "9:10")],
        [("d1", "door", "8:10"), ("d3", "door", "9:30"), ("d3", "door", "9:31"), ("d3", "door", "9:32")],
        [("d2", "door", "10:10"), ("d2", "door", "11:30")],
    ],
    "alerts",
    # (device, window, count, time of the window's last event). d1 had 4 events from 8 to 9, and its 8:10 came after
    # 9:10, when that hour was final; d3 had exactly 3 from 9 to 10. The hours from 11 on are still open.
    [("d2", "8:00", 2, "8:40"), ("d2", "9:00", 2, "9:10"), ("d2", "10:00", 1, "10:10")],
    {},
)  # fmt: skip
_BEST_EFFORT = Pattern(
    "rate_limit_best_effort", "prices", ("item", "price"), _PRICES, "price_updates",
    # tea and milk leave early, each as the oldest when a third item comes; then each 10 minutes after its first update.
    [("tea", 3.1, "8:02"), ("milk", 1.0, "8:03"), ("bread", 2.1, "8:14"), ("tea", 3.2, "8:05"), ("milk", 1.2, "8:40")],
    {},
)  # fmt: skip
_STRICT = Pattern(
    "rate_limit_strict", "prices", ("item", "price"), _PRICES, "price_updates",
    # All three wait until 8:14, when the last of them is due.
    [("tea", 3.2, "8:05"), ("milk", 1.0, "8:03"), ("bread", 2.1, "8:14"), ("milk", 1.2, "8:40")],
    _MORE_ROOM,
)  # fmt: skip
#: Each with the rule that names it.
_PATTERNS = [
    pytest.param(pattern, marks=pytest.mark.rule(rule), id=pattern.name)
    for rule, pattern in (("R36", _ALERTS), ("R37", _BEST_EFFORT), ("R38", _STRICT))
]


def _driver(pattern: Pattern, environment: Mapping[str, str]) -> TopologyTestDriver:
    return TopologyTestDriver(plan_of(load(pattern.config, environment)))


def _pipe(driver: TopologyTestDriver, pattern: Pattern) -> None:
    for key, value, clock in (row for batch in pattern.batches for row in batch):
        driver.pipe_input(pattern.topic, key, value, _at(clock))


def _clock(moment: datetime) -> str:
    return f"{moment.hour}:{moment.minute:02}"


@pytest.mark.parametrize("pattern", _PATTERNS)
@pytest.mark.rule("R39", "R40", "R49", "R52", "R55")
def test_on_the_driver_a_pattern_gives_exactly_what_it_promises(pattern: Pattern) -> None:
    driver = _driver(pattern, pattern.environment)
    _pipe(driver, pattern)
    got = []
    for record in driver.read_output(pattern.sink):
        assert record.key is not None
        assert record.value is not None
        window = [_clock(instant(record.key["windowStart"]))] if "windowStart" in record.key else []
        got.append((record.key[pattern.fields[0]], *window, *record.value.values(), _clock(instant(record.ts_us))))
    assert got == pattern.output


def test_an_event_for_an_hour_that_is_final_is_put_aside() -> None:
    driver = _driver(_ALERTS, {})
    _pipe(driver, _ALERTS)
    assert [(reject.node, reject.key and reject.key["device"]) for reject in driver.rejects] == [
        ("events_by_hour", "d1")
    ]


@pytest.mark.rule("R47")
def test_on_the_driver_the_strict_limit_shuts_down_before_anything_leaves_early() -> None:
    driver = _driver(_STRICT, {})
    with pytest.raises(BufferFullError, match="limited"):
        _pipe(driver, _STRICT)
    assert driver.read_output("price_updates") == []


def _write(work: Path, pattern: Pattern) -> None:
    folder = work / "input" / pattern.topic
    folder.mkdir(parents=True)
    seq = 0
    for number, batch in enumerate(pattern.batches):
        lines = []
        for key, value, clock in batch:
            seq += 1
            said = {"seq": seq, "ts": _at(clock).isoformat(), pattern.fields[0]: key, pattern.fields[1]: value}
            lines.append(json.dumps(said))
        file = folder / f"{number:04}.json"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _submit(work: Path, pattern: Pattern, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The job as a user starts it."""
    return subprocess.run(
        submit_command(work, pattern.config),
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_PROJECT), **environment},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _rows(spark: SparkSession, work: Path, pattern: Pattern) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(str(work / "tables" / pattern.sink))
    got = []
    # The session's zone is UTC; windows and times come as naive UTC.
    for row in table.orderBy("_batch_id", "_scope", "_seq").collect():
        said = row.asDict()
        window = [_clock(said["windowStart"])] if "windowStart" in said else []
        value = said["count"] if pattern is _ALERTS else said[pattern.fields[1]]
        got.append((said[pattern.fields[0]], *window, value, _clock(said["ts"])))
    return got


@pytest.mark.slow
@pytest.mark.parametrize("pattern", _PATTERNS[:2])
@pytest.mark.rule("R39", "R40", "R49", "R52", "R55", "R79")
def test_by_spark_submit_a_pattern_gives_the_same(pattern: Pattern, spark: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path, pattern)
    done = _submit(tmp_path, pattern, pattern.environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    assert _rows(spark, tmp_path, pattern) == pattern.output


@pytest.mark.slow
@pytest.mark.rule("R38", "R47")
def test_by_spark_submit_the_strict_limit_ends_the_job_and_a_larger_bound_goes_on_without_loss(
    spark: SparkSession, tmp_path: Path
) -> None:
    _write(tmp_path, _STRICT)
    full = _submit(tmp_path, _STRICT, {})
    # Below spark-submit, what a Python program writes to its error output comes out of spark-submit's standard output.
    printed = full.stdout + full.stderr[-3_000:]
    assert full.returncode == 1, printed
    assert "limited" in printed
    again = _submit(tmp_path, _STRICT, _MORE_ROOM)
    assert again.returncode == 0, again.stdout + again.stderr[-3_000:]
    assert _rows(spark, tmp_path, _STRICT) == _STRICT.output
