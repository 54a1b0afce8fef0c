"""Kafka as a source: key and value decoded into typed columns, partitions as scopes, offsets as the sequence.

A record that cannot be decoded does not stop the query, and is never dropped silently: its text goes into the column
:data:`~streams.spark.reader_options.MALFORMED`, and the record into the rejects table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from streams.options import KeyFormat, TsUnit
from streams.spark.reader_options import DAYS_IN_JSON, MALFORMED, WHOLE_TEXTS, WHOLE_TOPIC, option_texts
from streams.spark.sources import SparkSource
from versioned import spark_functions as F
from versioned.casting import key_in_type
from versioned.choices import check_choice
from versioned.clock_texts import TIME_ALONE
from versioned.errors import SchemaError
from versioned.given import check_kind, check_optional
from versioned.identifiers import quote
from versioned.schema import from_ddl

_OWN: Final = ("partition", "offset", MALFORMED)
_UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_KEY, _VALUE, _CORRUPT = "_decoded_key", "_decoded_value", "_corrupt"
_OBJECT: Final = r"^\s*\{"
#: Matches a text that is a number in JSON.
_NUMBER: Final = r"^-?[0-9][0-9.eE+-]*$"


@dataclass(frozen=True)
class KafkaFormat:
    """How the records of one Kafka topic are read.

    Args:
        value: Fields of the value as DDL; the value is a JSON object with these fields, and possibly others.
        key: Fields of the key as DDL; None = the key is not read. A field in both key and value is taken from the key.
        key_format: ``json``: the key is a JSON object; ``text``: it is the plain text of the only field in ``key``.
        ts: Column with the event time. If neither key nor value declares it, and for every tombstone (a record without
            a value), the event time is the record's Kafka timestamp.
        ts_unit: Unit of ``ts``, if it is a whole number; None = it is a timestamp (ISO 8601 in JSON).
        deleted: Column that is true for a record without a value (a tombstone); None = such a record is malformed.

    Raises:
        ConfigurationError: an argument of the wrong kind.
    """

    value: str
    key: str | None = None
    key_format: KeyFormat = "json"
    ts: str = "ts"
    ts_unit: TsUnit | None = None
    deleted: str | None = None

    def __post_init__(self) -> None:
        check_kind("value", self.value, str, 'DDL, such as "price DOUBLE"')
        check_optional("key", self.key, str, 'DDL, such as "item STRING"')
        check_kind("ts", self.ts, str, "the name of a column")
        check_optional("deleted", self.deleted, str, "the name of a column")
        check_choice("key_format", self.key_format, KeyFormat)
        if self.ts_unit is not None:
            check_choice("ts_unit", self.ts_unit, TsUnit)


def kafka_source(servers: str, topic: str, said: KafkaFormat, options: Mapping[str, str] | None = None) -> SparkSource:
    """A source with the records of one Kafka topic, from its beginning.

    Columns: the fields of key and value, ``ts``, the ``deleted`` column if requested, ``partition`` (the stream-time
    scope), ``offset`` (the sequence), and the text of records that could not be decoded.

    Args:
        servers: ``host:port``, several separated by commas.
        topic: A single topic: the offsets of several topics have no common order.
        said: How the records are read.
        options: Further options of Spark's Kafka source, such as ``maxOffsetsPerTrigger``; they take precedence.

    Raises:
        ConfigurationError: an argument of the wrong kind.

    >>> source = kafka_source("localhost:9092", "prices", KafkaFormat("price DOUBLE", key="item STRING"))
    >>> source.scope_column, source.order_column, source.options["startingOffsets"]
    ('partition', 'offset', 'earliest')
    """
    check_kind("servers", servers, str, "host:port as text, several separated by commas")
    check_kind("topic", topic, str, "the name of a topic")
    check_kind("said", said, KafkaFormat, "a KafkaFormat")
    more = {} if options is None else option_texts(options)
    told = {"kafka.bootstrap.servers": servers, "subscribe": topic, **WHOLE_TOPIC, **more}
    return SparkSource("kafka", told, decoder=partial(decoded, said=said))


def decoded(frame: DataFrame, said: KafkaFormat) -> DataFrame:
    """Kafka's columns decoded into typed columns; see :func:`kafka_source`.

    Raises:
        SchemaError: a field has the name of one of the source's own columns; a key of plain text does not have exactly
            one field; the event time is neither a timestamp nor a whole number with its unit.
    """
    key = F.lit(None) if said.key is None else _key(said.key, said.key_format)
    read = frame.withColumns({_VALUE: _json("value", said.value), _KEY: key})
    key_fields, value_fields = _fields(read, _KEY), _fields(read, _VALUE)
    keys = [field.name for field in key_fields]
    own = [field for field in value_fields if field.name not in keys]
    values = [field.name for field in own]
    _check(said, [*keys, *values])
    numbered = said.ts if said.ts_unit is None else None
    broken = _is_bad(_VALUE, "value") | _misleads("value", numbered, own)
    bad = F.when(F.col("value").isNull(), F.lit(said.deleted is None)).otherwise(broken)
    if said.key is not None:
        misleads = _misleads("key", numbered, key_fields) if said.key_format == "json" else F.lit(False)
        bad = bad | (F.col("key").isNotNull() & (_is_bad(_KEY, "key") | misleads))
    text = F.to_json(F.struct(*(F.col(name).cast("string").alias(name) for name in ("key", "value"))))
    columns = {name: F.col(_KEY).getField(name) for name in keys} | {
        name: F.col(_VALUE).getField(name) for name in values
    }
    columns[said.ts] = _event_time(read, said, columns.get(said.ts))
    if said.deleted is not None:
        columns[said.deleted] = F.col("value").isNull()
    named = [column.alias(name) for name, column in columns.items()]
    return read.select(*named, "partition", "offset", F.when(bad, text).alias(MALFORMED))


def columns_decoded(said: KafkaFormat, key: StructType | None, value: StructType) -> StructType:
    """The columns that :func:`decoded` gives.

    Args:
        said: How the records are read.
        key: The fields in its DDL of the key; None = the key is not read.
        value: The fields in its DDL of the value.

    Raises:
        SchemaError: as :func:`decoded`.

    >>> value = StructType().add("price", LongType())
    >>> columns_decoded(KafkaFormat("price BIGINT"), None, value).names
    ['price', 'ts', 'partition', 'offset', '_malformed']
    """
    fields = {field.name: field.dataType for field in value.fields}
    if key is not None:
        if said.key_format == "text":
            _one_field(key, str(said.key))
        # A field that both have is the key's, and keeps its position there.
        keys = {field.name: field.dataType for field in key.fields}
        fields = keys | {name: kind for name, kind in fields.items() if name not in keys}
    _check(said, list(fields))
    if said.ts in fields:
        _check_time(said, fields[said.ts])
    fields[said.ts] = TimestampType()
    if said.deleted is not None:
        fields[said.deleted] = BooleanType()
    fields |= {"partition": IntegerType(), "offset": LongType(), MALFORMED: StringType()}
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _json(column: str, ddl: str) -> Column:
    """A JSON object as a struct, with ``_corrupt`` where some field does not fit."""
    schema = cast(StructType, from_ddl(f"{ddl}, {_CORRUPT} STRING"))
    text = F.col(column).cast("string")
    # Only objects: of an array Spark would take the first object, and of anything else nothing.
    options = {"columnNameOfCorruptRecord": _CORRUPT, **WHOLE_TEXTS, **DAYS_IN_JSON}
    return F.from_json(F.when(text.rlike(_OBJECT), text), schema, options)


def _key(ddl: str, key_format: KeyFormat) -> Column:
    if key_format == "json":
        return _json("key", ddl)
    field = _one_field(from_ddl(ddl), ddl)
    text = F.col("key").cast("string")
    found = key_in_type(text, StringType(), field.dataType)
    corrupt = F.when(found.isNull(), text).alias(_CORRUPT)
    return F.when(text.isNotNull(), F.struct(found.alias(field.name), corrupt))


def _one_field(key: DataType, ddl: str) -> StructField:
    if not isinstance(key, StructType) or len(key) != 1:
        raise SchemaError(f'A key of plain text is one field; "{ddl}" is not. Use key_format="json".')
    return key.fields[0]


def _is_bad(decoded: str, column: str) -> Column:
    # Spark replaces bytes that are no valid text, so that two different keys could become the same.
    is_text = F.is_valid_utf8(F.col(column).cast("string"))
    return F.col(decoded).isNull() | F.col(decoded).getField(_CORRUPT).isNotNull() | ~is_text


def _misleads(column: str, instant: str | None, fields: Sequence[StructField]) -> Column:
    """Whether Spark would misread a JSON text: it has more than one object, or something else where a time belongs.

    The latter is a time without its day or, as the event time, a number.
    """
    text = F.col(column).cast("string")
    objects = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "array<struct<>>", dict(WHOLE_TEXTS))
    is_more = F.coalesce(F.size(objects), F.lit(0)) != 1
    times = [field.name for field in fields if isinstance(field.dataType, TimestampType)]
    if not times:
        return is_more
    written = F.from_json(text, ", ".join(f"{quote(name)} STRING" for name in times), dict(WHOLE_TEXTS))
    for name in times:
        # Spark takes a time without its day for one of today, and a number for seconds.
        wrong = f"^{TIME_ALONE}|{_NUMBER}" if name == instant else f"^{TIME_ALONE}"
        is_more = is_more | F.coalesce(written.getField(name).rlike(wrong), F.lit(False))
    return is_more


def _fields(frame: DataFrame, column: str) -> list[StructField]:
    kind = frame.schema[column].dataType
    return [field for field in kind.fields if field.name != _CORRUPT] if isinstance(kind, StructType) else []


def _event_time(frame: DataFrame, said: KafkaFormat, found: Column | None) -> Column:
    if found is None:
        return F.col("timestamp")
    _check_time(said, frame.select(found.alias("ts")).schema["ts"].dataType)
    if said.ts_unit is not None:
        found = F.timestamp_micros(F.try_multiply(found, F.lit(_UNITS[said.ts_unit]).cast("long")))
    return F.when(F.col("value").isNull(), F.col("timestamp")).otherwise(found)


def _check_time(said: KafkaFormat, kind: DataType) -> None:
    if said.ts_unit is not None:
        if not isinstance(kind, LongType):
            raise SchemaError(f'ts_unit is for whole numbers; "{said.ts}" is {kind.simpleString()}. Write BIGINT.')
    elif not isinstance(kind, TimestampType):
        raise SchemaError(f'"{said.ts}" is {kind.simpleString()}; write TIMESTAMP, or BIGINT with a ts_unit.')


def _check(said: KafkaFormat, names: list[str]) -> None:
    taken = sorted({*_OWN, *filter(None, (said.deleted,))} & set(names))
    if taken:
        raise SchemaError(f"Fields may not be called {taken}, which are columns of the source itself. Leave them out.")
