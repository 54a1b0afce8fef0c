"""Checks of a source's records, before the plan sees them.

``reason`` checks each row, and those that fail are put aside; ``look`` gets a whole batch, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import Column, DataFrame, SparkSession

from versioned import spark_functions as F
from versioned.errors import ConfigurationError, first_line
from versioned.given import check_function, check_kind, check_mapping, texts_of
from versioned.identifiers import quote

if TYPE_CHECKING:
    from streams.spark.sources import SparkSource


@dataclass(frozen=True)
class SourceChecks:
    """The user's checks of a topic's records.

    Args:
        reason: From a topic's rows, makes the column with the reason why a row is rejected (``QUALITY:<rule>``), null
            if it is valid. It must depend on the row alone, so that replays and any cut into batches decide alike.
        look: Called with a topic, its rows of a batch and the batch id, before anything is written; an error that it
            raises ends the query with nothing of the batch written.
        every: Only batches whose id is a multiple of this are passed to ``look``.
        columns: The columns that ``reason`` needs.
        patterns: The regular expressions that ``reason`` uses, by the names of their rules.

    Raises:
        ConfigurationError: an argument is of another kind, or ``every`` is below 1.
    """

    reason: Callable[[DataFrame], Column] | None = None
    look: Callable[[str, DataFrame, int], None] | None = None
    every: int = 1
    columns: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_function("reason", self.reason, "a function of a DataFrame that gives a column")
        check_function("look", self.look, "a function of a topic, its rows and the batch id")
        check_kind("every", self.every, int, "a whole number of batches")
        if self.every < 1:
            raise ConfigurationError(f"every must be at least 1; got {self.every}.")
        object.__setattr__(self, "columns", texts_of("columns", self.columns, "names of columns"))
        check_mapping("patterns", self.patterns, str, "a regular expression")

    def is_due(self, batch_id: int) -> bool:
        """Whether this batch is passed to ``look``.

        >>> [batch for batch in range(5) if SourceChecks(look=print, every=2).is_due(batch)]
        [0, 2, 4]
        """
        return self.look is not None and batch_id % self.every == 0


def rejection(raw: DataFrame, checks: SourceChecks | None) -> Column:
    """The reason why each raw row is rejected by the checks of its source; null = it is not."""
    if checks is None or checks.reason is None:
        return F.lit(None).cast("string")
    return checks.reason(raw)


def check_reasons(united: DataFrame, sources: Mapping[str, SparkSource]) -> None:
    """Refuse rules that cannot be evaluated on the columns of their source. Runs one tiny job per pattern only.

    Args:
        united: The columns of the sources, a struct column per topic.
        sources: Topic -> source.

    Raises:
        ConfigurationError: a rule cannot be evaluated; with its topic and Spark's message.
    """
    judging = {topic: source.checks for topic, source in sources.items() if source.checks and source.checks.reason}
    for topic, checks in judging.items():
        for rule, pattern in checks.patterns.items():
            _check_pattern(united.sparkSession, f'Topic "{topic}": rule "{rule}"', pattern)
        rows = united.select(f"{quote(topic)}.*")
        try:
            # Reading the schema makes Spark Connect resolve the names.
            rows.select(rejection(rows, checks)).schema  # noqa: B018
        except AnalysisException as error:
            raise ConfigurationError(
                f'Topic "{topic}": its rules of quality cannot be judged: {first_line(error)}. Correct the rule, or '
                "the columns of the source."
            ) from None


def _check_pattern(session: SparkSession, where: str, pattern: str) -> None:
    # Spark only compiles a pattern when it meets a value; for a constant, the planner does.
    of_nothing = F.regexp_extract(F.lit(""), pattern, 0)
    try:
        session.sql("SELECT 1").select(of_nothing).collect()
    except SparkRuntimeException:
        raise ConfigurationError(f'{where}: "{pattern}" is no regular expression of Java. Correct it.') from None


def look_at(
    sources: Mapping[str, SparkSource],
    records: Callable[[str], DataFrame],
    arrived: Collection[str],
    batch_id: int,
) -> None:
    """Pass the rows of a batch to the ``look`` of their sources' checks.

    Args:
        sources: Topic -> source.
        records: Returns a topic's rows.
        arrived: The topics that have rows in this batch.
        batch_id: The batch.
    """
    for topic, source in sources.items():
        checks = source.checks
        if topic in arrived and checks is not None and checks.look is not None and checks.is_due(batch_id):
            checks.look(topic, records(topic), batch_id)
