"""Expressions as Spark columns, with the same meaning as ``streams.evaluation``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime, timezone
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql.types import StructType

from streams.expressions import Expr, is_whole, operation
from streams.nodes import JoinNode
from streams.rows import Inner, Row
from streams.shared_names import both_have, shared_names
from streams.spark.flow import KEY, VALUE, WAS_KEY, null_inside
from streams.spark.key_types import without_order
from streams.time_texts import as_instant, asks_for_now, is_time_alone
from versioned import spark_functions as F
from versioned.durations import instant_us
from versioned.errors import ConfigurationError, TopologyError
from versioned.session_settings import session_settings
from versioned.sql_types import has_order

_ANSI: Final = "spark.sql.ansi.enabled"
#: Beside an instant, a date means its midnight in UTC, and a text without an offset an instant in UTC.
_UTC: Final = {"spark.sql.session.timeZone": "UTC"}
#: The values of these settings with which Spark passes values to Python functions unchanged.
_PLAIN_VALUES: Final = {
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
}


def in_ansi_mode(session: SparkSession) -> None:
    """Switch a batch's own session to ANSI mode, so that expressions do not depend on the user's session.

    Without it, a sum beyond 64 bits would wrap around, and a text that is no number would become null beside a number,
    so that a filter would silently drop the record.
    """
    session.conf.set(_ANSI, "true")


def with_plain_values(session: SparkSession) -> None:
    """Have a batch's own session pass values to the user's functions as Python's types have them.

    By way of pandas a bigint beside a null would become a float, and an instant one without a time zone.
    """
    for name, value in _PLAIN_VALUES.items():
        session.conf.set(name, value)


def in_utc(session: SparkSession) -> AbstractContextManager[None]:
    """A context in which expressions are built with UTC as their time zone, whatever the user's session has.

    It must end before the next batch reads its sources, which take texts for instants in the user's zone.
    """
    return session_settings(session, _UTC)


def as_in_batches(session: SparkSession) -> AbstractContextManager[None]:
    """A context in which expressions are built as in batches: in ANSI mode (:func:`in_ansi_mode`) and in UTC.

    Spark decides what an expression means when it is built. Over Spark Connect it does so when it runs, so there the
    session's own mode and zone apply.
    """
    return session_settings(session, {_ANSI: "true", **_UTC})


def to_column(
    expr: Expr,
    bindings: Mapping[str, Column],
    fields: Mapping[str, Sequence[str]] | None = None,
    given: Column | None = None,
) -> Column:
    """The column that an expression stands for.

    Args:
        expr: The expression.
        bindings: The columns behind its references: struct columns for rows.
        fields: The field names of those structs; needed by ``merge`` only.
        given: The rows that need the result. For others the user's functions are not called, and the result does not
            matter. A condition around the column would not do, since Spark runs Python on every row first.
    """
    op, args = operation(expr)

    def column(part: Expr) -> Column:
        return to_column(part, bindings, fields, given)

    if op == "lit":
        return _constant(args[0])
    if op == "ref":
        return bindings[args[0]]
    if op == "field":
        return column(args[0]).getField(args[1])
    if op == "struct":
        return F.struct(*(column(arg).alias(name) for name, arg in zip(args[0], args[1:], strict=True)))
    if op == "row":
        value = column(args[1])
        return F.when(value.isNotNull(), F.struct(value.alias(args[0])))
    if op == "python":
        taken = [column(arg) for arg in args[2:]]
        kinds = F.concat(*map(_has_instants, taken)) if taken else F.lit("")
        asked = kinds if given is None else F.when(given, kinds)
        wholes = tuple(map(is_whole, args[2:]))
        return F.udf(_on_plain_rows(args[0], args[1], wholes), args[1], useArrow=True)(asked, *taken)
    if op == "merge":
        return _merged(args, bindings, fields or {}, column)
    columns = [column(arg) if isinstance(arg, Expr) else arg for arg in args]
    if op in _NAMING_TWICE:
        # Of a binary, Spark would count the characters before the delimiter but cut off as many bytes. And if the bytes
        # are no valid text, it would miss a delimiter after a truncated character.
        columns = [F.make_valid_utf8(F.concat(text, F.lit(""))) for text in columns]
        is_plain = all(operation(arg)[0] in ("lit", "ref", "field") for arg in args)
        return _NAMING_TWICE[op](*columns) if is_plain else _named(_NAMING_TWICE[op], *columns)
    made = _COLUMNS[op](*columns)
    return _without_clock(args, columns, made) if op in _OF_ONE_TYPE else made


def _without_clock(args: Sequence[Expr], columns: Sequence[Column], made: Column) -> Column:
    """The operation; it fails if a text among its operands would become an instant that depends on the clock."""
    texts = [value for op, (value, *_) in map(operation, args) if op == "lit" and isinstance(value, str)]
    asking = [text for text in texts if asks_for_now(text) or is_time_alone(text)]
    if not asking:
        return made
    kinds = (F.typeof(column).isin("timestamp", "timestamp_ntz", "date") for column in columns)
    told = f'"{asking[0]:.40}" is no instant: it asks the clock. Give a day and a time, or a datetime.'
    return F.when(reduce(Column.__or__, kinds), F.raise_error(F.lit(told))).otherwise(made)


def holds(condition: Column) -> Column:
    """Whether a condition is true; false where it is null.

    Spark combines several filters into one condition, and evaluates the next part even if the one before is null. That
    part may then fail, for example on a text that is no number, for a row that was already filtered out.
    """
    return F.when(condition, True).eqNullSafe(True)


def to_column_if(
    given: Column, expr: Expr, bindings: Mapping[str, Column], fields: Mapping[str, Sequence[str]] | None = None
) -> Column:
    """The column of :func:`to_column` where a condition holds, else null."""
    return F.when(given, to_column(expr, bindings, fields, given))


def joined(
    node: JoinNode, bindings: Mapping[str, Column], fields: Mapping[str, Sequence[str]], given: Column | None = None
) -> Column:
    """The row that a join makes of both sides, as a column; if a condition is given, null where it does not hold.

    Raises:
        TopologyError: both sides have a field of the same name, which only their columns show, or the joiner merges
            something that is no row; names the node.
    """
    try:
        if given is None:
            return to_column(node.joiner, bindings, fields)
        return to_column_if(given, node.joiner, bindings, fields)
    except ConfigurationError as error:
        # Without a cause: programs would read that out of what Spark passes on, and it names no node.
        raise TopologyError("joiner", node.name, str(error)) from None


def _constant(value: Any) -> Column:
    if isinstance(value, (list, tuple)):
        return F.array(*map(_constant, value))
    # Spark's literals of dates and instants pass through Java's old calendar, which differs before 1582.
    if isinstance(value, datetime):
        return F.timestamp_micros(F.lit(instant_us(value)))
    if isinstance(value, date):
        return F.lit(value.isoformat()).cast("date")
    # Integers in expressions have 64 bits; Spark would take the narrowest type that holds the constant.
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return F.lit(value).cast("bigint") if is_integer else F.lit(value)


def _has_instants(value: Column) -> Column:
    """``1`` if the instants in a value are of type TIMESTAMP, else ``0``; only Spark knows the value's type."""
    kind = F.typeof(value)
    return F.when(kind.contains("timestamp") & ~kind.contains("timestamp_ntz"), "1").otherwise("0")


def _on_plain_rows(function: Callable[..., Any], returns: str, wholes: Sequence[bool]) -> Callable[..., Any]:
    """The user's function, called with the same values as on the test driver, and only for rows that need it."""
    gives_instants = "timestamp" in returns.lower() and "timestamp_ntz" not in returns.lower()

    def called(kinds: str | None, *args: Any) -> Any:
        if kinds is None:
            return None
        given = (_as_in_driver(*arg) for arg in zip(args, (kind == "1" for kind in kinds), wholes, strict=True))
        return _as_on_spark(function(*given), gives_instants)

    return called


def _as_in_driver(value: Any, has_instants: bool, is_whole_row: bool = False) -> Any:
    """A value as :func:`streams.rows.own` gives it, at every depth, with instants in UTC.

    Spark passes instants in the time zone of its worker, without saying so. Values that mix them with TIMESTAMP_NTZ are
    left as they are.
    """
    kind = type(value)
    if kind is datetime:
        return value.astimezone(timezone.utc) if has_instants else value
    if kind is list:
        return [_as_in_driver(part, has_instants) for part in value]
    if kind is dict or isinstance(value, SparkRow):
        fields = value if kind is dict else value.asDict()
        parts = {name: _as_in_driver(part, has_instants) for name, part in fields.items()}
        return Row(parts) if is_whole_row else Inner(parts)
    return value


def _as_on_spark(value: Any, has_instants: bool) -> Any:
    """A result of the user's function for Spark: an instant without a zone is in UTC, as on the test driver."""
    if isinstance(value, Mapping):
        return {name: _as_on_spark(part, has_instants) for name, part in value.items()}
    if type(value) is list:
        return [_as_on_spark(part, has_instants) for part in value]
    return as_instant(value) if has_instants and isinstance(value, datetime) else value


def _merged(
    rows: Sequence[Expr],
    bindings: Mapping[str, Column],
    fields: Mapping[str, Sequence[str]],
    column: Callable[[Expr], Column],
) -> Column:
    merged: list[dict[str, Column]] = []
    for row in rows:
        op, args = operation(row)
        if op == "struct":
            # A side whose fields are known from the plan.
            merged.append(dict(zip(args[0], map(column, args[1:]), strict=True)))
            continue
        if op != "ref" or args[0] not in fields:
            raise ConfigurationError(f"merge takes whole rows, such as the joiner's left and right; got {row!r}.")
        merged.append({name: bindings[args[0]].getField(name) for name in fields[args[0]]})
    shared = shared_names(*merged)
    if shared:
        raise ConfigurationError(both_have("the left", "the right row", shared))
    return F.struct(*(part.alias(name) for row in merged for name, part in row.items()))


def _case(*args: Column) -> Column:
    chosen = F.when(args[0], args[1])
    for condition, value in zip(args[2:-1:2], args[3::2], strict=True):
        chosen = chosen.when(condition, value)
    return chosen.otherwise(args[-1])


def _named(part: Callable[[Column, Column], Column], text: Column, delimiter: Column) -> Column:
    # Puts each operand into the plan only once; with nested calls, the plan would otherwise double with every call.
    return F.get(F.zip_with(F.array(text), F.array(delimiter), part), F.lit(0))


def _before(text: Column, delimiter: Column) -> Column:
    at = F.position(delimiter, text)
    return F.when(at > 0, F.substr(text, F.lit(1), at - 1))


def _after(text: Column, delimiter: Column) -> Column:
    at = F.position(delimiter, text)
    return F.when(at > 0, F.substr(text, at + F.length(delimiter))).when(at == 0, "")


_COLUMNS: Final[dict[str, Callable[..., Column]]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
    "not": lambda value: ~value,
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "mul": lambda left, right: left * right,
    "div": lambda left, right: F.try_divide(left, right),
    "mod": lambda left, right: F.try_mod(left, right),
    "is_null": lambda value: value.isNull(),
    "coalesce": F.coalesce,
    "concat": F.concat,
    "upper": F.upper,
    "lower": F.lower,
    "length": F.length,
    "substring": lambda text, start, length: F.substr(text, start, length),
    "starts_with": F.startswith,
    "case": _case,
    "cast": lambda value, kind: value.try_cast(kind),
    "least": F.least,
    "greatest": F.greatest,
}
#: Operations whose columns use an operand several times.
_NAMING_TWICE: Final = {"substring_before": _before, "substring_after": _after}
#: Operations whose operands Spark first casts to one type.
_OF_ONE_TYPE: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "coalesce", "case"))


def under_group(frame: DataFrame, group_key: Expr) -> DataFrame:
    """Records under the key of their group, with their former key in ``_was_key``."""
    return with_key(frame, "_group", group_key).withColumnsRenamed({KEY: WAS_KEY, "_group": KEY})


def with_key(
    frame: DataFrame, name: str, expr: Expr, value: Column | None = None, *, in_parts: bool = False
) -> DataFrame:
    """The frame with a key computed from each row in the column ``name``; null if any part of it is null.

    Args:
        frame: Has ``_key`` and, unless ``value`` is given, ``_value``.
        name: The new column.
        expr: A function of ``key`` and ``value``.
        value: The value to compute the key from; where it is null, so is the key.
        in_parts: Keep a key of which only some parts are null, since nothing is looked up or grouped by it here.

    Raises:
        ConfigurationError: there is a map or a variant in the key.
    """
    of = F.col(VALUE) if value is None else value
    bindings = {"key": F.col(KEY), "value": of}
    computed = to_column(expr, bindings) if value is None else to_column_if(of.isNotNull(), expr, bindings)
    made = frame.withColumn(name, computed)
    kind = made.schema[name].dataType
    if not has_order(kind):
        raise ConfigurationError(without_order(expr, kind))
    if not isinstance(kind, StructType):
        return made.withColumn(name, F.when(F.col(name).isNotNull(), F.struct(F.col(name).alias("key"))))
    return made if in_parts else made.withColumn(name, F.when(~null_inside(F.col(name), kind), F.col(name)))
