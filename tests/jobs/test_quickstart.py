"""The quickstart's job on real data, also killed in the middle, against a recomputation in pandas."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from recompute_flights import Expected, recompute

from jobs.ask import register_tables
from jobs.flights import arrived_before, topics, write_files
from jobs.quickstart import submit_command
from jobs.settings import load

_PROJECT = Path(__file__).parents[2]
_CONFIG = _PROJECT / "conf" / "quickstart.yaml"
_TIMEOUT_S = 900
_COUNTED = ("flights", "weather", "aircraft", "planes", "departures_by_hour")


@dataclass(frozen=True)
class Run:
    """A finished run: its tables, what it printed and should have stored, kills in it, and if it took all data."""

    spark: SparkSession
    work: Path
    printed: str
    expected: Expected
    kills: int
    whole_year: bool

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.work / "tables" / name))


def _submit(work: Path) -> subprocess.Popen[bytes]:
    """The job as a user starts it, in a process group of its own; it prints to a file, which never fills up."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_PROJECT)}
    with (work / "printed.txt").open("wb") as printed:
        return subprocess.Popen(
            submit_command(work, _CONFIG),
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _kill_after(work: Path, batches: int, moment_s: float) -> bool:
    """Start the job and kill its whole process group, a moment after so many batches are in the ledger."""
    job = _submit(work)
    log = work / "tables" / "ledger" / "_delta_log"
    deadline = time.monotonic() + _TIMEOUT_S
    # The first version of the ledger is the empty table.
    while len(list(log.glob("*.json"))) < batches + 1 and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(moment_s)
    was_running = job.poll() is None
    if was_running:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    return was_running


def _finish(work: Path) -> str:
    job = _submit(work)
    job.wait(timeout=_TIMEOUT_S)
    printed = (work / "printed.txt").read_text(encoding="utf-8")
    assert job.returncode == 0, printed[-3_000:]
    return printed


def _run(spark: SparkSession, work: Path, batches: int, until: str | None, kills: list[tuple[int, float]]) -> Run:
    write_files(work / "input", batches, until=until)
    settings = load(_CONFIG).plan_settings
    durations = (pd.Timedelta(settings[name]) for name in ("grace", "history_retention"))
    expected = recompute(arrived_before(topics(), until), *durations)
    killed = sum(_kill_after(work, after, moment) for after, moment in kills)
    return Run(spark, work, _finish(work), expected, killed, until is None)


_RUNS = [
    pytest.param((2, "2013-01-15", []), id="two weeks"),
    pytest.param((2, "2013-01-15", [(1, 4.0)]), id="two weeks, killed", marks=pytest.mark.slow),
    pytest.param((12, None, []), id="the whole year", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    batches, until, kills = request.param
    return _run(spark, tmp_path_factory.mktemp("quickstart"), batches, until, kills)


def _pandas(frame: DataFrame, order: list[str]) -> pd.DataFrame:
    return frame.toPandas().sort_values(order, ignore_index=True)


def _naive(frame: pd.DataFrame) -> pd.DataFrame:
    """Expected rows with instants as Spark gives them: naive UTC."""
    zoned = frame.select_dtypes("datetimetz").columns
    return frame.assign(**{name: frame[name].dt.tz_convert(None) for name in zoned})


def _assert_same(got: pd.DataFrame, expected: pd.DataFrame, order: list[str]) -> None:
    wanted = _naive(expected).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(got[list(wanted.columns)], wanted, check_dtype=False)


def _assert_told(run: Run, sink: str, expected: pd.DataFrame) -> None:
    """The changes of a table in the order in which they were told."""
    told = run.table(sink).orderBy("_batch_id", "_scope", "_seq").toPandas()
    assert not told["deleted"].any()
    wanted = _naive(expected)
    pd.testing.assert_frame_equal(told[list(wanted.columns)], wanted, check_dtype=False)


def test_every_planned_kill_hit_a_running_job(run: Run, request: pytest.FixtureRequest) -> None:
    planned = request.node.callspec.params["run"][2]
    assert run.kills == len(planned)


@pytest.mark.rule("R138", "R140", "R141")
def test_each_flight_has_the_weather_known_to_hold_at_its_departure(run: Run) -> None:
    rows = run.table("flights_with_weather").withColumnRenamed("ts", "departure")
    order = ["departure", "origin", "carrier", "flight", "tailnum", "dest"]
    _assert_same(_pandas(rows, order), run.expected.with_weather, order)


@pytest.mark.rule("R4", "R5", "R10", "R28", "R52", "R54")
def test_departures_per_airport_and_hour_are_final_and_come_once(run: Run) -> None:
    order = ["origin", "windowStart"]
    rows = run.table("departures").select(*order, "count")
    _assert_same(_pandas(rows, order), run.expected.departures, order)


@pytest.mark.parametrize("table", ["weather", "aircraft"])
@pytest.mark.rule("R172", "R181", "R182", "R183")
def test_the_stored_versions_are_the_whole_history(run: Run, table: str) -> None:
    wanted = getattr(run.expected, table)
    order = [wanted.columns[0], "validFrom"]
    _assert_same(_pandas(run.table(table).select(*wanted.columns), order), wanted, order)


@pytest.mark.rule("R163", "R164", "R168")
def test_aircraft_per_airport_go_down_where_one_leaves_and_up_where_it_lands(run: Run) -> None:
    _assert_told(run, "aircraft_moves", run.expected.moves)
    rows = _pandas(run.table("aircraft_per_airport"), ["airport"])
    _assert_same(rows, run.expected.per_airport, ["airport"])
    # The out-of-order flights are in the history and moved nothing: the counts are those of the current versions.
    current = run.expected.aircraft[run.expected.aircraft["validTo"].isna()].groupby("dest").size()
    assert rows[rows["aircraft"] > 0].set_index("airport")["aircraft"].to_dict() == current.to_dict()


@pytest.mark.rule("R155")
def test_each_delay_has_the_model_of_the_aircraft(run: Run) -> None:
    _assert_told(run, "delays_with_model", run.expected.delays)
    order = ["carrier", "flight"]
    _assert_same(_pandas(run.table("delay_and_model"), order), run.expected.last_delays, order)


def test_the_register_is_stored(run: Run) -> None:
    _assert_same(_pandas(run.table("planes"), ["tailnum"]), run.expected.planes, ["tailnum"])


def test_bad_and_late_rows_are_rejected_with_their_reasons_and_counted(run: Run) -> None:
    rows = run.table("rejects").groupBy("node", "reason").count().toPandas()
    got = rows.set_index(["node", "reason"])["count"].sort_index()
    pd.testing.assert_series_equal(got, run.expected.rejects, check_names=False, check_dtype=False)


def test_nothing_is_lost_between_input_and_the_ledger(run: Run) -> None:
    for (counts,) in run.table("ledger").select("counts").collect():
        for node in _COUNTED:
            parts = sum(counts.get(f"{node}.{part}", 0) for part in ("accepted", "dropped"))
            assert counts.get(f"{node}.input", 0) == parts, (node, counts)


def test_the_job_shows_its_batches_a_summary_and_a_picture(run: Run) -> None:
    assert "micro-batches in this run" in run.printed
    assert (run.work / "quickstart.png").stat().st_size > 10_000


def test_the_readme_tells_the_rows_of_each_table_after_the_year_and_a_part_of_it_has_no_more(run: Run) -> None:
    readme = (_PROJECT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([\d,]+)\b.*\|$", readme, re.MULTILINE)
    told = {name: int(rows.replace(",", "")) for names, rows in lines for name in re.findall(r"\w+", names)}
    rows = {name: run.table(name).count() for name in told}
    assert "ledger" in told
    assert rows == told if run.whole_year else all(rows[name] <= told[name] for name in told)


def test_every_sql_block_of_the_readme_answers(run: Run) -> None:
    readme = (_PROJECT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) >= 4
    register_tables(run.spark, run.work / "tables")
    for block in blocks:
        asked = block.replace(".quickstart/tables", str(run.work / "tables")).strip().removesuffix(";")
        assert run.spark.sql(asked).count() > 0, block
