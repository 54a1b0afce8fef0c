"""Settings of ``versioned maintain``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import Field, field_validator

from jobs.named_tables import NamedTables
from jobs.strict import DurationSetting, Flag
from versioned.upkeep import LEAST_FILE_RETENTION

_LEAST_PAUSE: Final = timedelta(milliseconds=1)


class MaintainSettings(NamedTables):
    """Which tables to maintain, and how."""

    verify: Flag = Field(default=True, description="Check the invariants of versioned tables.")
    purge: Flag = Field(default=True, description="Delete expired versions, and windows beyond an explicit retention.")
    optimize: Flag = Field(
        default=True,
        description="Compact the closed history of versioned tables, and the small files of other tables once there "
        "are many.",
    )
    vacuum: Flag = Field(default=False, description="Remove files that no table version within `retain` needs.")
    retain: DurationSetting | None = Field(
        default=None, description="How far back to keep files for `vacuum`; at least 7 days, which is the default."
    )
    every: DurationSetting | None = Field(
        default=None, description="Repeat with this pause, next to a running stream, until stopped with Ctrl-C."
    )

    @field_validator("retain")
    @classmethod
    def _is_long_enough(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < LEAST_FILE_RETENTION:
            days = LEAST_FILE_RETENTION.days
            raise ValueError(f"give at least {days} days: readers, replays and time travel need older files")
        return value

    @field_validator("every")
    @classmethod
    def _is_a_pause(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < _LEAST_PAUSE:
            raise ValueError('give a pause such as "10 minutes", at least 1 millisecond')
        return value
