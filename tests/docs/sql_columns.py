"""The columns of views and functions of SQL, read from the statements that make them; no Spark is started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from streams.spark import sql_views
from streams.spark.window_upkeep import KIND, WINDOW_STORE
from versioned.spec import VersionedTableSpec
from versioned.system_history import _columns_of_puts as columns_of_puts

_SPEC: Final = VersionedTableSpec.of(keys="key", values="value", history_retention="1 day", system_history=True)
_TYPES: Final = StructType([StructField("key", StringType()), StructField("value", DoubleType())])
_VERSIONED: Final = "versioned table"
#: A table of each kind, by its columns and properties.
_STORED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    _VERSIONED: ("key validFrom validTo value deleted _current", _SPEC.to_properties()),
    "window store": ("key windowStart windowEnd count maxTs _scope _open", {KIND: WINDOW_STORE}),
    "buffer of a suppression": ("key value ts bufferTime deadline arrivedAt size _scope", {}),
    "records that wait": ("key value ts deadline _scope _seq _batch_id", {}),
    "buffer of a stream-stream join": ("key side left right ts matched padded _arrival _scope", {}),
}
_MADE: Final = re.compile(r"CREATE OR REPLACE TEMPORARY \w+ `name_(\w+)`(?:\((.*?)\))?.*?SELECT (.*?) FROM ")


def table() -> str:
    """The SQL views and functions of each kind of table, with their columns in order, in Markdown."""
    rows = ["| table | view or function | columns |", "|---|---|---|"]
    for kind, (columns, properties) in _STORED.items():
        rows += [_row(kind, *made) for made in _made(columns.split(), properties)]
        if kind == _VERSIONED:
            rows.append(_row("its system history", "<name>_known", columns_of_puts(_TYPES, _SPEC).names))
    return "\n".join(rows)


def _row(kind: str, name: str, columns: list[str]) -> str:
    return f"| {kind} | `{name}` | {', '.join(f'`{column}`' for column in columns)} |"


def _made(columns: list[str], properties: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each view and function of a table: how it is called, and its columns."""
    said = list[str]()
    session: Any = SimpleNamespace(sql=said.append, conf=SimpleNamespace(get=lambda _, default: default))
    with (
        patch.object(sql_views, "read_table", lambda *_: SimpleNamespace(columns=columns)),
        patch.object(sql_views, "properties_of", lambda *_: properties),
    ):
        sql_views.register_table_sql(session, "t", "name")
    for statement in said:
        found = _MADE.match(statement)
        assert found is not None, statement
        ending, arguments, shown = found.groups()
        called = f"({arguments.replace(' TIMESTAMP_LTZ', '')})" if arguments else ""
        yield f"<name>_{ending}{called}", [column.split(" AS ")[-1].strip("`") for column in shown.split(", ")]
