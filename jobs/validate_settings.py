"""Settings of ``versioned validate``."""

from __future__ import annotations

from pydantic import Field

from jobs.named_tables import NamedTables
from jobs.place_setting import LocalPlace
from jobs.strict import Number


class ValidateSettings(NamedTables):
    """Which tables and sources to validate, and where to write the results."""

    docs: LocalPlace = Field(description="Folder for the result pages, below the work folder.")
    job: str | None = Field(
        default=None,
        description="Settings file of an application, next to this file: the rules of its sources are checked as "
        "well, against everything that the sources hold.",
    )
    examples: Number = Field(
        default=0, ge=0, description="How many values that break a rule the pages show. These are values from the data."
    )
