"""What functions of the user returned, in the types that they were declared to return."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from streams.rows import Row
from streams.spark.returned import returned, returned_as
from versioned.errors import RecordError

_AT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
_TOTAL = StructType().add("total", DoubleType()).add("n", LongType())
_INNER = StructType().add("in", StructType().add("x", DoubleType()))


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (None, Decimal("1.195"), Decimal("1.195")),
        (DecimalType(5, 2), Decimal("1.195"), Decimal("1.20")),
        (DecimalType(5, 2), 7, Decimal("7.00")),
        (DecimalType(5, 2), None, None),
        (DoubleType(), Decimal("1.5"), 1.5),
        (DoubleType(), 7, 7.0),
        (DoubleType(), float("inf"), float("inf")),
        (FloatType(), 0.1, 0.10000000149011612),
        (FloatType(), float("-inf"), float("-inf")),
        (LongType(), 2.0, 2),
        (LongType(), Decimal("2.00"), 2),
        (LongType(), -(2**63), -(2**63)),
        (ByteType(), 127, 127),
        (LongType(), np.int64(7), 7),
        (DoubleType(), np.float32(0.5), 0.5),
        (BooleanType(), np.bool_(True), True),
        (StringType(), "a", "a"),
        (BinaryType(), b"a", b"a"),
        (DateType(), date(2026, 1, 1), date(2026, 1, 1)),
        (DateType(), _AT, date(2026, 1, 1)),
        (TimestampType(), _AT, _AT),
        (TimestampNTZType(), datetime(2026, 1, 1), datetime(2026, 1, 1)),
        (ArrayType(DoubleType()), (1, None), [1.0, None]),
        (ArrayType(LongType()), np.array([1, 2]), [1, 2]),
        (MapType(StringType(), DoubleType()), {"a": 1}, {"a": 1.0}),
        (VariantType(), {"any": 1}, {"any": 1}),
        (_TOTAL, {"n": 1, "total": 7}, Row(total=7.0, n=1)),
        (_TOTAL, Row(total=7), Row(total=7.0, n=None)),
        (_INNER, Row({"in": {"x": 7}}), Row({"in": Row(x=7.0)})),
    ],
)
def test_what_is_returned_is_made_what_is_stored(kind: DataType | None, value: Any, wanted: Any) -> None:
    made = returned(kind)(value)
    assert (made, type(made), str(made)) == (wanted, type(wanted), str(wanted))


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (LongType(), 1.5, "a fraction for a result of bigint"),
        (LongType(), Decimal("1.5"), "a fraction for a result of bigint"),
        (LongType(), float("nan"), "a fraction for a result of bigint"),
        (LongType(), float("inf"), "a fraction for a result of bigint"),
        (LongType(), Decimal("Infinity"), "a fraction for a result of bigint"),
        (LongType(), Decimal("NaN"), "a fraction for a result of bigint"),
        (LongType(), 2**63, "a number that is too large for a result of bigint"),
        (LongType(), Decimal("1E+30"), "a number that is too large for a result of bigint"),
        (IntegerType(), -(2**31) - 1, "a number that is too large for a result of int"),
        (LongType(), True, "a bool for a result of bigint"),
        (DoubleType(), True, "a bool for a result of double"),
        (DoubleType(), "1.5", "a str for a result of double"),
        (FloatType(), 1e300, "a number that is too large for a result of float"),
        (DecimalType(3, 2), 10, r"a number that is too large for a result of decimal\(3,2\)"),
        (DecimalType(3, 2), float("inf"), r"a number that is too large for a result of decimal\(3,2\)"),
        (StringType(), 7, "an int for a result of string"),
        (BooleanType(), 1, "an int for a result of boolean"),
        (DateType(), 5, "an int for a result of date"),
        (TimestampType(), date(2026, 1, 1), "a date for a result of timestamp"),
        (ArrayType(StringType()), "abc", "a str for a result of array<string>"),
        (ArrayType(LongType()), {1}, "a set for a result of array<bigint>"),
        (ArrayType(LongType()), [1, 1.5], "a fraction for a result of bigint"),
        (_TOTAL, 7, r"an int, and declared are the fields \['total', 'n'\]. Give a mapping"),
        (_TOTAL, {"totl": 1.0}, r"the fields \['totl'\], and declared are \['total', 'n'\]"),
        (_TOTAL, {"n": 1.5}, 'a fraction for "n" of bigint'),
        (_INNER, {"in": {"x": "a"}}, 'a str for "in.x" of double'),
    ],
)
def test_what_would_change_or_disappear_when_it_is_stored_is_refused(kind: DataType, value: Any, told: str) -> None:
    with pytest.raises(RecordError, match=f"^its function gave {told}"):
        returned(kind)(value)


def test_no_value_is_told_of_what_is_refused() -> None:
    with pytest.raises(RecordError) as refused:
        returned(_TOTAL)({"total": "secret", "n": 1})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("ddl", "value", "wanted"),
    [("double", 7, 7.0), ("x double, y bigint", {"y": 1}, Row(x=None, y=1)), ("interval day", "any", "any")],
)
def test_what_is_declared_may_be_one_type_or_fields_and_what_only_spark_knows_stays(
    ddl: str, value: Any, wanted: Any
) -> None:
    assert returned_as(ddl)(value) == wanted
