"""``python -m jobs.ask --work FOLDER "SELECT ..."``: run SQL over the tables of an application, in ``FOLDER/tables``.

Every table is available under its own name, along with views and table functions such as ``<name>_current`` and
``<name>_as_of(ts)`` of a versioned table (docs/reference/sql.md). Without a query, statements are read from the console
or from a file on standard input.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.exit_codes import words_of
from jobs.place_setting import work_folder
from jobs.session import build_session
from streams.spark.sql_views import register_application_sql
from versioned.errors import ConfigurationError

_ROWS: Final = 40
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def register_tables(spark: SparkSession, root: Path) -> list[str]:
    """Register every Delta table below ``root`` for SQL in this session.

    Returns:
        The names of views and functions.

    Raises:
        ConfigurationError: there are no tables, or none that can be opened.
    """
    if not any(root.glob("*/_delta_log")):
        raise ConfigurationError(
            f"There are no tables below {root}. Run the application that writes its tables there (for the quickstart: "
            '"make quickstart"), or use --work to name the folder that contains its "tables" folder.'
        )
    names = register_application_sql(spark, str(root))
    if not names:
        raise ConfigurationError(f"None of the tables below {root} can be opened; the warnings above say why.")
    return names


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Split lines into SQL statements. A semicolon at the end of a line ends one; the last may lack it.

    Text that consists of comments only is left out.

    >>> list(statements(["SELECT 1", " AS one;", "", "SELECT 2"]))
    ['SELECT 1\\n AS one', 'SELECT 2']
    """
    return (text for text in _texts(lines) if _COMMENT.sub("", text).strip())


def _texts(lines: Iterable[str]) -> Iterator[str]:
    said: list[str] = []
    for line in lines:
        said.append(line.rstrip())
        if said[-1].endswith(";"):
            yield "\n".join(said).strip().removesuffix(";")
            said = []
    yield "\n".join(said).strip()


def answer(spark: SparkSession, query: str) -> bool:
    """Print the result of a query, or its error to stderr; return whether it succeeded."""
    try:
        spark.sql(query).show(_ROWS, truncate=False)
    except PySparkException as error:
        print(words_of(error), file=sys.stderr)
        return False
    return True


def main() -> int:
    """Run the program. Exit codes: 0 all queries succeeded, 1 a query failed, 2 no tables or wrong settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path(".quickstart"), help="the run's work folder (default: .quickstart)"
    )
    parser.add_argument("query", nargs="?", help="one SQL statement (default: read statements from the console)")
    args = parser.parse_args()
    try:
        root = work_folder(args.work).resolve() / "tables"
        spark = build_session("ask")
        names = register_tables(spark, root)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    if args.query is not None:
        return 0 if answer(spark, args.query) else 1
    if sys.stdin.isatty():
        print(f"Tables, views and functions: {', '.join(names)}\nEnd a statement with ; and the session with Ctrl-D.")
    answers = [answer(spark, query) for query in statements(sys.stdin)]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
