"""Erases a data subject from every table of an application (GDPR), with a receipt.

A row is erased if it has fields of all the names that the keys have, anywhere in the row (a column, a field of a
struct, an element of an array or a map), and these fields have the values of one of the keys. A rejected row is erased
if its record has them. So stores lose all versions of a key, buffers and outputs lose its rows, and the rejects lose
its records. Each table loses its rows in one commit. In a versioned table, a version that has the values outside its
key becomes a deletion instead, if other values of that key stay: without it, the versions before and after would no
longer meet.

Rows are gone at once. Their files are gone with the first vacuum on or after the day that the receipt names. Delta's
log records the least and the greatest value of a column for each file, until its commits are cleaned up. It never
does so for ``pii_columns``: name them when the application, or the table, is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta, timezone
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from streams.spark.application import StreamingApplication
from streams.spark.erase_record import as_field, in_record, kinds_of
from streams.spark.past_erasure import gone_on, past_erasure
from streams.spark.recovery import RecoverySurvey, refuse_running
from streams.spark.rejects import RECORD
from streams.spark.tables_below import left_behind
from versioned import spark_functions as F
from versioned.append_only import refuse_append_only
from versioned.commit import Merge, commit, same_keys, saying
from versioned.durations import duration
from versioned.errors import CheckpointMismatchError, ConfigurationError, first_line
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.replay import ERASED, way_back
from versioned.spec import DELETED, SPEC_PROPERTY, SYSTEM_FROM, VersionedTableSpec, known_target
from versioned.statistics import always_hidden, hidden_columns, names_in
from versioned.table_log import Landed, history, told_so_far
from versioned.touched import MARKED_ROWS
from versioned.upkeep import least_file_retention
from versioned.written import TableState

_LOG: Final = logging.getLogger(__name__)
_LOG_RETENTION: Final = "delta.logRetentionDuration"
_LEAST_LOG: Final = timedelta(days=30)
#: The path of a field in a row: names, and ``[]`` for the elements of an array or a map.
Path = tuple[str, ...]
_EACH: Final = "[]"
_LOOKED_AT: Final = 100
#: Column: the number of the table in which a key was found.
_TABLE: Final = "_table"
#: Column: whether all versions of the key are deleted.
_WHOLE: Final = "_whole"


@dataclass(frozen=True)
class ErasedTable:
    """What was done with one table.

    ``rows`` were deleted, or became deletions, in the commit ``version`` (None = no such rows, so no commit).
    ``fields`` are the fields that were compared; none = the table has no fields by which rows could be matched.

    A vacuum on the day ``files_gone`` or later removes the last file with the rows. Until ``log_gone``, Delta's log may
    contain values, as the least or the greatest of a file; None = it never did, for the columns by which rows were
    found and for ``pii_columns``. Delta cleans a log when it writes a checkpoint, every ten commits or so.

    A table with deletion vectors, or that once had some, reports both days even if it had no such rows: its files may
    still have rows that were removed earlier. Any other table without such rows reports the days of the newest erasure
    in its log, since nothing says whose rows that removed; ``files_gone`` is None once a vacuum has removed its files.
    """

    table: str
    fields: tuple[str, ...] = ()
    rows: int = 0
    version: int | None = None
    files_gone: date | None = None
    log_gone: date | None = None


@dataclass(frozen=True)
class ErasureReceipt:
    """What :func:`erase` did, as a record for whoever has to prove it. It contains no values of keys.

    ``subjects`` is the number of distinct keys given; ``subjects_found`` of them had rows in a table. ``not_searched``
    are the tables below the root that the plan does not write, unless they are known to belong to others; ``"*"`` if
    the tables there cannot be listed.
    """

    application: str
    at: datetime
    names: tuple[str, ...]
    tables: tuple[ErasedTable, ...]
    subjects: int
    subjects_found: int
    dry_run: bool = False
    not_searched: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows, in all tables, that were deleted or became deletions."""
        return sum(table.rows for table in self.tables)

    @property
    def files_gone(self) -> date | None:
        """The day from which on a vacuum of every table leaves no file with the rows."""
        return max((table.files_gone for table in self.tables if table.files_gone is not None), default=None)

    @property
    def log_gone(self) -> date | None:
        """The day from which on Delta may clean values of key and ``pii_columns`` from logs; None = there were none."""
        return max((table.log_gone for table in self.tables if table.log_gone is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """The receipt as plain values, for JSON."""
        return {**asdict(self), "rows": self.rows, "files_gone": self.files_gone, "log_gone": self.log_gone}


def erase(
    application: StreamingApplication,
    keys: DataFrame,
    *,
    also: Mapping[str, Iterable[str]] | None = None,
    dry_run: bool = False,
) -> ErasureReceipt:
    """Remove a subject's rows from every table of an application. Stop the application first.

    The sources are not touched: a new epoch, which reads them again, would bring their rows back.

    Args:
        application: The application that owns the tables; it must not be running.
        keys: The keys, one per row; its columns are named as the fields in the plan.
        also: Other names of fields with the same content, for plans that rename: ``{"item": ["product"]}``.
        dry_run: Only count the rows that would be erased.

    Raises:
        ConfigurationError: there are no tables, none has fields of these names, the application runs in this session,
            or a table with such rows is append-only; nothing was removed.
        CheckpointMismatchError: the application has an unfinished batch, whose replay would bring rows back; or it ran
            while rows were removed.

    >>> erase(app, spark.createDataFrame([("N123",)], "tail STRING")).rows   # doctest: +SKIP
    17
    """
    found = _refuse_unfinished(application)
    spark, names = application.spark, _names(keys, also or {})
    there = {target: state for target, state in found.tables.items() if state.exists}
    if not there:
        raise ConfigurationError(
            f"There is no table of {application.name} in {application.root}. Nothing was removed. Name the folder that "
            "its tables lie below: with --work, or as the root."
        )
    schemas = {target: read_table(spark, target).schema for target in there}
    rejects = application.table("rejects")
    if not any(_places(schema, names) for target, schema in schemas.items() if target != rejects):
        raise ConfigurationError(
            f"No table of {application.name} has fields {list(keys.columns)}; the tables are "
            f"{[target.short_name for target in there]}. Nothing was removed. Name the columns as the plan does."
        )
    # Listed before anything is removed: nothing may fail between the removal and the receipt.
    known = [application.table("ledger"), *application.tables()]
    others = left_behind(spark, application.root, application.name, known)
    wanted = keys.na.drop("all").distinct().cache()
    at = datetime.now(timezone.utc)
    try:
        _refuse_halves(wanted)
        kinds = {called: _kinds(schemas.values(), called) for called in names.values()}
        specs = _specs({target: state.properties for target, state in there.items()})
        tables = [
            _Table(
                spark,
                target,
                schema,
                there[target],
                names,
                kinds if target == rejects else None,
                specs.get(target),
            )
            for target, schema in schemas.items()
        ]
        # Counted before anything is removed: afterwards nothing says whose rows they were.
        subjects, with_rows = _subjects_in(tables, wanted)
        losing = [target for number, target in enumerate(schemas) if number in with_rows]
        refuse_append_only({target: there[target].properties for target in losing}, "Erasing the subjects")
        told = [table.erase(wanted, number in with_rows, dry_run) for number, table in enumerate(tables)]
        given = wanted.count()
    finally:
        wanted.unpersist()
    if not dry_run:
        _refuse_moved(application, found, told)
    return ErasureReceipt(application.name, at, tuple(keys.columns), tuple(told), given, subjects, dry_run, others)


def _subjects_in(tables: list[_Table], keys: DataFrame) -> tuple[int, set[int]]:
    """How many of the keys have rows in any table, and the indexes of the tables that have such rows."""
    searched = [
        table.subjects(keys).withColumn(_TABLE, F.lit(number)) for number, table in enumerate(tables) if table.fields
    ]
    found = reduce(DataFrame.unionByName, searched).cache()
    try:
        numbers = {row[_TABLE] for row in found.select(_TABLE).distinct().collect()}
        return found.drop(_TABLE).distinct().count(), numbers
    finally:
        found.unpersist()


def _refuse_halves(keys: DataFrame) -> None:
    """Refuse keys that lack a value: they would match no row, and the subject would stay.

    Raises:
        ConfigurationError: there are such keys; nothing was removed.
    """
    lacks = reduce(Column.__or__, (F.col(quote(name)).isNull() for name in keys.columns))
    halves = keys.where(lacks).count()
    if halves:
        raise ConfigurationError(
            f"{halves} of the keys lack a value of {list(keys.columns)}. Nothing was removed. Give all values of each "
            "key, or keys of fewer columns in a run of their own."
        )


def paths_of(kind: DataType, name: str, above: Path = ()) -> Iterator[Path]:
    """The paths of all fields of a name in a type: names, and ``[]`` for the elements of an array or a map.

    >>> from pyspark.sql.types import LongType
    >>> inner = StructType().add("a", LongType())
    >>> list(paths_of(StructType().add("a", LongType()).add("s", inner).add("l", ArrayType(inner)), "a"))
    [('a',), ('s', 'a'), ('l', '[]', 'a')]
    """
    for inner in _inner(kind):
        yield from paths_of(inner, name, (*above, _EACH))
    if isinstance(kind, StructType):
        for field in kind.fields:
            here = (*above, field.name)
            if field.name.lower() == name.lower() and not isinstance(field.dataType, StructType):
                yield here
            yield from paths_of(field.dataType, name, here)


class _Table:
    """One table from which rows are erased.

    ``names`` are the names of each key column in the tables; ``kinds``, only for the rejects, the types that fields of
    these names have in the tables; ``spec`` the contract of a versioned table or its system history.
    """

    def __init__(
        self,
        spark: SparkSession,
        target: TableRef,
        schema: StructType,
        state: TableState,
        names: Mapping[str, tuple[str, ...]],
        kinds: Mapping[tuple[str, ...], Iterable[DataType]] | None = None,
        spec: VersionedTableSpec | None = None,
    ) -> None:
        self._spark = spark
        self._spec = spec
        self._target = target
        self._schema = schema
        self._version = state.version
        self._properties = state.properties
        self._may_be_marked = MARKED_ROWS in state.features
        self._names = names
        self._kinds = kinds or {}
        self._is_rejects = kinds is not None
        self.fields = (RECORD,) if self._is_rejects else _places(schema, names)

    def subjects(self, keys: DataFrame) -> DataFrame:
        """The keys that have rows in this table, each once."""
        rows = read_table(self._spark, self._target)
        return rows.alias("t").join(keys.alias("s"), self._same(keys)).select("s.*").distinct()

    def erase(self, keys: DataFrame, is_there: bool, dry_run: bool) -> ErasedTable:
        """Erase the rows of the keys; ``is_there`` says whether there are any. With ``dry_run``, only count them."""
        told = ErasedTable(self._target.short_name, self.fields)
        if not self.fields:
            return told
        if dry_run:
            return ErasedTable(told.table, told.fields, self._removed(keys).count() if is_there else 0)
        if not (is_there or self._may_be_marked):
            return self._erased_before(told)
        said, landed = _said(self._spark, self._target), None
        if is_there:
            landed = commit(self._target, lambda: self._removal(keys), None, said)
        if self._may_be_marked:
            # Rows hidden by a deletion vector are still in their files: also rows that upkeep or an interrupted erasure
            # removed earlier, and even if vectors have been switched off since.
            with saying(self._spark, said):
                self._spark.sql(f"REORG TABLE {self._target.sql} APPLY (PURGE)")
        # Taken only now: the retention of replaced files begins with the commit that replaced them.
        at = datetime.now(timezone.utc)
        return ErasedTable(
            told.table,
            told.fields,
            0 if landed is None else self._deleted(landed),
            None if landed is None else landed.version,
            gone_on(at, least_file_retention(self._spark, self._target)),
            self._log_gone(at),
        )

    def _erased_before(self, told: ErasedTable) -> ErasedTable:
        """The receipt of a table without such rows: they may be in files that an earlier erasure left behind."""
        kept = least_file_retention(self._spark, self._target)
        try:
            before = past_erasure(self._spark, self._target, self._version)
        except Exception as error:  # of any kind: other tables may have lost rows, and the receipt must say so
            _LOG.warning("Whether rows of %s were erased before cannot be told: %s", self._target, first_line(error))
            now = datetime.now(timezone.utc)
            return replace(told, files_gone=gone_on(now, kept), log_gone=self._log_gone(now))
        if before is None:
            return told
        return replace(told, files_gone=before.files_gone(kept), log_gone=self._log_gone(before.at))

    def _log_gone(self, at: datetime) -> date | None:
        names = {RECORD} if self._is_rejects else {name for called in self._names.values() for name in called}
        return None if self._is_hidden(names) else gone_on(at, _log_retention(self._properties))

    def _found(self, keys: DataFrame) -> DataFrame:
        rows = read_table(self._spark, self._target)
        return rows.alias("t").join(keys.alias("s"), self._same(keys), "left_semi")

    def _removed(self, keys: DataFrame) -> DataFrame:
        """The rows to erase; of a versioned table their identities, and whether their whole key goes (``_whole``)."""
        if self._spec is None:
            return self._found(keys)
        rows = read_table(self._spark, self._target)
        places = (*self._spec.keys, self._spec.valid_from, SYSTEM_FROM)
        place = [name for name in places if name in self._schema.names]
        of_key = list(self._spec.keys)
        found = self._found(keys).select(*map(quote, place)).distinct()
        # A key of which no values stay is deleted with its tombstones: it may itself identify the subject.
        stays = rows.where(~F.col(DELETED)).join(found, place, "left_anti").select(*map(quote, of_key))
        whole = found.select(*map(quote, of_key)).distinct().join(stays, of_key, "left_anti")
        of_whole = rows.join(whole, of_key, "left_semi").select(*map(quote, place)).distinct()
        others = found.join(whole, of_key, "left_anti")
        return of_whole.withColumn(_WHOLE, F.lit(True)).unionByName(others.withColumn(_WHOLE, F.lit(False)))

    def _removal(self, keys: DataFrame) -> Merge:
        if self._spec is None:
            return Merge(keys, self._same(keys), lambda merge: merge.whenMatchedDelete())
        removed = self._removed(keys)
        # As text, which both Delta's builder and ours for Spark Connect accept.
        erased: dict[str, str | Column] = {quote(name): "NULL" for name in self._spec.values}
        erased[DELETED] = "true"
        return Merge(
            removed,
            same_keys([name for name in removed.columns if name != _WHOLE]),
            lambda merge: merge.whenMatchedDelete(f"s.{_WHOLE}").whenMatchedUpdate(set=erased),
        )

    def _same(self, keys: DataFrame) -> Column:
        return reduce(Column.__and__, (self._has(F.col(f"s.{quote(key)}"), self._names[key]) for key in keys.columns))

    def _has(self, value: Column, called: tuple[str, ...]) -> Column:
        if self._is_rejects:
            return in_record(F.col(f"t.{quote(RECORD)}"), value, called, self._kinds[called])
        found = [
            holds
            for name in called
            for field in self._schema.fields
            for holds in _holds(F.col(f"t.{quote(field.name)}"), field.name, field.dataType, name, value)
        ]
        return reduce(Column.__or__, found)

    def _is_hidden(self, names: set[str]) -> bool:
        """Whether the log never had values of these columns, nor of those that are marked as personal data by now."""
        told = {name.lower() for name in names | hidden_columns(self._properties)}
        # Structs too: what is nested in a hidden one is hidden with it.
        here = {name.lower() for name in names_in(self._schema)}
        return told & here <= {name.lower() for name in always_hidden(self._properties)}

    def _deleted(self, landed: Landed) -> int:
        # Commits of the REORG and of upkeep may have followed.
        commits = history(self._spark, self._target, _LOOKED_AT)
        metrics = (row["operationMetrics"] for row in commits if row["version"] == landed.version)
        told = next(metrics)
        return sum(int(told.get(name, 0)) for name in ("numTargetRowsDeleted", "numTargetRowsUpdated"))


def _specs(properties: Mapping[TableRef, Mapping[str, str]]) -> dict[TableRef, VersionedTableSpec]:
    """The contracts of the versioned tables, and of their system histories."""
    found: dict[TableRef, VersionedTableSpec] = {}
    for target, said in properties.items():
        if SPEC_PROPERTY in said:
            spec = VersionedTableSpec.from_properties(said, str(target))
            found |= {target: spec, known_target(target): spec}
    return found


def _refuse_unfinished(application: StreamingApplication) -> RecoverySurvey:
    refuse_running(application.spark, application.name)
    found, told = application.settled_survey()
    for wrong in told:
        raise wrong.error()
    ahead = [table.name for table in found.facts() if table.batch is not None and table.batch > found.ledger.batch]
    if ahead:
        raise CheckpointMismatchError(
            f"A batch of {application.name} is unfinished: it is in {ahead}, but not in the ledger. Its replay would "
            "bring rows back. Start the application once, let it end, then erase again."
        )
    begun = found.checkpoint.offset
    if begun > max(found.checkpoint.commit, found.ledger.batch[1]):
        raise CheckpointMismatchError(
            f"Batch {begun} of {application.name} has begun and is not in the ledger. A driver elsewhere may be in it, "
            "and write rows again that it has read. Stop that driver, start the application once, let it end, then "
            f"erase again. If the batch cannot end, {way_back(found.ledger.epoch, begun)}."
        )
    return found


def _refuse_moved(application: StreamingApplication, before: RecoverySurvey, told: Iterable[ErasedTable]) -> None:
    """Raise if a batch ran meanwhile: it may have written erased rows again, from buffers that it had read before."""
    now = application.survey()
    if (now.ledger.batch, now.checkpoint) != (before.ledger.batch, before.checkpoint):
        removed = {table.table: f"{table.rows} rows, version {table.version}" for table in told if table.rows}
        raise CheckpointMismatchError(
            f"{application.name} ran while rows were removed (batch {before.checkpoint.offset} had begun, now "
            f"{now.checkpoint.offset}): its batches may have written some of them again. Removed so far: {removed}. "
            "Stop it, then erase again."
        )


def _kinds(schemas: Iterable[StructType], called: Iterable[str]) -> list[DataType]:
    """The types that fields of these names have in the tables, each once."""
    found = (kind for schema in schemas for name in called for kind in kinds_of(schema, name))
    return list({kind.simpleString(): kind for kind in found}.values())


def _names(keys: DataFrame, also: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    unknown = sorted(set(also) - set(keys.columns))
    if unknown:
        raise ConfigurationError(f"also: {unknown} are no columns of the keys, which are {keys.columns}.")
    return {key: (key, *also.get(key, ())) for key in keys.columns}


def _places(schema: StructType, names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The paths of the named fields in a table's rows; empty unless every name is found."""
    found = [[path for name in called for path in paths_of(schema, name)] for called in names.values()]
    return tuple(".".join(path) for paths in found for path in paths) if all(found) else ()


def _inner(kind: DataType) -> list[DataType]:
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.keyType, kind.valueType] if isinstance(kind, MapType) else []


def _holds(column: Column, called: str, kind: DataType, name: str, value: Column) -> Iterator[Column]:
    """The conditions under which a column has the value in a field of a name."""
    is_it = called.lower() == name.lower()
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _holds(column.getField(field.name), field.name, field.dataType, name, value)
    elif isinstance(kind, ArrayType):
        yield from _any(column, called, kind.elementType, name, value)
    elif isinstance(kind, MapType):
        yield from _any(F.map_keys(column), called, kind.keyType, name, value)
        yield from _any(F.map_values(column), called, kind.valueType, name, value)
    elif is_it and isinstance(kind, VariantType):
        yield F.try_variant_get(column, "$", "string") == value.cast("string")
    elif is_it:
        yield column == as_field(value, kind)


def _any(column: Column, called: str, kind: DataType, name: str, value: Column) -> Iterator[Column]:
    """As :func:`_holds`, for the elements of an array."""

    def one(number: int) -> Callable[[Column], Column]:
        return lambda element: list(_holds(element, called, kind, name, value))[number]

    # There is one condition per path, whatever the element.
    for number in range(sum(1 for _ in _holds(F.lit(None), called, kind, name, value))):
        yield F.exists(column, one(number))


def _said(spark: SparkSession, target: TableRef) -> Mapping[str, Any]:
    return {**told_so_far(spark, target), ERASED: True}


def _log_retention(properties: Mapping[str, str]) -> timedelta:
    try:
        return max(_LEAST_LOG, duration(properties.get(_LOG_RETENTION, "30 days").removeprefix("interval ")))
    except ConfigurationError:
        return _LEAST_LOG  # Months have no fixed length; Delta itself judges them.
