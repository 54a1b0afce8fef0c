"""Values of Python in the type of a column."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import DataType, DateType, DecimalType, DoubleType, LongType, StructType, TimestampType

from streams.rows import Row
from streams.spark.fitting import fitting
from versioned.errors import RecordError


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (DecimalType(5, 2), Decimal("1.005"), Decimal("1.01")),
        (DecimalType(5, 2), Decimal("-1.005"), Decimal("-1.01")),
        (DecimalType(5, 2), 7, Decimal("7.00")),
        (DecimalType(2, 2), Decimal("0"), Decimal("0.00")),
        (DoubleType(), Decimal("1.5"), 1.5),
        (DoubleType(), 7, 7.0),
        (TimestampType(), date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc)),
        (DateType(), datetime(2026, 1, 1, tzinfo=timezone.utc), date(2026, 1, 1)),
        (DateType(), date(2026, 1, 1), date(2026, 1, 1)),
        (StructType().add("x", DoubleType()), Row(x=7), Row(x=7.0)),
        (LongType(), 7, 7),
        (DecimalType(5, 2), None, None),
    ],
)
def test_a_value_has_the_type_and_scale_of_its_column(kind: DataType, value: Any, wanted: Any) -> None:
    field = fitting(StructType().add("f", kind))(Row(f=value))["f"]
    assert (field, type(field), str(field)) == (wanted, type(wanted), str(wanted))


@pytest.mark.parametrize(
    ("kind", "value"), [(DecimalType(3, 2), 10), (DecimalType(2, 2), 1), (DecimalType(3, 2), 10**40)]
)
def test_a_decimal_that_its_column_cannot_hold_is_an_error(kind: DataType, value: int) -> None:
    with pytest.raises(RecordError, match="does not fit in decimal"):
        fitting(StructType().add("f", kind))(Row(f=value))
