"""Versioned tables on a console: what a table promises and holds, and its rows as JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from jobs.place_setting import has_scheme
from jobs.strict import instant_in, nearest
from versioned import spark_functions as F
from versioned.casting import key_in_type
from versioned.durations import in_words, instant
from versioned.errors import ConfigurationError
from versioned.identifiers import is_path_in_sql, quote
from versioned.schema import columns_of
from versioned.spec import VersionedTableSpec
from versioned.sql_types import JSON_INSTANTS
from versioned.table import VersionedTable


def place_of(target: str) -> str:
    """A table's place as Delta needs it: a path on this machine is made absolute, anything else stays as it is.

    >>> place_of("sales.rates"), place_of("s3://bucket/rates"), place_of("dbfs:/mnt/rates"), place_of("/data/rates")
    ('sales.rates', 's3://bucket/rates', 'dbfs:/mnt/rates', '/data/rates')
    >>> place_of("delta.`/data/rates`")
    'delta.`/data/rates`'
    """
    is_local_path = "/" in target and not has_scheme(target) and not is_path_in_sql(target)
    return os.path.abspath(target) if is_local_path and ".." not in target.split("/") else target


def opened(spark: SparkSession, target: str) -> VersionedTable:
    """Open a versioned table, as :meth:`VersionedTable.open` does, by its place as given on the command line."""
    return VersionedTable.open(spark, place_of(target))


def columns_of_ddl(ddl: str) -> StructType:
    """The columns in ``--schema``. Spark parses it, so there must be a session.

    Raises:
        ConfigurationError: it is not DDL, in the words of Spark; or it has types that tables cannot have.
    """
    try:
        return columns_of(ddl)
    except ConfigurationError as error:
        raise ConfigurationError(f"--schema {ddl}: {error}") from None


def promise(spec: VersionedTableSpec) -> dict[str, Any]:
    """The settings of a versioned table, with durations in words."""
    return {
        "keys": list(spec.keys),
        "values": list(spec.values),
        "history_retention": in_words(spec.history_retention_us),
        "grace": in_words(spec.grace_us),
        "valid_from": spec.valid_from,
        "valid_to": spec.valid_to,
        "time_scope": spec.time_scope,
        "time_resolution": spec.time_resolution.name.lower(),
        "system_history": spec.system_history,
    }


def described(table: VersionedTable) -> dict[str, Any]:
    """The settings and the contents of a table; this takes two passes over its rows."""
    horizon = table.horizon()
    times = {str(scope): instant(us).isoformat() for scope, us in sorted(table.stream_times().items())}
    return {
        "table": str(table.target),
        **promise(table.spec),
        "versions": table.rows().count(),
        "current": table.current().count(),
        "stream_times": times,
        "horizon": None if horizon is None else horizon.isoformat(),
    }


def key_as_frame(table: VersionedTable, said: dict[str, str]) -> DataFrame | None:
    """One key as a frame, its texts cast to the types of the table's columns; None, for all keys, if none is given.

    Raises:
        ConfigurationError: a column is not a key, a key column is missing, or a value does not fit its type.
    """
    if not said:
        return None
    keys = list(table.spec.keys)
    for name in said:
        if name not in keys:
            raise ConfigurationError(f"--key {name}: is no key column of the table{nearest(name, keys)}")
    missing = [name for name in keys if name not in said]
    if missing:
        raise ConfigurationError(f"--key: give all key columns; missing {', '.join(missing)}.")
    rows = table.rows()
    types = {field.name: field.dataType for field in rows.schema.fields}
    columns = [key_in_type(F.lit(said[name]), StringType(), types[name]).alias(name) for name in keys]
    keyed = rows.sparkSession.range(1).select(*columns)
    (fits,) = keyed.select(*(F.col(name).isNotNull().alias(name) for name in keys)).collect()
    for name in keys:
        if not fits[name]:
            raise ConfigurationError(f"--key {name}: the value is no {types[name].simpleString()}. Mend it.")
    return keyed


def json_rows(frame: DataFrame, limit: int) -> list[dict[str, Any]]:
    """The first rows as plain values, as Spark writes them in JSON; instants in ISO form, nulls kept."""
    options = {"ignoreNullFields": "false", **JSON_INSTANTS}
    told = F.to_json(F.struct(*(F.col(quote(name)) for name in frame.columns)), options)
    return [json.loads(row[0], parse_float=exact) for row in frame.limit(limit).select(told).collect()]


def exact(number: str) -> float | str:
    """A number in a JSON text; kept as text where a float would be a different number.

    >>> exact("0.1"), exact("12345678901234567.891")
    (0.1, '12345678901234567.891')
    """
    as_float = float(number)
    return as_float if Decimal(repr(as_float)) == Decimal(number) else number


def instant_of(said: str) -> datetime:
    """Parse an instant in ISO form; without a zone it is UTC.

    Raises:
        ConfigurationError: the text is not an instant.

    >>> instant_of("2013-01-02T12:00:00Z").isoformat()
    '2013-01-02T12:00:00+00:00'
    """
    try:
        return instant_in(said)
    except ValueError:
        raise ConfigurationError(f'"{said}" is no instant. Write it as 2013-01-02T12:00:00Z.') from None
