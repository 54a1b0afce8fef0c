"""Guards check, after each batch, the invariants of what it wrote, in one Spark job.

They check only what a batch may have changed: the current rows of a versioned table, open windows, whole buffers, and
the batch's own rows in sinks and rejects. ``versioned validate`` checks closed history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, Literal

from pyspark.sql import Column, DataFrame

from streams.spark.flow import NodeReport
from streams.spark.invariants import Facts, Invariant, invariants_of, unique, with_facts
from streams.spark.operator import Batch
from streams.spark.row_rules import broken
from streams.spark.stored_kinds import StoredTable, stored_table
from streams.spark.window_upkeep import OPEN
from versioned import spark_functions as F
from versioned.choices import check_choice
from versioned.errors import InvariantError
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.spec import CURRENT
from versioned.table_details import properties_of

GuardPolicy = Literal["none", "warn", "fail"]

_LOG: Final = logging.getLogger(__name__)
#: Rules of versions that also need a key's closed rows; for current rows alone, ``several_current`` replaces them.
_NEIGHBOURS: Final = ("overlap", "gap", "open_before_next", "no_current", "doubled")


class BatchGuard:
    """Checks the tables of an application after each batch.

    Args:
        tables: Every table of the application by the node that owns it.
        rejects: The rejects table.
        policy: ``warn`` logs broken invariants; ``fail`` ends the query before the next batch builds on them.
    """

    def __init__(self, tables: Mapping[str, Sequence[TableRef]], rejects: TableRef, policy: GuardPolicy) -> None:
        self._owners = {target.short_name: node for node, targets in tables.items() for target in targets}
        self._targets = {target.short_name: target for targets in tables.values() for target in targets}
        self._targets[rejects.short_name] = rejects
        check_choice("guards", policy, GuardPolicy)
        self._policy = policy
        self._known: dict[str, StoredTable] = {}

    def look(self, batch: Batch, written: Mapping[str, int], reports: Mapping[str, NodeReport]) -> dict[str, int]:
        """Check what a batch wrote, once it is committed.

        Args:
            batch: The batch.
            written: The version of each table that it wrote.
            reports: The reports of its nodes.

        Returns:
            How many rows break each rule, as ``table.rule``; only rules that are broken.

        Raises:
            InvariantError: some rule is broken, and the policy is ``fail``.
        """
        if self._policy == "none":
            return {}
        wrong = self._broken(batch, written, reports)
        if wrong:
            self._tell(batch, wrong)
        return wrong

    def look_again(self, batch: Batch, written: Iterable[str]) -> None:
        """Check again at a start: what :meth:`look` has found stays refused until it is repaired.

        Args:
            batch: The newest finished batch.
            written: The tables to which no later batch has written.

        Raises:
            InvariantError: some rows break an invariant, and the policy is ``fail``.
        """
        if self._policy == "fail" and (wrong := self._broken(batch, written, {})):
            self._tell(batch, wrong)

    def _broken(self, batch: Batch, written: Iterable[str], reports: Mapping[str, NodeReport]) -> dict[str, int]:
        counted = [self._counted(batch, name, reports) for name in written if name in self._targets]
        frames = [frame for frame in counted if frame is not None]
        found = {row["rule"]: row["n"] for row in reduce(DataFrame.unionByName, frames).collect()} if frames else {}
        return {rule: n for rule, n in found.items() if n and not rule.endswith(".rows")}

    def _tell(self, batch: Batch, wrong: Mapping[str, int]) -> None:
        said = (
            f"Behind batch {batch.batch_id} {sum(wrong.values())} rows break an invariant: {dict(wrong)}. Somebody "
            "else wrote to the tables, or this is a bug: look with versioned validate before going on. Take the tables "
            "back with versioned rollback to the newest batch before that, or let one run go on with them as they are, "
            "with guards: warn."
        )
        if self._policy == "fail":
            raise InvariantError(said)
        _LOG.warning(said)

    def _counted(self, batch: Batch, name: str, reports: Mapping[str, NodeReport]) -> DataFrame | None:
        table = self._table(batch, name)
        rules = guarded(table)
        if not rules:
            return None
        facts = Facts(_times(table, self._owners.get(name, name), reports, batch), batch.clock_us)
        rows = with_facts(_changed(read_table(batch.session, self._targets[name]), table, batch), table, facts)
        return counts(rows, rules, name)

    def _table(self, batch: Batch, name: str) -> StoredTable:
        if name not in self._known:
            target = self._targets[name]
            columns = read_table(batch.session, target).columns
            self._known[name] = stored_table(name, columns, properties_of(batch.session, target))
        return self._known[name]


def guarded(table: StoredTable) -> tuple[Invariant, ...]:
    """The invariants of a table that can be checked by what a batch has changed."""
    rules = invariants_of(table)
    if table.kind != "versions":
        return rules
    assert table.spec is not None
    one = unique("several_current", "A key has one open version.", table.spec.keys)
    return (*(rule for rule in rules if rule.name not in _NEIGHBOURS), one)


def counts(rows: DataFrame, rules: Sequence[Invariant], name: str) -> DataFrame:
    """How many rows break each rule, and how many rows there are, in one aggregate with columns ``rule`` and ``n``.

    Args:
        rows: The rows of one table, with its facts.
        rules: Its invariants.
        name: The prefix of each rule's name: ``rates.overlap``, ``rates.rows``.
    """
    marks: dict[str, Column] = {
        f"_{i}": broken(rule.expectation, rule.arguments, rows.schema) for i, rule in enumerate(rules)
    }
    summed = rows.withColumns(marks).agg(F.count("*").alias("_rows"), *(F.count_if(mark).alias(mark) for mark in marks))
    named = {"_rows": "rows", **{f"_{i}": rule.name for i, rule in enumerate(rules)}}
    pairs = (F.struct(F.lit(f"{name}.{rule}").alias("rule"), F.col(at).alias("n")) for at, rule in named.items())
    return summed.select(F.inline(F.array(*pairs)))


def _changed(rows: DataFrame, table: StoredTable, batch: Batch) -> DataFrame:
    if table.kind == "versions":
        return rows.where(F.col(quote(CURRENT)))
    if table.kind == "windows":
        return rows.where(F.col(OPEN))
    if table.kind in ("sink", "rejects"):
        return rows.where(F.col("_batch_id") == batch.number)
    return rows


def _times(table: StoredTable, node: str, reports: Mapping[str, NodeReport], batch: Batch) -> Mapping[int, int]:
    """Stream time per scope, after the batch, of the node that owns a table."""
    report, reorder = reports.get(node, NodeReport()), f"{node}:reorder"
    if table.kind != "waiting":
        return report.stream_times or batch.times_of(node)
    held = report.marks.get(reorder) or report.marks.get(node) or batch.times_of(reorder)
    return held or report.stream_times or batch.times_of(node)
