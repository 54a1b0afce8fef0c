"""Whether the rows that ask go to every task, so that only versions are moved which one of them finds.

A join moves and sorts all versions of a table, however few of them are found. Sending the keys and instants that are
asked for leaves the others where they lie; but what is asked for is read twice then, and must not differ in between.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from versioned.commit import detail_of
from versioned.identifiers import TableRef
from versioned.put_checks import check_frame
from versioned.written import of_detail

#: Some tens of megabytes, for keys that are numbers.
MOST_SENT: Final = 1_000_000
#: Some two million versions: sending a million rows takes about as long as moving and sorting so many.
LARGE_BYTES: Final = 64 * 2**20


def sends(frame: DataFrame, target: TableRef) -> bool:
    """Whether rows are sent to look them up: those of a frame that is persisted, if they are few for a large table.

    Rows that are not persisted may differ when they are read once more (a sample, a database that others write to), and
    would find nothing then, without a word. Persisted ones are counted, for one job, if the table is large.
    """
    check_frame("frame", frame)
    level = frame.storageLevel
    is_kept = level.useMemory or level.useDisk
    return is_kept and is_large(frame.sparkSession, target) and frame.count() <= MOST_SENT


def is_large(session: SparkSession, target: TableRef) -> bool:
    """Whether moving the versions of a table takes longer than sending many rows."""
    return of_detail(detail_of(session, target)).size_bytes >= LARGE_BYTES
