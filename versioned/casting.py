"""Casts of values to other types: what a cast would change, and which values do not exist in the target type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from versioned import spark_functions as F
from versioned.clock_texts import TIME_ALONE
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.identifiers import quote
from versioned.sql_types import nullable

_INSTANTS: Final = (TimestampType, TimestampNTZType)
_TIMES: Final = (DateType, *_INSTANTS)
#: What to do with a number that stands for an instant.
AS_INSTANT: Final = "Make it a timestamp first, with timestamp_millis, timestamp_micros or timestamp_seconds."
#: A text that is a date and nothing else. Spark reads a month or a year as its first day, and drops whatever follows a
#: date, such as a time.
_DATE: Final = r"^[\x00-\x20\x7f]*[+-]?\d+-\d+-\d+[\x00-\x20\x7f]*$"
_TIME_ALONE: Final = f"^{TIME_ALONE}"
#: A text that is a date, with or without a time of day, and nothing else. Spark drops an offset or a zone that follows.
_LOCAL: Final = r"^[\x00-\x20\x7f]*[+-]?\d+(-\d+){0,2}([ T](\d+(:\d+(:\d+(\.\d*)?)?)?)?)?[\x00-\x20\x7f]*$"
#: A text that is a number with at most the given number of decimal places, not counting trailing zeros.
_NUMBER: Final = r"^[\x00-\x20\x7f]*[+-]?\d*\.?\d{0,%d}0*[\x00-\x20\x7f]*$"


def casts(
    records: DataFrame, types: Mapping[str, DataType], keys: Collection[str]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns cast to the types of the table, and for those cast, whether a value does not exist in that type.

    Such a value neither becomes null silently nor fails the put, whatever the session's casts do (ANSI or not).
    Decimals are rounded as Spark does, except in keys: two keys might become one. Inside structs, arrays and maps that
    are not keys, casts follow the session's setting.
    """
    given = {field.name: field.dataType for field in records.schema.fields}
    made, misfits = {}, {}
    for name, kind in types.items():
        value, is_key = F.col(quote(name)), name in keys
        if given[name] == kind or (_is_as_the_session_says(given[name], kind) and not is_key):
            made[name] = value.cast(kind)
            continue
        made[name] = (key_in_type if is_key else in_type)(value, given[name], kind)
        misfits[name] = value.isNotNull() & made[name].isNull()
    return made, misfits


def _cast(value: Column, given: DataType, kind: DataType) -> Column:
    return value.cast(kind) if _is_as_the_session_says(given, kind) else in_type(value, given, kind)


def rounds(value: Column, given: DataType, kind: DataType) -> Column | None:
    """Whether a decimal type would round a value; None if it rounds no value of the given type.

    It says nothing about values that do not exist in that type.
    """
    if given == kind or not isinstance(kind, DecimalType):
        return None
    cast = value.try_cast(kind)
    if isinstance(given, StringType):
        # Compared as text or double: no decimal has room for all digits that a text may have.
        text, double = value.cast("string"), value.try_cast("double")
        return ~(text.rlike(_NUMBER % kind.scale) | (text.rlike("[eE]") & (double == cast.try_cast("double"))))
    return cast.try_cast(given) != value if _has_fractions(given) else None


def _is_as_the_session_says(given: DataType, kind: DataType) -> bool:
    return given == kind or isinstance(kind, (StructType, ArrayType, MapType))


def key_in_type(value: Column, given: DataType, kind: DataType) -> Column:
    """Like :func:`in_type`, but also null where the cast would change the value or a part of it, as by rounding."""
    if isinstance(kind, (StructType, ArrayType)):
        whole = value.try_cast(nullable(kind))
        return F.when(whole.try_cast(nullable(given)) == value, whole)
    told, cut = in_type(value, given, kind), rounds(value, given, kind)
    if given != kind and isinstance(given, _TIMES) and isinstance(kind, (*_TIMES, StringType)):
        # When clocks are set back, two instants have the same time of day.
        return F.when(told.try_cast(given) == value, told)
    return told if cut is None else F.when(~cut, told)


def in_type(value: Column, given: DataType, kind: DataType) -> Column:
    """A value cast to another type; null where it does not exist in that type.

    Spark by itself turns a number beyond the range of FLOAT or DOUBLE into infinity, reads the beginning of a text as a
    date or as a time without a zone, and reads a time without a date as a time of today.
    """
    told = value.try_cast(kind)
    is_text = isinstance(given, StringType)
    if is_text and isinstance(kind, TimestampType):
        return F.when(~value.cast("string").rlike(_TIME_ALONE), told)
    if is_text and isinstance(kind, TimestampNTZType):
        return F.when(value.cast("string").rlike(_LOCAL), told)
    if is_text and isinstance(kind, DateType):
        return F.when(value.cast("string").rlike(_DATE), told)
    if isinstance(kind, (FloatType, DoubleType)) and (is_text or isinstance(kind, FloatType)):
        # A text that means infinity has no digit.
        is_finite = value.cast("string").rlike("[0-9]") if is_text else F.abs(value.try_cast("double")) != float("inf")
        return F.when((F.abs(told) == float("inf")) & is_finite, None).otherwise(told)
    return told


def cast_role(records: DataFrame, name: str, kind: DataType) -> tuple[Column, Column]:
    """A record's instant or partition cast to another type, and whether it has a value that does not exist there."""
    value, given = F.col(quote(name)), records.schema[name].dataType
    if given == kind:
        return value, F.lit(False)
    cast = in_type(value, given, kind)
    return cast, value.isNotNull() & cast.isNull()


def in_range(us: Column) -> Column:
    """Whether an instant lies in the years 1 to 9999."""
    return us.between(F.lit(FIRST_INSTANT_US), F.lit(LAST_INSTANT_US))


def has_cast(records: DataFrame, given: DataType, kind: DataType) -> bool:
    """Whether Spark can cast values of one type to another."""
    if given == kind:
        return True
    try:
        # On an empty frame, so that Spark analyzes nothing but the two types.
        none = records.sparkSession.range(0).select(F.lit(None).cast(given).alias("none"))
        none.select(_cast(F.col("none"), given, kind)).schema  # noqa: B018 - asking for it has the types looked at
    except Exception as error:  # the class differs between classic and Connect sessions
        if "DATATYPE_MISMATCH" not in str(error):
            raise
        return False
    return True


def harm_of(given: DataType, kind: DataType) -> str | None:
    """The harm that a cast from one type to another would do to values, in words; None if there is none."""
    if isinstance(given, VariantType) and not isinstance(kind, VariantType):
        return "what it holds is of any type, and would be cut or misread. Extract it typed first, with variant_get."
    if isinstance(given, (StructType, ArrayType, MapType)) and isinstance(kind, StringType):
        return "different values would be one text. Make it text first, with to_json."
    if _has_fractions(given) and isinstance(kind, IntegralType):
        return "fractions would be cut off. Round and cast it first."
    if isinstance(given, (NumericType, BooleanType)) and isinstance(kind, _INSTANTS):
        return f"it would be read as seconds. {AS_INSTANT}"
    if isinstance(given, _INSTANTS) and isinstance(kind, NumericType):
        return "it would become seconds, without their fractions. Make it a number first, as with unix_millis."
    if isinstance(given, _INSTANTS) and isinstance(kind, DateType):
        return "the time of day would be cut off. Make it a date first, with to_date."
    if isinstance(given, NumericType) and isinstance(kind, BooleanType):
        return "each number but 0 would be true. Compare it first."
    if _fields(given) != _fields(kind) and isinstance(given, StructType) and isinstance(kind, StructType):
        return "fields would be taken by their places. Make a struct with the table's fields, in its order."
    return next((harm for pair in _parts(given, kind) if (harm := harm_of(*pair)) is not None), None)


def _parts(given: DataType, kind: DataType) -> list[tuple[DataType, DataType]]:
    """The pairs of types inside both types, if both are structs, arrays or maps."""
    if isinstance(given, StructType) and isinstance(kind, StructType):
        return [(one.dataType, other.dataType) for one, other in zip(given.fields, kind.fields, strict=True)]
    if isinstance(given, ArrayType) and isinstance(kind, ArrayType):
        return [(given.elementType, kind.elementType)]
    if isinstance(given, MapType) and isinstance(kind, MapType):
        return [(given.keyType, kind.keyType), (given.valueType, kind.valueType)]
    return []


def _fields(kind: DataType) -> list[str]:
    return [name.lower() for name in kind.names] if isinstance(kind, StructType) else []


def _has_fractions(kind: DataType) -> bool:
    return isinstance(kind, (FloatType, DoubleType)) or (isinstance(kind, DecimalType) and kind.scale > 0)
