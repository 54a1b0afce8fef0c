"""Judging rows with Great Expectations: rules in, verdicts out, and its Data Docs as HTML.

What goes wrong inside Great Expectations is told apart from rows that break a rule: it raises nothing and reports such
an expectation as failed, so every result is looked at (:func:`_error_of`). Three things are on purpose:

* ``persist=False``: its Spark source would keep every frame in memory for ever.
* No ``UnexpectedRowsExpectation``: it asks a temporary view of another session and answers about another batch's rows.
  ``expect_rows_to_satisfy`` takes its place.
* Values are escaped before they are kept (:func:`harmless`), since its pages are not.
* A context of its own per run: nothing is kept in memory, nothing on disk but the pages that were asked for.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from jobs.strict import in_utc
from streams.spark.invariants import Invariant
from streams.spark.row_rules import BETWEEN, BETWEEN_ARGUMENTS, BOUNDS, SATISFY, broken
from streams.spark.sql_conditions import sql_condition
from versioned import spark_functions as F
from versioned.errors import ConfigurationError
from versioned.given import near
from versioned.identifiers import quote

if TYPE_CHECKING:
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext

#: Gives wrong answers within a stream and beside other queries.
_BANNED: Final = ("expect_query_results_to_match_comparison", "expectation")
_SOURCE: Final = "versioned"
_SITE: Final = "validation"
#: What has no text of its own; all else is shown as text.
_PLAIN: Final = (Number, date)


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
        examples: How many of the values that break a rule are shown in the docs, at most. They are data of the rows.
    """

    def __init__(self, examples: int = 0) -> None:
        self._context = _context()
        self._examples = examples
        self._source = self._context.data_sources.add_or_update_spark(name=_SOURCE, persist=False)

    def judge(self, name: str, rows: DataFrame, rules: Sequence[Invariant]) -> list[Verdict]:
        """Run a suite of rules over a frame, by a checkpoint.

        Args:
            name: Of the table or topic, once per judge.
            rows: All rows; they are read several times, so a frame that costs should be cached.
            rules: At least one.
        """
        import great_expectations as gx

        asset = self._source.add_dataframe_asset(name=name)
        batches = asset.add_batch_definition_whole_dataframe("rows")
        suite = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=_expectations(rules)))
        definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batches, suite=suite)
        )
        checkpoint = self._context.checkpoints.add(
            gx.Checkpoint(
                name=name,
                validation_definitions=[definition],
                actions=[],
                result_format={"result_format": "SUMMARY", "partial_unexpected_count": self._examples},
            )
        )
        try:
            told = checkpoint.run(batch_parameters={"dataframe": _with_conditions(rows, rules)})
        except Exception as error:  # whatever goes wrong in there says nothing about the rows
            return [Verdict(rule.name, rule.said, False, None, _first_line(error)) for rule in rules]
        ((place, result),) = told.run_results.items()
        verdicts = _verdicts(result, rules)
        for one in result.results:
            one.result, one.exception_info = harmless(one.result), harmless(one.exception_info)
        # The pages are made from what is kept.
        self._context.validation_results_store.set(place, result)
        return verdicts

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
    import great_expectations as gx

    context = _context()
    asset = context.data_sources.add_or_update_spark(name=_SOURCE, persist=False).add_dataframe_asset(name=name)
    batch = asset.add_batch_definition_whole_dataframe("rows").get_batch(
        batch_parameters={"dataframe": _with_conditions(rows, rules)}
    )
    suite = gx.ExpectationSuite(name=name, expectations=_expectations(rules))
    told = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": 0})
    return _verdicts(told, rules)


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


def _context() -> AbstractDataContext:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _with_conditions(rows: DataFrame, rules: Sequence[Invariant]) -> DataFrame:
    """A column of true and false per condition: of whole rules, and of which rows a rule is about."""
    columns = {}
    for rule in rules:
        if rule.expectation == SATISFY:
            columns[_holds(rule)] = sql_condition(rule.arguments["condition"], rows.schema)
        if _is_wide(rule):
            bounds = {name: said for name, said in rule.arguments.items() if name in BETWEEN_ARGUMENTS}
            # Of a null nobody asks where it lies.
            there = F.col(quote(rule.arguments["column"])).isNotNull()
            columns[_holds(rule)] = F.when(there, ~broken(rule.expectation, bounds, rows.schema))
        if "row_condition" in rule.arguments:
            about = sql_condition(rule.arguments["row_condition"], rows.schema)
            columns[_about(rule)] = F.coalesce(about, F.lit(False))
    return rows.withColumns(columns) if columns else rows


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
    return f"holds_{rule.name}"


def _about(rule: Invariant) -> str:
    return f"is_about_{rule.name}"


def _expectations(rules: Sequence[Invariant]) -> list[Any]:
    return [_expectation(rule, str(number)) for number, rule in enumerate(rules)]


def _expectation(rule: Invariant, number: str) -> Any:
    """The expectation's object; its number finds the rule again, since results come in another order."""
    import great_expectations.expectations as gxe
    from great_expectations.expectations.row_conditions import Column

    arguments = {name: said for name, said in rule.arguments.items() if name != "name"}
    kind = rule.expectation
    judged = _judged_here(rule)
    if judged:
        kind = "expect_column_values_to_be_in_set"
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
    for bound in set(BOUNDS) & set(arguments):
        # A text that it took for an instant would be one of the machine's time zone.
        setattr(made, bound, in_utc(getattr(made, bound)))
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


def _verdicts(result: ExpectationSuiteValidationResult, rules: Sequence[Invariant]) -> list[Verdict]:
    """In the order of the rules."""
    found = {int(_meta(said)["rule"]): said for said in result.results}
    return [_verdict(rule, found[number]) for number, rule in enumerate(rules)]


def _meta(said: Any) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = said.expectation_config.meta
    return meta


def _verdict(rule: Invariant, said: Any) -> Verdict:
    error = _error_of(said.exception_info or {})
    if error is not None:
        return Verdict(rule.name, rule.said, False, None, error)
    return Verdict(rule.name, rule.said, bool(said.success), (said.result or {}).get("unexpected_count"))


def _error_of(info: Mapping[str, Any]) -> str | None:
    """What went wrong inside: told flat, or nested by the metric that failed."""
    parts = [info, *(part for part in info.values() if isinstance(part, Mapping))]
    for part in parts:
        if part.get("raised_exception"):
            return _first_line(part.get("exception_message"))
    return None


def _first_line(said: object) -> str:
    lines = str(said or "").strip().splitlines()
    return lines[0] if lines else "no reason was given"
