"""Small batches are interpreted: making and compiling code for a few rows takes longer than running over them.

Spark writes Java for most expressions and compiles it, anew wherever a number in it differs, as stream times do in each
batch. Over millions of rows that pays; in a batch of a thousand it was a third of the time. Nor are they, and batches
of some size, planned anew after each shuffle, which makes one job of a query into three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from streams.spark.few_tasks import most_partitions
from versioned.commit import detail_of, put_back
from versioned.identifiers import TableRef
from versioned.side_by_side import side_by_side

#: Settings of a session: code for single expressions, but none for whole stages; and none at all.
LESS_CODE: Final[Mapping[str, str]] = {"spark.sql.codegen.wholeStage": "false"}
NO_CODE: Final[Mapping[str, str]] = {**LESS_CODE, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: Plans stay as they were made: of a thousand records a batch had 101 jobs instead of 180, and took 12 s instead of 15.
#: Of 200,000 records one took 5.0 s instead of 6.1, of a million hardly less.
#: A plan made once waits for what it sends to all tasks, five minutes unless told otherwise, however much work that is.
PLANNED_ONCE: Final[Mapping[str, str]] = {"spark.sql.adaptive.enabled": "false", "spark.sql.broadcastTimeout": "-1"}
#: A query of a table of a few files reads them all: to find those that it could leave out is a query of its own.
ALL_FILES: Final[Mapping[str, str]] = {"spark.databricks.delta.stats.skipping": "false"}
#: Up to so many partitions of a shuffle; of more, planning anew joins those that are nearly empty,
_FEW_PARTITIONS: Final = 8
#: and up to so many records; of more, it splits partitions that are much larger than others.
PLANNED_ONCE_RECORDS: Final = 250_000
#: A batch is small up to so many records: with 1,200 it took 13 s instead of 18, with 14,000 minutes instead of half a
#: one, since interpreted expressions look up settings again and again,
FEW_RECORDS: Final = 1_500
#: and up to so many bytes in the tables of the application that it may have to read: one record that closes 200,000
#: windows, of 15 MB, took 11 s interpreted instead of 4.
SMALL_TABLES: Final = 4 * 2**20
#: The first batch of a query mostly meets a new JVM, for which the code of whole stages is the most work: with 4,000
#: records it took 63 s without instead of 104 s (on a busy machine); later batches took the same with and without.
FIRST_RECORDS: Final = 20_000
#: After so many batches, or records, the tables are measured again.
_MEASURED_EVERY: Final = 100
_MEASURED_AFTER: Final = 100_000
#: What must be a setting of this Spark before any of them is changed, and all that are.
_NEEDED: Final = (*NO_CODE, *PLANNED_ONCE)
_ALL: Final = (*_NEEDED, *ALL_FILES)


class Interpretation:
    """Chooses for each batch of a query whether its session compiles.

    Args:
        tables: The tables that a batch may have to read.
        size_bytes: How large they are together before the first batch; measured then if not given.
    """

    def __init__(self, tables: Sequence[TableRef], size_bytes: int | None = None) -> None:
        self._tables = tables
        self._bytes = size_bytes
        self._batches = 0
        #: Batches and records since the tables were measured.
        self._since = (0, 0)
        #: What the session had before, of the settings that were changed.
        self._former: dict[str, str | None] = {}
        self._in_force: Mapping[str, str] = {}

    def choose(self, session: SparkSession, records: int) -> bool:
        """Set the batch's own session.

        Args:
            session: The session of the batch, which no one else uses.
            records: How many records came.

        Returns:
            Whether the batch is interpreted.
        """
        batches, taken = self._since
        is_old = batches >= _MEASURED_EVERY or taken >= _MEASURED_AFTER
        may_be_small = records <= (FIRST_RECORDS if self._batches == 0 else FEW_RECORDS)
        if self._bytes is None or (is_old and may_be_small):
            self._bytes = total_bytes(session, self._tables)
            batches = taken = 0
        self._since = (batches + 1, taken + records)
        wanted, partitions = self._wanted(records), most_partitions(session)
        if records <= PLANNED_ONCE_RECORDS and partitions is not None and partitions <= _FEW_PARTITIONS:
            wanted = {**wanted, **PLANNED_ONCE}
        self._batches += 1
        if wanted != self._in_force and all(map(session.conf.isModifiable, _NEEDED)):
            self._former = self._former or {name: session.conf.get(name, None) for name in _ALL}
            for name, former in self._former.items():
                put_back(session, name, wanted.get(name, former))
            self._in_force = wanted
        return NO_CODE.items() <= self._in_force.items()

    def _wanted(self, records: int) -> Mapping[str, str]:
        assert self._bytes is not None
        if self._bytes > SMALL_TABLES:
            return {}
        if records <= FEW_RECORDS:
            return {**NO_CODE, **ALL_FILES}
        return LESS_CODE if self._batches == 0 and records <= FIRST_RECORDS else {}


def total_bytes(session: SparkSession, tables: Sequence[TableRef]) -> int:
    """How large the newest versions of some tables are together; those that are not there yet count nothing."""
    found: list[int] = []

    def measure(target: TableRef) -> None:
        detail = detail_of(session, target)
        found.append(0 if detail is None else detail["sizeInBytes"] or 0)

    side_by_side([partial(measure, target) for target in tables], session)
    return sum(found)
