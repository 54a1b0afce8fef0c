"""Explains the failure of a batch that reads a missing file: Spark names the file, but not what to do.

A batch that failed may be restarted long after, when a VACUUM has removed files of the earlier table versions that it
reads. (Missing files of its input are found at the start: ``streams.spark.lost_input``; those of an input table are
found here.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from versioned.errors import ReplayMismatchError, VersionedError

#: What Spark and Delta call it.
_GONE: Final = re.compile("FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|DELTA_VERSION_NOT_FOUND|FileNotFoundException")
#: Java says of these, too, that a file is not found. They pass, and the batch is begun again.
_TROUBLE: Final = re.compile(r"\((Too many open files|Permission denied|No space left on device|Input/output error)\)")
#: Files that Spark makes for itself, for as long as it runs.
_OF_SPARK: Final = re.compile("blockmgr-|/spark-[0-9a-f]{8}-")
_LONGEST: Final = 500


def naming_gone_files(name: str, run: Callable[[DataFrame, int], int]) -> Callable[[DataFrame, int], int]:
    """What runs a batch, so that it ends with what to do where a file is gone.

    Args:
        name: The application's name.
        run: Runs a batch, and says how many records it had.
    """

    def run_batch(frame: DataFrame, batch_id: int) -> int:
        try:
            return run(frame, batch_id)
        except VersionedError:
            raise
        except Exception as error:  # the class differs between classic and Connect sessions
            line = line_of_gone_file(error)
            if line is None:
                raise
            raise ReplayMismatchError(_told(name, batch_id, line)) from error

    return run_batch


def line_of_gone_file(error: BaseException) -> str | None:
    """Where an error says that a read failed because a file is not there; None if it says no such thing.

    >>> line_of_gone_file(OSError("Job aborted.\\n[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered an error in /a."))
    '[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered an error in /a.'
    """
    told = f"{type(error).__name__}: {error}"
    if _TROUBLE.search(told):
        return None
    lines = map(str.strip, told.splitlines())
    return next((line for line in lines if _GONE.search(line) and not _OF_SPARK.search(line)), None)


def _told(name: str, batch_id: int, line: str) -> str:
    return (
        f'Batch {batch_id} of "{name}" reads a file that is gone: {line[:_LONGEST]} A file of a table: a VACUUM has '
        "taken it before this batch, which had died, was begun again. Put back a copy of tables, ledger and checkpoint "
        "or start with --new-epoch, which takes the tables as they are. A file of its input: start again; of an input "
        "table, start with --new-epoch and a startingVersion whose files are there."
    )
