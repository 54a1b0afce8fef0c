"""Settings of a job, from a YAML file: typed, and refused with the path of what is wrong.

An environment variable wins over the file: ``VERSIONED_JOB__PLAN_SETTINGS__GRACE="2 hours"`` sets the key
``plan_settings.grace``.

>>> said = {"application": "a", "plan": "jobs.quickstart_plan:build", "root": "r", "sources": {"s": {"format": "rate"}}}
>>> parse(said).trigger
'available_now'
>>> parse(said | {"tigger": "10 seconds"})  # doctest: +ELLIPSIS
Traceback (most recent call last):
versioned.errors.ConfigurationError: tigger: unknown key; did you mean "trigger"? Allowed here: application, ...
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from versioned.durations import duration, duration_us
from versioned.errors import ConfigurationError

_MAX_BYTES = 1 << 20
_PREFIX = "VERSIONED_JOB__"


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


def load(path: Path, environment: Mapping[str, str] | None = None) -> JobSettings:
    """Read a settings file.

    Args:
        path: The YAML file.
        environment: Its ``VERSIONED_JOB__...`` variables win over the file; default: the process's own.

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
    return parse(overridden(said, os.environ if environment is None else environment))


def overridden(said: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings with those of the environment put over them; ``__`` separates the parts of a path.

    >>> overridden({"trigger": "available_now"}, {"VERSIONED_JOB__TRIGGER": "10 seconds"})
    {'trigger': '10 seconds'}

    Raises:
        ConfigurationError: a variable goes below a key that holds a plain value.
    """
    for name in sorted(environment):
        if name.startswith(_PREFIX):
            said = _with(said, name.removeprefix(_PREFIX).split("__"), environment[name], name)
    return said


def _with(said: Any, path: list[str], value: str, variable: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise ConfigurationError(f"{variable}: goes below a key that holds a value, not a mapping: {said!r}.")
    # Names of variables are upper case by custom; the keys that the file has tell how they are written.
    key = next((str(key) for key in said if str(key).lower() == path[0].lower()), path[0].lower())
    return said | {key: _with(said.get(key, {}), path[1:], value, variable) if len(path) > 1 else value}


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
