"""Random expressions and rows: what the driver evaluates, Spark computes."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType
from random_expressions import SCHEMA, Expressions, random_rows

from streams.evaluation import CHOICES, OPERATIONS
from streams.expressions import Expr, evaluate, operation, row_expr
from streams.functions import cast, is_null, length, lower, struct, substring, upper, when
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


#: As many of each type as there are doubles; each meets each.
_EDGES: Final[dict[str, tuple[Any, ...]]] = {
    "x": (None, math.nan, -0.0, 0.0, math.inf, -math.inf, 1e-300, 1.7976931348623157e308, 2.0**63),
    "n": (None, 0, -1, 1, 2**63 - 1, -(2**63), 2**53 + 1, 10, -10),
    "s": (None, "", " ", "-0.0", "NaN", "9223372036854775808", "İΟΔΟΣ", "ŉẞǆ\U0001f600", "\x00a"),
    "p": tuple(
        value and Decimal(value) for value in (None, "0.00", "-0.01", "0.01", f"{'9' * 8}.99", f"-{'9' * 8}.99",
                                               "1.00", "-1.00", "0.10")
    ),
    "b": (None, True, False, None, True, False, None, True, False),
    "z": (None, b"", b"\x00", b"\xff", b"a", b"ab", b"|", b"\xc3\xa9", b"\xc3"),
    "d": (None, *map(date.fromisoformat, ("0001-01-01", "9999-12-31", "1582-10-04", "1582-10-15", "1970-01-01",
                                          "1969-12-31", "2024-02-29", "2026-01-01"))),
    "at": (None, *(datetime(*parts, tzinfo=timezone.utc) for parts in (  # type: ignore[arg-type,misc]
        (1, 1, 1), (9999, 12, 31, 23, 59, 59, 999_999), (1582, 10, 4, 12), (1582, 10, 15), (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999_999), (2024, 2, 29), (2026, 3, 29, 1, 30)))),
}  # fmt: skip
_EDGE_TYPES: Final = {
    "x": "double", "n": "bigint", "s": "string", "p": "decimal(10, 2)", "b": "boolean", "z": "binary", "d": "date",
    "at": "timestamp",
}  # fmt: skip


def _edge_expressions() -> list[Expr]:
    """Every operation on every type that it takes, by the fields ``x0`` and ``x1`` of each type."""
    value = Expr("ref", "value")
    one, other = ({name: value[f"{name}{side}"] for name in _EDGES} for side in (0, 1))
    pairs = [(one[name], other[name]) for name in _EDGES]
    mixed = [(one["x"], other["n"]), (one["n"], other["p"]), (one["d"], other["at"]), (one["p"], other["x"])]
    texts = [(one[name], other[name]) for name in "sz"]
    numbers = [*((one[name], other[name]) for name in "xnp"), *mixed[:2], mixed[3]]
    told = [Expr(op, *pair) for op in ("eq", "ne", "lt", "le", "gt", "ge") for pair in (*pairs, *mixed)]
    told += [Expr(op, *pair) for op in ("least", "greatest", "coalesce") for pair in pairs]
    told += [Expr(op, *pair) for op in ("add", "sub", "mul", "mod") for pair in numbers]
    # The digits of a quotient of decimals follow from their types.
    told += [Expr("div", *pair) for pair in (*numbers[:2], mixed[0], mixed[3])]
    told += [Expr("sub", one["at"], other["at"]), *(Expr(op, one["b"], other["b"]) for op in ("and", "or"))]
    told += [
        Expr(op, *pair) for op in ("concat", "starts_with", "substring_before", "substring_after") for pair in texts
    ]
    told += [is_null(field) for field in one.values()] + [cast(field, "string") for field in one.values()]
    told += [cast(one[name], kind) for name in "xnsp" for kind in ("bigint", "double", "boolean")]
    told += [cast(one["at"], kind) for kind in ("bigint", "double")]
    told += [make(field) for make in (upper, lower, length) for field in one.values()]
    told += [substring(one[name], start, count) for name in "sz" for start in (1, 2, 9) for count in (0, 1)]
    told += [~one["b"], when(one["b"], one["x"]).otherwise(other["x"]), struct(a=one["x"])["a"]]
    return [*told, row_expr(one["x"])["x0"]]


def test_every_operation_means_the_same_at_the_edges_of_its_types(spark: SparkSession) -> None:
    exprs = _edge_expressions()
    done = {operation(part)[0] for expr in exprs for part in (expr, *_parts(expr))}
    assert {*OPERATIONS, *CHOICES} - {"merge"} <= done
    count = len(_EDGES["x"])
    rows = [
        Row({f"{name}{side}": values[at] for name, values in _EDGES.items() for side, at in enumerate(pair)})
        for pair in product(range(count), repeat=2)
    ]
    schema = ", ".join(f"{name}{side} {_EDGE_TYPES[name]}" for name in _EDGES for side in (0, 1))
    frame = spark.createDataFrame([(at, *row.values()) for at, row in enumerate(rows)], f"id int, {schema}")
    told = [(expr, _evaluated(expr, rows)) for expr in exprs]
    assert _differing(frame.select("id", F.struct(*rows[0]).alias("value")), told) == []
    # What the driver refuses is no more than what leaves 64 bits, the calendar or its types.
    assert sum(len(values) for _, values in told) > 0.9 * len(exprs) * len(rows)


def _parts(expr: Expr) -> list[Expr]:
    parts = [arg for arg in operation(expr)[1] if isinstance(arg, Expr)]
    return [*parts, *(inner for part in parts for inner in _parts(part))]


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
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)  # 0.0 == -0.0
    if isinstance(value, datetime):
        value = instant_us(value)
    return (type(value).__name__, value)
