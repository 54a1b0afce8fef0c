"""Checks rows with Great Expectations: rules in, results out, and its Data Docs as HTML.

If Great Expectations itself fails, it raises nothing and reports the expectation as failed. To tell such errors from
rows that break a rule, every result is inspected (:func:`_error_of`). Deliberate choices:

* ``persist=False``: otherwise its Spark source would keep every frame in memory for ever.
* No ``UnexpectedRowsExpectation``: it queries a temporary view of another session and answers about the rows of another
  batch. ``expect_rows_to_satisfy`` takes its place.
* Values are escaped before they are stored (:func:`harmless`), since its pages do not escape them.
* Spark evaluates a condition in SQL, into a column of its own. Each is resolved by itself beforehand: one that names a
  missing column would make the other rules fail too. Rules about the set of columns are evaluated without our columns.
* Each run has its own context: nothing stays in memory, and nothing goes to disk but the pages that were asked for.
* Without examples, only the kind of an error is reported (:mod:`jobs.unquoted`), and no page has its traceback, since
  both may quote a row. An error in a condition that is found before any row is read is reported in full.
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

#: These give wrong answers within a stream and next to other queries.
_BANNED: Final = ("expect_query_results_to_match_comparison", "expectation")
_SOURCE: Final = "versioned"
_SITE: Final = "validation"
#: Values that need no escaping; all others are shown as escaped text.
_PLAIN: Final = (Number, date)
#: The prefix of expectations about the set of a table's columns.
_OF_COLUMNS: Final = "expect_table_column"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one rule: how many rows break it (None = it counts no rows), or why it could not be judged."""

    rule: str
    said: str
    holds: bool
    broken: int | None = None
    error: str | None = None


def check_rule(rule: Invariant) -> None:
    """Refuse a rule that Great Expectations does not know, or whose arguments it does not accept.

    Raises:
        ConfigurationError: with the name that was probably meant, or the argument that is wrong and why.
    """
    _expectation(rule, "any")


class Judge:
    """Judges frames one after the other, and writes Data Docs about all of them.

    Args:
        examples: At most how many of the values that break a rule the docs show. These are data, as the text of an
            error may be: with 0, only the kind of an error is shown.
    """

    def __init__(self, examples: int = 0) -> None:
        self._context = _context(examples)
        self.examples = examples
        self._source = self._context.data_sources.add_or_update_spark(name=_SOURCE, persist=False)

    def judge(self, name: str, rows: DataFrame, rules: Sequence[Invariant]) -> list[Verdict]:
        """Judge the rows of a frame by a suite of rules, in a Great Expectations checkpoint.

        Args:
            name: Name of the table or topic; each only once per judge.
            rows: All rows. They are read several times, so an expensive frame should be cached.
            rules: At least one rule.
        """
        asked = _asked(rows, rules)
        asset = self._source.add_dataframe_asset(name=name)
        checkpoint = self._checkpoint(asset, asked.rules)
        try:
            with nullcontext() if self.examples else unlogged():
                told = checkpoint.run(batch_parameters={"dataframe": asked.rows})
                ((place, result),) = told.run_results.items()
                results = _completed(asset, asked, result.results, self.examples)
        except Exception as error:  # an error in there says nothing about the rows
            return _unjudged(asked, rules, first_line(error) if self.examples else unquoted(error))
        verdicts = _verdicts(results, rules, asked.errors)
        for one in results:
            one.result, one.exception_info = harmless(one.result), harmless(one.exception_info)
        _put_into(result, [*results, *_not_judged(asked, rules)])
        # The pages are made from the stored result.
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
        """Write the results as HTML pages.

        Args:
            folder: The folder to write to; created if it does not exist.

        Returns:
            The start page.
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
    """Judge the rows of one micro-batch by a suite of rules; nothing of it is kept."""
    asked = _asked(rows, rules)
    asset = _context(0).data_sources.add_or_update_spark(name=_SOURCE, persist=False).add_dataframe_asset(name=name)
    try:
        with unlogged():
            results = _completed(asset, asked, _told(asset, "rows", asked.rows, asked.rules, 0), 0)
    except Exception as error:  # as in Judge.judge
        return _unjudged(asked, rules, unquoted(error))
    return _verdicts(results, rules, asked.errors)


def harmless(found: Any) -> Any:
    """A result of Great Expectations with its texts escaped: its pages would treat a value of a row as HTML.

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

    # It logs the text of errors, which may quote a row.
    logging.getLogger("great_expectations").setLevel(logging.ERROR if shown else logging.CRITICAL)
    context = gx.get_context(mode="ephemeral")
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


@dataclass(frozen=True)
class _Asked:
    """What Great Expectations is asked; each rule goes by its position among all rules.

    ``rows`` has a boolean column per condition besides its own columns, for ``rules``. ``plain`` has only its own
    columns, for ``of_columns``, the rules about the set of columns. ``errors`` says why other rules are not asked.
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
    # If no column of ours is added, the rules about the set of columns need no query of their own.
    apart = {n: rule for n, rule in enumerate(rules) if columns and rule.expectation.startswith(_OF_COLUMNS)}
    others = {n: rule for n, rule in enumerate(rules) if n not in apart and n not in errors}
    return _Asked(rows.withColumns(columns) if columns else rows, rows, others, apart, errors)


def _conditions(rows: DataFrame, rule: Invariant) -> dict[str, Column]:
    """A boolean column per condition of a rule: whether a row keeps the rule, and whether the rule applies to the row.

    Raises:
        ConfigurationError, PySparkException: a condition cannot be evaluated over the columns of the rows.
    """
    columns = {}
    if rule.expectation == SATISFY:
        columns[_holds(rule)] = _condition(rows, rule.arguments["condition"])
    if _is_wide(rule):
        bounds = {name: said for name, said in rule.arguments.items() if name in BETWEEN_ARGUMENTS}
        # A null is never out of bounds.
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
    """The types of columns. Asking for them makes Spark, also over Connect, resolve the names, without a job."""
    return [field.dataType for field in rows.select(*columns).schema]


def _judged_here(rule: Invariant) -> tuple[str, ...]:
    """The arguments that Spark evaluates for each row; Great Expectations gets only the outcome."""
    if rule.expectation == SATISFY:
        return ("condition",)
    return BETWEEN_ARGUMENTS if _is_wide(rule) else ()


def _is_wide(rule: Invariant) -> bool:
    """Whether a bound is a whole number that may change as a double, which Great Expectations makes of it."""
    bounds = (rule.arguments.get(name) for name in BOUNDS)
    return rule.expectation == BETWEEN and any(type(bound) is int and abs(bound) > 2**53 for bound in bounds)


def _holds(rule: Invariant) -> str:
    # The pages show this name. Its blanks keep it apart from users' columns.
    return f"rule {rule.name} holds"


def _about(rule: Invariant) -> str:
    return f"rule {rule.name} is about it"


def _told(
    asset: DataFrameAsset[Any], question: str, rows: DataFrame, rules: Mapping[int, Invariant], shown: int
) -> list[ExpectationValidationResult]:
    """The results of Great Expectations for some rules, without a page."""
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
    """The results, with those of the rules about columns, and with rules that failed together evaluated one by one.

    Great Expectations evaluates many rules in one job. If one fails at a row, such as by a cast, the job fails, and all
    of them report the same error. Unless examples are shown, errors contain no values from here on.
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
    """Results, for the pages, of the rules that were not asked, as Great Expectations reports rules that failed."""
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
    """What Great Expectations stores for a rule that failed, without a traceback."""
    return {"raised_exception": True, "exception_message": error, "exception_traceback": ""}


def _put_into(result: ExpectationSuiteValidationResult, results: list[ExpectationValidationResult]) -> None:
    """Put all results, with their statistics, into the result from which a page is made."""
    from great_expectations.validator.validation_statistics import calc_validation_statistics

    counted = calc_validation_statistics(results)._asdict()
    result.results, result.success, result.statistics = results, counted.pop("success"), counted


def _expectations(rules: Mapping[int, Invariant]) -> list[Any]:
    return [_expectation(rule, str(number)) for number, rule in rules.items()]


def _expectation(rule: Invariant, number: str) -> Any:
    """The Great Expectations object of a rule. Its number leads back to the rule: results come in another order."""
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
        # It reads a text as an instant in the machine's time zone; and it compares the bounds with each other, which
        # Python refuses for an instant and a day.
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
    """Verdicts after an error that concerns all rules; a rule that had an error before keeps that one."""
    return _verdicts((), rules, {**dict.fromkeys(range(len(rules)), error), **asked.errors})


def _verdicts(
    results: Sequence[ExpectationValidationResult], rules: Sequence[Invariant], errors: Mapping[int, str]
) -> list[Verdict]:
    """The verdicts, in the order of the rules."""
    found = {_number(said): said for said in results}
    return [
        Verdict(rule.name, rule.said, False, None, errors[number])
        if number in errors
        else _verdict(rule, found[number])
        for number, rule in enumerate(rules)
    ]


def _number(said: Any) -> int:
    """The number of the rule that a result is about."""
    return int(said.expectation_config.meta["rule"])


def _verdict(rule: Invariant, said: Any) -> Verdict:
    error = _error_of(said.exception_info or {})
    if error is not None:
        return Verdict(rule.name, rule.said, False, None, error)
    return Verdict(rule.name, rule.said, bool(said.success), (said.result or {}).get("unexpected_count"))


def _error_of(info: Mapping[str, Any]) -> str | None:
    """The first line of an error inside Great Expectations; None if there was none."""
    text = _text_of(info)
    return None if text is None else first_line(text) or "no reason was given"


def _text_of(info: Mapping[str, Any]) -> str | None:
    """The text of an error, which stands at the top level or below the metric that failed; None if there was none."""
    parts = [info, *(part for part in info.values() if isinstance(part, Mapping))]
    return next((str(part.get("exception_message") or "") for part in parts if part.get("raised_exception")), None)
