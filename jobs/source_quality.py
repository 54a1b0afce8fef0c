"""Applies the rules of a source: rejects rows by a condition, or checks batches with Great Expectations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame

from jobs.expectations import Verdict, judge_batch
from jobs.quality_settings import QualitySettings
from streams.reasons import QUALITY
from streams.spark.invariants import Invariant
from streams.spark.row_rules import broken, columns_of
from streams.spark.source_checks import SourceChecks
from versioned import spark_functions as F
from versioned.errors import DataQualityError, ExpectationError

_LOG: Final = logging.getLogger(__name__)


def checks_of(quality: QualitySettings | None) -> SourceChecks | None:
    """The checks that the application makes of a source's records; None if its settings ask for none."""
    if quality is None:
        return None
    if quality.policy == "reject":
        rules = quality.rules
        named = (name for rule in rules for name in columns_of(rule.expectation, rule.arguments))
        patterns = {rule.name: rule.arguments["regex"] for rule in rules if "regex" in rule.arguments}
        return SourceChecks(reason=rejecting(rules), columns=tuple(dict.fromkeys(named)), patterns=patterns)
    return SourceChecks(look=_Look(quality), every=quality.every) if quality.every else None


class rejecting:  # noqa: N801 - reads as a function; a class can be pickled
    """The reason to reject a row: ``QUALITY:`` and the first rule that it breaks; null if it breaks none."""

    def __init__(self, rules: Sequence[Invariant]) -> None:
        self._rules = tuple(rules)

    def __call__(self, raw: DataFrame) -> Column:
        is_broken = {rule.name: broken(rule.expectation, rule.arguments, raw.schema) for rule in self._rules}
        return F.coalesce(*(F.when(mark, f"{QUALITY}:{name}") for name, mark in is_broken.items()))


class _Look:
    """Judges a batch, and warns or fails."""

    def __init__(self, quality: QualitySettings) -> None:
        self._rules = quality.rules
        self._fails = quality.policy == "fail"

    def __call__(self, topic: str, rows: DataFrame, batch_id: int) -> None:
        verdicts = judge_batch(topic, rows, self._rules)
        where = f'Topic "{topic}", batch {batch_id}'
        errors = {found.rule: found.error for found in verdicts if found.error is not None}
        if errors:
            end = self._end("the rules", topic)
            self._tell(
                ExpectationError(f"{where}: rules that could not be judged: {errors}. Look at their arguments. {end}")
            )
        wrong = wrong_of(verdicts)
        if wrong:
            end = self._end("the input", topic)
            self._tell(
                DataQualityError(f"{where}: rules that do not hold, and the rows that break them: {wrong}. {end}")
            )

    def _end(self, wrong: str, topic: str) -> str:
        """What became of the batch, and how to go on. Of a refused batch nothing is committed, so it may change."""
        if not self._fails:
            return "The batch was taken as it is."
        return (
            f"Nothing of the batch was written. Correct {wrong} and start again, or let the batch in with policy warn, "
            f"or reject: --set sources.{topic}.quality.policy=warn"
        )

    def _tell(self, error: ExpectationError | DataQualityError) -> None:
        if self._fails:
            raise error
        _LOG.log(logging.ERROR if isinstance(error, ExpectationError) else logging.WARNING, "%s", error)


def wrong_of(verdicts: Sequence[Verdict]) -> dict[str, int | None]:
    """The rules that do not hold, and how many rows break each; None where a rule counts no rows."""
    return {found.rule: found.broken for found in verdicts if not found.holds and found.error is None}
