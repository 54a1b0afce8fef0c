"""Settings of ``versioned validate``."""

from __future__ import annotations

from pydantic import Field

from jobs.place_setting import LocalPlace
from jobs.strict import Names, Number, Strict


class ValidateSettings(Strict):
    """What to judge, and where to tell it."""

    root: LocalPlace | None = Field(
        default=None, description="Folder of the tables, below the work folder; needed unless all are of a catalog."
    )
    docs: LocalPlace = Field(description="Folder of the pages that tell what was found, below the work folder.")
    tables: Names = Field(
        default=(),
        description="Names of tables; all below `root` if none are given. One with a dot is that of a catalog: "
        "`sales.prices`.",
    )
    job: str | None = Field(
        default=None,
        description="Settings of an application, beside this file: the rules of its sources are judged too, over "
        "everything that the sources have.",
    )
    examples: Number = Field(
        default=0, ge=0, description="How many of the values that break a rule the pages show. They are data."
    )
