"""Texts that Spark's casts complete by the clock: of a time without its day they make an instant of today."""

from __future__ import annotations

from typing import Final

#: The beginning of such a text, for Python's regular expressions and Spark's. In front Spark leaves blanks out.
TIME_ALONE: Final = r"[\x00-\x20\x7f]*([0-9]{1,2}:|T[0-9]{1,2}(?![0-9]))"
