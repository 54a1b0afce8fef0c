"""Traces on the Spark engine: all scenarios of an operation, packed into a few streaming applications.

On Spark only the outcome of a batch can be seen. So ``buffer``, which is known after each step, is left out. Where
drops are counted but not kept step by step (records out of order in a join of tables, closed hopping windows), the
counts of a node are compared with those of the driver after the same packed records.

A batch is atomic, so a scenario in which a step fails is run with all others up to that step. An application of its own
then shows that the step fails. Which step it is follows from the driver.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.spark.engine import operators_of
from streams.spark.interpreted import LESS_CODE
from streams.testing.sessions import FORGETFUL, in_sessions
from streams.testing.trace_engines import register
from streams.testing.trace_packed_driver import alone, errors_of
from streams.testing.trace_packing import Branch, Cut, pack, together
from streams.testing.trace_run import Actual, Planner, Scenario
from streams.testing.trace_spark_run import PackedRun
from streams.testing.trace_spark_store import run_store_on_spark
from streams.testing.trace_tables import PLANNERS as TABLE_PLANNERS
from streams.testing.trace_windows import PLANNERS as WINDOW_PLANNERS
from versioned.errors import TopologyError

_LOG: Final = logging.getLogger(__name__)
_PROJECT: Final = Path(__file__).parents[2]
#: More branches in one application save its fixed cost per batch, but plans get slow to analyse.
BRANCHES: Final = 12
#: What a failing step raises; other errors are failures of the engine.
_EXPECTED_ERRORS: Final = ("BufferFullError", "RecordError")
PLANNERS: Final = {**TABLE_PLANNERS, **WINDOW_PLANNERS}

Session = Callable[[], SparkSession]
#: One application of a few scenarios; gives their outcomes by id.
_Task = Callable[[SparkSession], dict[str, Actual]]


def run_on_spark(spark: SparkSession, operation: str, scenarios: Sequence[Scenario], cut: Cut) -> dict[str, Actual]:
    """Outcomes by id of scenarios of one operation.

    What the engine cannot run has a ``failure`` instead of outputs; the others are run nevertheless.
    """
    return run_all_on_spark(spark, {operation: scenarios}, cut)[operation]


def run_all_on_spark(
    spark: SparkSession, scenarios: Mapping[str, Sequence[Scenario]], cut: Cut
) -> dict[str, dict[str, Actual]]:
    """Outcomes of scenarios of several operations, some applications at the same time.

    Args:
        spark: The session; each application runs in one of its own beside it.
        scenarios: By operation.
        cut: Into which batches the steps are cut.

    Returns:
        By operation, what :func:`run_on_spark` gives.
    """
    outcomes: dict[str, dict[str, Actual]] = {}
    planned: list[tuple[int, str, _Task]] = []
    for operation, asked in scenarios.items():
        outcomes[operation], tasks = _planned(operation, asked, cut)
        planned += [(size, operation, task) for size, task in tasks]
    planned.sort(key=lambda plan: plan[0], reverse=True)
    told = in_sessions(spark, [task for _, _, task in planned])
    for (_, operation, _), found in zip(planned, told, strict=True):
        for name, actual in found.items():
            known = outcomes[operation].setdefault(name, {})
            # If a scenario could not be run at all, the application in which its step must fail adds nothing.
            known.update({} if "failure" in known else actual)
    return outcomes


def register_all(cut: Cut | None = None, session: Session | None = None) -> None:
    """Make the Spark engine run every operation.

    Args:
        cut: Into which batches the steps are cut; all in one if not given.
        session: Gives the Spark session, when the first operation is run.
    """
    give, cuts = session or local_session, cut or Cut()
    for operation in PLANNERS:
        register("spark", [operation], _runner(operation, cuts, give))
    register("spark", ["versioned_store"], lambda scenarios: run_store_on_spark(give(), scenarios, cuts))


def local_session() -> SparkSession:
    """The active session, or else a local one with the settings of ``conf/`` and Delta's jars."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("SPARK_CONF_DIR", str(_PROJECT / "conf"))
    # Python workers may start in another folder; in a plain checkout they find its packages by path only.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
    builder = SparkSession.builder.appName("traces").master("local[2]")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))))
    # Plans of hundreds of nodes over a few thousand records: compiling whole stages takes longer than running them.
    for name, value in {**FORGETFUL, **LESS_CODE}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _runner(operation: str, cut: Cut, session: Session) -> Callable[[Sequence[Scenario]], dict[str, Actual]]:
    return lambda scenarios: run_on_spark(session(), operation, scenarios, cut)


def _planned(
    operation: str, scenarios: Sequence[Scenario], cut: Cut
) -> tuple[dict[str, Actual], list[tuple[int, _Task]]]:
    """The outcomes of an operation that are known without Spark, and the tasks to run on it, with their sizes."""
    planner = PLANNERS[operation]
    told = alone(planner, scenarios)
    errors = errors_of(told)
    able = [scenario for scenario in scenarios if "failure" not in told[scenario["id"]]]
    branches, outcomes = pack(planner, able, {name: error["input_index"] for name, error in errors.items()})
    outcomes.update({name: actual for name, actual in told.items() if "failure" in actual})
    possible = [branch for branch in branches if not _refused(branch, outcomes)]
    packs = [possible[first : first + BRANCHES] for first in range(0, len(possible), BRANCHES)]
    tasks: list[tuple[int, _Task]] = [(len(together(p).nodes), partial(_run, branches=p, cut=cut)) for p in packs]
    for scenario in scenarios:
        if scenario["id"] in errors:
            step = errors[scenario["id"]]["input_index"]
            tasks.append((1, partial(_failing, planner=planner, scenario=scenario, step=step)))
    return outcomes, tasks


def _refused(branch: Branch, outcomes: dict[str, Actual]) -> bool:
    """Whether the engine refuses the branch; its scenarios then count as failed."""
    try:
        operators_of(branch.plan.topology)
    except TopologyError as refusal:
        outcomes.update(_failed(branch, str(refusal)))
        return True
    return False


def _run(spark: SparkSession, branches: Sequence[Branch], cut: Cut) -> dict[str, Actual]:
    """One application; if it fails, its halves, until the branch that fails is alone."""
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = PackedRun(spark, Path(folder), branches)
            run.feed(cut)
            outcomes = run.outcomes()
    except Exception as failure:  # Whatever the engine raises is the failure of these branches.
        if len(branches) == 1:
            return _failed(branches[0], _told(failure))
        _LOG.warning("%d branches failed, now each half: %s", len(branches), _told(failure))
        middle = len(branches) // 2
        return {**_run(spark, branches[:middle], cut), **_run(spark, branches[middle:], cut)}
    _LOG.info("%d branches in %.0f seconds", len(branches), time.monotonic() - started)
    return outcomes


def _failing(spark: SparkSession, planner: Planner, scenario: Scenario, step: int) -> dict[str, Actual]:
    """The error of a scenario that must fail at a step; nothing if it does not fail."""
    branches, _ = pack(planner, [scenario], {scenario["id"]: step + 1})
    try:
        with tempfile.TemporaryDirectory() as folder:
            PackedRun(spark, Path(folder), branches).feed(Cut())
    except StreamingQueryException as failure:
        if not any(name in str(failure) for name in _EXPECTED_ERRORS):
            return {scenario["id"]: {"failure": _told(failure)}}
        return {scenario["id"]: {"error": {"input_index": step, "message": _told(failure)}}}
    return {}


def _failed(branch: Branch, why: str) -> dict[str, Actual]:
    return {case.id: {"outputs": [], "failure": why} for case in branch.cases}


def _told(failure: Exception) -> str:
    """The last line of a failure that says something, since a Java stack trace has hundreds of lines."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith("at ")]
    return (telling or lines or [type(failure).__name__])[-1][:500]


register_all()
