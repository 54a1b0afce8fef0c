"""Rows of a topic as they come in, some late, some wrong, and what the intake makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Row, SparkSession

from streams.nodes import SourceNode
from streams.spark.intake import IntakeRule, shape, survey_of
from streams.spark.places import Order, placed
from streams.spark.sources import SparkSource

#: No record may be of a later time.
LATEST_US = 8_000_000


def raw_rows(spark: SparkSession, null_keys: bool = False, count: int = 400) -> DataFrame:
    """``k v ts part seq``, in no order; sequences come twice, and some rows have none, or no time, or one too late."""
    chance = random.Random(3)
    rows = []
    for number in range(count):
        ts = 4_000_000 + number * 9_000 - chance.randrange(1_000_000)
        key = None if null_keys and chance.random() < 0.2 else chance.choice("abc")
        seq = None if chance.random() < 0.05 else 4_500_000 + number // 2 * 20_000
        odd = chance.random()
        rows.append((key, "xy"[number % 2], None if odd < 0.05 else 2**52 if odd < 0.1 else ts, number % 2, seq))
    chance.shuffle(rows)
    return spark.createDataFrame(rows, "k STRING, v STRING, ts LONG, part INT, seq LONG")


def rule_of(
    source: SourceNode, order: Order, partition_by: str | None, sequence_by: str | Sequence[str] | None
) -> IntakeRule:
    """How a node reads these rows."""
    topic = SparkSource("parquet", partition_by=partition_by, sequence_by=sequence_by)
    return IntakeRule(source, replace(topic, contract=replace(topic.contract, ts_unit="us")), 2, order, 0)


def taken_in(
    raw: DataFrame, rule: IntakeRule, maxima: Mapping[int, int], number: int = 7
) -> tuple[DataFrame, list[Row]]:
    """The records with their places in the batch of this number, and what their survey told."""
    records = shape(raw, rule, LATEST_US, {}, raw.count()).localCheckpoint()
    surveyed = survey_of({"node": records})["node"]
    return placed(records, rule.places, surveyed, maxima, number), surveyed
