"""Settings of ``versioned validate``."""

from __future__ import annotations

from pydantic import Field

from jobs.named_tables import NamedTables
from jobs.place_setting import LocalPlace
from jobs.strict import Number


class ValidateSettings(NamedTables):
    """What to judge, and where to tell it."""

    docs: LocalPlace = Field(description="Folder of the pages that tell what was found, below the work folder.")
    job: str | None = Field(
        default=None,
        description="Settings of an application, beside this file: the rules of its sources are judged too, over "
        "everything that the sources have.",
    )
    examples: Number = Field(
        default=0, ge=0, description="How many of the values that break a rule the pages show. They are data."
    )
