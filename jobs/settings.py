"""The settings of a job, read from a YAML file and type-checked; each error names the path of the wrong setting.

Environment variables override the file: ``VERSIONED_JOB__PLAN_SETTINGS__GRACE="2 hours"`` sets the key
``plan_settings.grace``. :mod:`jobs.layers` merges the two.

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
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from jobs.contract_settings import ContractSettings
from jobs.kafka_settings import KafkaSinkSettings, KafkaSourceSettings
from jobs.layers import RECORD_RETENTION, Layers, of_fields
from jobs.named_function import look_beside
from jobs.option_settings import FunctionName
from jobs.place_setting import LocalPlace, Place, Root, catalog_schema_of
from jobs.plan_arguments import PlanArgument
from jobs.plan_settings import Plan
from jobs.quality_settings import QualitySettings
from jobs.strict import DurationSetting, Flag, Millis, Names, Spelled, Strict, said_otherwise, validated
from jobs.yaml_file import kind_in_words, read_yaml
from streams.spark.guards import GuardPolicy
from streams.spark.metrics import MetricsLevel
from streams.spark.places import Order
from streams.spark.reader_options import DELTA, FILES, check_source
from streams.spark.sources import check_shared_sequence
from streams.spark.trigger import trigger_of
from versioned.errors import ConfigurationError
from versioned.identifiers import check_columns

_S = TypeVar("_S", bound=Strict)


def _no_past(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError("give 0 seconds or more: with less, records of the present would be rejected")
    return value


#: How far ahead of the clock a record may be.
_Ahead = Annotated[DurationSetting, AfterValidator(_no_past)]
#: Formats of files that need no schema: plain text has fixed columns.
_WITHOUT_SCHEMA: Final = frozenset({"text"})


def _form(said: Any) -> str:
    return "steps" if isinstance(said, dict) else "function"


def _either_form(said: Any) -> Any:
    if not isinstance(said, (dict, str)):
        raise ValueError(f"a mapping of steps, or module:function, should be here, and this is {kind_in_words(said)}")
    return said


PlanSetting = Annotated[
    Annotated[FunctionName, Tag("function")] | Annotated[Plan, Tag("steps"), Field(min_length=1)],
    Discriminator(_form),
    BeforeValidator(_either_form),
]


class SourceSettings(Strict):
    """Where the records of a topic come from: any Spark streaming source, a catalog table, or a Kafka topic described
    by ``kafka``."""

    format: str | None = None
    table: str | None = Field(
        default=None,
        description="A Delta table in a catalog, such as `main.sales.orders`, instead of a path. Omit `format`, or "
        "set it to `delta`.",
    )
    path: Place | None = None
    schema_ddl: str | None = Field(default=None, alias="schema")
    options: dict[str, str] = Field(default_factory=dict)
    transform: FunctionName | None = Field(
        default=None,
        description="Function that turns the source's DataFrame into one with the columns of the topic. For Kafka it "
        "decodes `key` and `value`.",
    )
    partition_by: str | None = None
    sequence_by: Names | None = None
    max_future_skew: _Ahead | None = Field(
        default=None,
        description="Records further ahead of the wall clock are rejected as `FUTURE_TS`. Default: the job's setting.",
    )
    contract: ContractSettings = Field(
        default_factory=ContractSettings, description="What rows must look like, and what happens to those that do not."
    )
    quality: QualitySettings | None = Field(default=None, description="Data quality rules for its records.")
    kafka: KafkaSourceSettings | None = Field(
        default=None, description="A Kafka topic with JSON values, instead of `format`."
    )

    @property
    def is_kafka(self) -> bool:
        """Whether the records come from Kafka, and so have an offset."""
        return self.kafka is not None or (self.format or "").lower() == "kafka"

    @property
    def goes_by_offset(self) -> bool:
        """Whether only Kafka's offset orders the records."""
        return self.is_kafka and self.sequence_by in (None, ("offset",))

    @property
    def form(self) -> str:
        """The format of a source that is not described by ``kafka``; that of a table is Delta."""
        return DELTA if self.format is None else self.format

    @model_validator(mode="after")
    def _is_one_of_both(self) -> SourceSettings:
        if (self.format is None and self.table is None) == (self.kafka is None):
            raise ValueError("give either a format, a table or kafka")
        of_format = ("path", "schema_ddl", "options", "transform", "partition_by", "sequence_by")
        said = sorted(set(of_format) & said_otherwise(self))
        if self.kafka is not None and said:
            raise ValueError(f"{', '.join(said)}: kafka says these itself; they are for a format")
        return self

    @model_validator(mode="after")
    def _tells_where_and_what(self) -> SourceSettings:
        is_option = any(name.lower() == "path" for name in self.options)
        if self.path is not None and is_option:
            raise ValueError("options.path: the source has a path already, which would win. Leave one of them out")
        if self.kafka is None:
            places = {} if self.path is None else {"path": self.path}
            check_source(self.form, {**self.options, **places}, self.table, has_schema=self.schema_ddl is not None)
        form = self.form.lower()
        if form in FILES and self.path is None and not is_option:
            raise ValueError(f"path is missing: a source of format {form} reads the files of a folder")
        if form in FILES - _WITHOUT_SCHEMA and self.schema_ddl is None:
            raise ValueError(
                f"schema is missing: Spark reads no stream of {form} files without their columns as DDL, such as "
                '"ts TIMESTAMP, user STRING"'
            )
        return self


class MetricsSettings(Strict):
    """Which metrics are collected, and where they are published besides the ledger."""

    level: MetricsLevel = Field(
        default="info", description="`debug` adds lateness and buffer sizes, at the cost of one sort per measured node."
    )
    prometheus: Annotated[LocalPlace, Spelled(r".*\.prom", "a file whose name ends in .prom")] | None = Field(
        default=None,
        description="Text file for the Prometheus node exporter, below the work folder, rewritten after each batch. "
        "Its name ends in `.prom`.",
    )


class JobSettings(Strict):
    """One streaming application.

    ``plan`` is either a mapping of steps or the name of the function that builds the topology, ``module:function``.
    ``plan_settings`` holds the arguments of that function: durations in words, numbers, booleans or text.
    """

    application: Annotated[
        str,
        Spelled(
            r"[A-Za-z][A-Za-z0-9_-]{0,63}",
            "a name that begins with a letter, of letters, digits, _ and -, at most 64",
        ),
    ]
    plan: PlanSetting
    plan_settings: dict[str, PlanArgument] = Field(default_factory=dict)
    root: Root
    sources: dict[str, SourceSettings] = Field(min_length=1)
    trigger: str = "available_now"
    order: Order = "arrival"
    max_future_skew: _Ahead = timedelta(days=1)
    suppressed_record_retention: Millis | None = Field(
        default=None,
        alias=RECORD_RETENTION,
        description="Longest time that a suppression holds a record, by the wall clock (KIP-539): milliseconds, or a "
        "duration. A step's own `retention` takes precedence. For final results it applies only with `close_idle`.",
    )
    keys_cross_partitions: Flag = Field(
        default=True,
        description="Whether a new key may occur in several partitions of a source. If so, all records share one "
        "stream time after a change of key. `false` keeps partitions separate there as well, each with its own stream "
        "time, for example one per tenant; at most 1,000.",
    )
    checkpoint: Place | None = Field(
        default=None,
        description="Checkpoint folder, below the work folder. Default: `_checkpoint` in the root. Required if the "
        "root is a catalog schema.",
    )
    guards: GuardPolicy = Field(
        default="none",
        description="Check of the rows that each batch wrote, one Spark job: `warn` logs broken invariants; `fail` "
        "ends the run before the next batch builds on them.",
    )
    pii_columns: Names = Field(
        default=(),
        description="Columns with personal data, under every name that they have in the plan. Tables created from now "
        "on keep no statistics of them, so that `versioned erase` leaves nothing behind.",
    )
    kafka: dict[str, KafkaSinkSettings] = Field(
        default_factory=dict,
        description="Changelog sink -> Kafka topic to which its rows are also sent, at least once.",
    )
    metrics: MetricsSettings = Field(
        default_factory=MetricsSettings, description="Which metrics are collected, and where they are published."
    )

    @field_validator("sources")
    @classmethod
    def _names_columns(cls, sources: dict[str, SourceSettings]) -> dict[str, SourceSettings]:
        # All sources are read as one stream, each in a column of its name.
        try:
            check_columns(sources)
        except ConfigurationError as error:
            raise ValueError(f"{error} A topic of any name can be read under another one: see its options.") from None
        return sources

    @field_validator("trigger")
    @classmethod
    def _is_trigger(cls, value: str) -> str:
        try:
            trigger_of(value)
        except ConfigurationError:
            raise ValueError(
                f'"{value:.60}" is none: write "available_now" or an interval such as "10 seconds", at least 1 '
                "millisecond"
            ) from None
        return value

    @model_validator(mode="after")
    def _sequence_has_columns(self) -> JobSettings:
        if self.order != "sequence":
            return self
        without = [topic for topic, said in self.sources.items() if said.sequence_by is None and not said.is_kafka]
        if without:
            raise ValueError(f"order: sequence needs sequence_by on each source; {', '.join(without)} has none")
        check_shared_sequence(self.order, {topic: said.goes_by_offset for topic, said in self.sources.items()})
        return self

    @model_validator(mode="after")
    def _checkpoint_has_a_folder(self) -> JobSettings:
        if self.checkpoint is None and catalog_schema_of(self.root) is not None:
            raise ValueError(
                "checkpoint is missing: a schema of a catalog, as root is one, has no folder for it. Give one, below "
                "the work folder or with an address"
            )
        return self

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
        environment: Its ``VERSIONED_JOB__...`` variables win over the file; default: the process's environment.
        sets: Settings by their dotted path, ``{"plan_settings.grace": "2 hours"}``; they win over both.

    Raises:
        ConfigurationError: the file is missing, too large or not YAML, or a key or value is wrong; the message names
            its path.
    """
    return parse(read(path, environment, sets))


def read(
    path: Path, environment: Mapping[str, str] | None = None, sets: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The merged values of a file, the environment and ``sets``, not validated yet; arguments as for :func:`load`."""
    return Layers.of(read_file(path), os.environ if environment is None else environment, sets).merged()


def load_of(kind: type[_S], path: Path, sets: Mapping[str, str] | None = None) -> _S:
    """Settings of one kind from a file; variables of the environment that are for another kind are ignored.

    Raises:
        ConfigurationError: as :func:`load` says.
    """
    fields = [said.alias or name for name, said in kind.model_fields.items()]
    return validated(kind, read(path, of_fields(os.environ, fields), sets))


def read_file(path: Path) -> dict[str, Any]:
    """The values in a file, not validated. It may be a pipe, so it can be read only once.

    From here on, settings may name functions of modules that are next to the file.
    """
    look_beside(path)
    return read_yaml(path)


def parse(said: dict[str, Any]) -> JobSettings:
    """Settings from a mapping.

    Raises:
        ConfigurationError: as in :func:`load`.
    """
    return validated(JobSettings, said)
