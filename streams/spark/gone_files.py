"""A batch that reads a file which is gone: Spark names the file, and not what to do.

A batch that died may be begun again long after: a VACUUM may have taken files of tables as they were before it. (What
is gone of files of its input is found at the start: ``streams.spark.lost_input``; of an input table it is found here.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from versioned.errors import ReplayMismatchError, VersionedError

#: What Spark and Delta call it.
_GONE: Final = ("FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND", "FileNotFoundException", "DELTA_VERSION_NOT_FOUND")
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
            if not is_gone(error):
                raise
            raise ReplayMismatchError(_told(name, batch_id, error)) from error

    return run_batch


def is_gone(error: BaseException) -> bool:
    """Whether a read failed because a file is not there.

    >>> is_gone(RuntimeError("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file /a."))
    True
    """
    told = f"{type(error).__name__} {error}"
    return any(reason in told for reason in _GONE)


def _told(name: str, batch_id: int, error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    first = next((line for line in lines if any(reason in line for reason in _GONE)), lines[0] if lines else "")
    return (
        f'Batch {batch_id} of "{name}" reads a file that is gone: {first[:_LONGEST]} A file of a table: a VACUUM has '
        "taken it before this batch, which had died, was begun again. Put back a copy of tables, ledger and checkpoint "
        "or start with --new-epoch, which takes the tables as they are. A file of its input: start again; of an input "
        "table, start with --new-epoch and a startingVersion whose files are there."
    )
