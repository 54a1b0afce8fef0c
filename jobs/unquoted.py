"""Errors without the values of rows, which Spark may quote when it fails at a row.

Great Expectations passes on only the text of an error. So a text is reported as it is only if it is known to be about
columns; for any other, only the error condition is reported, or the class with which Java's message begins.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException, PythonException
from pyspark.logger import PySparkLogger

#: How every Spark error with a condition begins; the SQLSTATE shows that it is one.
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\] .*\bSQLSTATE: ", re.DOTALL)
_JOB: Final = r"(?:org\.apache\.spark\.SparkException: Job aborted [^\n]*? \(TID \d+\) \([^()\n]*\): )?"
_JAVA: Final = re.compile(rf"An error occurred while calling [\w.]+\n: {_JOB}([\w.$]+)")
#: Messages of Great Expectations about columns that are missing, or of the wrong type.
_OF_COLUMNS: Final = re.compile(
    r'(?:Error: )?The column "[^"\n]*" in BatchData does not exist\.'
    r"|Expected numeric column type for function \w+\(\)\. Recieved type: [^\n]+"
    r"|\w+ metrics cannot be computed on column of type [^\n]+"
)
#: SQLSTATE classes of errors about data, and of users' functions that failed.
_OF_ROWS: Final = ("22", "38", "39")
_WHY: Final = "Its words may quote a row; versioned validate tells them with examples: 1."
#: PySpark logs the error of each failed query to the console, even if somebody catches it.
_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def unquoted(error: Exception) -> str:
    """The kind of an error; its own text only if that is known to quote no row.

    >>> unquoted(ValueError("no date: 1970-01-01"))
    'ValueError. Its words may quote a row; versioned validate tells them with examples: 1.'
    """
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return unquoted_text(str(error), condition or type(error).__name__)


def unquoted_text(said: str, kind: str = "An error") -> str:
    """As :func:`unquoted`, for the text of an error.

    Args:
        said: The text.
        kind: What to report if the text does not begin with a condition or a class.

    >>> unquoted_text('Error: The column "size" in BatchData does not exist.')
    'Error: The column "size" in BatchData does not exist.'
    """
    if _OF_COLUMNS.fullmatch(said.strip()):
        return said.strip()
    found = _CONDITION.match(said) or _JAVA.match(said)
    return f"{found[1] if found else kind}. {_WHY}"


def may_quote(error: Exception) -> bool:
    """Whether an error is one about the values of rows, not about files, columns or settings."""
    if not isinstance(error, PySparkException):
        return False
    return isinstance(error, PythonException) or (error.getSqlState() or "").startswith(_OF_ROWS)


@contextmanager
def unlogged() -> Iterator[None]:
    """Within the block, PySpark does not log the errors of this thread's queries."""
    here = threading.get_ident()

    def is_of_another(record: object) -> bool:
        return getattr(record, "thread", None) != here

    logs = [PySparkLogger.getLogger(name) for name in _LOGS]
    for log in logs:
        log.addFilter(is_of_another)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(is_of_another)
