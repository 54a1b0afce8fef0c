"""The rejects table of an application: every rejected record, with its reason.

The actions of the sources' contracts for invalid records are carried out here: with *drop*, a record is counted but not
kept; with *fail*, it ends the batch before anything of it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from streams.options import Action
from streams.spark.few_tasks import in_few_tasks
from streams.spark.operator import Batch, StepOf
from versioned import spark_functions as F
from versioned.commit import Append
from versioned.errors import RecordError
from versioned.identifiers import TableRef
from versioned.making import make_table
from versioned.schema import create_plain
from versioned.statistics import hide

#: The column that holds a record as JSON.
RECORD: Final = "record"
#: As in the ledger, the type of instants does not depend on the session.
_SCHEMA: Final = (
    f"node STRING, reason STRING, ts TIMESTAMP_LTZ, scope INT, place ARRAY<BIGINT>, {RECORD} STRING, _batch_id LONG"
)


class Rejects:
    """Appends the records that a batch's operators put aside, in one commit.

    Args:
        target: The table.
        action: The action for a node's records with a reason.
        pii_columns: Columns with personal data, of which tables keep no statistics; a record may have any of them.
    """

    def __init__(
        self,
        target: TableRef,
        action: Callable[[str, str], Action] = lambda _node, _reason: "reject",
        pii_columns: Collection[str] = (),
    ) -> None:
        self.target = target
        self._action = action
        self._hidden = (RECORD, *pii_columns) if pii_columns else ()

    @property
    def step(self) -> StepOf:
        """The write that a batch may make to the table."""
        return (self.target, "rejects", "main")

    def create(self, session: SparkSession, *, is_there: bool) -> None:
        """Make the table if it is missing; in any case, let it keep no statistics of personal data."""
        if not is_there:
            columns = session.createDataFrame([], _SCHEMA).schema
            make_table(session, self.target, create_plain(self.target, columns, self._hidden), or_take=True)
        elif self._hidden:
            hide(session, self.target, self._hidden)

    def ready(self, batch: Batch) -> Callable[[], object] | None:
        """A function that writes the batch's rejects; None if there are none. Only nodes with rejects are read.

        Raises:
            RecordError: there are records with the action ``fail``; nothing of the batch was written.
        """
        actions = {aside: self._action(*aside) for aside in batch.rejected}
        self._refuse(batch, [aside for aside, action in actions.items() if action == "fail"])
        batch.rejected = {aside: n for aside, n in batch.rejected.items() if actions[aside] == "reject"}
        rejecting = {node for node, _ in batch.rejected}
        frames = [frame for node, frame in batch.rejects if node in rejecting]
        if not frames:
            return None
        together = in_few_tasks(reduce(DataFrame.unionByName, frames))
        rows = together.withColumn("_batch_id", F.lit(batch.number).cast("long"))
        for node, reason in (aside for aside, action in actions.items() if action == "drop"):
            rows = rows.where((F.col("node") != node) | (F.col("reason") != reason))
        target, node, step = self.step
        return partial(batch.commit, target, lambda: Append(rows), node, step)

    def _refuse(self, batch: Batch, failing: list[tuple[str, str]]) -> None:
        if failing:
            told = "; ".join(f"{batch.rejected[aside]} of {aside[0]} are {aside[1]}" for aside in sorted(failing))
            raise RecordError(
                f"Batch {batch.batch_id} has invalid records that are to fail: {told}. Nothing of it was written. "
                'Correct the input and start again, or let the source\'s contract say on_invalid "reject" or "drop".'
            )
