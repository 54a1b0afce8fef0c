"""Erasing a subject from every table of an application (GDPR), with a receipt.

A row goes if it has a field of each name that the keys have, wherever it stands in the row (a column, a field of a
struct, or the record of a rejected row), and the values of one of the keys in them. So stores lose all versions of a
key, buffers what they hold of it, outputs what was told of it. Each table loses its rows in one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta, timezone
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from streams.spark.application import StreamingApplication
from versioned.commit import Landed, Merge, commit, is_missing, newest_own
from versioned.durations import duration
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef, quote
from versioned.put import read_table
from versioned.replay import CHECKPOINT, FINGERPRINTS
from versioned.upkeep import least_file_retention

_LOG_RETENTION: Final = "delta.logRetentionDuration"
_LEAST_LOG: Final = timedelta(days=30)
#: The column of the rejects table that holds a record as JSON.
_RECORD: Final = "record"
Path = tuple[str, ...]


@dataclass(frozen=True)
class ErasedTable:
    """What was done with one table.

    ``rows`` went in the commit ``version`` (None = no such rows, so no commit). ``fields`` are the places that were
    compared; none = no row of the table can be told to be of the subject. ``unsearched`` are places inside arrays and
    maps, which are not looked into. A vacuum on the day ``files_gone`` or later removes the last file with the rows;
    Delta's log may tell values, as the least or greatest of a file, until ``log_gone``.
    """

    table: str
    fields: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()
    rows: int = 0
    version: int | None = None
    files_gone: date | None = None
    log_gone: date | None = None


@dataclass(frozen=True)
class ErasureReceipt:
    """What :func:`erase` did: for the files of whoever has to prove it. It tells no values."""

    application: str
    at: datetime
    names: tuple[str, ...]
    tables: tuple[ErasedTable, ...]

    @property
    def rows(self) -> int:
        """All rows that went."""
        return sum(table.rows for table in self.tables)

    @property
    def files_gone(self) -> date | None:
        """From this day on a vacuum of every table leaves no file with the rows."""
        return max((table.files_gone for table in self.tables if table.files_gone is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "rows": self.rows, "files_gone": self.files_gone}


def erase(application: StreamingApplication, keys: DataFrame) -> ErasureReceipt:
    """Remove a subject's rows from every table of an application. Stop the application first.

    What the sources still hold is not touched: a new epoch, which reads them again, would bring it back.

    Args:
        application: Whose tables; it must not be running.
        keys: The keys, one a row; its columns have the names that the fields have in the plan.

    Raises:
        ConfigurationError: no table has fields of these names; nothing was removed.
        CheckpointMismatchError: the application has an unfinished batch, whose replay would bring rows back.

    >>> erase(app, spark.createDataFrame([("N123",)], "tail STRING")).rows   # doctest: +SKIP
    17
    """
    _refuse_unfinished(application)
    spark, names = application.spark, tuple(keys.columns)
    there = [target for target in application.tables() if not is_missing(spark, target)]
    schemas = {target: read_table(spark, target).schema for target in there}
    wanted = keys.na.drop().distinct().cache()
    at = datetime.now(timezone.utc)
    try:
        erased = tuple(_erase(spark, target, schema, wanted, at) for target, schema in schemas.items())
    finally:
        wanted.unpersist()
    receipt = ErasureReceipt(application.name, at, names, erased)
    if not receipt.rows and not any(_typed_places(schema, names) for schema in schemas.values()):
        raise ConfigurationError(
            f"No table of {application.name} has fields {list(names)}; the tables are "
            f"{[target.short_name for target in there]}. Nothing was removed. Name the columns as the plan does."
        )
    return receipt


def paths_of(kind: DataType, name: str, above: Path = ()) -> tuple[list[Path], list[Path]]:
    """Where a field of a name stands in a type: the places that can be compared, and those in arrays and maps.

    >>> from pyspark.sql.types import LongType
    >>> inner = StructType().add("a", LongType())
    >>> paths_of(StructType().add("a", LongType()).add("s", inner).add("l", ArrayType(inner)), "a")
    ([('a',), ('s', 'a')], [('l', 'a')])
    """
    found: list[Path] = []
    hidden: list[Path] = []
    if isinstance(kind, (ArrayType, MapType)):
        inner = [kind.elementType] if isinstance(kind, ArrayType) else [kind.keyType, kind.valueType]
        for each in inner:
            hidden += [path for paths in paths_of(each, name, above) for path in paths]
    if isinstance(kind, StructType):
        for field in kind.fields:
            here = (*above, field.name)
            if field.name == name and not isinstance(field.dataType, (StructType, ArrayType, MapType)):
                found.append(here)
            below = paths_of(field.dataType, name, here)
            found += below[0]
            hidden += below[1]
    return found, hidden


def gone_on(at: datetime, retention: timedelta) -> date:
    """The first day that lies wholly after the time that something is kept.

    >>> gone_on(datetime(2026, 1, 1, 12), timedelta(days=7))
    datetime.date(2026, 1, 9)
    """
    return (at + retention).date() + timedelta(days=1)


def _refuse_unfinished(application: StreamingApplication) -> None:
    found = application.survey()
    for wrong in found.findings():
        raise wrong.error()
    ahead = [table.name for table in found.facts() if table.batch is not None and table.batch > found.ledger.batch]
    if ahead:
        raise CheckpointMismatchError(
            f"A batch of {application.name} is unfinished: it is in {ahead}, but not in the ledger. Its replay would "
            "bring rows back. Start the application once, let it end, then erase again."
        )


def _places(schema: StructType, names: tuple[str, ...]) -> dict[str, list[Path]]:
    """Where each name stands in the rows of a table; empty unless all of them do."""
    if _RECORD in schema.names and "reason" in schema.names:
        return {name: [(_RECORD, "key", name), (_RECORD, "value", name)] for name in names}
    return _typed_places(schema, names)


def _typed_places(schema: StructType, names: tuple[str, ...]) -> dict[str, list[Path]]:
    found = {name: paths_of(schema, name)[0] for name in names}
    return found if all(found.values()) else {}


def _erase(spark: SparkSession, target: TableRef, schema: StructType, keys: DataFrame, at: datetime) -> ErasedTable:
    places = _places(schema, tuple(keys.columns))
    unsearched = tuple(".".join(path) for name in keys.columns for path in paths_of(schema, name)[1])
    told = ErasedTable(target.short_name, _dotted(places), unsearched)
    if not places:
        return told
    same = reduce(Column.__and__, (_is_one(schema, name, paths) for name, paths in places.items()))
    rows = read_table(spark, target).alias("t")
    if rows.join(keys.alias("s"), same, "left_semi").isEmpty():
        return told
    landed = commit(
        target, lambda: Merge(keys, same, lambda merge: merge.whenMatchedDelete()), None, _said(spark, target)
    )
    properties = spark.sql(f"DESCRIBE DETAIL {target.sql}").select("properties").collect()[0][0]
    return ErasedTable(
        target.short_name,
        _dotted(places),
        unsearched,
        _deleted(spark, target, landed),
        landed.version,
        gone_on(at, least_file_retention(spark, target)),
        gone_on(at, _log_retention(properties)),
    )


def _is_one(schema: StructType, name: str, paths: list[Path]) -> Column:
    value = F.col(f"s.{quote(name)}")
    return reduce(Column.__or__, (_at(schema, path, value) for path in paths))


def _at(schema: StructType, path: Path, value: Column) -> Column:
    if path[0] == _RECORD and schema[_RECORD].dataType.typeName() == "string" and len(path) > 1:
        said = F.get_json_object(F.col(f"t.{quote(_RECORD)}"), "$" + "".join(f"['{part}']" for part in path[1:]))
        return said == value.cast("string")
    kind: DataType = schema
    for part in path:
        assert isinstance(kind, StructType)
        kind = kind[part].dataType
    return F.col(".".join(["t", *map(quote, path)])) == value.try_cast(kind)


def _said(spark: SparkSession, target: TableRef) -> Mapping[str, Any]:
    """What the newest commit of the library told, so that the newest one goes on telling it."""
    newest = newest_own(spark, target, None)
    told = {} if newest is None else newest.details
    return {**{name: said for name, said in told.items() if name not in (CHECKPOINT, FINGERPRINTS)}, "erased": True}


def _deleted(spark: SparkSession, target: TableRef, landed: Landed) -> int:
    told = spark.sql(f"DESCRIBE HISTORY {target.sql}").where(F.col("version") == landed.version)
    metrics = told.select("operationMetrics").collect()[0][0]
    return int(metrics.get("numTargetRowsDeleted", 0))


def _log_retention(properties: Mapping[str, str]) -> timedelta:
    try:
        return max(_LEAST_LOG, duration(properties.get(_LOG_RETENTION, "30 days").removeprefix("interval ")))
    except ConfigurationError:
        return _LEAST_LOG  # Months have no fixed length; Delta itself judges them.


def _dotted(places: Mapping[str, list[Path]]) -> tuple[str, ...]:
    return tuple(".".join(path) for paths in places.values() for path in paths)
