"""What records must be like to be put into a versioned table: nothing of them is taken for something else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    NullType,
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
from versioned.errors import SchemaError
from versioned.given import check_kind
from versioned.identifiers import named_twice, quote
from versioned.spec import VersionedTableSpec
from versioned.sql_types import has_order, nullable

_INSTANTS: Final = (TimestampType, TimestampNTZType)
_TIMES: Final = (DateType, *_INSTANTS)
_NO_CAST: Final = "no value of the one type can be made one of the other. Give the column the table's type first."
_AS_INSTANT: Final = "Make it a timestamp first, with timestamp_millis, timestamp_micros or timestamp_seconds."
#: A text that is a day and nothing else. Spark takes a month or a year for its first day, and leaves out what stands
#: behind a day, such as a time.
_DATE: Final = r"^[\x00-\x20\x7f]*[+-]?\d+-\d+-\d+[\x00-\x20\x7f]*$"
_TIME_ALONE: Final = f"^{TIME_ALONE}"
#: A text that is a day and a time of day and nothing else. Spark leaves an offset or a zone behind them out.
_LOCAL: Final = r"^[\x00-\x20\x7f]*[+-]?\d+(-\d+){0,2}([ T](\d+(:\d+(:\d+(\.\d*)?)?)?)?)?[\x00-\x20\x7f]*$"
#: A text that is a number of so many digits behind the point, but for noughts.
_NUMBER: Final = r"^[\x00-\x20\x7f]*[+-]?\d*\.?\d{0,%d}0*[\x00-\x20\x7f]*$"


def check_frame(option: str, given: object) -> None:
    """Refuse what is no DataFrame of Spark, such as one of pandas.

    Args:
        option: The name of the argument.
        given: What it was given.

    Raises:
        SchemaError: telling its class, and how to make a DataFrame of it.

    >>> check_frame("keys", {"id": [1]})
    Traceback (most recent call last):
    versioned.errors.SchemaError: keys takes a DataFrame of Spark; got dict. spark.createDataFrame makes one.
    """
    if not isinstance(given, DataFrame):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise SchemaError(f"{option} takes a DataFrame of Spark; got {kind}. spark.createDataFrame makes one.")


def check_column_names(**named: object) -> None:
    """Refuse what is no name of a column, such as the column itself, by the names of the arguments; none is allowed.

    Raises:
        ConfigurationError: telling which argument.
    """
    for option, given in named.items():
        if given is not None:
            check_kind(option, given, str, "the name of a column")


def check_there(records: DataFrame, wanted: Iterable[str]) -> None:
    """Refuse records that lack columns, or have one of them twice; and a stream, which is put batch by batch.

    Raises:
        SchemaError: telling which, and what there is.
    """
    check_frame("records", records)
    if records.isStreaming:
        raise SchemaError("The records are a stream. Put each of its batches, in writeStream.foreachBatch.")
    names = list(wanted)
    missing = [name for name in names if name not in records.columns]
    if missing:
        raise SchemaError(f"The records lack {missing}; they have {records.columns}. Rename or add the columns.")
    check_once(records, names, "records")


def check_once(frame: DataFrame, wanted: Iterable[str], what: str) -> None:
    """Refuse rows that have a column twice, but for case; ``what`` they are in words.

    Raises:
        SchemaError: telling which.
    """
    read = {name.lower() for name in wanted}
    twice = [name for name in named_twice(frame.columns) if name.lower() in read]
    if twice:
        raise SchemaError(f"The {what} have {twice}, which are one column to Spark. Leave one, or rename it.")


def check_types(records: DataFrame, types: Mapping[str, DataType], timestamp: str) -> None:
    """Refuse what no cast makes a value of the table's type, and what one would change.

    That is a number as an instant, of which it takes seconds, cut fractions, the fields of a struct that go by other
    names, since it takes them by their places, and a VARIANT, of which it does all of these row by row.

    Args:
        records: They have all columns of ``types``.
        types: Of the table's keys and values.
        timestamp: The records' column that tells from when on they hold.

    Raises:
        SchemaError: a column is of such a type.
    """
    check_instants(records, timestamp)
    given = {field.name: field.dataType for field in records.schema.fields}
    for name, kind in types.items():
        harm = harm_of(given[name], kind) or (None if _has_cast(records, given[name], kind) else _NO_CAST)
        if harm is not None:
            raise SchemaError(
                f'The records have "{name}" as {given[name].simpleString()}, the table as {kind.simpleString()}: {harm}'
            )


def check_instants(records: DataFrame, timestamp: str) -> None:
    """Refuse as the instants from which on records hold what is or may be a number, and what cannot be read as one.

    Raises:
        SchemaError: telling the column and its type.
    """
    kind = records.schema[timestamp].dataType
    if isinstance(kind, (NumericType, BooleanType)):
        raise SchemaError(
            f'The timestamp "{timestamp}" is {kind.simpleString()}, which would be read as seconds. {_AS_INSTANT}'
        )
    if isinstance(kind, VariantType):
        raise SchemaError(
            f'The timestamp "{timestamp}" is variant, whose numbers would be read as seconds. Extract it as a '
            "timestamp first, with variant_get."
        )
    if not _has_cast(records, kind, TimestampType()):
        told = kind.simpleString()
        raise SchemaError(f'The timestamp "{timestamp}" is {told}, which tells no instant. Make it a timestamp first.')


def check_roles(records: DataFrame, deleted: str | None, partition: str | None, sequence: str | None = None) -> None:
    """Refuse a column of deletions that is no boolean, one of partitions that is no integer, and one without order.

    Raises:
        SchemaError: telling the column and its type.
    """
    roles: list[tuple[str | None, type[DataType], str]] = [
        (deleted, BooleanType, f"are deletions. Make it a boolean, as with {deleted} = 1."),
        (partition, IntegralType, "belong to which partition. Make it an integer."),
    ]
    for name, wanted, told in roles:
        kind = NullType() if name is None else records.schema[name].dataType
        if not isinstance(kind, (wanted, NullType)):
            raise SchemaError(f'The column "{name}" is {kind.simpleString()}, but says which records {told}')
    if sequence is not None and not has_order(kind := records.schema[sequence].dataType):
        raise SchemaError(
            f'The column "{sequence}" is {kind.simpleString()}, which has no order, but says in which order records '
            "came. Make it a number or a timestamp."
        )


def check_deletions(
    keys: DataFrame, wanted: Iterable[str], timestamp: str, partition: str | None, sequence: str | None
) -> None:
    """Refuse keys that cannot be deleted as they are, with the names that their user has for the columns.

    Args:
        keys: They have the columns of the table's keys, and those named here.
        wanted: The table's keys.
        timestamp: As of a put; so are the others.

    Raises:
        SchemaError: they are no DataFrame; a column is missing, is there twice, or is of a type that does not do.
        ConfigurationError: an argument is no name of a column.
    """
    check_frame("keys", keys)
    check_column_names(timestamp=timestamp, partition=partition, sequence=sequence)
    check_there(keys, (*wanted, timestamp, *filter(None, (partition, sequence))))
    check_instants(keys, timestamp)
    check_roles(keys, None, partition, sequence)


def casts(
    records: DataFrame, types: Mapping[str, DataType], keys: Collection[str]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns in the types of the table, and of those that are cast whether a value has none in that type.

    Whatever the session says of casts (ANSI or not), such a value neither becomes null in silence nor ends the put.
    Decimals are rounded as Spark does, but for keys: rounded, two of them might be one. Inside structs, arrays and maps
    that are no keys it is as the session says.
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
    """Whether a value has more digits behind the point than a decimal keeps of it; None where none has any more.

    Null where the value has none of that type.
    """
    if given == kind or not isinstance(kind, DecimalType):
        return None
    cast = value.try_cast(kind)
    if isinstance(given, StringType):
        # No decimal has room for all digits of a text and of the widest of them.
        text, double = value.cast("string"), value.try_cast("double")
        return ~(text.rlike(_NUMBER % kind.scale) | (text.rlike("[eE]") & (double == cast.try_cast("double"))))
    return cast.try_cast(given) != value if _has_fractions(given) else None


def _is_as_the_session_says(given: DataType, kind: DataType) -> bool:
    return given == kind or isinstance(kind, (StructType, ArrayType, MapType))


def key_in_type(value: Column, given: DataType, kind: DataType) -> Column:
    """As :func:`in_type`; null also where the value, or a part of it, would be another one: rounded, say."""
    if isinstance(kind, (StructType, ArrayType)):
        whole = value.try_cast(nullable(kind))
        return F.when(whole.try_cast(nullable(given)) == value, whole)
    told, cut = in_type(value, given, kind), rounds(value, given, kind)
    if given != kind and isinstance(given, _TIMES) and isinstance(kind, (*_TIMES, StringType)):
        # Where clocks go back, two instants are one time of day.
        return F.when(told.try_cast(given) == value, told)
    return told if cut is None else F.when(~cut, told)


def in_type(value: Column, given: DataType, kind: DataType) -> Column:
    """The value in another type; null where that has none.

    Of a number that a FLOAT or DOUBLE is too small for Spark makes infinity; it reads the beginning of a text as a
    date or as a time without a zone, and a time without its day as one of today.
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
    """A record's instant or partition in another type, and whether it has a value that is none of that type."""
    value, given = F.col(quote(name)), records.schema[name].dataType
    if given == kind:
        return value, F.lit(False)
    cast = in_type(value, given, kind)
    return cast, value.isNotNull() & cast.isNull()


def reason(
    spec: VersionedTableSpec, us: Column, is_no_instant: Column, misfits: Iterable[Column], last_us: int | None = None
) -> Column:
    """Why a record is rejected; null if it is not.

    Args:
        spec: The table.
        us: The record's instant.
        is_no_instant: Whether what stands for it is none.
        misfits: Whether a value is none of its column's type, of each as :func:`casts` tells.
        last_us: The last instant that a record may have, if there is one.
    """
    told = F.when(is_no_instant, "BAD_TYPE").when(us.isNull(), "NULL_TS").when(~in_range(us), "TS_RANGE")
    if last_us is not None:
        told = told.when(us > F.lit(last_us), "FUTURE_TS")
    for name in spec.keys:
        told = told.when(F.col(quote(name)).isNull(), "NULL_KEY")
    for misfit in misfits:
        told = told.when(misfit, "BAD_TYPE")
    return told


def in_range(us: Column) -> Column:
    """Whether an instant lies in the years 1 to 9999."""
    return us.between(F.lit(FIRST_INSTANT_US), F.lit(LAST_INSTANT_US))


def rejects_refused(shaped: DataFrame) -> SchemaError:
    """The error for records of which some have a ``_reason``, where nobody would be told of these."""
    rejected = shaped.where(F.col("_reason").isNotNull())
    reasons = {row["_reason"]: row["n"] for row in rejected.groupBy("_reason").agg(F.count("*").alias("n")).collect()}
    return SchemaError(f"Some records tell no version: {reasons}. Nothing was deleted. Mend them, or leave them out.")


def rejected_rows(rejected: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Keys, ``ts`` (null if there is no such instant) and ``reason`` of records with ``_us`` and ``_reason``."""
    ts = F.when(in_range(F.col("_us")), F.timestamp_micros("_us"))
    why = F.col("_reason").alias(spec.beside_keys("reason"))
    return rejected.select(*map(quote, spec.keys), ts.alias(spec.beside_keys("ts")), why)


def _has_cast(records: DataFrame, given: DataType, kind: DataType) -> bool:
    """Whether Spark can make a value of the one type one of the other."""
    if given == kind:
        return True
    try:
        # Of a frame without rows or a plan of its own, so that Spark looks at nothing but the two types.
        none = records.sparkSession.range(0).select(F.lit(None).cast(given).alias("none"))
        none.select(_cast(F.col("none"), given, kind)).schema  # noqa: B018 - asking for it has the types looked at
    except Exception as error:  # the class differs between classic and Connect sessions
        if "DATATYPE_MISMATCH" not in str(error):
            raise
        return False
    return True


def harm_of(given: DataType, kind: DataType) -> str | None:
    """What a cast would do to a value of the one type to be one of the other; None if nothing."""
    if isinstance(given, VariantType) and not isinstance(kind, VariantType):
        return "what it holds is of any type, and would be cut or misread. Extract it typed first, with variant_get."
    if isinstance(given, (StructType, ArrayType, MapType)) and isinstance(kind, StringType):
        return "different values would be one text. Make it text first, with to_json."
    if _has_fractions(given) and isinstance(kind, IntegralType):
        return "fractions would be cut off. Round and cast it first."
    if isinstance(given, (NumericType, BooleanType)) and isinstance(kind, _INSTANTS):
        return f"it would be read as seconds. {_AS_INSTANT}"
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
    """The types inside of both, where the two are of one structure."""
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
