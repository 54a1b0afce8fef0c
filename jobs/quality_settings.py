"""Data quality rules of a source: expectations by their Great Expectations names, and what happens when one fails.

>>> said = {"expectations": [{"expect_column_values_to_not_be_null": {"column": "amount"}}]}
>>> validated(QualitySettings, said).rules[0].name
'amount_to_not_be_null'
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from jobs.strict import Number, Strict, at, in_utc, to_flag, validated, wanted_here
from jobs.yaml_file import kind_in_words, told_of_flag
from streams.spark.invariants import Invariant
from streams.spark.row_rules import BOUNDS, CONDITIONS, FLAGS, MATCH, NOT_MATCH, SATISFY, check_row_rule
from streams.spark.sql_conditions import check_condition
from versioned.errors import ConfigurationError

_NAME: Final = re.compile(r"[A-Za-z]\w{0,127}", re.ASCII)
#: The types of arguments by their names, and what the types are called.
_KINDS: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(CONDITIONS, (str, "text")),
    **dict.fromkeys(FLAGS, (bool, "true or false")),
    "regex": (str, "text"),
    "value_set": (list, "a list"),
    "meta": (dict, "a mapping"),
}
#: Arguments that a rule cannot do without, and what they are.
_NEEDED: Final = {
    SATISFY: ("condition", "a condition in Spark SQL, such as: paid <= amount"),
    **dict.fromkeys((MATCH, NOT_MATCH), ("regex", 'a regex, such as: "^[a-z]+$"')),
}
Expected = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]


class QualitySettings(Strict):
    """Data quality rules for the records of a source."""

    policy: Literal["warn", "reject", "fail"] = Field(
        default="warn",
        description="What happens to records that break a rule: `warn` logs how many there are; `reject` moves each "
        "one to `rejects` with the reason `QUALITY:<rule>`; `fail` ends the run before any of the batch is written.",
    )
    every: Number = Field(
        default=1,
        ge=0,
        description="Check the batches whose id is a multiple of this number. `0`: none; only `versioned validate` "
        "checks. With `reject` every batch is checked.",
    )
    expectations: list[Expected] = Field(
        min_length=1,
        description="One mapping per rule: a Great Expectations expectation with its arguments, or "
        "`expect_rows_to_satisfy` with a `condition` in Spark SQL. `name` names the rule; `row_condition` (Spark SQL) "
        "selects the rows that it applies to.",
    )

    @property
    def rules(self) -> tuple[Invariant, ...]:
        """The rules, each with its name."""
        pairs = [(kind, _as_meant(said)) for entry in self.expectations for kind, said in entry.items()]
        return tuple(
            Invariant(_named(kind, said), str(said.get("description", "")), kind, said) for kind, said in pairs
        )

    @model_validator(mode="after")
    def _can_be_judged(self) -> QualitySettings:
        from jobs.expectations import check_rule

        _check_names([rule.name for rule in self.rules])
        for rule in self.rules:
            _check_arguments(rule)
            if self.policy == "reject":
                check_row_rule(rule.expectation, rule.arguments)
            check_rule(rule)
        if self.policy == "reject" and self.every != 1:
            raise ValueError(
                f"every: {self.every} with policy reject would take in one batch what it rejects in another. "
                "Leave it out."
            )
        return self


def _named(kind: str, said: dict[str, Any]) -> str:
    name = said.get("name")
    return rule_name(kind, said) if name is None else str(name)


def _check_names(names: list[str]) -> None:
    odd = [name for name in names if not _NAME.fullmatch(name)]
    if odd:
        raise ConfigurationError(f"expectations: {odd} are no names of rules. Use letters, digits and _, at most 128.")
    # The case does not count: columns with the outcomes of conditions are called after the rules.
    small = [name.lower() for name in names]
    doubled = sorted({name for name in names if small.count(name.lower()) > 1})
    if doubled:
        raise ConfigurationError(
            f"expectations: {doubled} would name two rules. Give each a name of its own, whatever its case."
        )


def _check_arguments(rule: Invariant) -> None:
    """Refuse arguments that are missing, or of another kind than Spark and Great Expectations accept."""
    needed, words = _NEEDED.get(rule.expectation, (None, ""))
    if needed is not None and needed not in rule.arguments:
        raise ConfigurationError(f"{rule.expectation}: give {words}")
    for name, (kind, wanted) in _KINDS.items():
        if name not in rule.arguments:
            continue
        with at(f"expectations.{rule.name}.{name}"):
            if not isinstance(rule.arguments[name], kind):
                raise ConfigurationError(wanted_here(wanted, rule.arguments[name]))
            if name in CONDITIONS:
                check_condition(rule.arguments[name])
            if name == "value_set":
                _check_set(rule.arguments[name])


def _check_set(values: list[Any]) -> None:
    """Refuse a set whose members Spark cannot use as values, or would change."""
    many = next((value for value in values if isinstance(value, (list, dict, set, tuple))), None)
    if many is not None:
        raise ConfigurationError(f"its values are texts, numbers and the like, and one is {kind_in_words(many)}.")
    flag = next((value for value in values if isinstance(value, bool)), None)
    if flag is not None and not all(isinstance(value, bool) for value in values):
        raise ConfigurationError(f"true or false stands beside other values: {told_of_flag(flag)}")


def _as_meant(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments in a form that means the same to Spark and to Great Expectations.

    * An argument without a value is left out.
    * A null is taken out of a set: with one, Spark never says that a value is not in the set, and the rule would find
      nothing, ever. Nulls in rows break no such rule anyway.
    * An instant without an offset is in UTC, not in the machine's time zone.
    * A bound in quotes is the number that it says: Spark would cast it to the column's type, and "1.5" is not a whole
      number.
    * "false" in quotes is false: Python would take it for true.

    >>> from datetime import datetime
    >>> _as_meant({"value_set": ["a", None], "min_value": datetime(2026, 1, 1)})
    {'value_set': ['a'], 'min_value': datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}
    >>> _as_meant({"min_value": "7", "max_value": "1.5", "strict_max": "false"})
    {'min_value': 7, 'max_value': 1.5, 'strict_max': False}
    """
    meant = {name: in_utc(value) for name, value in arguments.items() if value is not None}
    meant |= {name: _number(meant[name]) for name in BOUNDS if isinstance(meant.get(name), str)}
    meant |= {name: to_flag(meant[name]) for name in FLAGS if name in meant}
    if isinstance(meant.get("value_set"), list):
        meant["value_set"] = [in_utc(value) for value in meant["value_set"] if value is not None]
    return meant


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def rule_name(expectation: str, arguments: dict[str, Any]) -> str:
    """The name of a rule whose settings give none.

    >>> rule_name("expect_column_values_to_be_between", {"column": "amount", "min_value": 0})
    'amount_to_be_between'
    >>> rule_name("expect_table_row_count_to_be_between", {"min_value": 1})
    'table_row_count_to_be_between'
    """
    column = arguments.get("column")
    if column is None:
        return expectation.removeprefix("expect_")
    short = expectation.removeprefix("expect_column_").removeprefix("values_")
    return re.sub(r"\W+", "_", f"{column}_{short}")


__all__ = ["QualitySettings", "rule_name", "validated"]
