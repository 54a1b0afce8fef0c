"""Chains of SIGKILLs: an application in a process group of its own, started and killed again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_JOB = Path(__file__).with_name("kill_job.py")
_PROJECT = Path(__file__).parents[3]
_PATIENCE_S = 240


@dataclass(frozen=True)
class Kill:
    """Where the process is killed: at a point, or some seconds after its session is ready."""

    point: str = ""
    after_s: float = 0.0


@dataclass(frozen=True)
class Life:
    """What became of one start.

    ``begins_again``: whether a batch was begun and not finished when it started. ``recovered_s``: seconds from the
    start of the process to the end of its first batch, if it got so far. ``batches``: how many it finished.
    """

    kill: Kill
    was_killed: bool
    begins_again: bool
    ready_s: float | None
    recovered_s: float | None
    batches: int


def live_and_die(kind: str, source: Path, out: Path, log: Path, kill: Kill) -> Life:
    """Start the application and kill its whole process group; it may end before that."""
    begins_again = is_unfinished(out)
    log.unlink(missing_ok=True)
    command = [sys.executable, str(_JOB), kind, str(source), str(out), str(log), kill.point]
    with log.with_suffix(".err").open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=_PROJECT, env=_environment(), stderr=errors, start_new_session=True)
    try:
        if not kill.point and _wait_for(process, log, "ready"):
            # A process that ends by itself ends the wait, too.
            _wait(process, kill.after_s)
        else:
            _wait(process, _PATIENCE_S)
    finally:
        _kill_group(process)
    if process.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(
            f"The job failed by itself:\n{log.with_suffix('.err').read_text(encoding='utf-8')[-3000:]}"
        )
    said = _said(log)
    started = said["start"][0] if "start" in said else None
    ready, batches = said.get("ready", []), said.get("batch", [])
    return Life(
        kill,
        process.returncode == -signal.SIGKILL,
        begins_again,
        ready[0] - started if started and ready else None,
        batches[0] - started if started and batches else None,
        len(batches),
    )


def is_unfinished(out: Path) -> bool:
    """Whether the checkpoint has planned a batch that it has not seen the end of."""
    planned, done = (
        {int(file.name) for file in (out / "_checkpoint" / log).glob("[0-9]*")} for log in ("offsets", "commits")
    )
    return bool(planned - done) and max(planned) > max(done, default=-1)


def told(lives: Sequence[Life]) -> str:
    """The figures of a chain in one line."""
    killed = [life for life in lives if life.was_killed]
    at_points = sum(bool(life.kill.point) for life in killed)
    recovered = [life.recovered_s for life in lives if life.begins_again and life.recovered_s is not None]
    ready = [life.ready_s for life in lives if life.ready_s is not None]
    shown = f"{median(recovered):.1f} s in the middle, {max(recovered):.1f} s at most" if recovered else "none measured"
    return (
        f"{len(killed)} kills of the process group ({at_points} at a write, {len(killed) - at_points} at any time); "
        f"{sum(life.begins_again for life in lives)} starts found a batch unfinished and began it again; "
        f"{sum(life.batches for life in lives)} batches done between kills; from start to the end of a batch begun "
        f"again: {shown} of {len(recovered)} (of it {median(ready) if ready else 0:.1f} s for the session)"
    )


def _environment() -> dict[str, str]:
    folders = (str(_PROJECT), str(_JOB.parent), os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def _said(log: Path) -> dict[str, list[float]]:
    said: dict[str, list[float]] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        when, _, what = line.partition(" ")
        said.setdefault(what, []).append(float(when))
    return said


def _wait_for(process: subprocess.Popen[bytes], log: Path, what: str) -> bool:
    until = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        if what in _said(log):
            return True
        time.sleep(0.02)
    return False


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the group that this process leads, and wait until all of it is gone."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.wait()
            return
        process.poll()
        time.sleep(0.02)
    raise AssertionError(f"Processes of the group {process.pid} outlived SIGKILL.")
