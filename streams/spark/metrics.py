"""The metrics of KIP-328 on Spark (R61-R78): one set per node and batch, in the batch's ledger row.

Counts come from the nodes' reports; the ledger's state carries totals, averages and maxima across batches and restarts.
Lateness is measured only at level ``debug``: it needs stream time at every record, which takes a sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from pyspark.sql import Column, DataFrame

from streams.lateness import BOUNDS_US
from streams.metrics import MetricValue, NodeMetrics, window_store_type
from streams.nodes import Suppress, Topology
from streams.spark.flow import SCOPE, US, NodeReport, lookup_times, stream_time_at
from streams.spark.operator import BEFORE_US, GROUP
from streams.spark.store import table_name
from streams.suppression import rule_of
from versioned import spark_functions as F

MetricsLevel = Literal["info", "debug"]
#: Per node: its counts so far, and the values from which its gauges are computed.
Totals = dict[str, dict[str, int]]

_COUNTERS: Final = ("late", "expired", "ignored", "suppressed", "emitted")
#: The sum of lateness is stored in two parts: in microseconds, a few thousand records of 1970 would overflow a long.
_SECONDS, _MICROS, _NUMBER, _MAX = "lateness_seconds", "lateness_micros", "lateness_number", "lateness_max"
_GAUGES: Final = ("lateness", "records", "bytes", "samples")
_MILLION: Final = 1_000_000
#: The name of marks: a node's newest record by scope, against which lateness is measured.
NEWEST: Final = "newest"


def lateness(records: DataFrame, times: Mapping[int, int]) -> DataFrame:
    """How late the records of a node are, as counts (``what``, ``n``) to be read with those of all operators.

    Args:
        records: The records that reach the node's rule, see ``Operator.measured``.
        times: The newest record before the batch, by scope.
    """
    by_group = GROUP in records.columns
    before_us = F.col(BEFORE_US) if by_group else lookup_times(times)
    stream_us = stream_time_at(before_us, group=GROUP if by_group else SCOPE)
    rows = records.select(SCOPE, US, (stream_us - F.col(US)).alias("late_us"))
    bucket = F.concat(F.lit("lateness<="), _bound(F.col("late_us")).cast("string"))
    one = F.lit(1).cast("long")
    told = F.array(
        F.struct(F.lit(_SECONDS).alias("what"), F.expr(f"late_us div {_MILLION}").alias("n")),
        F.struct(F.lit(_MICROS).alias("what"), F.pmod(F.col("late_us"), F.lit(_MILLION)).alias("n")),
        F.struct(F.lit(_NUMBER).alias("what"), one.alias("n")),
        F.struct(F.lit(_MAX).alias("what"), F.col("late_us").alias("n")),
        F.struct(bucket.alias("what"), one.alias("n")),
        F.struct(
            F.concat(F.lit(f"{NEWEST}@"), F.col(SCOPE).cast("string"), F.lit("_max")).alias("what"),
            F.col(US).alias("n"),
        ),
    )
    parts = rows.select(F.explode(told).alias("t")).select("t.what", "t.n")
    return parts.groupBy("what").agg(summed_counts())


def summed_counts() -> Column:
    """The column ``n`` that combines counts of one name: their sum, or the largest if the name ends in ``_max``."""
    is_max = F.col("what").endswith("_max")
    # Spark computes the sum in any case, so maxima are left out of it: a few thousand instants would overflow a long.
    return F.when(is_max, F.max("n")).otherwise(F.sum(F.when(~is_max, F.col("n")))).alias("n")


def totals_after(before: Mapping[str, Mapping[str, int]], reports: Mapping[str, NodeReport]) -> Totals:
    """The nodes' totals after a batch with these reports."""
    after: Totals = {node: dict(counts) for node, counts in before.items()}
    for node, report in reports.items():
        told = _counted(report.counts)
        if not told:
            continue
        counts = after.setdefault(node, {})
        for name, n in told.items():
            is_max, is_current = name.endswith("_max"), name in ("records", "bytes")
            counts[name] = n if is_current else max(n, counts.get(name, n)) if is_max else counts.get(name, 0) + n
    return after


def metric_values(
    application: str,
    topology: Topology,
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
    clocks: tuple[int | None, int],
    level: MetricsLevel,
) -> list[MetricValue]:
    """Every metric of every node that has counted anything.

    Args:
        application: The tag ``client-id``.
        topology: The plan.
        before: Totals before the batch, for rates.
        after: Totals after the batch.
        clocks: The clocks of the previous batch (None if there was none) and of this one, in microseconds.
        level: ``info`` leaves out metrics of level DEBUG.
    """
    values: list[MetricValue] = []
    for node in topology:
        if node.name not in after:
            continue
        counts, so_far = dict(after[node.name]), dict(before.get(node.name, {}))
        if not isinstance(node, Suppress):
            # Sinks also count what they emit, but the metric is only for suppressions.
            for told in (counts, so_far):
                told.pop("emitted", None)
        metrics = NodeMetrics(node.name, table_name(node), window_store_type(node), client_id=application)
        metrics.wait_us = rule_of(node).wait_us if isinstance(node, Suppress) else None
        metrics.resume(so_far, clocks[0], _gauges(counts))
        metrics.counters.update({name: n - metrics.counters[name] for name, n in counts.items()})
        values += [
            v for v in metrics.report(clocks[1]) if v.value is not None and (level == "debug" or v.level == "INFO")
        ]
    return values


def metric_rows(values: Iterable[MetricValue]) -> list[tuple[str, str, str, dict[str, str], float | None]]:
    """Metrics as values of the ledger's column ``metrics``."""
    return [(v.name, v.level, v.group, dict(v.tags), None if v.value is None else float(v.value)) for v in values]


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    told = {name: counts[name] for name in _COUNTERS if name in counts}
    if counts:
        # Without skipped records the metric is 0, not missing.
        told |= {name: counts.get(name, 0) for name in ("skipped", "dropped")}
    return told | {name: n for name, n in counts.items() if name.startswith(_GAUGES)}


def _gauges(counts: Mapping[str, int]) -> dict[str, dict[str, float | None]]:
    gauges: dict[str, dict[str, float | None]] = {}
    if counts.get(_NUMBER):
        mean = (counts[_SECONDS] * _MILLION + counts[_MICROS]) / counts[_NUMBER]
        gauges["lateness"] = {"avg": mean, "max": counts[_MAX], "min": None, "current": None}
    for gauge, name in (("size", "bytes"), ("count", "records")):
        if counts.get("samples"):
            mean = counts[f"{name}_sum"] / counts["samples"]
            gauges[gauge] = {"current": counts[name], "avg": mean, "max": counts[f"{name}_max"], "min": None}
    return gauges


def _bound(late_us: Column) -> Column:
    """The histogram class of a lateness: the least bound that is not below it."""
    bounds = F.array(*(F.lit(us).cast("long") for us in BOUNDS_US))
    return F.array_min(F.filter(bounds, lambda us: us >= late_us))
