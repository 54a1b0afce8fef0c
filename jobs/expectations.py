"""Checks rows with Great Expectations: rules in, results out, and its Data Docs as HTML.

What goes wrong inside Great Expectations is told apart from rows that break a rule: it raises nothing and reports such
an expectation as failed, so every result is looked at (:func:`_error_of`). These are on purpose:

* ``persist=False``: its Spark source would keep every frame in memory for ever.
* No ``UnexpectedRowsExpectation``: it asks a temporary view of another session and answers about another batch's rows.
  ``expect_rows_to_satisfy`` takes its place.
* Values are escaped before they are kept (:func:`harmless`), since its pages are not.
* A condition in SQL is judged by Spark, into a column of its own. It is resolved before, by itself: one that names a
  column that is not there would take the other rules with it. Rules about the set of columns are asked without ours.
* A context of its own per run: nothing is kept in memory, nothing on disk but the pages that were asked for.
* Without examples an error is told by its kind (:mod:`jobs.unquoted`), and no page has its traceback: both may quote a
  row. What is wrong with a condition before any row is looked at is told in full.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from html import escape
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BooleanType, DataType, NullType

from jobs.exit_codes import EXPECTED
from jobs.unquoted import unlogged, unquoted, unquoted_text
from streams.spark.invariants import Invariant
from streams.spark.row_rules import BETWEEN, BETWEEN_ARGUMENTS, BOUNDS, IN_SET, SATISFY, broken
from streams.spark.sql_conditions import sql_condition
from streams.time_texts import as_instant
from versioned import spark_functions as F
from versioned.errors import ConfigurationError, first_line
from versioned.given import near
from versioned.identifiers import quote

if TYPE_CHECKING:
    from great_expectations.checkpoint.checkpoint import Checkpoint
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
    from great_expectations.datasource.fluent.spark_datasource import DataFrameAsset

#: Gives wrong answers within a stream and beside other queries.
_BANNED: Final = ("expect_query_results_to_match_comparison", "expectation")
_SOURCE: Final = "versioned"
_SITE: Final = "validation"
#: What has no text of its own; all else is shown as text.
_PLAIN: Final = (Number, date)
#: How expectations about the set of a table's columns begin.
_OF_COLUMNS: Final = "expect_table_column"


@dataclass(frozen=True)
class Verdict:
    """What became of one rule: how many rows break it (None = it counts no rows), or why it could not be judged."""

    rule: str
    said: str
    holds: bool
    broken: int | None = None
    error: str | None = None


def check_rule(rule: Invariant) -> None:
    """Refuse a rule that Great Expectations does not know, or whose arguments it does not take.

    Raises:
        ConfigurationError: with the name that was probably meant, or what is wrong with which argument.
    """
    _expectation(rule, "any")


class Judge:
    """Judges frames one after the other, and writes Data Docs about all of them.

    Args:
        examples: How many of the values that break a rule are shown in the docs, at most. They are data of the rows, as
            the words of an error may be: with 0 its kind is told.
    """

    def __init__(self, examples: int = 0) -> None:
        self._context = _context(examples)
        self.examples = examples
        self._source = self._context.data_sources.add_or_update_spark(name=_SOURCE, persist=False)

    def judge(self, name: str, rows: DataFrame, rules: Sequence[Invariant]) -> list[Verdict]:
        """Run a suite of rules over a frame, by a checkpoint.

        Args:
            name: Of the table or topic, once per judge.
            rows: All rows; they are read several times, so a frame that costs should be cached.
            rules: At least one.
        """
        asked = _asked(rows, rules)
        asset = self._source.add_dataframe_asset(name=name)
        checkpoint = self._checkpoint(asset, asked.rules)
        try:
            with nullcontext() if self.examples else unlogged():
                told = checkpoint.run(batch_parameters={"dataframe": asked.rows})
                ((place, result),) = told.run_results.items()
                results = _completed(asset, asked, result.results, self.examples)
        except Exception as error:  # whatever goes wrong in there says nothing about the rows
            return _unjudged(asked, rules, first_line(error) if self.examples else unquoted(error))
        verdicts = _verdicts(results, rules, asked.errors)
        for one in results:
            one.result, one.exception_info = harmless(one.result), harmless(one.exception_info)
        _put_into(result, [*results, *_not_judged(asked, rules)])
        # The pages are made from what is kept.
        self._context.validation_results_store.set(place, result)
        return verdicts

    def _checkpoint(self, asset: DataFrameAsset[Any], rules: Mapping[int, Invariant]) -> Checkpoint:
        import great_expectations as gx

        name = asset.name
        batches = asset.add_batch_definition_whole_dataframe("rows")
        suite = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=_expectations(rules)))
        definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batches, suite=suite)
        )
        return self._context.checkpoints.add(
            gx.Checkpoint(
                name=name,
                validation_definitions=[definition],
                actions=[],
                result_format={"result_format": "SUMMARY", "partial_unexpected_count": self.examples},
            )
        )

    def write_docs(self, folder: Path) -> Path:
        """Write what was found as HTML pages.

        Args:
            folder: Where; made if it is not there.

        Returns:
            The page to begin with.
        """
        for site in list(self._context.variables.data_docs_sites or {}):
            self._context.delete_data_docs_site(site)
        pages = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())}
        settings: Any = {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": pages,
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
        self._context.add_data_docs_site(site_name=_SITE, site_config=settings)
        self._context.build_data_docs()
        return folder / "index.html"


def judge_batch(name: str, rows: DataFrame, rules: Sequence[Invariant]) -> list[Verdict]:
    """Run a suite over one micro-batch; nothing is kept of it."""
    asked = _asked(rows, rules)
    asset = _context(0).data_sources.add_or_update_spark(name=_SOURCE, persist=False).add_dataframe_asset(name=name)
    try:
        with unlogged():
            results = _completed(asset, asked, _told(asset, "rows", asked.rows, asked.rules, 0), 0)
    except Exception as error:  # as in a whole table
        return _unjudged(asked, rules, unquoted(error))
    return _verdicts(results, rules, asked.errors)


def harmless(found: Any) -> Any:
    """What Great Expectations found, with its texts escaped: its pages would take a value of a row as HTML.

    >>> harmless({"partial_unexpected_list": ["<b>", 1.5, None]})
    {'partial_unexpected_list': ['&lt;b&gt;', 1.5, None]}
    """
    if isinstance(found, Mapping):
        return {harmless(name): harmless(part) for name, part in found.items()}
    if isinstance(found, (list, tuple)):
        return [harmless(part) for part in found]
    return found if found is None or isinstance(found, _PLAIN) else escape(str(found))


def _context(shown: int) -> AbstractDataContext:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    # What it logs of an error are the words of that.
    logging.getLogger("great_expectations").setLevel(logging.ERROR if shown else logging.CRITICAL)
    context = gx.get_context(mode="ephemeral")
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


@dataclass(frozen=True)
class _Asked:
    """What Great Expectations is asked, each rule by its place among all.

    ``rows`` have a column of true and false per condition beside their own; ``plain`` have their own alone, and of
    these ``of_columns`` are asked, which speak of the set of columns. ``errors`` tells why other rules are not asked.
    """

    rows: DataFrame
    plain: DataFrame
    rules: Mapping[int, Invariant]
    of_columns: Mapping[int, Invariant]
    errors: Mapping[int, str]


def _asked(rows: DataFrame, rules: Sequence[Invariant]) -> _Asked:
    columns, errors = dict[str, Column](), dict[int, str]()
    for number, rule in enumerate(rules):
        try:
            columns |= _conditions(rows, rule)
        except EXPECTED as error:
            errors[number] = first_line(error)
    # Without columns of ours one question is enough.
    apart = {n: rule for n, rule in enumerate(rules) if columns and rule.expectation.startswith(_OF_COLUMNS)}
    others = {n: rule for n, rule in enumerate(rules) if n not in apart and n not in errors}
    return _Asked(rows.withColumns(columns) if columns else rows, rows, others, apart, errors)


def _conditions(rows: DataFrame, rule: Invariant) -> dict[str, Column]:
    """A column of true and false per condition of a rule: of the whole rule, and of which rows it is about.

    Raises:
        ConfigurationError, PySparkException: it cannot be judged by the columns of the rows.
    """
    columns = {}
    if rule.expectation == SATISFY:
        columns[_holds(rule)] = _condition(rows, rule.arguments["condition"])
    if _is_wide(rule):
        bounds = {name: said for name, said in rule.arguments.items() if name in BETWEEN_ARGUMENTS}
        # Of a null nobody asks where it lies.
        there = F.col(quote(rule.arguments["column"])).isNotNull()
        columns[_holds(rule)] = F.when(there, ~broken(rule.expectation, bounds, rows.schema))
        _types(rows, columns[_holds(rule)])
    if "row_condition" in rule.arguments:
        columns[_about(rule)] = F.coalesce(_condition(rows, rule.arguments["row_condition"]), F.lit(False))
    return columns


def _condition(rows: DataFrame, text: str) -> Column:
    made = sql_condition(text, rows.schema)
    (kind,) = _types(rows, made)
    if not isinstance(kind, (BooleanType, NullType)):
        raise ConfigurationError(f"a condition is true or false, and {text} is {kind.simpleString()}")
    return made


def _types(rows: DataFrame, *columns: Column) -> list[DataType]:
    """What Spark makes of columns: it looks their names up without a job, with Spark Connect only if it is asked."""
    return [field.dataType for field in rows.select(*columns).schema]


def _judged_here(rule: Invariant) -> tuple[str, ...]:
    """The arguments by which Spark has judged each row: of these Great Expectations gets the answer alone."""
    if rule.expectation == SATISFY:
        return ("condition",)
    return BETWEEN_ARGUMENTS if _is_wide(rule) else ()


def _is_wide(rule: Invariant) -> bool:
    """Whether a bound is a whole number that Great Expectations, which makes doubles of them, would not keep."""
    bounds = (rule.arguments.get(name) for name in BOUNDS)
    return rule.expectation == BETWEEN and any(type(bound) is int and abs(bound) > 2**53 for bound in bounds)


def _holds(rule: Invariant) -> str:
    # Pages show it. No column of a user is called so: it has blanks.
    return f"rule {rule.name} holds"


def _about(rule: Invariant) -> str:
    return f"rule {rule.name} is about it"


def _told(
    asset: DataFrameAsset[Any], question: str, rows: DataFrame, rules: Mapping[int, Invariant], shown: int
) -> list[ExpectationValidationResult]:
    """What Great Expectations finds, without a page."""
    import great_expectations as gx

    if not rules:
        return []
    batch = asset.add_batch_definition_whole_dataframe(question).get_batch(batch_parameters={"dataframe": rows})
    suite = gx.ExpectationSuite(name=f"{asset.name} {question}", expectations=_expectations(rules))
    told = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": shown})
    return list(told.results)


def _completed(
    asset: DataFrameAsset[Any], asked: _Asked, results: Sequence[ExpectationValidationResult], shown: int
) -> list[ExpectationValidationResult]:
    """With the rules about columns, and what failed together asked again, each by itself.

    Great Expectations counts many rules in one job. One that fails at a row, such as a cast, fails it for all of them,
    and each is told the same. Unless examples are shown, what failed is told without values from here on.
    """
    errors = {_number(said): _error_of(said.exception_info or {}) for said in results}
    alike = Counter(errors.values())
    again = [number for number, error in errors.items() if error is not None and alike[error] > 1]
    completed = [
        *(said for said in results if _number(said) not in again),
        *(said for n in again for said in _told(asset, f"rule {n}", asked.rows, {n: asked.rules[n]}, shown)),
        *_told(asset, "columns", asked.plain, asked.of_columns, shown),
    ]
    for said in () if shown else completed:
        error = _text_of(said.exception_info or {})
        if error is not None:
            said.exception_info = _failed(unquoted_text(error))
    return completed


def _not_judged(asked: _Asked, rules: Sequence[Invariant]) -> list[ExpectationValidationResult]:
    """For the pages: rules that were not asked, as Great Expectations tells of those that failed within it."""
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult

    return [
        ExpectationValidationResult(
            success=False,
            expectation_config=_expectation(rules[number], str(number)).configuration,
            exception_info=_failed(harmless(error)),
        )
        for number, error in asked.errors.items()
    ]


def _failed(error: str) -> dict[str, Any]:
    """What Great Expectations keeps of a rule that failed, without a traceback."""
    return {"raised_exception": True, "exception_message": error, "exception_traceback": ""}


def _put_into(result: ExpectationSuiteValidationResult, results: list[ExpectationValidationResult]) -> None:
    """All that was found, and how many of it hold, into what a page is made from."""
    from great_expectations.validator.validation_statistics import calc_validation_statistics

    counted = calc_validation_statistics(results)._asdict()
    result.results, result.success, result.statistics = results, counted.pop("success"), counted


def _expectations(rules: Mapping[int, Invariant]) -> list[Any]:
    return [_expectation(rule, str(number)) for number, rule in rules.items()]


def _expectation(rule: Invariant, number: str) -> Any:
    """The expectation's object; its number finds the rule again, since results come in another order."""
    import great_expectations.expectations as gxe
    from great_expectations.expectations.row_conditions import Column

    arguments = {name: said for name, said in rule.arguments.items() if name != "name"}
    kind = rule.expectation
    judged = _judged_here(rule)
    if judged:
        kind = IN_SET
        arguments = {name: said for name, said in arguments.items() if name not in judged}
        arguments |= {"column": _holds(rule), "value_set": [True]}
    if "row_condition" in arguments:
        arguments["row_condition"] = Column(_about(rule)) == True  # noqa: E712 - builds a condition
    there = {_snake(name): name for name in dir(gxe) if name.startswith("Expect")}
    if kind not in there or kind in _BANNED:
        hint = near(kind, [*(name for name in there if name not in _BANNED), SATISFY])
        raise ConfigurationError(f"{kind}: there is no such expectation{hint}")
    meta = {**arguments.pop("meta", {}), "rule": number}
    try:
        made = getattr(gxe, there[kind])(**{"description": rule.said or None, **arguments, "meta": meta})
    except ValueError as error:
        raise ConfigurationError(f"{kind}: {_flat(error)}") from None
    bounds = {name: getattr(made, name) for name in BOUNDS if name in arguments}
    if any(isinstance(bound, datetime) for bound in bounds.values()):
        # A text that it took for an instant would be one of the machine's time zone; and it compares the bounds with
        # each other, which Python refuses of an instant and a day.
        for name, bound in bounds.items():
            setattr(made, name, as_instant(bound) if isinstance(bound, date) else bound)
    return made


def _snake(name: str) -> str:
    """
    >>> _snake("ExpectColumnPairValuesAToBeGreaterThanB"), _snake("ExpectColumnKLDivergenceToBeLessThan")
    ('expect_column_pair_values_a_to_be_greater_than_b', 'expect_column_kl_divergence_to_be_less_than')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _flat(error: Exception) -> str:
    told: Any = getattr(error, "errors", None)
    if told is None:
        return str(error)
    parts = [f"{'.'.join(str(at) for at in said['loc'] if at != '__root__')} {said['msg']}".strip() for said in told()]
    return "; ".join(parts)


def _unjudged(asked: _Asked, rules: Sequence[Invariant], error: str) -> list[Verdict]:
    """Something went wrong with all rules; of some it was known before that they cannot be judged."""
    return _verdicts((), rules, {**dict.fromkeys(range(len(rules)), error), **asked.errors})


def _verdicts(
    results: Sequence[ExpectationValidationResult], rules: Sequence[Invariant], errors: Mapping[int, str]
) -> list[Verdict]:
    """In the order of the rules."""
    found = {_number(said): said for said in results}
    return [
        Verdict(rule.name, rule.said, False, None, errors[number])
        if number in errors
        else _verdict(rule, found[number])
        for number, rule in enumerate(rules)
    ]


def _number(said: Any) -> int:
    """Which rule a result is about."""
    return int(said.expectation_config.meta["rule"])


def _verdict(rule: Invariant, said: Any) -> Verdict:
    error = _error_of(said.exception_info or {})
    if error is not None:
        return Verdict(rule.name, rule.said, False, None, error)
    return Verdict(rule.name, rule.said, bool(said.success), (said.result or {}).get("unexpected_count"))


def _error_of(info: Mapping[str, Any]) -> str | None:
    """The first line of what went wrong inside."""
    text = _text_of(info)
    return None if text is None else first_line(text) or "no reason was given"


def _text_of(info: Mapping[str, Any]) -> str | None:
    """What went wrong inside: told flat, or nested by the metric that failed."""
    parts = [info, *(part for part in info.values() if isinstance(part, Mapping))]
    return next((str(part.get("exception_message") or "") for part in parts if part.get("raised_exception")), None)
