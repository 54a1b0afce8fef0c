"""Explains the failure of a batch that reads a missing file: Spark names the file, but not what to do.

A batch that died may be run again much later, and by then a VACUUM may have removed files of the tables as they were
before it. (Missing input files are found at the start, by ``streams.spark.lost_input``; those of an input table are
found here.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from versioned.errors import ReplayMismatchError, VersionedError

#: How Spark and Delta report a missing file.
_GONE: Final = re.compile("FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|DELTA_VERSION_NOT_FOUND|FileNotFoundException")
#: Java reports these as a missing file too. They are temporary, and the batch is run again.
_TROUBLE: Final = re.compile(r"\((Too many open files|Permission denied|No space left on device|Input/output error)\)")
#: Spark's own temporary files.
_OF_SPARK: Final = re.compile("blockmgr-|/spark-[0-9a-f]{8}-")
_LONGEST: Final = 500


def naming_gone_files(name: str, run: Callable[[DataFrame, int], int]) -> Callable[[DataFrame, int], int]:
    """A function that runs a batch by ``run``; if a file is missing, its error says what to do.

    Args:
        name: The application's name.
        run: Runs a batch, and returns its number of records.
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
    """The line of an error which says that a file to read is missing; None if there is none.

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
