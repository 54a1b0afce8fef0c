"""Exit codes of programs: 0 done, 1 failed, 2 wrong usage or configuration, 3 problems in the data."""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException

from versioned import errors
from versioned.errors import VersionedError

DONE: Final = 0
FAILED: Final = 1
WRONG_SETTINGS: Final = 2
BAD_DATA: Final = 3

#: Java errors that Spark does not wrap, such as that of a damaged file.
try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
except ImportError:  # a client of Spark Connect alone
    OF_JAVA: tuple[type[Exception], ...] = ()
else:
    OF_JAVA = (Py4JJavaError,)

#: Errors that a program reports in words; any other error is a bug and keeps its traceback.
EXPECTED: Final[tuple[type[Exception], ...]] = (VersionedError, PySparkException, *OF_JAVA)

_CODES: Final[tuple[tuple[type[VersionedError], int], ...]] = (
    (errors.ConfigurationError, WRONG_SETTINGS),
    (errors.TopologyError, WRONG_SETTINGS),
    (errors.NotAVersionedTableError, WRONG_SETTINGS),
    (errors.RecordError, BAD_DATA),
    (errors.SchemaError, BAD_DATA),
    (errors.InvariantError, BAD_DATA),
    (errors.DataQualityError, BAD_DATA),
)
_TITLES: Final = {FAILED: "Failed", WRONG_SETTINGS: "Wrong settings", BAD_DATA: "Problem in the data"}
#: In the text of a Spark error, this comes before the stack of the JVM.
_STACK: Final = "\n\nJVM stacktrace:"
_CAUSE: Final = "Caused by: "
#: Spark passes on an error in a batch as text only, followed by its own state and the query's offsets.
_TOLD: Final = re.compile(
    r"^(?:versioned\.errors\.)(\w+): (.+?)(?:\n\s*\n|\n\tat |\s+SQLSTATE: |\n=== |\Z)", re.MULTILINE | re.DOTALL
)


def exit_code(error: BaseException) -> int:
    """The exit code of a program for an error.

    >>> exit_code(errors.ConfigurationError("trigger: unknown key")), exit_code(errors.CommitError("lost"))
    (2, 1)
    """
    kind = _original(error)[0]
    return next((code for known, code in _CODES if issubclass(kind, known)), FAILED)


def reason(error: BaseException) -> str:
    """The message to print for an error: the library's own text, even if the error came through Spark.

    >>> reason(errors.ConfigurationError("trigger: unknown key"))
    'Wrong settings: trigger: unknown key'
    """
    return f"{_TITLES[exit_code(error)]}: {_original(error)[1]}"


def words_of(error: PySparkException) -> str:
    """The message of an error of Spark or Delta, without the stack of the JVM."""
    try:
        said = error.getMessage()
    except Exception:  # Spark looks the message up in its own list, which lacks Delta's errors.
        said = ""
    return (said or str(error)).split(_STACK)[0].strip()


def line_of(error: BaseException) -> str:
    """Any error in one line; if Py4J passed it on from Java as it is, in Java's own words.

    >>> line_of(OSError("No space left\\non the device"))
    'OSError: No space left'
    """
    java = getattr(error, "java_exception", None)
    said = f"{type(error).__name__}: {error}" if java is None else str(java.toString())
    return errors.first_line(said)


def _original(error: BaseException) -> tuple[type[BaseException], str]:
    """The class and message of an error; if Spark wraps an error of the library in a micro-batch, of that one."""
    if isinstance(error, OF_JAVA):
        # The last cause names the file.
        causes = [line.removeprefix(_CAUSE) for line in str(error).splitlines() if line.startswith(_CAUSE)]
        return type(error), ", caused by ".join([line_of(error), *causes[-1:]])
    if not isinstance(error, PySparkException):
        return type(error), str(error)
    found = _TOLD.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, VersionedError):
        return type(error), words_of(error)
    return kind, found[2].strip()
