"""Sinks on Spark: a changelog (append every change) or a table (latest state per key).

Rows have ``_batch_id``, ``_scope`` and ``_seq`` (the record's place). By ``_batch_id, _scope, _seq`` the changes of a
scope are in order; by ``_batch_id, _seq, _scope`` those of a key, which may come from several scopes. In the second
epoch and later, ``_batch_id`` is the batch id plus 2^40 for each epoch before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession

from streams.fields import value_fields
from streams.key_fields import key_fields
from streams.nodes import (
    ChangelogSink,
    Node,
    Output,
    SelectKey,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamTableJoin,
    TableFilter,
    TableMapValues,
    TableSink,
    TableTableJoin,
    ToStream,
    materialized_of,
)
from streams.spark.flow import (
    CAUSE,
    KEY,
    LATEST,
    OLD,
    OP,
    PLACE,
    REASON,
    SCOPE,
    US,
    VALUE,
    Flow,
    count_ignored,
    has_null_key,
    newest_of_keys,
    struct_fields,
    value_columns,
)
from streams.spark.kafka_sink import OWN, KafkaSink
from streams.spark.operator import REPORT, WRITER, Batch, Operator
from streams.spark.stored_shape import (
    SINK_KIND,
    SinkKind,
    check_known_columns,
    check_sink,
    check_types,
    nulls_of,
    sink_properties,
)
from versioned import spark_functions as F
from versioned.commit import Append
from versioned.errors import ConfigurationError, TopologyError
from versioned.identifiers import TableRef, named_twice
from versioned.reading import read_table
from versioned.table_details import properties_of
from versioned.table_log import back_in_time, is_append
from versioned.upsert import upsert
from versioned.written import Written, written_by

#: How many commits to read, step by step, to find one of a batch: others may be newer.
_LIMITS: Final = (5, 100, 100_000)
#: Columns of a changelog besides key and value, if the nodes above provide them.
_TOLD: Final = {REASON: "reason", OP: "op", OLD: "old", CAUSE: "cause"}
#: Nodes that pass these columns on.
_HANDS_ON: Final = (StreamFilter, StreamMapValues, SelectKey, ToStream, TableFilter, TableMapValues)


class _SinkOperator(Operator[ChangelogSink | TableSink]):
    kind: ClassVar[SinkKind]
    #: Whether to cache rows between counting and writing. Otherwise they are computed twice, which is faster if each is
    #: only a few columns of an input row.
    _is_costly = True

    def __init__(self, node: ChangelogSink | TableSink) -> None:
        super().__init__(node)
        self._rows: DataFrame | None = None
        #: The input, where changes that are out of order are left out of the rows.
        self._judged: DataFrame | None = None
        #: Columns of the table that the rows lack, as nulls.
        self._left_out: list[Column] = []
        self._is_ready = False

    def tables(self, root: TableRef) -> list[TableRef]:
        return [root.child(self.node.name)]

    def apply(self, batch: Batch, inputs: list[Flow]) -> None:
        (flow,) = inputs
        self._rows = None if flow.is_empty and self._is_ready else self._shape(flow.frame, batch.number)
        if self._rows is not None:
            if self._is_costly:
                self._rows.persist()
            self._make_ready(batch, self._rows, struct_fields(flow.frame, KEY))

    def tally(self) -> DataFrame | None:
        if self._rows is None:
            return None
        emitted = self._rows.agg(F.lit("emitted").alias("what"), F.count("*").alias("n"))
        return emitted if self._judged is None else emitted.unionByName(count_ignored(self._judged))

    @property
    def _count(self) -> int:
        return self.tallied.get("emitted", 0)

    def release(self) -> None:
        if self._rows is not None and self._is_costly:
            self._rows.unpersist()

    def _shape(self, frame: DataFrame, batch_id: int) -> DataFrame:
        raise AssertionError("each sink has its own shape")

    def _is_of_table(self) -> bool:
        return self.node.parents[0].output is Output.TABLE

    def _columns(self, frame: DataFrame) -> list[Column | str]:
        values = value_columns(struct_fields(frame, VALUE))
        fields = [F.col(VALUE).getField(name).alias(name) for name in values]
        return [f"{KEY}.*", *fields, F.timestamp_micros(US).alias("ts")]

    def _distinct(self, rows: DataFrame) -> DataFrame:
        """The rows, after a check that no two columns have the same name, ignoring case.

        Raises:
            ConfigurationError: fields of the key, of the value and of the sink itself have the same name.
        """
        fault = _fault(rows.columns)
        if fault:
            raise ConfigurationError(f'Sink "{self.node.name}": {fault}')
        return rows

    def _make_ready(self, batch: Batch, rows: DataFrame, keys: list[str]) -> None:
        (target,) = self.tables(batch.root)
        if self._is_ready:
            return
        empty = rows.drop("_deleted").limit(0)
        if batch.is_missing(target):
            # Rows are read back by their batch, to send them to Kafka and for guards.
            found_by = [name for name in ("_batch_id", "ts") if name in empty.columns]
            said, only_grows = sink_properties(self.kind, keys), self.kind == "changelog"
            batch.create(target, empty, said, found_by=found_by, only_grows=only_grows)
        else:
            there, node, table = read_table(batch.session, target).schema, self.node.name, target.short_name
            new = batch.addable(there, empty.schema)
            check_sink(node, table, _properties(batch.session, target), self.kind, there.names, keys)
            check_known_columns(node, table, (*there.names, *new.names), empty.columns)
            check_types(node, table, there, empty.schema)
            batch.add_columns(target, new)
            self._left_out = nulls_of(there, empty.columns)
        self._is_ready = True


class ChangelogSinkOperator(_SinkOperator):
    """Appends every change, then sends the batch's rows to Kafka if it is configured."""

    kind = "changelog"

    def __init__(self, node: ChangelogSink | TableSink) -> None:
        super().__init__(node)
        self._is_costly = self._is_net
        self.kafka: KafkaSink | None = None
        self._keys: list[str] = []

    def write(self, batch: Batch) -> None:
        rows, (target,) = self._rows, self.tables(batch.root)
        # Rows that landed before a crash must be sent, whatever a plan that was changed since makes of the batch.
        has_landed = target.short_name in batch.landed
        if rows is not None and self._count:
            batch.commit(target, lambda: Append(rows), self.node.name, "main")
            has_landed = True
        if self.kafka is not None and has_landed:
            sink = f"{batch.application}/{self.node.name}"
            self.kafka.publish(batch.session, target, batch.number, sink, self._keys, of_table=self._is_of_table())

    @property
    def _is_net(self) -> bool:
        return isinstance(self.node, ChangelogSink) and self.node.emit == "net"

    def _shape(self, frame: DataFrame, batch_id: int) -> DataFrame:
        self._keys = struct_fields(frame, KEY)
        if self.kafka is not None:
            self.kafka.check_keys(self.node.name, self._keys)
        if self._is_net:
            self._judged = frame if LATEST in frame.columns else None
            frame = _net(_latest_only(frame))
        columns = self._columns(frame)
        told = dict(_TOLD)
        if OP not in frame.columns:
            # Every change of a table has an old value, but only corrections of history show it.
            del told[OLD]
        columns += [F.col(name).alias(shown) for name, shown in told.items() if name in frame.columns]
        if self._is_of_table():
            columns.append(F.col(VALUE).isNull().alias("deleted"))
        rows = frame.select(
            *columns, F.lit(batch_id).cast("long").alias("_batch_id"), SCOPE, F.col(PLACE).alias("_seq")
        )
        return self._distinct(rows)


class TableSinkOperator(_SinkOperator):
    """Keeps the latest value per key; a tombstone deletes the row."""

    kind = "latest"

    def write(self, batch: Batch) -> None:
        rows = self._rows
        if rows is None or not self._count:
            return
        (target,), keys = self.tables(batch.root), struct_fields(self._frame, KEY)
        rows = rows.select("*", *self._left_out)
        # Always a MERGE, so that the table's change data feed has changed rows only.
        batch.commit(target, lambda: upsert(target, rows, keys, "_deleted"), self.node.name, "main")

    def apply(self, batch: Batch, inputs: list[Flow]) -> None:
        frame = inputs[0].frame
        if not inputs[0].is_empty:
            batch.reject(self.node.name, frame.where(has_null_key(frame)), F.lit("NULL_KEY"))
        super().apply(batch, inputs)

    def _shape(self, frame: DataFrame, batch_id: int) -> DataFrame:
        self._frame = frame
        kept = frame.where(~has_null_key(frame))
        # Changes that are out of order in a versioned table change its history, not its latest values.
        self._judged = kept if self._is_of_table() else None
        newest = newest_of_keys(_latest_only(kept))
        deleted = F.col(VALUE).isNull().alias("_deleted")
        own = (F.lit(batch_id).cast("long").alias("_batch_id"), SCOPE, F.col(PLACE).alias("_seq"), deleted)
        return self._distinct(newest.select(*self._columns(frame), *own))


def check_columns(operators: Mapping[str, Operator[Any]]) -> None:
    """Refuse a sink whose rows would have a column twice, as far as the plan shows; otherwise the first batch does.

    On the test driver they may, since it keeps keys and values apart.

    Raises:
        TopologyError: a column occurs twice.
    """
    for node in (operator.node for operator in operators.values() if isinstance(operator, _SinkOperator)):
        fault = _fault([*(key_fields(node) or ()), *(value_fields(node) or ()), *_own_columns(node)])
        if fault:
            raise TopologyError("column-names", node.name, fault)


def _own_columns(node: ChangelogSink | TableSink) -> list[str]:
    """The columns of a sink's rows besides key and value."""
    own = ["ts", *OWN]
    if isinstance(node, TableSink):
        return own
    (parent,) = node.parents
    is_of_table, above = parent.output is Output.TABLE, parent
    # A versioned store emits changes of its own, without these columns.
    while isinstance(above, _HANDS_ON) and not _has_versions(above):
        (above,) = above.parents
    if isinstance(above, StreamTableJoin | StreamGlobalTableJoin):
        own.append(_TOLD[REASON])
    if isinstance(above, TableTableJoin) and above.history == "complete":
        own += [_TOLD[OP], _TOLD[CAUSE], *([_TOLD[OLD]] if is_of_table else [])]
    return [*own, "deleted"] if is_of_table else own


def _has_versions(node: Node) -> bool:
    stored = materialized_of(node)
    return stored is not None and stored.is_versioned


def _fault(columns: list[str]) -> str | None:
    """The error message if two columns have the same name, ignoring case; None if not."""
    twice = list(dict.fromkeys(named_twice(columns)))
    if not twice:
        return None
    return (
        f"{twice} would stand twice in its rows, which hold key, value and columns of the sink itself side by side. "
        "Rename the value's field with map_values or in the joiner."
    )


def _properties(session: SparkSession, target: TableRef) -> Mapping[str, str]:
    """The properties of a sink's table; if they lack the sink's kind (older releases), it is found from the commits."""
    told = properties_of(session, target)
    if SINK_KIND in told:
        return told
    commits = (row for rows in back_in_time(session, target, _LIMITS) for row in rows)
    newest = next((row for row in commits if _is_of_a_batch(written_by(row))), None)
    return told if newest is None else {**told, SINK_KIND: "changelog" if is_append(newest) else "latest"}


def _is_of_a_batch(said: Written | None) -> bool:
    """Whether a commit has rows of a batch; not a fence, which appends nothing, whatever the sink's kind."""
    return said is not None and REPORT in said.details and WRITER not in said.details


def _latest_only(frame: DataFrame) -> DataFrame:
    """The changes without those that are out of order in a versioned table, which do not affect its latest values."""
    return frame.where(F.col(LATEST)) if LATEST in frame.columns else frame


def _net(frame: DataFrame) -> DataFrame:
    """The last change of each key, and all records without a key, since these do not replace each other."""
    lost = has_null_key(frame)
    return newest_of_keys(frame.where(~lost)).unionByName(frame.where(lost))


def send_to_kafka(operators: Mapping[str, Operator[Any]], kafka: Mapping[str, KafkaSink]) -> None:
    """Configure changelogs that are also sent to Kafka.

    Raises:
        ConfigurationError: a name is not that of a changelog sink.
    """
    changelogs = {name: op for name, op in operators.items() if isinstance(op, ChangelogSinkOperator)}
    unknown = sorted(set(kafka) - set(changelogs))
    if unknown:
        raise ConfigurationError(
            f"kafka: {unknown} are no changelog sinks; those of the plan are {sorted(changelogs)}. "
            "Name one of them, or add to_changelog(name) to the plan."
        )
    for name, sink in kafka.items():
        keys = key_fields(changelogs[name].node)
        if keys:
            sink.check_keys(name, keys)
        changelogs[name].kafka = sink
