"""Runs small batches interpreted: generating and compiling code for a few rows takes longer than processing them.

Spark generates Java for most expressions and compiles it, again whenever a number in it differs, as stream times do in
each batch. Over millions of rows that pays; in a batch of a thousand it was a third of the time. Small and medium
batches also go without adaptive planning, which plans a query again after each shuffle and makes three jobs of one.
Where code is compiled, it is compiled as whole stages, including Delta's work on the rows of its own log.
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

#: Session settings: code for single expressions, but not for whole stages (``LESS_CODE``), and no code at all.
_WHOLE_STAGE: Final = "spark.sql.codegen.wholeStage"
LESS_CODE: Final[Mapping[str, str]] = {_WHOLE_STAGE: "false"}
NO_CODE: Final[Mapping[str, str]] = {**LESS_CODE, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: No adaptive planning: a batch of a thousand records had 101 jobs instead of 180, and took 12 s instead of 15.
#: One of 200,000 records took 5.0 s instead of 6.1; one of a million hardly less.
#: A plan made once waits for its broadcasts, by default five minutes at most, which heavy work may exceed: no limit.
PLANNED_ONCE: Final[Mapping[str, str]] = {"spark.sql.adaptive.enabled": "false", "spark.sql.broadcastTimeout": "-1"}
#: The rows of Delta's log have 138 fields. By default Spark compiles no whole stages for rows of more than 100 fields;
#: then each task that reads a table's log generates code for every field: 0.1 s of a core for a log of ten rows, five
#: times a batch.
LOG_FIELDS: Final = 200
MOST_FIELDS: Final = "spark.sql.codegen.maxFields"
#: No data skipping: a query of a table of a few files reads them all, since finding those to skip is a query of its
#: own. With this setting Delta refuses to read tables with deletion vectors.
ALL_FILES: Final[Mapping[str, str]] = {"spark.databricks.delta.stats.skipping": "false"}
#: The limits for planning once. With more shuffle partitions, adaptive planning merges those that are nearly empty;
_FEW_PARTITIONS: Final = 8
#: with more records, it splits partitions that are much larger than others.
PLANNED_ONCE_RECORDS: Final = 250_000
#: The limits of a small batch. Interpreted, one with 1,200 records took 13 s instead of 18, but one with 14,000 minutes
#: instead of half a minute, since interpreted expressions look up settings again and again.
FEW_RECORDS: Final = 1_500
#: In bytes, of the application's tables that it may have to read: one record that closes 200,000 windows, of 15 MB,
#: took 11 s interpreted instead of 4.
SMALL_TABLES: Final = 4 * 2**20
#: Up to this many records, the first batch of a query compiles no whole stages, which take a new JVM the longest: one
#: of 4,000 records took 63 s instead of 104 s (on a busy machine). Later batches took the same with and without.
FIRST_RECORDS: Final = 20_000
#: The tables are measured again after this many batches, or records.
_MEASURED_EVERY: Final = 100
_MEASURED_AFTER: Final = 100_000
#: The settings that this Spark must know before any is changed; and all that may be changed.
_NEEDED: Final = (*NO_CODE, *PLANNED_ONCE)
_ALL: Final = (*_NEEDED, *ALL_FILES, MOST_FIELDS)


@dataclass(frozen=True)
class Measured:
    """The size and kind of the tables that a batch may have to read.

    Args:
        size_bytes: The total size of their newest versions; missing tables count 0.
        all_are_there: Whether all of them exist.
        all_are_plain: Whether there are any, and neither they nor the others beside them may have deletion vectors.
    """

    size_bytes: int
    all_are_there: bool = True
    all_are_plain: bool = True


class Interpretation:
    """Decides for each batch of a query whether Spark compiles code.

    Args:
        tables: The tables that a batch may have to read.
        measured: Their state before the first batch; measured then if not given.
        others: Tables that are read beside them: by guards, and to send a changelog to Kafka.
        reads_more: Whether the user's functions may read tables that are not known here.
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
        #: The session's former values of the settings that were changed.
        self._former: dict[str, str | None] = {}
        self._in_force: Mapping[str, str] = {}

    def choose(self, session: SparkSession, records: int) -> bool:
        """Change the settings of the batch's session to suit the batch.

        Args:
            session: The session of the batch, which nobody else uses.
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
            batches = _MEASURED_EVERY  # Measure again after this batch, which makes the missing ones.
        self._since = (batches + 1, taken + records)
        return self._measured

    def _wanted(self, measured: Measured, records: int) -> Mapping[str, str]:
        if measured.size_bytes > SMALL_TABLES:
            return {}
        if records <= FEW_RECORDS:
            return {**NO_CODE, **ALL_FILES} if measured.all_are_plain and not self._reads_more else NO_CODE
        return LESS_CODE if self._batches == 0 and records <= FIRST_RECORDS else {}


def measure(session: SparkSession, tables: Sequence[TableRef], others: Sequence[TableRef] = ()) -> Measured:
    """Measure the newest versions of tables, and of others that are read beside them."""
    found: dict[TableRef, TableState] = {}

    def look(target: TableRef) -> None:
        found[target] = of_detail(detail_of(session, target))

    side_by_side([partial(look, target) for target in (*tables, *others)], session)
    return measured((found[target] for target in tables), (found[target] for target in others))


def measured(states: Iterable[TableState], others: Iterable[TableState] = ()) -> Measured:
    """The same from known states of the tables, and of others that are read beside them.

    >>> measured([TableState(size_bytes=7), TableState(exists=False)])
    Measured(size_bytes=7, all_are_there=False, all_are_plain=True)
    """
    found = list(states)
    there = [state for state in found if state.exists]
    all_are_plain = bool(there) and all(MARKED_ROWS not in state.features for state in (*there, *others))
    return Measured(sum(state.size_bytes for state in there), len(there) == len(found), all_are_plain)
