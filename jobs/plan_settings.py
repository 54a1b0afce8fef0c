"""The steps of a plan as settings: the YAML name of each DSL operation, and its keys.

A step has the name of its node; ``op`` is its operation, and ``from`` the step that it reads. :mod:`jobs.plan` builds
the topology.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from jobs.option_settings import (
    Buffer,
    Condition,
    FunctionName,
    JoinedRow,
    KeyOf,
    Operand,
    RowOf,
    SizeOf,
    Store,
    WindowedBy,
    Within,
)
from jobs.strict import DurationSetting, Flag, Names, Spelled, Strict, validated
from streams.grouped import BuiltIn
from streams.nodes import Emit, History
from streams.options import OnExpired, TooLate
from suppress.suppressed import Clock, Timer


def _to_word(value: Any) -> Any:
    # YAML reads the word null without quotes as no value.
    return "null" if value is None else value


_EXPIRED_SCHEMA: Final = {"anyOf": [{"enum": list(get_args(OnExpired)), "type": "string"}, {"type": "null"}]}
_OnExpired = Annotated[OnExpired, BeforeValidator(_to_word), WithJsonSchema(_EXPIRED_SCHEMA)]


class _Source(Strict):
    topic: str | None = Field(default=None, description="Name under `sources`. Default: the step's own name.")
    key: Names = ("key",)
    timestamp: str = "ts"
    value: Names | None = Field(
        default=None,
        description="Value columns. Default: all columns of the source, or those that its contract declares, except "
        "for the key, the event time, `deleted`, and the source's `partition_by` and `sequence_by`.",
    )
    deleted: str | None = None


class StreamStep(_Source):
    """The records of a topic as a stream."""

    op: Literal["stream"]


class TableStep(_Source):
    """The records of a topic as changes to a table."""

    op: Literal["table"]
    store: Store | None = None
    reorder: DurationSetting | None = None


class GlobalTableStep(_Source):
    """A table whose latest values every record sees, whatever the record's time or partition."""

    op: Literal["global_table"]
    store: Store | None = None


class _Step(Strict):
    source: str = Field(alias="from", description="The step to read from.")


class FilterStep(_Step):
    """The rows for which ``where`` is true (``filter``) or false (``filter_not``)."""

    op: Literal["filter", "filter_not"]
    where: Condition
    store: Store | None = None


class MapValuesStep(_Step):
    """The rows with new values."""

    op: Literal["map_values"]
    value: RowOf
    store: Store | None = None


class TransformValuesStep(_Step):
    """New values from a Python function of key and value; ``returns`` is the DDL of its result."""

    op: Literal["transform_values"]
    function: FunctionName
    returns: str
    store: Store | None = None


class SelectKeyStep(_Step):
    """The records of a stream under a new key."""

    op: Literal["select_key"]
    key: KeyOf


class ToTableStep(_Step):
    """The records of a stream as changes to a table."""

    op: Literal["to_table"]
    store: Store | None = None
    reorder: DurationSetting | None = None


class ToStreamStep(_Step):
    """The changes of a table as a stream."""

    op: Literal["to_stream"]


class CorrectionsStep(_Step):
    """Corrections of a stream-table join with ``correction_retention``: results that a late table change altered."""

    op: Literal["corrections"]


class JoinStep(_Step):
    """A join. Which options apply depends on what is joined.

    Stream with table: ``grace``, ``retention``, ``on_expired``, ``too_late``, ``correction_retention``. Stream with
    global table: ``key``. Stream with stream: ``within``. Table with table: ``foreign_key``, ``store``, ``history``.
    """

    op: Literal["join", "left_join", "outer_join"]
    other: str = Field(alias="with", description="The step on the right side of the join.")
    value: JoinedRow | None = Field(default=None, description="The joined value. Default: all fields of both sides.")
    grace: DurationSetting | None = None
    retention: DurationSetting | None = None
    on_expired: _OnExpired = "null"
    too_late: TooLate = "join"
    correction_retention: DurationSetting | None = None
    key: KeyOf | None = None
    within: Within | None = None
    foreign_key: KeyOf | None = None
    store: Store | None = None
    history: History = "latest"


class _Group(_Step):
    group_by: KeyOf | None = Field(
        default=None, description="Key to group by. Default, for streams only: the current key."
    )
    group_value: RowOf | None = Field(
        default=None, description="Tables only: the row to aggregate, if not the table's own; `value` refers to it."
    )
    windowed_by: WindowedBy | None = Field(default=None, description="Windows; for streams only.")
    store: Store | None = None


class BuiltInStep(_Group):
    """A built-in aggregate: ``count`` of rows (or of non-null values), ``sum``, ``avg``, ``min`` or ``max``."""

    op: BuiltIn
    value: Operand | None = None
    output: str | None = Field(
        default=None, description="Name of the result field. Default: the name of the operation."
    )


class ReduceStep(_Group):
    """An aggregate that combines values two at a time with a Python function; tables also need a ``subtractor``."""

    op: Literal["reduce"]
    adder: FunctionName
    subtractor: FunctionName | None = None
    result: str | None = Field(default=None, description="DDL of the aggregate, if it differs from the value's.")


class AggregateStep(_Group):
    """An aggregate written as Python functions; tables need a ``subtractor``, session windows a ``merger``."""

    op: Literal["aggregate"]
    initializer: FunctionName
    adder: FunctionName
    subtractor: FunctionName | None = None
    merger: FunctionName | None = None
    result: str = Field(
        description="DDL of the aggregate: fields, such as `total double, n bigint`, or the type of a single value."
    )
    output: str = "value"


class _Suppress(_Step):
    op: Literal["suppress"]
    buffer: Buffer = Buffer()
    size_of: SizeOf = "record"
    retention: DurationSetting | None = None


class WindowClosesStep(_Suppress):
    """One final result per key and window."""

    until: Literal["window_closes"]
    close_idle: Flag = False


class TimeLimitStep(_Suppress):
    """At most one update per key every ``wait`` of event time."""

    until: Literal["time_limit"]
    wait: DurationSetting
    timer: Timer = "first"
    max_age: DurationSetting | None = None
    clock: Clock = "record"


class WallClockStep(_Suppress):
    """At most one update per key every ``wait`` of wall-clock time."""

    until: Literal["wall_clock_time_limit"]
    wait: DurationSetting


class ChangelogStep(_Step):
    """Appends every change, or the net change per key and batch, to the sink table named like the step."""

    op: Literal["to_changelog"]
    emit: Emit = "every"


class LatestStep(_Step):
    """Keeps the last row of each key in the sink table named like the step."""

    op: Literal["to_latest"]


SourceStep = StreamStep | TableStep | GlobalTableStep
SuppressStep = WindowClosesStep | TimeLimitStep | WallClockStep
_Suppressions = Annotated[SuppressStep, Field(discriminator="until")]
Step = Annotated[
    SourceStep | FilterStep | MapValuesStep | TransformValuesStep | SelectKeyStep | ToTableStep | ToStreamStep
    | CorrectionsStep | JoinStep | BuiltInStep | ReduceStep | AggregateStep | _Suppressions
    | ChangelogStep | LatestStep,
    Field(discriminator="op"),
]  # fmt: skip
StepName = Annotated[
    str, Spelled(r"[A-Za-z0-9._-]{1,200}", "a name of 1 to 200 letters, digits, dots, dashes and underscores")
]
Plan = dict[StepName, Step]


class _Said(Strict):
    plan: Plan


def steps_of(said: Any) -> Plan:
    """Steps by name from plain values, for a plan without the rest of the settings.

    Raises:
        ConfigurationError: every fault with its path.

    >>> steps_of({"clicks": {"op": "stream", "key": "user"}})["clicks"].key
    ('user',)
    """
    return validated(_Said, {"plan": said}).plan
