"""Expectations about single rows, as Spark conditions under their Great Expectations names.

The same names and arguments are checked in two ways: Great Expectations reports on a whole table, while these
conditions cost nothing in a query that reads the rows anyway. They agree row by row
(``tests/jobs/test_row_rules.py``): a null breaks only ``not_be_null`` and the equality of a pair, and rows outside
``row_condition`` are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from pyspark.sql import Column, Window
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams.casts import to_bigint, to_boolean, to_date, to_double, to_instant
from streams.spark.sql_conditions import sql_condition
from versioned import spark_functions as F
from versioned.errors import ConfigurationError
from versioned.identifiers import quote

Arguments = Mapping[str, Any]

#: Our own expectation: a condition in Spark SQL that rows must satisfy, ``{"condition": "paid <= amount"}``.
SATISFY: Final = "expect_rows_to_satisfy"
#: Depends on other rows, so it is checked per table, never per row.
UNIQUE: Final = "expect_compound_columns_to_be_unique"
#: The same for one column, a separate expectation in Great Expectations.
UNIQUE_COLUMN: Final = "expect_column_values_to_be_unique"
TABLE_RULES: Final = (UNIQUE, UNIQUE_COLUMN)
NOT_NULL: Final = "expect_column_values_to_not_be_null"
NULL: Final = "expect_column_values_to_be_null"
IN_SET: Final = "expect_column_values_to_be_in_set"
NOT_IN_SET: Final = "expect_column_values_to_not_be_in_set"
MATCH: Final = "expect_column_values_to_match_regex"
NOT_MATCH: Final = "expect_column_values_to_not_match_regex"
GREATER: Final = "expect_column_pair_values_a_to_be_greater_than_b"
EQUAL: Final = "expect_column_pair_values_to_be_equal"
#: The range of a column's values, or of the lengths of its texts, and their arguments.
BETWEEN: Final = "expect_column_values_to_be_between"
LENGTHS_BETWEEN: Final = "expect_column_value_lengths_to_be_between"
BOUNDS: Final = ("min_value", "max_value")
_STRICT: Final = ("strict_min", "strict_max")
BETWEEN_ARGUMENTS: Final = ("column", *BOUNDS, *_STRICT)
#: Arguments that are true or false.
FLAGS: Final = (*_STRICT, "or_equal")
#: Arguments that are conditions in Spark SQL.
CONDITIONS: Final = ("condition", "row_condition")
#: Arguments that name a column.
_NAMING: Final = ("column", "column_A", "column_B")


@dataclass(frozen=True)
class RowRule:
    """An expectation about single rows.

    Attributes:
        arguments: The arguments that it may have, by the names of Great Expectations.
        breaks: From its arguments (conditions in SQL as columns), whether a row breaks it; null = it does not.
    """

    arguments: tuple[str, ...]
    breaks: Callable[[Arguments], Column]


def broken(expectation: str, arguments: Arguments, columns: StructType) -> Column:
    """Whether a row breaks an expectation: true or false, never null.

    Args:
        expectation: One of :data:`ROW_RULES`; or of :data:`TABLE_RULES`, where a window function is allowed.
        arguments: As Great Expectations takes them.
        columns: The columns that the rows have.

    Raises:
        ConfigurationError: it is no expectation about rows, or has an argument that has no meaning for a single row, or
            bounds or a set that do not fit the type of its column.
    """
    check_values(expectation, arguments, columns)
    conditions = {name: sql_condition(arguments[name], columns) for name in CONDITIONS if name in arguments}
    if expectation in TABLE_RULES:
        fields = [quote(name) for name in arguments.get("column_list", [arguments.get("column")])]
        is_there = F.lit(True) if expectation == UNIQUE else F.col(fields[0]).isNotNull()
        is_broken = is_there & (F.count(F.lit(1)).over(Window.partitionBy(*fields)) > 1)
    else:
        is_broken = _rule(expectation, arguments).breaks({**arguments, **conditions})
    judged = F.coalesce(is_broken, F.lit(False))
    condition = conditions.get("row_condition")
    return judged if condition is None else F.coalesce(condition, F.lit(False)) & judged


def check_row_rule(expectation: str, arguments: Arguments) -> None:
    """Refuse an expectation that cannot be checked row by row.

    Raises:
        ConfigurationError: it is no expectation about rows, or has an argument that has no meaning for a single row.
    """
    _rule(expectation, arguments)


def columns_of(expectation: str, arguments: Arguments) -> tuple[str, ...]:
    """The columns that an expectation of :data:`ROW_RULES` names; its condition in SQL may use others.

    >>> columns_of(BETWEEN, {"column": "amount", "min_value": 0})
    ('amount',)
    """
    return tuple(arguments[name] for name in ROW_RULES[expectation].arguments if name in _NAMING and name in arguments)


def check_values(expectation: str, arguments: Arguments, columns: StructType) -> None:
    """Refuse bounds and sets that do not fit the type of their column: some values would end the batch.

    Raises:
        ConfigurationError: they do not fit; says how to write such a rule.
    """
    name = str(arguments.get("column"))
    kind = next((field.dataType for field in columns if field.name.lower() == name.lower()), None)
    if expectation == BETWEEN:
        _check_bounds(name, kind)
    elif expectation in (IN_SET, NOT_IN_SET):
        _check_set(expectation, name, kind, arguments["value_set"])


def _check_bounds(name: str, kind: DataType | None) -> None:
    if isinstance(kind, (StringType, BooleanType)):
        raise ConfigurationError(
            f'{BETWEEN}: column "{name}" is {kind.simpleString()}, and bounds are for numbers and times. Say it with '
            f"{SATISFY}, in Spark SQL: try_cast({name} AS BIGINT) >= 10, or {name} >= 'a' for texts."
        )


def _check_set(expectation: str, name: str, kind: DataType | None, values: Sequence[Any]) -> None:
    plain, cast = next(((plain, cast) for kinds, plain, cast in _ALIKE if isinstance(kind, kinds)), ((), None))
    if kind is None or cast is None:
        return
    odd = [said for said in values if type(said) not in plain and not (type(said) is str and cast(said) is not None)]
    if odd:
        what = "texts, which stand in quotes" if isinstance(kind, StringType) else "values of that type"
        raise ConfigurationError(
            f'{expectation}: column "{name}" is {kind.simpleString()}, and its value_set has {odd}. Give {what}.'
        )


#: By the type of a column: the types with which its values may be compared, and Spark's cast of a text beside them.
_ALIKE: Final[Sequence[tuple[tuple[type[DataType], ...], tuple[type, ...], Callable[[str], Any]]]] = (
    ((StringType,), (str,), str),
    ((BooleanType,), (bool,), to_boolean),
    ((IntegralType,), (int, float), to_bigint),
    ((NumericType,), (int, float), to_double),
    ((DateType,), (date, datetime), to_date),
    ((TimestampType, TimestampNTZType), (date, datetime), to_instant),
)


def _rule(expectation: str, arguments: Arguments) -> RowRule:
    if expectation not in ROW_RULES:
        raise ConfigurationError(
            f"{expectation} says nothing about single rows, so none can be rejected by it. "
            f"Rows are rejected by: {', '.join(ROW_RULES)}"
        )
    rule = ROW_RULES[expectation]
    unknown = sorted(set(arguments) - set(rule.arguments) - set(_ALWAYS))
    if unknown:
        raise ConfigurationError(f"{expectation}: {', '.join(unknown)} means nothing for a single row. Leave it out.")
    return rule


def _column(arguments: Arguments, name: str = "column") -> Column:
    return F.col(quote(arguments[name]))


def _is_between(value: Column, arguments: Arguments) -> Column:
    inside = F.lit(True)
    low, high = arguments.get("min_value"), arguments.get("max_value")
    if low is not None:
        inside = inside & (value > _literal(low) if arguments.get("strict_min") else value >= _literal(low))
    if high is not None:
        inside = inside & (value < _literal(high) if arguments.get("strict_max") else value <= _literal(high))
    return inside


def _literal(value: Any) -> Column:
    return F.lit(value.isoformat()).cast("timestamp_ltz") if isinstance(value, datetime) else F.lit(value)


def _is_greater(arguments: Arguments) -> Column:
    first, second = _column(arguments, "column_A"), _column(arguments, "column_B")
    return first >= second if arguments.get("or_equal") else first > second


def _is_equal(arguments: Arguments) -> Column:
    """Two nulls are equal; a null and a value are not, unless such pairs are ignored."""
    first, second = _column(arguments, "column_A"), _column(arguments, "column_B")
    if arguments.get("ignore_row_if") == "either_value_is_missing":
        return first.isNull() | second.isNull() | (first == second)
    return first.eqNullSafe(second)


_PAIR: Final = ("column_A", "column_B", "ignore_row_if")
#: Expectations about single rows.
ROW_RULES: Final[Mapping[str, RowRule]] = {
    SATISFY: RowRule(("condition",), lambda said: ~said["condition"]),
    NOT_NULL: RowRule(("column",), lambda said: _column(said).isNull()),
    NULL: RowRule(("column",), lambda said: _column(said).isNotNull()),
    BETWEEN: RowRule(BETWEEN_ARGUMENTS, lambda said: ~_is_between(_column(said), said)),
    IN_SET: RowRule(("column", "value_set"), lambda said: ~_column(said).isin(list(said["value_set"]))),
    NOT_IN_SET: RowRule(("column", "value_set"), lambda said: _column(said).isin(list(said["value_set"]))),
    MATCH: RowRule(("column", "regex"), lambda said: ~_column(said).rlike(said["regex"])),
    NOT_MATCH: RowRule(("column", "regex"), lambda said: _column(said).rlike(said["regex"])),
    LENGTHS_BETWEEN: RowRule(BETWEEN_ARGUMENTS, lambda said: ~_is_between(F.length(_column(said)), said)),
    GREATER: RowRule((*_PAIR, "or_equal"), lambda said: ~_is_greater(said)),
    EQUAL: RowRule(_PAIR, lambda said: ~_is_equal(said)),
}
#: Arguments that any rule may have: its name and description, the rows that it is about, how severe a breach is.
_ALWAYS: Final = ("name", "description", "row_condition", "severity", "meta", "notes")
