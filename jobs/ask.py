"""``python -m jobs.ask --work FOLDER "SELECT ..."``: SQL over the tables of an application.

Every table is there under its own name. A versioned table also has a view ``<name>_current`` and the functions
``<name>_as_of(ts)`` and ``<name>_between(a, b)``. Without a query, the names are listed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.session import build_session
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.table import VersionedTable

_LOGGING: Final = Path(__file__).parents[1] / "conf" / "log4j2.properties"
_ROWS: Final = 40


def register_tables(spark: SparkSession, root: Path) -> list[str]:
    """Make every Delta table below ``root`` known to SQL in this session.

    Returns:
        The names of views and functions.

    Raises:
        ConfigurationError: there are no tables.
    """
    folders = sorted(log.parent for log in root.glob("*/_delta_log"))
    if not folders:
        raise ConfigurationError(
            f'There are no tables below {root}. Run "make quickstart" first, or name another folder.'
        )
    names = []
    for folder in folders:
        spark.read.format("delta").load(str(folder)).createOrReplaceTempView(folder.name)
        names.append(folder.name)
        try:
            names += VersionedTable.open(spark, str(folder)).register_sql(folder.name)
        except NotAVersionedTableError:
            continue
    return names


def main() -> int:
    """Exit codes: 0 answered, 1 the query failed, 2 no tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path(".quickstart"), help="folder of the run (default .quickstart)"
    )
    parser.add_argument("query", nargs="?", help="one SQL statement")
    args = parser.parse_args()
    quiet = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"}
    spark = build_session("ask", quiet)
    try:
        names = register_tables(spark, args.work.resolve() / "tables")
        if args.query is None:
            print("\n".join(names))
        else:
            spark.sql(args.query).show(_ROWS, truncate=False)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    except PySparkException as error:
        print(error.getMessage() or error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
