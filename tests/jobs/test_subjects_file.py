"""A file of subjects is read as spreadsheets write it, and no other file for it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from jobs.subjects_file import subjects_in
from versioned.errors import ConfigurationError, RecordError

_NAMES = ['O"Brien', 'Ann "Bo" Lee', "back\\slash", "Smith, John", "two\nlines", " padded ", "café"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_what_a_writer_of_csv_writes_is_read_again(tmp_path: Path, encoding: str, ends: str) -> None:
    file = tmp_path / "subjects.csv"
    with file.open("w", encoding=encoding, newline="") as text:
        csv.writer(text, lineterminator=ends).writerows([["customer"], *([name] for name in _NAMES)])
    assert subjects_in(file) == (["customer"], [(name,) for name in _NAMES])


def test_an_empty_field_is_null_and_a_line_without_any_is_nobody(tmp_path: Path) -> None:
    file = tmp_path / "subjects.csv"
    file.write_text('customer,city\nann,\n,Oslo\n\n,\n"",""\n', encoding="utf-8")
    assert subjects_in(file)[1] == [("ann", None), (None, "Oslo")]


@pytest.mark.parametrize("name", ["subjects[1].csv", "_subjects.csv", "a b*{x,y}?.csv"])
def test_the_file_that_is_named_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "subjects1.csv").write_text("customer\nJones\n", encoding="utf-8")
    (tmp_path / name).write_text("customer\nSmith\n", encoding="utf-8")
    assert subjects_in(tmp_path / name)[1] == [("Smith",)]


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b"", ConfigurationError, "there is no subject"),
        (b"customer\n", ConfigurationError, "there is no subject"),
        (b'customer\n""\n', ConfigurationError, "there is no subject"),
        (b"customer,Customer\nann,bob\n", ConfigurationError, "a name of its own"),
        (b"customer,\nann,bob\n", ConfigurationError, "a name of its own"),
        (b"customer\nann\nbob,x\n", RecordError, "line 3 has not the fields of the header"),
        (b'customer\n"ann\n', RecordError, "no CSV"),
        (b'customer\n"ann"x\n', RecordError, "after line 2 is no CSV"),
        (b"customer\ncaf\xe9\n", RecordError, "no CSV in UTF-8"),
    ],
)
def test_a_file_that_names_nobody_or_is_no_csv_is_refused_without_its_values(
    tmp_path: Path, content: bytes, kind: type[Exception], told: str
) -> None:
    file = tmp_path / "subjects.csv"
    file.write_bytes(content)
    with pytest.raises(kind, match=told) as refused:
        subjects_in(file)
    assert "ann" not in str(refused.value)
