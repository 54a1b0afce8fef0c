"""Runs small batches interpreted: generating and compiling code for a few rows takes longer than processing them.

Spark writes Java for most expressions and compiles it, anew wherever a number in it differs, as stream times do in each
batch. Over millions of rows that pays; in a batch of a thousand it was a third of the time. Nor are they, and batches
of some size, planned anew after each shuffle, which makes one job of a query into three. What is compiled is compiled
whole, also what Delta does with the rows of its own log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from streams.spark.few_tasks import most_partitions
from versioned.identifiers import TableRef
from versioned.session_settings import put_back
from versioned.side_by_side import side_by_side
from versioned.table_details import detail_of
from versioned.touched import MARKED_ROWS
from versioned.written import TableState, of_detail

#: Settings of a session: code for single expressions, but none for whole stages; and none at all.
_WHOLE_STAGE: Final = "spark.sql.codegen.wholeStage"
LESS_CODE: Final[Mapping[str, str]] = {_WHOLE_STAGE: "false"}
NO_CODE: Final[Mapping[str, str]] = {**LESS_CODE, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: Plans stay as they were made: of a thousand records a batch had 101 jobs instead of 180, and took 12 s instead of 15.
#: Of 200,000 records one took 5.0 s instead of 6.1, of a million hardly less.
#: A plan made once waits for what it sends to all tasks, five minutes unless told otherwise, however much work that is.
PLANNED_ONCE: Final[Mapping[str, str]] = {"spark.sql.adaptive.enabled": "false", "spark.sql.broadcastTimeout": "-1"}
#: The rows of Delta's log have 138 fields. Of rows with more than 100 Spark compiles no whole stages, unless told
#: otherwise; then each task that puts a table's log together writes code anew for every field, 0.1 s of a core for a
#: log of ten rows, five times a batch.
LOG_FIELDS: Final = 200
MOST_FIELDS: Final = "spark.sql.codegen.maxFields"
#: A query of a table of a few files reads them all: to find those that it could leave out is a query of its own. Delta
#: then refuses to read a table in which single rows can be marked as removed.
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
_ALL: Final = (*_NEEDED, *ALL_FILES, MOST_FIELDS)


@dataclass(frozen=True)
class Measured:
    """The tables that a batch may have to read, as they were found.

    Args:
        size_bytes: How large their newest versions are together; those that are not there yet count nothing.
        all_are_there: Whether each of them has been made.
        all_are_plain: Whether there are some, and neither in them nor in others Delta may mark single rows as removed.
    """

    size_bytes: int
    all_are_there: bool = True
    all_are_plain: bool = True


class Interpretation:
    """Chooses for each batch of a query whether its session compiles.

    Args:
        tables: The tables that a batch may have to read.
        measured: As they are before the first batch; measured then if not given.
        others: Tables that are read beside them: by guards, and by what sends a changelog on.
        reads_more: Whether tables of which nothing is known may be read too, by functions of a user.
    """

    def __init__(
        self,
        tables: Sequence[TableRef],
        measured: Measured | None = None,
        others: Sequence[TableRef] = (),
        *,
        reads_more: bool = False,
    ) -> None:
        self._tables, self._others, self._reads_more = tables, others, reads_more
        self._measured = measured
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
        wanted, partitions = self._wanted(self._look(session, records), records), most_partitions(session)
        if records <= PLANNED_ONCE_RECORDS and partitions is not None and partitions <= _FEW_PARTITIONS:
            wanted = {**wanted, **PLANNED_ONCE}
        if wanted.get(_WHOLE_STAGE) != "false" and session.conf.isModifiable(MOST_FIELDS):
            wanted = {**wanted, **self._code_for_logs(session)}
        self._batches += 1
        if wanted != self._in_force and all(map(session.conf.isModifiable, _NEEDED)):
            self._former = self._former or {name: session.conf.get(name, None) for name in _ALL}
            for name, former in self._former.items():
                put_back(session, name, wanted.get(name, former))
            self._in_force = wanted
        return NO_CODE.items() <= self._in_force.items()

    def _code_for_logs(self, session: SparkSession) -> Mapping[str, str]:
        own = self._former[MOST_FIELDS] if self._former else session.conf.get(MOST_FIELDS)
        return {} if int(own or 0) >= LOG_FIELDS else {MOST_FIELDS: str(LOG_FIELDS)}

    def _look(self, session: SparkSession, records: int) -> Measured:
        batches, taken = self._since
        is_old = batches >= _MEASURED_EVERY or taken >= _MEASURED_AFTER
        may_be_small = records <= (FIRST_RECORDS if self._batches == 0 else FEW_RECORDS)
        if self._measured is None or (is_old and may_be_small):
            self._measured = measure(session, self._tables, self._others)
            batches = taken = 0
        if self._batches == 0 and not self._measured.all_are_there:
            batches = _MEASURED_EVERY  # It makes those that are missing.
        self._since = (batches + 1, taken + records)
        return self._measured

    def _wanted(self, measured: Measured, records: int) -> Mapping[str, str]:
        if measured.size_bytes > SMALL_TABLES:
            return {}
        if records <= FEW_RECORDS:
            return {**NO_CODE, **ALL_FILES} if measured.all_are_plain and not self._reads_more else NO_CODE
        return LESS_CODE if self._batches == 0 and records <= FIRST_RECORDS else {}


def measure(session: SparkSession, tables: Sequence[TableRef], others: Sequence[TableRef] = ()) -> Measured:
    """Look at the newest versions of tables, and of others that are read beside them."""
    found: dict[TableRef, TableState] = {}

    def look(target: TableRef) -> None:
        found[target] = of_detail(detail_of(session, target))

    side_by_side([partial(look, target) for target in (*tables, *others)], session)
    return measured((found[target] for target in tables), (found[target] for target in others))


def measured(states: Iterable[TableState], others: Iterable[TableState] = ()) -> Measured:
    """Tables of which something is known already, and others that are read beside them.

    >>> measured([TableState(size_bytes=7), TableState(exists=False)])
    Measured(size_bytes=7, all_are_there=False, all_are_plain=True)
    """
    found = list(states)
    there = [state for state in found if state.exists]
    all_are_plain = bool(there) and all(MARKED_ROWS not in state.features for state in (*there, *others))
    return Measured(sum(state.size_bytes for state in there), len(there) == len(found), all_are_plain)
