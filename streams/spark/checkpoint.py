"""Reads a Spark checkpoint, and makes the library's only change to one: room for sources that were added.

Spark stores offsets by position, and refuses a query whose number of sources differs from its checkpoint's. Its newer
format stores them by name, but in Spark 4.2.0 a query with that format cannot be restarted once a batch was cut off
(docs/decisions/0005). So sources keep the order in which the application first had them, new ones come last, and their
lines in the offset files are filled with Spark's own mark for "nothing read yet".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, is_remote

from streams.recovery_rules import CheckpointFacts
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef

#: The version line of offsets by position.
_VERSION: Final = "v1"
_HEADER_LINES: Final = 2
_NOTHING_READ: Final = "-"
#: A location as Hadoop reads it: scheme, host and path. Unlike in a URL, "?", "#", ";" and "%" belong to the path.
_PLACE: Final = re.compile(r"(?:([^/:]*):)?(?://[^/]*)?(.*)", re.DOTALL)


def default_checkpoint(root: TableRef) -> str:
    """The default checkpoint folder of an application.

    Args:
        root: The folder that contains its tables.

    Raises:
        ConfigurationError: the root is a catalog name.
    """
    if root.path is None:
        raise ConfigurationError('With a catalog name as root, say where the checkpoint lies: checkpoint="<folder>".')
    return f"{root.path.rstrip('/')}/_checkpoint"


def add_sources(spark: SparkSession, checkpoint: str, sources: int) -> int:
    """Extend every offset file of a checkpoint to the number of sources that the query now has.

    Args:
        spark: The session; used where the folder is not on a local file system.
        checkpoint: The checkpoint folder; nothing is done if there is none.
        sources: How many sources the query has, the tick included.

    Returns:
        How many files were changed.

    Raises:
        CheckpointMismatchError: sources were added, and the folder is not on a local file system.
    """
    folder = local_folder(checkpoint)
    if folder is None:
        _refuse_short(checkpoint, read_by_spark(spark, checkpoint), sources)
        return 0
    files = [file for file in (folder / "offsets").glob("*") if file.name.isdigit()]
    return sum(_extend(file, sources) for file in files)


def read_checkpoint(spark: SparkSession, checkpoint: str, sources: int = 0) -> CheckpointFacts:
    """The facts that a checkpoint folder holds; nothing is changed.

    Args:
        spark: The session; used where the folder is not on a local file system.
        checkpoint: The folder; it need not exist.
        sources: How many sources the query had at its last start, the tick included; 0 = not known.
    """
    return facts_of(checkpoint, files_of(spark, checkpoint), sources)


def files_of(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """The files of a checkpoint by name, as :func:`facts_of` takes them."""
    folder = local_folder(checkpoint)
    return read_by_spark(spark, checkpoint) if folder is None else read_local(folder)


def facts_of(checkpoint: str, files: Mapping[str, str], sources: int = 0) -> CheckpointFacts:
    """The facts in a checkpoint's files: ``metadata``, ``offsets/<batch>`` and ``commits/<batch>``, with their text.

    >>> facts_of("/c", {"metadata": '{"id": "q"}', "offsets/0": 'v1\\n{}\\n7'}).offset
    0
    """
    offset, commit = _newest(files, "offsets"), _newest(files, "commits")
    query, damage = None, None
    try:
        query = str(json.loads(files["metadata"])["id"]) if "metadata" in files else None
    except (ValueError, KeyError, TypeError):
        damage = 'its file "metadata" is no JSON with an id'
    if query is None and damage is None and offset >= 0:
        damage = 'its file "metadata" is gone'
    if offset >= 0 and damage is None:
        damage = _damage(f"offsets/{offset}", files, _HEADER_LINES + max(sources, 1))
    if commit >= 0 and damage is None:
        damage = _damage(f"commits/{commit}", files, _HEADER_LINES)
    return CheckpointFacts(checkpoint, query, offset, commit, damage)


def read_by_spark(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """The files of a checkpoint on any file system that Spark can read, by their relative names.

    A running query deletes its oldest files: one that disappears after it was listed is left out.
    """
    found: dict[str, str] = {}
    for name in ("metadata", "offsets", "commits"):
        try:
            reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
            frame = reader.load(f"{checkpoint.rstrip('/')}/{name}")
            rows = frame.select("path", "content").collect()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            continue
        for row in rows:
            number = row["path"].rsplit("/", 1)[-1]
            found[name if name == "metadata" else f"{name}/{number}"] = _text(bytes(row["content"]))
    return found


def read_local(folder: Path) -> dict[str, str]:
    """As :func:`read_by_spark`, for a folder on this machine."""
    found: dict[str, str] = {}
    for file in (folder / "metadata", *(folder / "offsets").glob("*"), *(folder / "commits").glob("*")):
        # A running query deletes its oldest files, and renames new ones into place.
        with suppress(FileNotFoundError):
            if file.is_file():
                found[str(file.relative_to(folder))] = _text(file.read_bytes())
    return found


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def local_folder(checkpoint: str) -> Path | None:
    """The folder of a checkpoint on this machine; None where only Spark may reach it.

    A path without a scheme belongs to Spark's default file system, which need not be this machine's: it counts as local
    if there is such a folder here.
    """
    folder = local_path(checkpoint)
    is_here = folder is not None and (checkpoint.startswith("file:") or folder.is_dir())
    return folder if is_here else None


def local_path(checkpoint: str) -> Path | None:
    """As :func:`local_folder`, for a folder that need not exist yet.

    >>> [str(local_path(place)) for place in ("file:///a/b#1", "/a/b?;c%20d", "s3://bucket/a")]
    ['/a/b#1', '/a/b?;c%20d', 'None']
    """
    read = _PLACE.fullmatch(checkpoint)
    assert read is not None
    # A client of Spark Connect need not share the server's file system.
    return None if is_remote() or read[1] not in (None, "file") else Path(read[2])


def _newest(files: Mapping[str, str], folder: str) -> int:
    numbers = [name.removeprefix(f"{folder}/") for name in files if name.startswith(f"{folder}/")]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def _damage(name: str, files: Mapping[str, str], least: int) -> str | None:
    """What is wrong with a log file, if anything. It must have a version line, then lines of JSON, ``least`` in all."""
    version, *lines = files[name].splitlines() or [""]
    if not version.startswith("v"):
        return f'its file "{name}" is empty or starts with no version'
    if name.startswith("offsets/") and version != _VERSION:
        return (
            f'its file "{name}" is in version {version[1:]} of Spark\'s offset log. Applications use version 1, and '
            "Spark keeps the version that a checkpoint has"
        )
    if len(lines) + 1 < least:
        return f'its file "{name}" has {len(lines) + 1} lines of at least {least}'
    cut = [number for number, line in enumerate(lines, 2) if line != _NOTHING_READ and not _is_json(line)]
    return f'line {cut[0]} of its file "{name}" is cut off' if cut else None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _refuse_short(checkpoint: str, files: Mapping[str, str], sources: int) -> None:
    short = {
        name: missing
        for name, text in files.items()
        if name.startswith("offsets/") and (missing := _missing(text, sources)) > 0
    }
    if short:
        raise CheckpointMismatchError(
            f"Sources were added, and the checkpoint {checkpoint} is not on a local file system: append "
            f'{max(short.values())} lines "{_NOTHING_READ}" to each of its files {sorted(short)}, then start again.'
        )


def _missing(text: str, sources: int) -> int:
    """How many sources an offset file lacks."""
    return sources - (len(text.splitlines()) - _HEADER_LINES)


def _extend(file: Path, sources: int) -> bool:
    text = file.read_text(encoding="utf-8")
    lines, missing = text.splitlines(), _missing(text, sources)
    if missing <= 0:
        return False
    # With Hadoop's checksum of the old content the file would be unreadable.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    changed = file.with_name(f".{file.name}.new")
    changed.write_text("\n".join([*lines, *[_NOTHING_READ] * missing]), encoding="utf-8")
    changed.replace(file)
    return True
