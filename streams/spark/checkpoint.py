"""The one thing this library does to a Spark checkpoint: make room for sources that were added.

Spark keeps offsets by position, and refuses a query whose number of sources differs from its checkpoint's. Its newer
format keeps them by name, but in Spark 4.2.0 a query with that format can never be restarted once a batch was cut off
(docs/decisions/0005). So sources keep the order in which the application first had them, new ones come last, and
their place in the offset files is filled with Spark's own mark for "nothing read yet".
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlparse

from versioned.errors import CheckpointMismatchError

_HEADER_LINES: Final = 2
_NOTHING_READ: Final = "-"


def add_sources(checkpoint: str, sources: int) -> int:
    """Give every offset file of a checkpoint as many sources as the query now has.

    Args:
        checkpoint: The checkpoint folder; a query without one has nothing to do.
        sources: How many sources the query has, the tick included.

    Returns:
        How many files were changed.

    Raises:
        CheckpointMismatchError: the folder is not on a file system that this process can write.
    """
    url = urlparse(checkpoint)
    if url.scheme not in ("", "file"):
        raise CheckpointMismatchError(
            f"Sources were added, and the checkpoint {checkpoint} is not on a local file system: append one line "
            f'"{_NOTHING_READ}" per new source to each file in its folder "offsets", then start again.'
        )
    folder = Path(url.path) / "offsets"
    files = [file for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []
    return sum(_extend(file, sources) for file in files)


def _extend(file: Path, sources: int) -> bool:
    lines = file.read_text(encoding="utf-8").splitlines()
    missing = sources - (len(lines) - _HEADER_LINES)
    if missing <= 0:
        return False
    # Hadoop's checksum of the old content would make the file unreadable.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    changed = file.with_name(f".{file.name}.new")
    changed.write_text("\n".join([*lines, *[_NOTHING_READ] * missing]), encoding="utf-8")
    changed.replace(file)
    return True
