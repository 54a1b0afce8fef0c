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

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from jobs.option_settings import FunctionName
from jobs.plan_settings import Plan
from jobs.strict import DurationSetting, Strict, validated
from jobs.yaml_file import read_yaml
from versioned.durations import duration_us
from versioned.errors import ConfigurationError

_PREFIX = "VERSIONED_JOB__"


def _form(said: Any) -> str:
    return "steps" if isinstance(said, dict) else "function"


PlanSetting = Annotated[
    Annotated[FunctionName, Tag("function")] | Annotated[Plan, Tag("steps"), Field(min_length=1)], Discriminator(_form)
]


class SourceSettings(Strict):
    """Where a topic's records come from: any Spark streaming source."""

    format: str
    path: str | None = None
    schema_ddl: str | None = Field(default=None, alias="schema")
    options: dict[str, str] = Field(default_factory=dict)
    partition_by: str | None = None
    sequence_by: str | None = None


class MetricsSettings(Strict):
    """What is measured, and where it is told beside the ledger."""

    level: Literal["info", "debug"] = Field(
        default="info", description="`debug` adds lateness and the sizes of buffers; it costs a sort per measured node."
    )
    prometheus: str | None = Field(
        default=None,
        description="Text file for the node exporter, below the work folder, written anew after each batch; its name "
        "ends in `.prom`.",
        pattern=r"\.prom$",
    )


class JobSettings(Strict):
    """One streaming application.

    ``plan`` is either a mapping of steps, or names the function that builds the topology, ``module:function``;
    ``plan_settings`` are that function's arguments, durations as people write them.
    """

    application: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")
    plan: PlanSetting
    plan_settings: dict[str, DurationSetting] = Field(default_factory=dict)
    root: str
    sources: dict[str, SourceSettings] = Field(min_length=1)
    trigger: str = "available_now"
    order: Literal["arrival", "sequence"] = "arrival"
    max_future_skew: DurationSetting = timedelta(days=1)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="What is measured, and told where.")

    @field_validator("trigger")
    @classmethod
    def _is_trigger(cls, value: str) -> str:
        if value != "available_now" and duration_us(value) <= 0:
            raise ValueError('write "available_now" or an interval such as "10 seconds"')
        return value

    @model_validator(mode="after")
    def _settings_have_a_function(self) -> JobSettings:
        if self.plan_settings and not isinstance(self.plan, str):
            raise ValueError("plan_settings: they are for plan: module:function. Write them into the steps.")
        return self


def load(
    path: Path, environment: Mapping[str, str] | None = None, sets: Mapping[str, str] | None = None
) -> JobSettings:
    """Read the settings of a job.

    Args:
        path: The YAML file.
        environment: Its ``VERSIONED_JOB__...`` variables win over the file; default: the process's own.
        sets: Settings by their dotted path, ``{"plan_settings.grace": "2 hours"}``; they win over both.

    Raises:
        ConfigurationError: the file is missing, too large, no YAML, or a key or value is wrong; names its path.
    """
    return parse(read(path, environment, sets))


def read(
    path: Path, environment: Mapping[str, str] | None = None, sets: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a file, the environment and ``sets`` say together, not checked yet; arguments as :func:`load`."""
    said = overridden(read_yaml(path), os.environ if environment is None else environment)
    for name, value in (sets or {}).items():
        said = _with(said, name.split("."), value, name)
    return said


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
    return validated(JobSettings, said)
