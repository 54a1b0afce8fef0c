"""Contestants that take turns, and figures made of their medians."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

#: Counted runs, after a first one that is not counted: it compiles code and brings files into the page cache.
RUNS = 3


@dataclass(frozen=True)
class Contestant:
    """A participant, whose ``run(n)`` does the work for the n-th time.

    ``run`` returns the seconds by its own clock, for a peer in another process; None = our clock counts.
    """

    name: str
    run: Callable[[int], float | None]


@dataclass(frozen=True)
class Timing:
    """One counted run. ``load`` is the machine's load average of the last minute, just before it."""

    seconds: float
    load: float


Timings = dict[str, list[Timing]]


def alternate(contestants: Sequence[Contestant], runs: int = RUNS, warm_ups: int = 1) -> Timings:
    """Let all contestants run in turn; each round begins with another one.

    Args:
        contestants: Their names differ.
        runs: Counted rounds.
        warm_ups: Rounds before them.

    Returns:
        The counted runs by name.

    Example:
        >>> told = alternate([Contestant("we", lambda n: float(n))], runs=2)  # doctest: +ELLIPSIS
          we: 0.00 s (load ...), not counted
          we: 1.00 s (load ...)
          we: 2.00 s (load ...)
        >>> [timing.seconds for timing in told["we"]], median(told["we"])
        ([1.0, 2.0], 1.5)
    """
    told: Timings = {each.name: [] for each in contestants}
    for number in range(warm_ups + runs):
        turn = number % len(contestants)
        for each in (*contestants[turn:], *contestants[:turn]):
            load = os.getloadavg()[0]
            started = time.perf_counter()
            own = each.run(number)
            seconds = time.perf_counter() - started if own is None else own
            counted = number >= warm_ups
            print(f"  {each.name}: {seconds:.2f} s (load {load:.1f}){'' if counted else ', not counted'}", flush=True)
            if counted:
                told[each.name].append(Timing(seconds, load))
    return told


def median(timings: Sequence[Timing]) -> float:
    """The median time, in seconds."""
    return statistics.median(timing.seconds for timing in timings)


@dataclass(frozen=True)
class Figure:
    """The measured ratio of one contestant to another.

    Args:
        point: Name of the point in the list of aims, for example ``P1``.
        what: The work, in words.
        ours: Name of the contestant that is measured.
        peer: Name of the contestant it is compared with.
        timings: Runs of both, by their names.
        records: Records per run of ours.
        peer_records: Records per run of the peer, if it was given another number.
        aim: The ratio to reach.
        sense: ``faster``: our records per second over the peer's, at least the aim. ``slower``: our seconds per record
            over the peer's, at most the aim.
        notes: Other observations: numbers and short texts.
    """

    point: str
    what: str
    ours: str
    peer: str
    timings: Mapping[str, Sequence[Timing]]
    records: int
    aim: float
    sense: Literal["faster", "slower"] = "faster"
    peer_records: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> tuple[float, float]:
        """The median seconds of ours, and of the peer."""
        return median(self.timings[self.ours]), median(self.timings[self.peer])

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer; for the sense ``slower``, how many times as slow."""
        ours, peer = self.seconds
        per_record = ours / self.records, peer / (self.peer_records or self.records)
        return per_record[1] / per_record[0] if self.sense == "faster" else per_record[0] / per_record[1]

    @property
    def is_met(self) -> bool:
        """Whether the aim is reached."""
        return self.ratio >= self.aim if self.sense == "faster" else self.ratio <= self.aim

    def to_json(self) -> dict[str, Any]:
        """The figure with every run."""
        ours, peer = self.seconds
        return {
            "point": self.point, "what": self.what, "ours": self.ours, "peer": self.peer, "sense": self.sense,
            "records": self.records, "peer_records": self.peer_records or self.records,
            "ours_seconds": round(ours, 3), "peer_seconds": round(peer, 3), "ratio": round(self.ratio, 3),
            "aim": self.aim, "met": self.is_met, "notes": dict(self.notes),
            "runs": {name: [asdict(run) for run in self.timings[name]] for name in {self.ours, self.peer}},
        }  # fmt: skip

    def __str__(self) -> str:
        ours, peer = self.seconds
        bound = ">=" if self.sense == "faster" else "<="
        load = max(run.load for name in (self.ours, self.peer) for run in self.timings[name])
        return (
            f"{self.point} {self.what}: {self.ours} {ours:.2f} s, {self.peer} {peer:.2f} s: ratio {self.ratio:.2f} "
            f"(aim {bound} {self.aim:g}: {'met' if self.is_met else 'MISSED'}; load up to {load:.1f})"
        )


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages * page / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "python": sys.version.split()[0],
        "load_at_start": os.getloadavg()[0],
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
