"""Folders and files in settings: below the program's work folder, unless they are absolute or have a scheme.

What Spark reads and writes may have a scheme, ``s3a://bucket/tables``; what a program itself looks into may not.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from pydantic import AfterValidator

from streams.spark.reader_options import FILES
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

#: The prefix of a root that is a schema of a catalog. Dots do not identify one: a folder's name may have them too.
_CATALOG: Final = "catalog:"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
#: Characters that Spark reads as a pattern in the path of a reader.
_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")
#: A scheme, with a slash after it: the name of a folder below the work folder may have a colon.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
#: Two slashes are followed by a host name, which paths in Hadoop's local file system do not have.
_OF_A_MACHINE: Final = re.compile(r"file://[^/]", re.IGNORECASE)


def check_place(value: str) -> str:
    """Refuse paths that are empty, climb out of their folder, contain control characters, or name a host.

    Raises:
        ValueError: saying what is not allowed.

    >>> check_place("tables/prices")
    'tables/prices'
    >>> check_place("tables/../../etc")
    Traceback (most recent call last):
    ValueError: a path does not climb with ".."; got "tables/../../etc"
    >>> check_place("file:///data/tables")
    'file:///data/tables'
    """
    if not value.strip():
        raise ValueError("a path is not empty")
    if _CONTROL.search(value):
        raise ValueError("a path has no control characters")
    if ".." in PurePosixPath(value).parts:
        raise ValueError(f'a path does not climb with ".."; got "{value}"')
    if _OF_A_MACHINE.match(value):
        raise ValueError(f'three slashes stand behind "file:", and then the whole path; got "{value}"')
    return value


def has_scheme(place: str) -> bool:
    """Whether a place names its file system, and so is to be used as it is.

    >>> has_scheme("s3a://bucket/prices"), has_scheme("dbfs:/mnt/prices"), has_scheme("/data/prices")
    (True, True, False)
    """
    return _SCHEME.match(place) is not None


def below(work: Path, place: str) -> str:
    """A place in the form for Spark: below the work folder, unless it is absolute or has a scheme.

    >>> below(Path("flights"), "tables"), below(Path("flights"), "s3a://bucket/tables")
    ('flights/tables', 's3a://bucket/tables')
    """
    return place if has_scheme(place) else str(work / place)


def catalog_schema_of(root: str) -> TableRef | None:
    """The schema of a catalog that a root names, as by :func:`of_catalog`; None if it is a folder or an address."""
    return of_catalog(root, "a schema, such as main.shop")


def of_catalog(place: str, meant: str) -> TableRef | None:
    """The table or schema that a place names in a catalog; None if it is a folder or an address.

    Args:
        place: The place; a name in a catalog begins with ``catalog:``.
        meant: What it may name there, with an example; for the error message.

    Raises:
        ConfigurationError: what follows ``catalog:`` is not a name.

    >>> of_catalog("catalog:main.shop", "a schema"), of_catalog("main.shop", "a schema")
    (TableRef(path=None, parts=('main', 'shop')), None)
    """
    if not place.startswith(_CATALOG):
        return None
    name = place.removeprefix(_CATALOG)
    if "/" in name:
        raise ConfigurationError(f'behind "{_CATALOG}" stands the name of {meant}; got "{name}"')
    return TableRef.parse(name)


def check_root(value: str) -> str:
    """As :func:`check_place`, for a root, which may also be a schema of a catalog."""
    return check_place(value) if catalog_schema_of(value) is None else value


def root_of(work: Path, root: str) -> str:
    """A root in the form for an application: the name of a schema, or a place as for :func:`below`.

    >>> root_of(Path("flights"), "catalog:main.shop"), root_of(Path("flights"), "main.shop")
    ('main.shop', 'flights/main.shop')
    """
    schema = catalog_schema_of(root)
    return below(work, root) if schema is None else str(schema)


def to_read(work: Path, place: str, form: str) -> str:
    """A place, as for :func:`below`, for Spark's reader of a format.

    Readers of files treat a path as a pattern. The path of an existing file or folder is escaped, so that it means just
    that.

    >>> to_read(Path("none"), "orders [1]", "json"), to_read(Path("none"), "s3a://bucket/2026-*", "json")
    ('none/orders [1]', 's3a://bucket/2026-*')
    """
    path = below(work, place)
    is_meant = form.lower() in FILES and not has_scheme(path) and Path(path).exists()
    return _PATTERN.sub(r"\\\g<0>", path) if is_meant else path


def check_local(value: str) -> str:
    """Refuse a place with a scheme, for files that a program opens itself.

    Raises:
        ValueError: it has one.
    """
    if has_scheme(value):
        raise ValueError(f'this is a folder or file of this machine, without a scheme; got "{value}"')
    return value


def work_folder(work: Path) -> Path:
    """The work folder, which must be on this machine; addresses of object stores go into the settings.

    Raises:
        ConfigurationError: it has a scheme.
    """
    if has_scheme(str(work)):
        # Do not quote the address itself: the path has one slash where it had two.
        scheme = str(work).partition(":")[0]
        raise ConfigurationError(
            f'--work begins with "{scheme}:", and the work folder is one of this machine, without a scheme. Addresses '
            "of other file systems go into the settings: root, checkpoint and the path of a source."
        )
    return work


def check_writable(option: str, place: Path, *, is_folder: bool = False) -> None:
    """Refuse a file, or a folder, that cannot be written, before the work whose result is to go there.

    Raises:
        ConfigurationError: it is a folder and not a file, or the reverse; or it, or if it does not exist the nearest
            folder above it, may not be written.
    """
    try:
        there = next(up for up in (place, *place.absolute().parents) if up.exists())
        if there.is_dir() != (is_folder or there != place):
            wrong = f"{there} is {'a' if there.is_dir() else 'no'} folder"
        elif os.access(there, os.W_OK):
            return
        else:
            wrong = f"{there} may not be written"
    except OSError as error:
        wrong = str(error.strerror)
    raise ConfigurationError(f"{option} {place}: {wrong}. Name another one.")


#: A path: below the work folder, unless it is absolute or has a scheme.
Place = Annotated[str, AfterValidator(check_place)]
#: A path as for :data:`Place`, or ``catalog:`` and the name of a schema.
Root = Annotated[str, AfterValidator(check_root)]
#: A path on this machine: below the work folder, unless it is absolute.
LocalPlace = Annotated[Place, AfterValidator(check_local)]
