"""Options set on Spark's readers in addition to a source's own, so that no record is silently lost or changed.

An option of the source itself takes precedence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from versioned import spark_functions as F
from versioned.errors import ConfigurationError
from versioned.given import check_mapping, close
from versioned.identifiers import TableRef
from versioned.schema import from_ddl

#: Column of a source: the text of a record that could not be decoded; null = it could. Such a record is put aside as
#: ``BAD_TYPE``, whatever is in its other columns. CSV, JSON and XML files get it automatically, other sources by their
#: transform.
MALFORMED: Final = "_malformed"
#: The format of tables.
DELTA: Final = "delta"
#: Spark's names of file formats.
FILES: Final = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
#: Spark's JSON reader makes nulls of a line with a text longer than this, so there is no limit here: the source's
#: contract limits records, with a reason and a count.
WHOLE_TEXTS: Final = {"maxStringLen": str(2**31 - 1)}
#: A date is a whole day and nothing else. Without a format, Spark's text readers take a month for its first day, and
#: ignore whatever follows a day, such as a time.
_WHOLE_DAYS: Final = {"dateFormat": "yyyy-M-d"}
#: A session can make Spark's CSV reader try its former rules too, by which a month is a date as well.
_NO_FORMER_RULES: Final = {"enableDateTimeParsingFallback": "false"}
#: Without these, Spark's JSON reader takes digits for days since 1970, as its first versions wrote dates.
DAYS_IN_JSON: Final = {**_WHOLE_DAYS, **_NO_FORMER_RULES}
#: A stream ignores a file that comes after its first batch and is older than the newest one by this much. The default
#: is a week, which a file that was moved, or unpacked from an archive, may well exceed.
_ANY_AGE: Final = {"maxFileAge": "36500d"}
#: A table consists of all of its changes, so not Spark's "latest"; and records of aborted transactions do not count.
WHOLE_TOPIC: Final = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
_LATEST: Final = "latest"
_FEED: Final = "readchangefeed"
#: Formats whose readers make nulls of what they cannot decode, unless there is a column for its text.
TEXT_FILES: Final = frozenset({"csv", "json", "xml"})
#: Replaces the text of an XML record: Spark gives that of the whole file, including other records.
_IN_XML: Final = "<a record of XML that does not fit>"
#: Options of these readers, in lower case, by which users decide themselves what happens to such records.
_OWN_WAYS: Final = frozenset({"mode", "columnnameofcorruptrecord"})
#: Options of streaming sources that decide how batches are cut and files are found; misspelt, they silently do not.
_STREAMING: Final = (
    "cleanSource",
    "fileNameOnly",
    "ignoreChanges",
    "ignoreDeletes",
    "latestFirst",
    "maxBytesPerTrigger",
    "maxFileAge",
    "maxFilesPerTrigger",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "pathGlobFilter",
    "readChangeFeed",
    "recursiveFileLookup",
    "skipChangeCommits",
    "sourceArchiveDir",
    "startingOffsets",
    "startingTimestamp",
    "startingVersion",
)
#: The similarity of names that differ by a letter or two.
_NEARLY: Final = 0.9
_CORRUPT: Final = "spark.sql.columnNameOfCorruptRecord"
_DEFAULT_CORRUPT: Final = "_corrupt_record"


def option_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options of a reader or a writer as texts, converted as Spark does it.

    Raises:
        ConfigurationError: they are no mapping, or one of them is neither a text nor a number, a flag or a path.

    >>> option_texts({"header": True, "maxFilesPerTrigger": 1, "path": PurePath("in")})
    {'header': 'true', 'maxFilesPerTrigger': '1', 'path': 'in'}
    """
    check_mapping("options", given, (str, bool, int, float, PurePath), "a text, a number, True or False, or a path")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def check_source(form: str, options: Mapping[str, str], table: str | None, *, has_schema: bool) -> None:
    """Refuse a source that has no place to read from or several, and a misspelt option.

    Args:
        form: The format.
        options: The options of the source, including its path.
        table: The name of a table of a catalog; None if the source reads something else.
        has_schema: Whether the source has a schema.

    Raises:
        ConfigurationError: says what to leave out, to add or to correct.
    """
    _check_place(form, options, table, has_schema=has_schema)
    _check_spelling(options)


def _check_place(form: str, options: Mapping[str, str], table: str | None, *, has_schema: bool) -> None:
    """Refuse a Delta source without a path or table, and a table of a catalog with more than its name.

    >>> _check_place("delta", {"skipChangeCommits": "true"}, "main.sales.orders", has_schema=False)
    >>> _check_place("delta", {}, None, has_schema=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: path or table is missing: a source of format delta reads ...
    """
    if not form.strip():
        raise ConfigurationError('format: name one of Spark, such as parquet; got ""')
    has_path = any(name.lower() == "path" for name in options)
    if table is None:
        if form.lower() == DELTA and not has_path:
            raise ConfigurationError(
                "path or table is missing: a source of format delta reads the table in a folder, path, or one of a "
                "catalog, table, such as main.sales.orders"
            )
        return
    beside = [name for name, is_said in (("path", has_path), ("schema", has_schema)) if is_said]
    if beside:
        raise ConfigurationError(
            f"{', '.join(beside)}: a table of a catalog has its own. Leave that out, or leave table out"
        )
    if form.lower() != DELTA:
        raise ConfigurationError("format: a table of a catalog is read as delta. Leave format out")
    try:
        found = TableRef.parse(table)
    except ConfigurationError as error:
        raise ConfigurationError(f"table: {error}") from None
    if found.path is not None:
        raise ConfigurationError("table: with a / it is a folder. Write it as path, with format: delta")


def _check_spelling(said: Collection[str]) -> None:
    """Refuse a misspelt option of Spark's streaming sources, which Spark would ignore.

    >>> _check_spelling(["maxfilespertrigger", "minOffsetsPerTrigger", "cloudFiles.maxFilesPerTrigger", "mergeSchema"])
    >>> _check_spelling(["maxFilePerTrigger"])
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: options.maxFilePerTrigger: Spark knows none, but maxFilesPerTrigger
    """
    known = {name.lower(): name for name in _STREAMING}
    for name in said:
        meant = close(name.lower(), known, _NEARLY)
        if name.lower() not in known and meant is not None:
            raise ConfigurationError(f"options.{name}: Spark knows none, but {known[meant]}")


def reader_options(form: str, said: Mapping[str, str]) -> dict[str, str]:
    """The options of a reader: ours, overridden by those of the source.

    >>> reader_options("kafka", {"subscribe": "t"})
    {'startingOffsets': 'earliest', 'kafka.isolation.level': 'read_committed', 'subscribe': 't'}
    >>> reader_options("delta", {"path": "in"}), reader_options("parquet", {"path": "in"})
    ({'path': 'in'}, {'maxFileAge': '36500d', 'path': 'in'})
    >>> reader_options("XML", {"rowTag": "r", "maxFileAge": "1d"})
    {'maxFileAge': '1d', 'dateFormat': 'yyyy-M-d', 'rowTag': 'r'}
    >>> told = reader_options("CSV", {"Header": "TRUE"})
    >>> told["enforceSchema"], told["escape"], told["enableDateTimeParsingFallback"]
    ('false', '"', 'false')
    """
    kind, lower = form.lower(), {name.lower(): value for name, value in said.items()}
    told = dict(_ANY_AGE) if kind in FILES else {}
    told |= WHOLE_TOPIC if kind == "kafka" else {}
    told |= WHOLE_TEXTS if kind == "json" else {}
    told |= text_options(kind, has_header=lower.get("header", "").lower() == "true") if kind in TEXT_FILES else {}
    return {**told, **said}


def options_at_rest(form: str, said: Mapping[str, str]) -> dict[str, str]:
    """The options with which a batch read gives everything that a source has, not only what is to come.

    >>> options_at_rest("kafka", {"subscribe": "t", "startingOffsets": "latest"})
    {'subscribe': 't'}
    >>> options_at_rest("delta", {"path": "in", "readChangeFeed": "true"})
    {'path': 'in'}
    """
    left_out = {name for name in said if name.lower().startswith("starting") and said[name].lower() == _LATEST}
    if is_whole_feed(form, said):
        left_out |= {name for name in said if name.lower() == _FEED}
    return {name: value for name, value in said.items() if name not in left_out}


def is_whole_feed(form: str, said: Mapping[str, str]) -> bool:
    """Whether a source is a table's change feed that begins with the table as it is at the first start.

    >>> is_whole_feed("delta", {"readChangeFeed": "true", "startingVersion": "3"})
    False
    """
    lower = {name.lower(): value.lower() for name, value in said.items()}
    begins = (lower.get(name, _LATEST) for name in ("startingversion", "startingtimestamp"))
    return form.lower() == DELTA and lower.get(_FEED) == "true" and set(begins) == {_LATEST}


def as_first_changes(table: DataFrame) -> DataFrame:
    """A table in the form of its change feed's first batch: each row is an insert."""
    told = {"_change_type": F.lit("insert"), "_commit_version": F.lit(0).cast("long")}
    return table.withColumns({**told, "_commit_timestamp": F.current_timestamp()})


def text_options(kind: str, *, has_header: bool) -> dict[str, str]:
    """The options for the values in CSV, JSON and XML files.

    In quoted CSV values a quote is doubled, as spreadsheets and databases write it (RFC 4180); Spark's default is a
    backslash before it. And a header must match the schema; by default Spark ignores it, and goes by position.

    Args:
        kind: The format, in lower case.
        has_header: Whether CSV files begin with the names of their columns.

    >>> text_options("xml", has_header=False)
    {'dateFormat': 'yyyy-M-d'}
    """
    of_csv = {**_NO_FORMER_RULES, "escape": '"', **({"enforceSchema": "false"} if has_header else {})}
    return {**_WHOLE_DAYS, **{"json": DAYS_IN_JSON, "csv": of_csv}.get(kind, {})}


def with_misfits(
    spark: SparkSession, form: str, said: Mapping[str, str], schema: str | StructType | None
) -> tuple[StructType | None, dict[str, str]]:
    """The schema and further options of a reader; for CSV, JSON and XML with the column :data:`MALFORMED`.

    Args:
        spark: The session.
        form: The format.
        said: Options of the source; if they decide what happens to records that cannot be read, nothing is added.
        schema: Its columns; None if Spark knows them.
    """
    if schema is None:
        return None, {}
    columns = cast(StructType, from_ddl(schema)) if isinstance(schema, str) else schema
    if not _puts_aside(form, said):
        return columns, {}
    if spark.conf.get(_CORRUPT) in columns.names:
        return columns, {}  # The user's own column for it.
    return _and_malformed(columns), {"columnNameOfCorruptRecord": MALFORMED}


def columns_read(form: str, said: Mapping[str, str], columns: StructType) -> StructType:
    """The columns that a file reader gives, if the session has Spark's defaults and no folder adds partition columns.

    Args:
        form: The format.
        said: Options of the source.
        columns: The columns of its schema.

    >>> columns_read("json", {}, StructType().add("n", StringType())).names
    ['n', '_malformed']
    """
    has_own = not _puts_aside(form, said) or _DEFAULT_CORRUPT in columns.names
    return columns if has_own else _and_malformed(columns)


def _puts_aside(form: str, said: Mapping[str, str]) -> bool:
    """Whether records that cannot be read go into our column :data:`MALFORMED`."""
    return form.lower() in TEXT_FILES and _OWN_WAYS.isdisjoint(name.lower() for name in said)


def _and_malformed(columns: StructType) -> StructType:
    fields = [field for field in columns.fields if field.name != MALFORMED]
    return StructType([*fields, StructField(MALFORMED, StringType())])


def told_of_misfits(frame: DataFrame, form: str) -> DataFrame:
    """A reader's rows; for XML with a fixed text in :data:`MALFORMED`, where Spark puts the whole file."""
    if form.lower() != "xml" or MALFORMED not in frame.columns:
        return frame
    return frame.withColumn(MALFORMED, F.when(F.col(MALFORMED).isNotNull(), F.lit(_IN_XML)))


def readable(rows: DataFrame) -> DataFrame:
    """The rows of a source that could be decoded, without the column for those that could not."""
    if MALFORMED not in rows.columns:
        return rows
    return rows.where(F.col(MALFORMED).isNull()).drop(MALFORMED)
