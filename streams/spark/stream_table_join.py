"""Stream-table joins on Spark (KIP-914, "Stream-Table Join"): each record with the version valid at its time.

It has no state of its own, unless it has a grace: it reads the table's. Records that find nothing get a reason
(``NO_MATCH``, ``TOMBSTONE``, ``EXPIRED``); a look-up older than the table's history is also logged (R142) and counted.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame

from streams.driver.stream_table_join import EXPIRED_ADVICE, LOOK_UPS
from streams.nodes import StreamTableJoin
from streams.reasons import EXPIRED, NO_MATCH, NULL_KEY, NULL_VALUE, TOO_LATE
from streams.spark.columns import joined
from streams.spark.flow import (
    FOUND,
    KEY,
    PLACE,
    REASON,
    SCOPE,
    US,
    VALUE,
    Flow,
    NodeReport,
    has_null_key,
    lookup_times,
    stream_time_at,
    struct_fields,
)
from streams.spark.hold import Hold, HoldingOperator
from streams.spark.lookup_table import LookupTable
from streams.spark.operator import Batch
from versioned import spark_functions as F
from versioned.durations import duration_us
from versioned.errors import RecordError
from versioned.time_axis import instant_text

_LOG: Final = logging.getLogger(__name__)


class StreamTableJoinOperator(HoldingOperator[StreamTableJoin]):
    """Joins a stream with a table; ``on_expired`` and the join kind decide about records without a match."""

    def __init__(self, node: StreamTableJoin, table: LookupTable) -> None:
        grace = node.joined.grace
        self._grace_us = None if grace is None else duration_us(grace)
        waiting = f"{node.joined.name or node.name}_waiting"
        super().__init__(node, None, None if self._grace_us is None else Hold(node.name, waiting, self._grace_us))
        self._table = table
        self._looked_up: DataFrame | None = None
        self._stream: DataFrame | None = None
        self._is_empty = True

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        stream = inputs[0]
        self._is_empty = stream.is_empty
        self._stream = stream.frame
        frame = stream.frame
        usable = frame.where(F.col(VALUE).isNotNull())
        keyed = usable.where(~has_null_key(frame))
        for hold in self.holds:
            keyed = hold.take(batch, Flow(self._in_time(batch, keyed), {} if stream.is_empty else None)).frame
        if self._is_empty:
            return stream.map(self._unmatched_output)
        self._reject_invalid(batch, frame)
        amount, oldest_us = batch.amount(stream), stream.oldest_us
        if self.holds:
            # Records that waited have other times, and may be many.
            amount, oldest_us = "unknown", None
        found = self._table.find_valid(keyed, oldest_us, amount, across=self.asks_across)
        if self.node.kind == "left" and not self.holds:
            unkeyed = usable.where(has_null_key(frame)).withColumn(REASON, F.lit(NO_MATCH))
            found = found.unionByName(unkeyed, allowMissingColumns=True)
        self._looked_up = batch.cut(found)
        if self.holds:
            return Flow(self._joined(self._looked_up))
        return Flow(self._joined(self._looked_up), stream.bounds, most=stream.most)

    def answers(self) -> DataFrame:
        """The batch's answers to records with a key: ``_key _left _us _scope _place _found``."""
        if self._looked_up is not None and not self._is_empty:
            found = self._looked_up.where(~has_null_key(self._looked_up))
            if self.node.joined.forgets_expired:
                found = found.where(F.coalesce(F.col(REASON) != EXPIRED, F.lit(True)))
        else:
            assert self._stream is not None
            found = self._stream.limit(0).withColumn(FOUND, F.lit(None).cast(self._table.value_type))
        return found.select(KEY, F.col(VALUE).alias("_left"), US, SCOPE, PLACE, FOUND)

    def answer(self, frame: DataFrame, right: Column) -> Column:
        """The row that the join makes of ``_left`` and a table's value; null where it makes none."""
        is_asked = right.isNotNull() if self.node.kind == "inner" else None
        return self._pair(frame, F.col("_left"), "_left", right, is_asked)

    def tally(self) -> DataFrame | None:
        if self._looked_up is None or self._is_empty:
            return None
        return look_ups(self._looked_up)

    def measured(self) -> DataFrame | None:
        # As on the test driver: all arriving records, since each advances the stream's time.
        return None if self._is_empty else self._stream

    def report(self, batch: Batch) -> NodeReport:
        counts = {what: n for what, n in self.tallied.items() if what in LOOK_UPS.values()}
        expired = counts.get(LOOK_UPS[EXPIRED], 0)
        if expired:
            advice = EXPIRED_ADVICE[self.node.joined.on_expired]
            _LOG.warning(
                "%s: %d of %d lookups were older than the table's history and found nothing; %s.",
                self.node.name,
                expired,
                sum(counts.values()),
                advice,
            )
            if self.node.joined.on_expired == "side_table" and self._looked_up is not None:
                batch.reject(self.node.name, self._looked_up.where(F.col(REASON) == EXPIRED), F.lit(EXPIRED))
        if self.holds:
            self._refuse_without_key()
        return replace(super().report(batch), counts=counts)

    def release(self) -> None:
        super().release()
        self._looked_up = None

    def _in_time(self, batch: Batch, keyed: DataFrame) -> DataFrame:
        """The records that are not rejected for being too late; with the policy ``join``, all of them."""
        if self._grace_us is None or self.node.joined.too_late == "join" or self._is_empty:
            return keyed
        before = lookup_times(dict(batch.times_of(self.node.name)))
        timed = keyed.withColumn("_stream_us", stream_time_at(before))
        too_late = F.col(US) < F.col("_stream_us") - self._grace_us
        batch.reject(self.node.name, timed.where(too_late), F.lit(TOO_LATE))
        return timed.where(~too_late).drop("_stream_us")

    def _refuse_without_key(self) -> None:
        """Refuse null keys in a left join with grace: waiting records are ordered by key.

        Raises:
            RecordError: there is one.
        """
        assert self._stream is not None
        if self.node.kind != "left" or self._is_empty:
            return
        lost = self._stream.where(F.col(VALUE).isNotNull() & has_null_key(self._stream))
        ((number, first_us),) = lost.agg(F.count("*"), F.min(US)).collect()
        if number:
            raise RecordError(
                f"{self.node.name}: {number} records of the batch have no key, the first of {instant_text(first_us)}, "
                "and a left join with grace orders what waits by key. Put them aside by a rule of their source "
                "(quality: expect_column_values_to_not_be_null with policy: reject), or filter them before the join; "
                "the next start goes on with this batch."
            )

    def _joined(self, found: DataFrame) -> DataFrame:
        keep = found
        if self.node.kind == "inner":
            keep = found.where(F.col(REASON).isNull())
        elif self.node.joined.on_expired != "null":
            keep = found.where(F.coalesce(F.col(REASON) != EXPIRED, F.lit(True)))
        return self._output(keep, F.col(FOUND))

    def _unmatched_output(self, frame: DataFrame) -> DataFrame:
        value = self._table.value_type
        padded = frame.withColumn(REASON, F.lit(None).cast("string"))
        return self._output(padded, F.lit(None).cast(value))

    def _output(self, frame: DataFrame, right: Column) -> DataFrame:
        value = self._pair(frame, F.col(VALUE), VALUE, right)
        return frame.select(KEY, value.alias(VALUE), US, SCOPE, PLACE, REASON)

    def _pair(
        self, frame: DataFrame, left: Column, left_name: str, right: Column, given: Column | None = None
    ) -> Column:
        """The joined row; if a condition is given, null where it does not hold."""
        bindings = {"left": left, "right": right, "key": F.col(KEY)}
        names = {"left": struct_fields(frame, left_name), "right": self._table.value_type.names}
        return joined(self.node, bindings, names | {"key": struct_fields(frame, KEY)}, given)

    def _reject_invalid(self, batch: Batch, frame: DataFrame) -> None:
        reason = F.when(F.col(VALUE).isNull(), NULL_VALUE)
        if self.node.kind == "inner":
            reason = reason.when(has_null_key(frame), NULL_KEY)
        invalid = frame.where(F.col(VALUE).isNull() | (has_null_key(frame) & F.lit(self.node.kind == "inner")))
        batch.reject(self.node.name, invalid, reason)


def look_ups(found: DataFrame) -> DataFrame:
    """The numbers of look-ups by outcome, as counts (``what``, ``n``) under the test driver's names."""
    what = F.lit(LOOK_UPS[None])
    for reason, counter in LOOK_UPS.items():
        what = F.when(F.col(REASON) == reason, counter).otherwise(what) if reason is not None else what
    return found.groupBy(what.alias("what")).agg(F.count("*").alias("n"))
