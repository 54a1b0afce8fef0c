"""Pictures of a running application from its ledger: how late records arrive, how full its buffers are."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame

from streams.buffer_picture import buffer_sizes
from streams.lateness import SuggestedGrace, added, suggested_grace
from streams.lateness_picture import lateness_histogram
from streams.ledger_readings import buffer_readings, lateness_classes
from streams.nodes import Suppress, Topology, sources_of
from suppress.buffer_rules import BufferRule
from versioned import spark_functions as F
from versioned.drawing import Picture
from versioned.errors import ConfigurationError

_SIZES: Final = ("records", "bytes", "records_max", "bytes_max")


def grace_of(ledger: DataFrame, node: str) -> SuggestedGrace:
    """The grace suggested by the lateness of a node's records, over all batches.

    Args:
        ledger: The application's rows of the ledger.
        node: The node's name.
    """
    return suggested_grace(_classes(ledger, [node])[node])


def lateness_of(ledger: DataFrame, topology: Topology, node: str | None, share: float) -> Picture:
    """A picture of how late the records of a node came, over all batches; without a node, those of all sources.

    Args:
        ledger: The application's rows of the ledger.
        topology: Its plan.
        node: A node's name.
        share: The share of records that should come within the suggested grace.

    Raises:
        ConfigurationError: there is no such node, nothing was measured, or the share is out of range.
    """
    names = [each.name for each in topology]
    if node is not None and node not in names:
        raise ConfigurationError(f'"{node}" is no node of the plan. It has: {", ".join(names)}')
    topics = {node: node} if node is not None else {e.name: e.topic for e in sources_of(topology)}
    asked = list(topics)
    by_node = _classes(ledger, asked)
    # A topic that several nodes read is counted once.
    by_topic = {topics[name]: by_node[name] for name in reversed(asked) if by_node[name]}
    histogram = added(by_topic.values())
    if not histogram:
        raise ConfigurationError(
            f"No lateness was measured of {', '.join(asked)}. Run batches with metrics_level=debug "
            "(of a job: metrics: {level: debug}) first; sources, to_table, windows, suppressions, and joins of a "
            "stream with another one or with a table that is not global are measured."
        )
    whose = f'records at "{node}"' if node is not None else "records from all sources"
    return lateness_histogram(histogram, share, f"Lateness of {whose}")


def buffer_of(ledger: DataFrame, node: Suppress, rule: BufferRule, batches: int) -> Picture:
    """A picture of how full a suppression's buffer was after each of the newest batches of the current epoch.

    Args:
        ledger: The application's rows of the ledger.
        node: The suppression.
        rule: Its rule, with the bounds.
        batches: The most batches to show.
    """
    if batches < 1:
        raise ConfigurationError(f"batches is {batches}. Give 1 or more.")
    wanted = [f"{node.name}.{size}" for size in _SIZES]
    # An epoch may count its batches from 0 again, so only one is shown.
    epoch = ledger.agg(F.max("epoch")).collect()[0][0]
    told = ledger.where((F.col("epoch") == F.lit(epoch)) & F.array_contains(F.map_keys("counts"), wanted[0]))
    counts = F.map_filter("counts", lambda what, _: what.isin(wanted)).alias("counts")
    # In microseconds: a collected timestamp would be in this process's time zone.
    rows = told.select("batch_id", F.unix_micros("clock").alias("clock"), counts)
    newest = rows.orderBy(F.desc("batch_id")).limit(batches).collect()
    return buffer_sizes(
        buffer_readings(newest, node.name),
        max_records=rule.max_records,
        max_bytes=rule.max_bytes,
        title=f'Suppression buffer "{node.name}"',
    )


def _classes(ledger: DataFrame, nodes: list[str]) -> dict[str, dict[int, int]]:
    """The numbers of records of each node by class of lateness, over all batches."""
    columns = F.explode(F.map_filter("counts", lambda what, _: _is_class_of(what, nodes))).alias("what", "n")
    summed = ledger.select(columns).groupBy("what").agg(F.sum("n").alias("n")).collect()
    rows = [{"counts": {row["what"]: row["n"]}} for row in summed]
    return {node: lateness_classes(rows, node) for node in nodes}


def _is_class_of(what: Column, nodes: list[str]) -> Column:
    found = F.lit(False)
    for node in nodes:
        found = found | what.startswith(f"{node}.lateness<=")
    return found
