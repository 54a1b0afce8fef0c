"""Settings of a job, from a YAML file: typed, and refused with the path of what is wrong.

>>> parse({"application": "a", "plan": "jobs.quickstart_plan:build", "root": "tables", "sources": {}, "tigger": 1})
Traceback (most recent call last):
versioned.errors.ConfigurationError: tigger: unknown key; did you mean "trigger"? Allowed here: application, ...
"""

from __future__ import annotations

import difflib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from versioned.durations import duration, duration_us
from versioned.errors import ConfigurationError

_MAX_BYTES = 1 << 20


def _to_duration(value: Any) -> timedelta:
    if not isinstance(value, (str, timedelta)):
        raise ValueError('a duration is text such as "10 minutes"')
    return duration(value)


DurationSetting = Annotated[timedelta, BeforeValidator(_to_duration)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceSettings(_Strict):
    """Where a topic's records come from: any Spark streaming source."""

    format: str
    path: str | None = None
    schema_ddl: str | None = Field(default=None, alias="schema")
    options: dict[str, str] = Field(default_factory=dict)
    partition_by: str | None = None
    sequence_by: str | None = None


class JobSettings(_Strict):
    """One streaming application.

    ``plan`` names the function that builds the topology, ``module:function``, in the package ``jobs``;
    ``plan_settings`` are its arguments, durations as people write them.
    """

    application: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")
    plan: str = Field(pattern=r"^jobs\.[a-z_.]+:[a-z_]+$")
    plan_settings: dict[str, DurationSetting] = Field(default_factory=dict)
    root: str
    sources: dict[str, SourceSettings] = Field(min_length=1)
    trigger: str = "available_now"
    order: Literal["arrival", "sequence"] = "arrival"
    max_future_skew: DurationSetting = timedelta(days=1)

    @field_validator("trigger")
    @classmethod
    def _is_trigger(cls, value: str) -> str:
        if value != "available_now" and duration_us(value) <= 0:
            raise ValueError('write "available_now" or an interval such as "10 seconds"')
        return value


def load(path: Path) -> JobSettings:
    """Read a settings file.

    Raises:
        ConfigurationError: the file is missing, too large, no YAML, or a key or value is wrong; names its path.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file.")
    if path.stat().st_size > _MAX_BYTES:
        raise ConfigurationError(
            f"{path}: {path.stat().st_size} bytes is too large for settings (at most {_MAX_BYTES})."
        )
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(said, dict):
        raise ConfigurationError(f"{path}: settings are a mapping of keys, not {type(said).__name__}.")
    return parse(said)


def parse(said: dict[str, Any]) -> JobSettings:
    """Settings from a mapping.

    Raises:
        ConfigurationError: as in :func:`load`.
    """
    try:
        return JobSettings.model_validate(said)
    except ValidationError as error:
        raise ConfigurationError("; ".join(_told(detail) for detail in error.errors())) from None
    except RecursionError:
        raise ConfigurationError("The settings are nested too deeply.") from None


def _told(detail: Any) -> str:
    where = ".".join(map(str, detail["loc"]))
    if detail["type"] != "extra_forbidden":
        return f"{where}: {detail['msg']}"
    allowed = _allowed(detail["loc"][:-1])
    near = difflib.get_close_matches(str(detail["loc"][-1]), allowed, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    return f"{where}: unknown key{hint} Allowed here: {', '.join(allowed)}"


def _allowed(path: tuple[Any, ...]) -> list[str]:
    model: type[BaseModel] = SourceSettings if path and path[0] == "sources" else JobSettings
    return [field.alias or name for name, field in model.model_fields.items()]
