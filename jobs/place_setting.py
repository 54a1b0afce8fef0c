"""Folders and files in settings: they lie below the folder that a program is given, or where they say themselves."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import AfterValidator

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_place(value: str) -> str:
    """Refuse paths that climb out of their folder, and names that hide something.

    Raises:
        ValueError: saying what is not allowed.

    >>> check_place("tables/prices")
    'tables/prices'
    >>> check_place("tables/../../etc")
    Traceback (most recent call last):
    ValueError: a path does not climb with ".."; got "tables/../../etc"
    """
    if not value.strip():
        raise ValueError("a path is not empty")
    if _CONTROL.search(value):
        raise ValueError("a path has no control characters")
    if ".." in PurePosixPath(value).parts:
        raise ValueError(f'a path does not climb with ".."; got "{value}"')
    return value


#: A path: below the work folder, unless it is absolute.
Place = Annotated[str, AfterValidator(check_place)]
