"""The program that the kill tests kill: ``python kill_job.py <kind> <input> <out> <log> [<point>]``.

It tells its log when it starts, when its session is ready, at each batch that is done, and when it ends. Where a point
is given, it kills its own process group there, the JVM included.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from fault_plans import application

from jobs.session import build_session
from versioned import faults, put

_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    # Compiling plans for a few rows takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main(kind: str, source: str, out: str, log: str, point: str = "") -> None:
    """Run the application over all the input there is."""

    def say(what: str) -> None:
        with Path(log).open("a", encoding="utf-8") as told:
            told.write(f"{time.time():.3f} {what}\n")

    def reached(name: str) -> None:
        if name == point:
            os.killpg(0, signal.SIGKILL)
        if name == "after:ledger/row":
            say("batch")

    say("start")
    spark = build_session("kills", _SETTINGS)
    say("ready")
    # Late records take a commit of their own, so that there is one boundary more to die at.
    put.ROWS_PER_SPLICE = 0  # type: ignore[misc]
    put.ROWS_FOR_ANY_SPLICE = 0  # type: ignore[misc]
    with faults.armed(reached):
        application(spark, kind, Path(source), Path(out)).run()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
