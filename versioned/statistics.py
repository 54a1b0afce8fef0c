"""Tables without statistics for some columns, so that Delta's log never contains their values.

Delta keeps the minimum and maximum of a column for each file: in the commits, in their checksums and in the log's
checkpoints, which a vacuum never cleans. If a value must be gone for good once its rows are (``erase``), its column
must have had no statistics from the first row on. The price: such a column cannot be used to skip files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from versioned.errors import ConfigurationError
from versioned.given import no_such, texts_of
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.sql_types import kinds_in
from versioned.table_details import detail_there, set_properties
from versioned.table_log import history

#: The table property with the columns that have no statistics: name -> whether from the first row on.
HIDDEN: Final = "versioned.piiColumns"
_COLUMNS: Final = "delta.dataSkippingStatsColumns"
_NUMBER: Final = "delta.dataSkippingNumIndexedCols"
#: A new table has at most two commits: its making and, if an earlier making was cut off, the log's first one before it.
_COMMITS_OF_NEW: Final = 2
#: As many columns as Delta itself keeps statistics of.
_MOST: Final = 32
_WITH_BOUNDS: Final = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)


def statistics_properties(
    schema: StructType, hidden: Collection[str], partitioned_by: Collection[str], indexed: Collection[str] | None
) -> dict[str, str]:
    """The table properties that keep columns out of the statistics; empty if no column is kept out.

    Args:
        schema: The table's columns.
        hidden: Names of columns and of fields in them, ignoring case; what is nested in them is hidden too.
        partitioned_by: Columns that partition the table.
        indexed: The columns that have statistics unless hidden, in order of priority; None = the first ones, as Delta
            does.

    >>> from pyspark.sql.types import LongType
    >>> columns = StructType().add("name", StringType()).add("n", LongType()).add("of", LongType())
    >>> statistics_properties(columns, ["name"], (), None)
    {'delta.dataSkippingStatsColumns': '`n`,`of`'}
    >>> statistics_properties(columns, ["name"], (), ["of", "name", "n"])
    {'delta.dataSkippingStatsColumns': '`of`,`n`'}
    """
    if not hidden and indexed is None:
        return {}
    lower = {name.lower() for name in hidden}
    wanted = list(schema.names if indexed is None else indexed)
    there = [(path, top) for path, top in _paths(schema, lower) if top in wanted and top not in partitioned_by]
    paths = [path for path, _ in sorted(there, key=lambda each: wanted.index(each[1]))]
    return {_COLUMNS: ",".join(paths[:_MOST])} if paths else {_NUMBER: "0"}


def statistics_from_start(
    schema: StructType, hidden: Collection[str], partitioned_by: Collection[str], indexed: Collection[str] | None
) -> dict[str, str]:
    """The properties of a new table that say which columns have statistics, and which never have any.

    Args:
        schema: The table's columns.
        hidden: As for :func:`statistics_properties`.
        partitioned_by: Columns that partition the table.
        indexed: As for :func:`statistics_properties`.

    >>> from pyspark.sql.types import LongType
    >>> statistics_from_start(StructType().add("name", StringType()).add("n", LongType()), ["name"], (), None)
    {'delta.dataSkippingStatsColumns': '`n`', 'versioned.piiColumns': '{"name": true}'}
    """
    told = statistics_properties(schema, hidden, partitioned_by, indexed)
    said = dict.fromkeys(sorted(hidden), True)
    return told | ({HIDDEN: json.dumps(said)} if hidden else {})


def indexed_first(schema: StructType, first: Collection[str]) -> list[str] | None:
    """The columns in order of priority for statistics, if there are too many for all of them to have some.

    Args:
        schema: The table's columns.
        first: The columns that must have statistics.

    Returns:
        None if Delta's own choice, the first 32 columns and fields, includes them all.

    >>> from pyspark.sql.types import LongType, StructField
    >>> wide = StructType([StructField(f"c{n}", LongType()) for n in range(40)])
    >>> indexed_first(wide, ["c39"])[:2], indexed_first(StructType(wide.fields[:32]), ["c31"])
    (['c39', 'c0'], None)
    """
    if not first or _leaves(schema) <= _MOST:
        return None
    return [*first, *(name for name in schema.names if name not in first)]


def hidden_names(names: Iterable[str]) -> frozenset[str]:
    """A set of column names; a single text is one name, not its letters.

    >>> sorted(hidden_names("email")), sorted(hidden_names(["email", "name"]))
    (['email'], ['email', 'name'])
    """
    return frozenset(texts_of("pii_columns", names, 'names of columns, such as ("email", "name")'))


def names_in(kind: DataType) -> Iterator[str]:
    """The names of the columns of a schema, and of the fields in them, at any depth.

    >>> list(names_in(StructType().add("who", ArrayType(StructType().add("name", StringType())))))
    ['who', 'name']
    """
    return (name for inner in kinds_in(kind) if isinstance(inner, StructType) for name in inner.names)


def check_hidden(hidden: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name to be hidden that no column or field has, ignoring case: it would hide nothing.

    Raises:
        ConfigurationError: names the column that was probably meant, and all known ones.

    >>> check_hidden(["emial"], ["Email"])
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: pii_columns: there is no column "emial"; did you mean "Email"? There are: Email
    """
    lower = {name.lower() for name in known}
    for name in sorted(hidden):
        if name.lower() not in lower:
            raise ConfigurationError(f"pii_columns: {no_such('column', name, known)}")


def hide(session: SparkSession, target: TableRef, hidden: Collection[str]) -> bool:
    """Keep columns of a table out of its statistics from now on, in one commit; False if they are hidden already.

    Args:
        session: The session.
        target: The table; best while it has no rows, since its log keeps what it already holds.
        hidden: Names of columns and of fields in them. Names that the table does not have make no difference.
    """
    detail = detail_there(session, target)
    before = _kept(detail["properties"])
    if not set(hidden) - set(before):
        return False
    is_new = len(history(session, target, _COMMITS_OF_NEW + 1)) <= _COMMITS_OF_NEW
    is_new = is_new and read_table(session, target).isEmpty()
    schema, had = read_table(session, target).schema, _indexed(detail["properties"])
    # A column that is added later has none either: from now on the columns with statistics are listed.
    there = {name.lower() for name in names_in(schema)}
    said = {name: is_new or name.lower() not in there for name in hidden} | before
    properties = statistics_properties(schema, said, detail["partitionColumns"], had) | {HIDDEN: json.dumps(said)}
    set_properties(session, target, properties)
    return True


def always_hidden(properties: Mapping[str, str]) -> frozenset[str]:
    """The columns of a table that never had statistics, by its properties."""
    return frozenset(name for name, from_the_start in _kept(properties).items() if from_the_start)


def hidden_columns(properties: Mapping[str, str]) -> frozenset[str]:
    """The columns of a table that get no statistics now, by its properties; they may have had some before."""
    return frozenset(_kept(properties))


def hides_any(properties: Mapping[str, str], columns: StructType) -> bool:
    """Whether a table hides one of these columns or a field in one, by its properties.

    >>> columns = StructType().add("who", ArrayType(StructType().add("Name", StringType())))
    >>> hides_any({"versioned.piiColumns": '{"name": true}'}, columns), hides_any({}, columns)
    (True, False)
    """
    return _holds_any(columns, {name.lower() for name in _kept(properties)})


def _holds_any(kind: DataType, hidden: Set[str]) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_any(kind.elementType, hidden)
    fields = kind.fields if isinstance(kind, StructType) else []
    return any(field.name.lower() in hidden or _holds_any(field.dataType, hidden) for field in fields)


def _kept(properties: Mapping[str, str]) -> dict[str, bool]:
    said: dict[str, bool] = json.loads(properties.get(HIDDEN, "{}"))
    return said


def _indexed(properties: Mapping[str, str]) -> dict[str, None] | None:
    """The columns that have statistics by a table's properties, in order; None = Delta's own choice."""
    told = properties.get(_COLUMNS)
    # The first name of each path; a name with a comma or a dot in it merely loses its statistics.
    return None if told is None else dict.fromkeys(path.split(".")[0].strip("`") for path in told.split(","))


def _leaves(kind: DataType) -> int:
    return sum(_leaves(field.dataType) for field in kind.fields) if isinstance(kind, StructType) else 1


def _paths(kind: StructType, hidden: set[str], above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The quoted paths of columns and fields that have bounds and are not hidden, each with its top-level column."""
    for field in kind.fields:
        here = (*above, field.name)
        if field.name.lower() in hidden:
            continue
        if isinstance(field.dataType, StructType):
            yield from _paths(field.dataType, hidden, here)
        elif isinstance(field.dataType, _WITH_BOUNDS):
            yield ".".join(map(quote, here)), here[0]
