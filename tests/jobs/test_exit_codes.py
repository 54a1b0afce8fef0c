"""How programs end: the code of each error, and its own words, also where Spark wraps it."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from jobs.cli_shared import commands
from jobs.exit_codes import EXPECTED, exit_code, reason
from jobs.validate import _unread
from versioned import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 2),
        (errors.TopologyError("R1", "n", "x"), 2),
        (errors.NotAVersionedTableError("x"), 2),
        (errors.SchemaError("x"), 3),
        (errors.RecordError("x"), 3),
        (errors.InvariantError("x"), 3),
        (errors.BufferFullError("x"), 1),
        (errors.CheckpointMismatchError("x"), 1),
        (errors.FencedError("x"), 1),
        (errors.ReplayMismatchError("x"), 1),
        (errors.CommitError("x"), 1),
        (errors.RetentionError("x"), 1),
        (errors.VersionedError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: errors.VersionedError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    "behind",
    [
        "\n\n\tat org.apache.spark.Any.run(Any.java)",
        "\n SQLSTATE: 39000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: events [id = 1, runId = 2]\n",
    ],
    ids=["a stack", "the query"],
)
def test_an_error_of_a_batch_is_told_in_its_own_words_although_spark_wraps_it(behind: str) -> None:
    from pyspark.errors import StreamingQueryException

    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. "
        "Reason: Traceback (most recent call last):\n"
        '  File "application.py", line 1, in _run_batch\n'
        "versioned.errors.SchemaError: events: the column kind is missing." + behind
    )
    wrapped = StreamingQueryException(text)
    assert exit_code(wrapped) == 3
    assert reason(wrapped) == "Problem in the data: events: the column kind is missing."


def test_an_error_for_which_spark_has_no_words_is_told_without_the_stack_of_the_jvm() -> None:
    from pyspark.errors import PySparkException

    class OfDelta(PySparkException):
        def getMessage(self) -> str:
            raise RuntimeError("Cannot find main error class 'DELTA_UNSUPPORTED_DATA_TYPES'")

        def __str__(self) -> str:
            return "[DELTA_UNSUPPORTED_DATA_TYPES] Found columns.\n\nJVM stacktrace:\norg.apache.spark.sql.delta"

    assert reason(OfDelta("x")) == "Failed: [DELTA_UNSUPPORTED_DATA_TYPES] Found columns."


def _of_java() -> Exception:
    protocol = pytest.importorskip("py4j.protocol")

    class OfJava(protocol.Py4JJavaError):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.java_exception = "org.apache.spark.SparkException: Job aborted"

        def __str__(self) -> str:
            return f"{self.java_exception}\n\tat a.b\nCaused by: first\n\tat c.d\nCaused by: it is not a Parquet file\n"

    error = OfJava()
    error.java_exception = Mock(toString=lambda: "org.apache.spark.SparkException: Job aborted")
    return error


def test_an_error_of_java_that_spark_does_not_wrap_is_told_in_a_line_with_its_last_cause() -> None:
    error = _of_java()
    assert isinstance(error, EXPECTED)
    assert reason(error) == "Failed: org.apache.spark.SparkException: Job aborted, caused by it is not a Parquet file"


def test_a_report_tells_no_cause_of_an_error_of_java_for_it_may_quote_a_row() -> None:
    (told,) = _unread(Mock(examples=False), "prices", "versions", 0, _of_java()).errors.values()
    assert told == "org.apache.spark.SparkException: Job aborted"


_PUBLIC_ERRORS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.VersionedError)),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", _PUBLIC_ERRORS, ids=lambda kind: kind.__name__)
def test_a_command_ends_with_the_code_of_any_error_and_without_a_traceback(kind: type[errors.VersionedError]) -> None:
    said = kind("rule", "node", "the words") if issubclass(kind, errors.TopologyError) else kind("the words")
    group = commands("a group")

    @group.command()
    def fails() -> None:
        raise said

    @group.command()
    def works() -> None:
        """A group of one command would be that command."""

    ended = CliRunner().invoke(group, ["fails"])
    assert (ended.exit_code, "the words" in ended.stderr, "Traceback" in ended.output) == (exit_code(said), True, False)
    assert ended.exit_code in (1, 2, 3)


def test_what_nobody_expected_keeps_its_traceback() -> None:
    group = commands("a group")

    @group.command()
    def fails() -> None:
        raise ZeroDivisionError

    @group.command()
    def works() -> None:
        """A group of one command would be that command."""

    ended = CliRunner().invoke(group, ["fails"])
    assert (ended.exit_code, type(ended.exception)) == (1, ZeroDivisionError)
