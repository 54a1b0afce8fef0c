"""A file of data subjects to erase: CSV with a header.

It is read here and not by Spark, which treats the name of a file as a pattern, does not know doubled quotes, and skips
files whose names begin with ``_``.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from versioned.errors import ConfigurationError, RecordError
from versioned.identifiers import named_twice

Subject = tuple[str | None, ...]
#: The names of columns, and the values of each subject.
Given = tuple[list[str], list[Subject]]
_DONE: Final = "Nothing was removed. Mend the file."


def subjects_in(file: Path) -> Given:
    """The columns and the subjects of a file; an empty field is null, and lines without any value are left out.

    A field in quotes may contain commas, line ends and doubled quotes, as spreadsheets write them (RFC 4180).

    Raises:
        ConfigurationError: there is no subject (a receipt for nobody would look like that of a subject who is gone); or
            a column has no name, or the same name as another.
        RecordError: a line does not fit the header, or the file is not CSV in UTF-8; the message has no values.
    """
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            lines = [(reader.line_num, line) for line in reader if line]
        except (csv.Error, UnicodeDecodeError):
            raise RecordError(
                f"--keys {file}: what comes after line {reader.line_num} is no CSV in UTF-8. {_DONE}"
            ) from None
    columns = lines[0][1] if lines else []
    _check_columns(file, columns)
    wrong = next((number for number, line in lines if len(line) != len(columns)), None)
    if wrong is not None:
        raise RecordError(f"--keys {file}: line {wrong} has not the fields of the header. {_DONE}")
    subjects = [tuple(value or None for value in line) for _, line in lines[1:] if any(line)]
    if not subjects:
        raise ConfigurationError(f"--keys {file}: there is no subject in it. Write one a line, below a header.")
    return columns, subjects


def _check_columns(file: Path, columns: list[str]) -> None:
    twice = named_twice(columns)
    if columns and (twice or not all(name.strip() for name in columns)):
        raise ConfigurationError(f"--keys {file}: the header does not give each column a name of its own.")
