"""Sinks on Spark: a changelog (append every change) or a table (latest state per key).

Rows carry ``_batch_id``, ``_scope`` and ``_seq`` (the record's place). So the changes of a scope can be read in order
by ``_batch_id, _scope, _seq``, and those of a key, which may come from several scopes, by ``_batch_id, _seq, _scope``.
From the second epoch on, ``_batch_id`` is the batch id plus 2^40 per epoch.
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

#: How many commits are looked at for one of a batch: others may lie on top.
_LIMITS: Final = (5, 100, 100_000)
#: What a changelog tells of a record beside key and value, where what stands before it knows.
_TOLD: Final = {REASON: "reason", OP: "op", OLD: "old", CAUSE: "cause"}
#: Nodes that hand it on.
_HANDS_ON: Final = (StreamFilter, StreamMapValues, SelectKey, ToStream, TableFilter, TableMapValues)


class _SinkOperator(Operator[ChangelogSink | TableSink]):
    kind: ClassVar[SinkKind]
    #: Whether rows are kept between being counted and written: else they are worked out twice, which takes less time
    #: where each is a few columns of a row that comes.
    _is_costly = True

    def __init__(self, node: ChangelogSink | TableSink) -> None:
        super().__init__(node)
        self._rows: DataFrame | None = None
        #: What came, where some of it may be out of order and is left out.
        self._judged: DataFrame | None = None
        #: Columns of the table that rows come without, and that are null in them.
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
        """The rows, once their columns are found to have names of their own; those of a table do, whatever their case.

        Raises:
            ConfigurationError: fields of the key, of the value and of the sink itself are called the same.
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
            # What is sent to Kafka, and looked at by guards, is read back by its batch.
            found_by = [name for name in ("_batch_id", "ts") if name in empty.columns]
            batch.create(target, empty, sink_properties(self.kind, keys), found_by=found_by)
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
    """Appends every change, then sends what landed to Kafka if it is told to."""

    kind = "changelog"

    def __init__(self, node: ChangelogSink | TableSink) -> None:
        super().__init__(node)
        self._is_costly = self._is_net
        self.kafka: KafkaSink | None = None
        self._keys: list[str] = []

    def write(self, batch: Batch) -> None:
        rows, (target,) = self._rows, self.tables(batch.root)
        # What landed before a crash is to be sent, whatever a plan that was changed since makes of the batch.
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
            # Each change of a table has an old value; only a correction of history tells it.
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
        # A MERGE always: who follows the table by its change data feed is told of changed rows only.
        batch.commit(target, lambda: upsert(target, rows, keys, "_deleted"), self.node.name, "main")

    def apply(self, batch: Batch, inputs: list[Flow]) -> None:
        frame = inputs[0].frame
        if not inputs[0].is_empty:
            batch.reject(self.node.name, frame.where(has_null_key(frame)), F.lit("NULL_KEY"))
        super().apply(batch, inputs)

    def _shape(self, frame: DataFrame, batch_id: int) -> DataFrame:
        self._frame = frame
        kept = frame.where(~has_null_key(frame))
        # What is out of order in a versioned table changes its history, not what is latest.
        self._judged = kept if self._is_of_table() else None
        newest = newest_of_keys(_latest_only(kept))
        deleted = F.col(VALUE).isNull().alias("_deleted")
        own = (F.lit(batch_id).cast("long").alias("_batch_id"), SCOPE, F.col(PLACE).alias("_seq"), deleted)
        return self._distinct(newest.select(*self._columns(frame), *own))


def check_columns(operators: Mapping[str, Operator[Any]]) -> None:
    """Refuse a sink whose rows would have a column twice, as far as the plan tells; else their first batch does.

    The test driver keeps keys and values apart.

    Raises:
        TopologyError: with the columns.
    """
    for node in (operator.node for operator in operators.values() if isinstance(operator, _SinkOperator)):
        fault = _fault([*(key_fields(node) or ()), *(value_fields(node) or ()), *_own_columns(node)])
        if fault:
            raise TopologyError("column-names", node.name, fault)


def _own_columns(node: ChangelogSink | TableSink) -> list[str]:
    """What the rows of a sink hold beside key and value."""
    own = ["ts", *OWN]
    if isinstance(node, TableSink):
        return own
    (parent,) = node.parents
    is_of_table, above = parent.output is Output.TABLE, parent
    # A store with versions tells changes of its own.
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
    """What is wrong with rows of these columns, whatever their case."""
    twice = list(dict.fromkeys(named_twice(columns)))
    if not twice:
        return None
    return (
        f"{twice} would stand twice in its rows, which hold key, value and columns of the sink itself side by side. "
        "Rename the value's field with map_values or in the joiner."
    )


def _properties(session: SparkSession, target: TableRef) -> Mapping[str, str]:
    """What a sink's table tells of itself; one that was made before tables told their sink, as its commits tell it."""
    told = properties_of(session, target)
    if SINK_KIND in told:
        return told
    commits = (row for rows in back_in_time(session, target, _LIMITS) for row in rows)
    newest = next((row for row in commits if _is_of_a_batch(written_by(row))), None)
    return told if newest is None else {**told, SINK_KIND: "changelog" if is_append(newest) else "latest"}


def _is_of_a_batch(said: Written | None) -> bool:
    """Whether a commit has the rows of a batch; one that shuts older drivers out appends nothing, whatever the sink."""
    return said is not None and REPORT in said.details and WRITER not in said.details


def _latest_only(frame: DataFrame) -> DataFrame:
    """Without the changes of a versioned table that are out of order: its latest values are what they were."""
    return frame.where(F.col(LATEST)) if LATEST in frame.columns else frame


def _net(frame: DataFrame) -> DataFrame:
    """The last change of each key; records without a key are no changes of one another, and all go on."""
    lost = has_null_key(frame)
    return newest_of_keys(frame.where(~lost)).unionByName(frame.where(lost))


def send_to_kafka(operators: Mapping[str, Operator[Any]], kafka: Mapping[str, KafkaSink]) -> None:
    """Let changelogs be sent to Kafka too.

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
