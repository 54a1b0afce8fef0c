"""Refuses sources that are the application's own tables: it would overwrite the user's rows or read its own output.

Paths and names are compared without a session. Where that is not enough, as with a path and the name of a catalog's
table, a start compares the locations of both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import SparkSession

from streams.spark.reader_options import DELTA
from streams.spark.sources import SparkSource
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.table_details import detail_of

_LOCAL: Final = re.compile(r"file:(//)?(?=/)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Repeated slashes, which mean the same as one; not those after a scheme.
_SLASHES: Final = re.compile(r"(?<![:/])/+")


def check_own_sources(sources: Mapping[str, SparkSource], owned: Iterable[TableRef]) -> None:
    """Refuse a source that is, by its path or name, a table of the application. No table is looked at.

    Args:
        sources: Topic -> source.
        owned: Every table of the application, including the rejects and the ledger.

    Raises:
        ConfigurationError: naming the source and the table, and what to do.
    """
    own = {_place(target): target for target in owned}
    for topic, source in sources.items():
        read = _read(source)
        if read is not None and _place(read) in own:
            raise _refused(topic, read, own[_place(read)])


def refuse_own_sources(
    spark: SparkSession, sources: Mapping[str, SparkSource], locations: Mapping[TableRef, str]
) -> None:
    """Refuse a source that is a table of the application under another name, because both have the same location.

    No Spark job runs, and a source is only looked at if paths and names cannot decide.

    Args:
        spark: The session.
        sources: Topic -> source.
        locations: The location of each existing table of the application, as Spark reports it.

    Raises:
        ConfigurationError: as :func:`check_own_sources`.
    """
    own = {_normal(location): target for target, location in locations.items() if location}
    for topic, source in sources.items():
        read = _read(source)
        if read is None or source.format.lower() != DELTA or not any(_may_be(read, target) for target in own.values()):
            continue
        target = own.get(_location(spark, read))
        if target is not None:
            raise _refused(topic, read, target)


def _read(source: SparkSource) -> TableRef | None:
    """The table or folder that a source reads; None if it reads neither, for example a Kafka topic."""
    if source.table is not None:
        return TableRef.parse(source.table)
    path = next((said for name, said in source.options.items() if name.lower() == "path"), None)
    return None if path is None else TableRef(path=str(path))


def _place(target: TableRef) -> str | tuple[str, ...]:
    # To a catalog, names that differ only by case are the same.
    return tuple(part.lower() for part in target.parts) if target.path is None else _normal(target.path)


def _normal(path: str) -> str:
    """The normal form of a path, whichever way it is written.

    >>> [_normal(path) for path in ("file:///data/t/", "/data//x/../t", "s3a://b//t/")]
    ['/data/t', '/data/t', 's3a://b/t']
    """
    local = _LOCAL.sub("", path)
    if _SCHEME.match(local):
        return _SLASHES.sub("/", local).rstrip("/")
    try:
        return os.path.realpath(local)
    except ValueError:  # No valid path; reading it will fail with an error.
        return local


def _may_be(read: TableRef, target: TableRef) -> bool:
    """Whether two references may be the same table although they differ; two paths of one file system are not."""
    if read.path is None or target.path is None:
        return True
    return _scheme(read.path) != _scheme(target.path)


def _scheme(path: str) -> str:
    found = _SCHEME.match(_normal(path))
    return "" if found is None else found[0].lower()


def _location(spark: SparkSession, target: TableRef) -> str:
    """The location of a table; empty if it has none, like a view: any fault shows when it is read."""
    try:
        detail = detail_of(spark, target)
    except Exception:  # of any kind: only the application's own tables are refused here
        return ""
    return "" if detail is None or not detail["location"] else _normal(detail["location"])


def _refused(topic: str, read: TableRef, target: TableRef) -> ConfigurationError:
    which = "a table" if str(read) == str(target) else f"the table {target}"
    return ConfigurationError(
        f'Source "{topic}" reads {read}, which is {which} of the application itself: it would write into its own '
        "input. Give the application another root, or the step (its store, where that is named) another name. What it "
        "writes itself another application may read."
    )
