"""Options of plan steps as settings: expressions, stores, windows and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from jobs.named_function import check_function_name
from jobs.plan_expressions import ROW, SIDES, parse_expression
from jobs.strict import Bytes, DurationSetting, Flag, Instant, Names, Number, Spelled, Strict
from streams.conditions import condition_fault
from streams.options import LatePolicy
from suppress.buffer_rules import WhenFull
from versioned.spec import TimeScope

#: A function of a Python module, ``module:function``, for what an expression cannot express.
FunctionName = Annotated[
    str,
    Spelled(
        r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*",
        "module:function, of letters, digits and _, such as my_plans:build",
    ),
    AfterValidator(check_function_name),
]


def _readable(names: tuple[str, ...], *, field: bool = False) -> Callable[[Any], Any]:
    def check(said: Any) -> Any:
        # Parse now, so that the faults of all expressions are found together, before any step is built.
        parse_expression(said, names, field=field)
        return said

    return check


def _condition(said: Any) -> Any:
    if (fault := condition_fault(parse_expression(said, ROW))) is not None:
        raise ValueError(fault)
    return said


def _schema(names: tuple[str, ...]) -> WithJsonSchema:
    told = f"An expression over {', '.join(names)}, or a constant"
    return WithJsonSchema({"type": ["string", "number", "boolean", "null"], "description": told})


def _row_form(said: Any) -> str:
    return "fields" if isinstance(said, dict) else "one"


def _size_form(said: Any) -> str:
    return "function" if isinstance(said, str) and ":" in said else "named"


def _key_form(said: Any) -> str:
    return "list" if isinstance(said, (list, tuple)) else _row_form(said)


Expression = Annotated[Any, AfterValidator(_readable(ROW)), _schema(ROW)]
Condition = Annotated[Any, AfterValidator(_condition), _schema(ROW)]
Operand = Annotated[Any, AfterValidator(_readable(ROW, field=True)), _schema(ROW)]
SideExpression = Annotated[Any, AfterValidator(_readable(SIDES)), _schema(SIDES)]
#: A row: a mapping of fields, or an expression that gives one; a single value becomes a row of one field.
RowOf = Annotated[
    Annotated[dict[str, Expression], Field(min_length=1), Tag("fields")] | Annotated[Operand, Tag("one")],
    Discriminator(_row_form),
]
JoinedRow = Annotated[
    Annotated[dict[str, SideExpression], Field(min_length=1), Tag("fields")] | Annotated[SideExpression, Tag("one")],
    Discriminator(_row_form),
]
#: A key: a row, or a list of the value's fields that make it up.
KeyOf = Annotated[
    Annotated[dict[str, Expression], Field(min_length=1), Tag("fields")]
    | Annotated[Names, Field(min_length=1), Tag("list")]
    | Annotated[Operand, Tag("one")],
    Discriminator(_key_form),
]


#: What a byte bound counts: the whole record, its value, or what a function of a row (key, value, ts_us) returns.
SizeOf = Annotated[
    Annotated[Literal["record", "value"], Tag("named")] | Annotated[FunctionName, Tag("function")],
    Discriminator(_size_form),
]


class VersionedStore(Strict):
    """Every version of each key (``Materialized.versioned``)."""

    kind: Literal["versioned"]
    history_retention: DurationSetting
    name: str | None = None
    grace: DurationSetting | None = None
    segment_interval: DurationSetting | None = None
    time_scope: TimeScope = "partition"
    time_resolution: Literal["microsecond", "millisecond"] = "microsecond"
    late_policy: LatePolicy = "drop"
    system_history: Flag = Field(
        default=False, description="Also keep every accepted record with its system time, in `<name>_known`."
    )


class KeyValueStore(Strict):
    """The latest value per key (``Materialized.key_value``)."""

    kind: Literal["key_value"]
    name: str | None = None
    time_scope: TimeScope = "partition"


class WindowStore(Strict):
    """Windows of a step with ``windowed_by``, kept for ``retention`` after their end, or for ever without one
    (``Materialized.window_store``)."""

    kind: Literal["window"]
    name: str | None = None
    retention: DurationSetting | None = None
    segment_interval: DurationSetting | None = None
    time_scope: Literal["partition", "store"] = "partition"
    time_resolution: Literal["microsecond", "millisecond"] = "microsecond"


AnyStore = VersionedStore | KeyValueStore | WindowStore
Store = Annotated[AnyStore, Field(discriminator="kind")]


class _Windows(Strict):
    grace: DurationSetting | None = None
    late_policy: LatePolicy = "drop"


class Tumbling(_Windows):
    """Windows of a fixed size that do not overlap."""

    kind: Literal["tumbling"]
    size: DurationSetting


class Hopping(_Windows):
    """Windows of a fixed size; a new one starts every ``advance``."""

    kind: Literal["hopping"]
    size: DurationSetting
    advance: DurationSetting


class Sliding(_Windows):
    """Windows of records that are at most ``difference`` apart."""

    kind: Literal["sliding"]
    difference: DurationSetting


class Session(_Windows):
    """Sessions of records with gaps of at most ``gap``."""

    kind: Literal["session"]
    gap: DurationSetting


class Unlimited(_Windows):
    """One window that begins at ``start``, or at the epoch, and never closes."""

    kind: Literal["unlimited"]
    start: Instant | None = None


AnyWindows = Tumbling | Hopping | Sliding | Session | Unlimited
WindowedBy = Annotated[AnyWindows, Field(discriminator="kind")]


class Within(Strict):
    """How far apart two records of a stream-stream join may be (``JoinWindows``). ``before`` and ``after`` override
    ``difference``, so do not give all three."""

    difference: DurationSetting | None = None
    before: DurationSetting | None = None
    after: DurationSetting | None = None
    grace: DurationSetting | None = None

    @model_validator(mode="after")
    def _says_how_far(self) -> Within:
        if self.difference is None and (self.before is None or self.after is None):
            raise ValueError("give difference, or before and after")
        if self.difference is not None and self.before is not None and self.after is not None:
            raise ValueError("difference has no effect beside before and after: leave one of the three out")
        return self


class Buffer(Strict):
    """The bounds of a suppression buffer, and what happens when it is full; ``{}`` is unbounded."""

    max_records: Annotated[Number, Field(ge=0)] | None = None
    max_bytes: Annotated[Bytes, Field(ge=0)] | None = None
    when_full: WhenFull | None = None

    @model_validator(mode="after")
    def _says_what_then(self) -> Buffer:
        bounded = self.max_records is not None or self.max_bytes is not None
        if bounded and self.when_full is None:
            raise ValueError("a bound needs when_full: emit_early, shut_down or spill")
        if self.when_full is not None and not bounded:
            raise ValueError("when_full needs a bound: max_records or max_bytes")
        return self
