"""Random expressions and rows: what the driver evaluates, Spark computes."""

from __future__ import annotations

import math
from datetime import datetime
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType
from random_expressions import SCHEMA, Expressions, random_rows

from streams.expressions import Expr, evaluate
from streams.rows import Row
from streams.spark.columns import to_column
from streams.spark.fitting import fitting
from versioned.durations import instant_us
from versioned.errors import RecordError

_COUNT, _AT_ONCE = 400, 50


def test_what_the_driver_evaluates_spark_computes(spark: SparkSession) -> None:
    random = Random(2026)
    rows, made = random_rows(random, 25), Expressions(random)
    frame = spark.createDataFrame([(n, *row.values()) for n, row in enumerate(rows)], f"id int, {SCHEMA}")
    packed = frame.select("id", F.struct(*rows[0]).alias("value"))
    told = [(expr, _evaluated(expr, rows)) for expr in (made.any(random.randint(1, 4)) for _ in range(_COUNT))]
    wrong = [each for at in range(0, _COUNT, _AT_ONCE) for each in _differing(packed, told[at : at + _AT_ONCE])]
    assert wrong == []
    assert sum(len(values) for _, values in told) > _COUNT * len(rows) // 2


def _evaluated(expr: Expr, rows: list[Row]) -> dict[int, Any]:
    """The values of the rows for which there is one; a value is refused by a RecordError and by nothing else."""
    values = {}
    for number, row in enumerate(rows):
        try:
            values[number] = evaluate(expr, {"value": row})
        except RecordError:
            continue
    return values


def _differing(packed: DataFrame, told: list[tuple[Expr, dict[int, Any]]]) -> list[tuple[str, int, Any, Any]]:
    value = {"value": F.col("value")}
    # Rows that the driver refuses would end the query.
    columns = [
        F.when(F.col("id").isin([-1, *values]), to_column(expr, value)).alias(f"c{at}")
        for at, (expr, values) in enumerate(told)
    ]
    frame = packed.select("id", *columns)
    kinds = [frame.schema[f"c{at}"].dataType for at in range(len(told))]
    fits = [fitting(kind) for kind in kinds]
    # The first and last instants are none to Python where they come as one.
    instants = {f"c{at}": F.unix_micros(f"c{at}") for at, kind in enumerate(kinds) if isinstance(kind, TimestampType)}
    got = {row["id"]: row for row in frame.withColumns(instants).collect()}
    return [
        (repr(expr), number, here, there)
        for at, (expr, values) in enumerate(told)
        for number, value in values.items()
        if (here := _comparable(fits[at](value))) != (there := _comparable(got[number][f"c{at}"]))
    ]


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, datetime):
        value = instant_us(value)
    return (type(value).__name__, value)
