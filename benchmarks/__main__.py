"""``python -m benchmarks [POINT ...]``: measure, print, and write JSON and a chart.

Figures are ratios to peers that take turns with ours on the same data. ``--scale 0.05`` is for trying out: at such
sizes what is fixed per batch outweighs everything, and the ratios say little.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import asof, growth, puts, report, smallest, suppression, windows
from benchmarks.measure import Figure, machine
from benchmarks.setting import Setting

POINTS: Final[dict[str, Callable[[Setting], list[Figure]]]] = {
    "P1": lambda setting: puts.against_merge(setting, "P1", 0.0, 3.0),
    "P2": lambda setting: puts.against_merge(setting, "P2", 0.1, 2.0),
    "P3": puts.flat_history,
    "P4": puts.against_kafka,
    "P5": asof.compare,
    "P5k": asof.against_kafka,
    "P6": windows.compare,
    "P7": suppression.compare,
    "P8": smallest.compare,
    "P9": puts.skew,
    "P10": growth.compare,
}


def main() -> None:
    """Measure the points named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("points", nargs="*", metavar="POINT", help=f"of {', '.join(POINTS)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes (default 1)")
    parser.add_argument("--runs", type=int, default=3, help="counted rounds (default and least for a figure: 3)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder for JSON and chart")
    parser.add_argument("--work", type=Path, help="folder for the data (default: a temporary one)")
    parser.add_argument("--batches", type=int, help="small batches of P10 (default 60; its aim speaks of 500)")
    args = parser.parse_args()
    unknown = sorted(set(args.points) - set(POINTS))
    if unknown:
        parser.error(f"unknown: {unknown}; there are {list(POINTS)}")
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=args.work) as work:
        setting = Setting(Path(work), args.scale, args.runs, batches=args.batches)
        done = measure(args.points or list(POINTS), setting, args.out)
    sys.exit(0 if done else 1)


def measure(points: list[str], setting: Setting, out: Path) -> bool:
    """Measure points; print and write the results after each, so that a run cut short is not lost.

    Returns:
        Whether all succeeded.
    """
    about = {**machine(), **setting.told()}
    print(json.dumps(about, indent=2), flush=True)
    figures: list[Figure] = []
    failed: list[str] = []
    for point in points:
        started = time.monotonic()
        print(point, flush=True)
        try:
            made = POINTS[point](setting)
        except Exception:
            # A point that fails must not lose what the others took half an hour to measure.
            traceback.print_exc()
            failed.append(point)
            continue
        for figure in made:
            print(f"  {figure}", flush=True)
            if figure.notes:
                print(f"    {json.dumps(dict(figure.notes))}", flush=True)
        figures += made
        print(f"  {point}: {time.monotonic() - started:.0f} s", flush=True)
        report.write(figures, about, out)
    print(f"written to {out}" + (f"; FAILED: {failed}" if failed else ""))
    return not failed


if __name__ == "__main__":
    main()
