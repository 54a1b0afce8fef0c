"""What the documentation says is stored, and can be asked in SQL, is what the engine stores and makes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Final

import pytest
from doc_blocks import DOCS

from streams import BufferConfig, Joined, JoinWindows, Materialized, StreamsBuilder, Suppressed, TimeWindows
from streams.nodes import (
    ChangelogSink,
    CorrectionFeed,
    ForeignKeyJoin,
    GlobalTableSource,
    Node,
    StreamAggregate,
    StreamStreamJoin,
    Suppress,
    TableAggregate,
    TableSink,
    TableSource,
    Topology,
    ToTable,
    WindowedAggregate,
)
from streams.spark import sql_views
from streams.spark.engine import operators_of
from streams.spark.stored_kinds import _SIGNS as SIGNS
from streams.spark.stored_kinds import TableKind
from versioned import sql
from versioned.identifiers import TableRef

_ROOT: Final = TableRef.parse("/root")
_LIMIT: Final = Suppressed.until_time_limit("1 minute", BufferConfig.unbounded())
#: The nodes that have a table of their own although their plan names no store, as the page calls them.
_OWNERS: Final[dict[type[Node], str]] = {
    ChangelogSink: "a sink",
    TableSink: "a sink",
    Suppress: "a suppression",
    StreamStreamJoin: "a stream-stream join",
    CorrectionFeed: "a correction feed",
    TableSource: "a table",
    GlobalTableSource: "a table",
    ToTable: "a table",
    StreamAggregate: "an aggregate",
    WindowedAggregate: "an aggregate",
    TableAggregate: "an aggregate",
    ForeignKeyJoin: "a foreign-key join",
}


def _section(page: str, begin: str, end: str = "\n## ") -> str:
    return (DOCS / page).read_text(encoding="utf-8").split(begin)[1].split(end)[0]


def _without_stores() -> Topology:
    """Every kind of node; what may do without a store is given none."""
    builder = StreamsBuilder()
    history = builder.table("h", Materialized.versioned("1 hour"), key="k", value="h")
    plain, other = (builder.table(topic, key="k", value=topic) for topic in "ab")
    everywhere = builder.global_table("g", key="k", value="g")
    stream, second = (builder.stream(topic, key="k", value=topic) for topic in "st")
    plain.filter(lambda value: value.a > 0).map_values(lambda value: {"m": value.a}).to_stream().to_latest("latest")
    plain.join(other).to_changelog("changes")
    plain.join(other, foreign_key="a")
    plain.group_by("a").count()
    stream.filter(lambda value: value.s > 0).map_values(lambda value: {"n": value.s}).select_key(
        lambda value: {"k": value.n}
    ).to_table()
    stream.join(everywhere, key="s")
    stream.join(second, windows=JoinWindows.of("1 minute"))
    stream.join(history, joined=Joined().with_corrections("1 minute")).corrections()
    stream.group_by_key().count()
    stream.group_by_key().windowed_by(TimeWindows.of("1 minute")).count().suppress(_LIMIT)
    return builder.build()


def _with_tables_beside() -> Topology:
    """Every node that has more than one table, or one that is not called as it is."""
    builder = StreamsBuilder()
    known = Materialized.versioned("1 hour", name="known", system_history=True)
    history = builder.table("h", known, key="k", value="h", reorder="1 minute")
    stream = builder.stream("s", key="k", value="s")
    stream.join(history, joined=Joined.with_grace_period("1 minute"), name="held").to_changelog("priced")
    stream.group_by_key().count(materialized=Materialized.versioned("1 hour", name="counted"))
    limited = builder.table("a", key="k", value="a").suppress(_LIMIT, name="limited")
    stream.join(limited, name="found").to_changelog("told")
    closing = Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True, retention="1 hour")
    windows = stream.group_by_key().windowed_by(TimeWindows.of("1 minute")).count(name="windows")
    windows.suppress(closing, name="final")
    return builder.build()


def test_every_kind_of_node_that_has_a_table_unasked_is_named() -> None:
    operators = operators_of(_without_stores()).values()
    assert {type(operator.node) for operator in operators if operator.tables(_ROOT)} == set(_OWNERS)
    rows = re.findall(r"^\| (.+?) \| one", _section("operations.md", "## What lies where"), re.MULTILINE)
    assert set(_OWNERS.values()) <= {words for row in rows for words in row.split(", ")}


def test_every_table_beside_that_of_a_node_is_named() -> None:
    operators = operators_of(_with_tables_beside()).values()
    names = [table.short_name for operator in operators for table in operator.tables(_ROOT)]
    beside = {f"_{name.rpartition('_')[2]}" for name in names if "_" in name}
    assert beside == set(re.findall(r"`<(?:name|node)>(_\w+)`", _section("operations.md", "## What lies where")))


def test_every_view_and_function_of_sql_is_named() -> None:
    named = re.findall(r"(?:<name>|ledger)_(\w+?)(?:\(.*?\))?`", _section("reference/sql.md", "# SQL", "## "))
    assert set(named) == {ending for module in (sql_views, sql) for ending in _endings_made_in(module)} - {""}


def _endings_made_in(module: ModuleType) -> Iterator[str]:
    """How the name of each view or function that a module makes ends; nothing is behind that of a table itself."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        is_made = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if is_made and node.func.attr in ("view", "function"):
            yield str(ast.literal_eval(node.args[1]))


@pytest.mark.parametrize("kind", ["buffer", "waiting", "join"])
def test_every_column_of_held_rows_that_a_view_shows_is_on_the_page_of_sql(kind: TableKind) -> None:
    section = _section("reference/sql.md", "## What is held back")
    # Whether a record was sent out without a partner is not shown.
    shown = [sign for sign in SIGNS[kind] if sign[0] != "_" and sign != "padded"]
    assert [column for column in shown if not re.search(rf"\b{column}\b", section)] == []
