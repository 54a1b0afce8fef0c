"""Session settings under which an application's streaming query is made and started.

Spark clones the session for a query that starts, so the query keeps them, and the user's session gets its own back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from pyspark.sql import SparkSession

from versioned.session_settings import SharedSetting

_SETTINGS: Final = (
    # Offsets by position: checkpoint.py reads and extends no other files (docs/decisions/0005).
    SharedSetting("spark.sql.streaming.offsetLog.formatVersion", "1"),
    # If these are on, Spark refuses sources and sinks without a name of their own, such as the tick.
    SharedSetting("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false"),
    SharedSetting("spark.sql.streaming.queryEvolution.enableSinkEvolution", "false"),
    # If this is on, a column of type CHAR keeps its type, and Spark 4.2 cannot plan the union of the sources.
    SharedSetting("spark.sql.preserveCharVarcharTypeInfo", "false"),
)


@contextmanager
def query_settings(session: SparkSession) -> Iterator[None]:
    """Apply them while the block runs."""
    with ExitStack() as settings:
        for setting in _SETTINGS:
            settings.enter_context(setting.of(session))
        yield
