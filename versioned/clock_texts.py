"""Texts that Spark's casts complete with the current date: a time without a day becomes an instant of today."""

from __future__ import annotations

from typing import Final

#: The beginning of such a text, as a regular expression for Python and for Spark, which ignores leading blanks.
TIME_ALONE: Final = r"[\x00-\x20\x7f]*([0-9]{1,2}:|T[0-9]{1,2}(?![0-9]))"
