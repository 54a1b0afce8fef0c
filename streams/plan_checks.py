"""Finds what can never work in a plan, before anything runs.

Every refusal is a :class:`~versioned.errors.TopologyError` with the rule and the node. The facts about a node
(``streams.plan_facts``) depend on its ancestors only, so it is checked as soon as it is added. Whether names are unique
is checked once the whole plan is known.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, NoReturn

from streams.conditions import condition_fault
from streams.field_checks import check_fields, check_joined_keys, check_names
from streams.fields import WINDOW_FIELDS
from streams.key_fields import group_fields
from streams.nodes import (
    VIEWS,
    ForeignKeyJoin,
    GlobalTableSource,
    Materialized,
    Node,
    StreamAggregate,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableFilter,
    TableSource,
    TableTableJoin,
    ToTable,
    WindowedAggregate,
    materialized_of,
)
from streams.plan_facts import (
    history_retention_of,
    is_versioned,
    least_retention_us,
    side_without_versions,
    table_on_both_sides,
    tells_older_results,
    windowed_ancestor,
)
from streams.user_functions import check_functions
from suppress.suppressed import UntilTimeLimit, UntilWindowCloses
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import Resolution, duration_us, in_words
from versioned.errors import TopologyError

_LOG: Final = logging.getLogger(__name__)
#: Kafka's rule: with such a name, a table's folder cannot lie elsewhere or inside another table's.
_LEGAL_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")
_NAME: Final = "a name has 1 to 200 letters, digits, dots, dashes or underscores, and not only one or two dots"
#: In lower case, since Spark ignores the case of names.
_WINDOW_FIELDS: Final = frozenset(name.lower() for name in WINDOW_FIELDS)


def check_node(node: Node) -> None:
    """Refuse a node that can never work below its ancestors.

    Raises:
        TopologyError: with the rule and the node.
    """
    _check_name(node.name)
    check_joined_keys(node)
    check_fields(node)
    check_names(node)
    check_functions(node)
    for kind, check in _CHECKS:
        if isinstance(node, kind):
            check(node)
    materialized = materialized_of(node)
    if materialized is not None and materialized.name is not None:
        _check_table_name(node.name, materialized.name, "its store", "Materialized.with_name, in YAML with store.name")
    if materialized is not None and not materialized.is_versioned:
        _check_without_versions(node, materialized)


def tell_of(node: Node) -> None:
    """Log what may work differently in a node than expected; called once, when it is added to a plan."""
    materialized = materialized_of(node)
    if materialized is not None and materialized.retention is not None and not isinstance(node, WindowedAggregate):
        _LOG.info("%s: retention %s is ignored; it is for window stores only [R18]", node.name, materialized.retention)
    _warn_of_mixed_sides(node)
    _warn_of_one_table(node)


def check_plan(nodes: Iterable[Node]) -> None:
    """Refuse a plan with a node that can never work, an unknown parent, or a name given twice.

    Raises:
        TopologyError: with the rule and the node.
    """
    taken: dict[str, str] = {}
    known: set[Node] = set()
    for node in nodes:
        check_node(node)
        check_parents(node, known)
        known.add(node)
        materialized = materialized_of(node)
        for name in {node.name, materialized.name if materialized and materialized.name else node.name}:
            if name in taken:
                raise TopologyError(
                    "unique-names", node.name,
                    f'the name "{name}" is already that of {taken[name]}. A name is where state is found, so give '
                    "another one with name=, Materialized.with_name or Suppressed.with_name.",
                )  # fmt: skip
            taken[name] = f"the {type(node).__name__} {node.name}"


def check_parents(node: Node, known: set[Node]) -> None:
    """Refuse a node whose parents are not part of the plan.

    Raises:
        TopologyError: a parent comes later, or from another builder.
    """
    for parent in node.parents:
        if parent not in known:
            raise TopologyError(
                "one-builder", node.name, f"its parent {parent.name} is not part of this plan. Use one StreamsBuilder."
            )


def _warn_of_mixed_sides(node: Node) -> None:
    """Warn if only one side of a versioned join has versions: its result is not a true history."""
    plain = side_without_versions(node)
    if plain is not None:
        _LOG.warning(
            "%s is stored with versions, but %s has none: a version of the join holds what that table had when the "
            "record came, not what was true at its time. Store both sides with versions, or the join without [R157]",
            node.name, plain,
        )  # fmt: skip


def _warn_of_one_table(node: Node) -> None:
    """Warn if a join has one table on both sides: its results may outlive the rows that they were made of."""
    table = table_on_both_sides(node)
    if table is not None:
        _LOG.warning(
            "%s has %s on both sides, and as in Kafka Streams each change reaches both at once: an inner join never "
            "tells a deletion, and aggregates of its results count wrong. Make what is wanted of both sides by one "
            'map_values of the table, or store table and join with versions and history="complete" [R147]',
            node.name, table,
        )  # fmt: skip


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TopologyError("legal-names", repr(name), "a name is a text. Give one.")
    if not _LEGAL_NAME.fullmatch(name):
        raise TopologyError(
            "legal-names", name or "(empty)", f"{_NAME}, since tables are named after it. Give one with name=.",
        )  # fmt: skip


def _check_table_name(node: str, name: str, what: str, way: str) -> None:
    if not _LEGAL_NAME.fullmatch(name):
        raise TopologyError(
            "legal-names", node,
            f'{what} cannot be called "{name}": {_NAME}, since its table would lie in another one\'s folder or '
            f"elsewhere. Give another one with {way}.",
        )  # fmt: skip


def _check_without_versions(node: Node, stored: Materialized) -> None:
    """Refuse options that have an effect only in a table with versions, or in one with windows."""
    is_windowed = isinstance(node, WindowedAggregate)
    asked = {
        "system_history": stored.system_history,
        "late_policy": stored.late_policy != "drop" and not is_windowed,
        "time_resolution": stored.time_resolution is not Resolution.MICROSECOND and not is_windowed,
    }
    without_effect = [name for name, is_asked in asked.items() if is_asked]
    if without_effect:
        raise TopologyError(
            "versions", node.name,
            f"{' and '.join(without_effect)} would have no effect: its store keeps no versions. Use "
            "Materialized.versioned, or leave it out.",
        )  # fmt: skip


def _check_suppress(node: Suppress) -> None:
    parent = node.parents[0]
    if tells_older_results(parent):
        _refuse_complete_suppress(node, parent)
    if is_versioned(parent):
        _refuse_versioned_suppress(node, parent)
    if isinstance(node.suppressed, UntilWindowCloses):
        _check_final_results(node)
    unwindowed = windowed_ancestor(parent) is None
    if isinstance(node.suppressed, UntilTimeLimit) and node.suppressed.clock == "window_start" and unwindowed:
        raise TopologyError("R30", node.name, f'{parent.name} has no windows; use clock="record".')


def _refuse_versioned_suppress(node: Suppress, parent: Node) -> None:
    inherited = "" if materialized_of(parent) is not None else ", which it inherits from the tables it is made from"
    raise TopologyError(
        "R166" if inherited else "R165", node.name,
        f"suppress works on unversioned tables only, and {parent.name} is versioned{inherited}. Collapsing its updates "
        "would tear holes into its history. Store it with Materialized.key_value() first, or drop the suppression.",
    )  # fmt: skip


def _refuse_complete_suppress(node: Suppress, parent: Node) -> None:
    inherited = not isinstance(parent, TableTableJoin)
    of_it = f"{parent.name} is made from a join with" if inherited else f"{parent.name} is a join with"
    raise TopologyError(
        "R166" if inherited else "R165", node.name,
        f'suppress keeps the last update of a key, and {of_it} history="complete", which tells older results after '
        'newer ones: the latest would be lost. Join with history="latest", or drop the suppression.',
    )  # fmt: skip


def _check_final_results(node: Suppress) -> None:
    parent = node.parents[0]
    source = windowed_ancestor(parent)
    if source is None:
        _refuse_final_results(node, parent)
    held_before = _suppression_between(parent, source)
    if held_before is not None:
        raise TopologyError(
            "R54", node.name,
            f"{held_before.name} holds updates of {source.name} back, until after their window has closed here: one "
            "window would have several final results. Put the final results right behind the aggregate.",
        )  # fmt: skip
    _check_that_windows_close(node, source)


def _refuse_final_results(node: Suppress, parent: Node) -> NoReturn:
    why = f"final results need windows, and the keys of {parent.name} have none. Aggregate with windowed_by(...)"
    if sides := _joined_windows(parent):
        why = (
            f"final results stand right behind their windows, and {parent.name} has those of {' and '.join(sides)} "
            "joined. Make each of them final before the join"
        )
    raise TopologyError("R51", node.name, f"{why}, or use Suppressed.until_time_limit.")


def _joined_windows(node: Node) -> list[str]:
    """The windowed aggregates that a table joins, if it is a table-table join or a view of one; otherwise none."""
    if isinstance(node, (*VIEWS, Suppress)):
        return _joined_windows(node.parents[0])
    if not isinstance(node, TableTableJoin):
        return []
    sources = [windowed_ancestor(side) for side in node.parents]
    names = [name for side in node.parents for name in _joined_windows(side)]
    return list(dict.fromkeys([*(source.name for source in sources if source is not None), *names]))


def _check_that_windows_close(node: Suppress, source: WindowedAggregate) -> None:
    if isinstance(source.windows, UnlimitedWindows):
        raise TopologyError(
            "R9", node.name,
            f"the unlimited window of {source.name} never closes, so it has no final result. Use "
            "Suppressed.until_time_limit.",
        )  # fmt: skip
    if source.materialized is not None and source.materialized.time_scope == "key":
        raise TopologyError(
            "R54", node.name,
            f"windows of {source.name} close by the stream time of their own key, final results by that of all keys: "
            'one window would have several. Use time_scope="partition" or "store", or Suppressed.until_time_limit.',
        )  # fmt: skip


def _suppression_between(node: Node, source: Node) -> Suppress | None:
    while node is not source:
        if isinstance(node, Suppress):
            return node
        (node,) = node.parents
    return None


def _check_stream_table_join(node: StreamTableJoin) -> None:
    _check_not_outer(node, node.kind)
    if node.joined.name is not None:
        _check_table_name(node.name, node.joined.name, "its buffer", "Joined.with_name")
    table = node.parents[1]
    retention = history_retention_of(table)
    if node.joined.correction_retention is not None and retention is None:
        raise TopologyError("corrections", node.name, f"corrections need a versioned table; {table.name} is not.")
    if node.joined.on_expired != "null" and retention is None:
        raise TopologyError(
            "R139", node.name,
            f'on_expired="{node.joined.on_expired}" is for tables with a history that ends, and {table.name} keeps no '
            "versions. Leave it out, or use Materialized.versioned for the table.",
        )  # fmt: skip
    _check_too_late(node)
    if node.joined.grace is None:
        return
    if retention is None:
        raise TopologyError(
            "R145", node.name,
            f"a join grace needs a versioned table, and {table.name} is not: its value at an earlier time is unknown. "
            "Use Materialized.versioned for it, or leave the grace out.",
        )  # fmt: skip
    if node.joined.grace > retention:
        raise TopologyError(
            "R145", node.name,
            f"the join grace ({in_words(node.joined.grace)}) is larger than the history retention of {table.name} "
            f"({in_words(retention)}): a record would be looked up after its version has expired. Shorten the one or "
            "lengthen the other.",
        )  # fmt: skip


def _check_too_late(node: StreamTableJoin) -> None:
    if node.joined.too_late != "join" and node.joined.grace is None:
        raise TopologyError(
            "R145", node.name,
            f'too_late="{node.joined.too_late}" is about records beyond the join grace, and there is none. Give a '
            "grace, or leave it out.",
        )  # fmt: skip


def _check_not_outer(node: Node, kind: str) -> None:
    if kind == "outer":
        raise TopologyError("join-kind", node.name, f"a {type(node).__name__} is inner or left; outer has no meaning.")


def _check_table_table_join(node: TableTableJoin) -> None:
    unversioned = [parent.name for parent in node.parents if not is_versioned(parent)]
    if node.history == "complete" and unversioned:
        raise TopologyError(
            "R150", node.name,
            f'history="complete" joins versions over time; {" and ".join(unversioned)} keep none. Use '
            "Materialized.versioned for both sides.",
        )  # fmt: skip


def _check_windowed_aggregate(node: WindowedAggregate) -> None:
    _check_group_of_windows(node)
    needs_merger = node.aggregation.kind == "aggregate" and node.aggregation.merger is None
    if isinstance(node.windows, SessionWindows) and needs_merger:
        raise TopologyError("session-merger", node.name, "sessions merge; pass merger=(key, left, right) to aggregate.")
    materialized = node.materialized
    if materialized is None:
        return
    if materialized.is_versioned:
        raise TopologyError("window-store", node.name, "a window store cannot be versioned; use with_retention alone.")
    least_us = least_retention_us(node.windows)
    if materialized.retention is not None and least_us is not None and duration_us(materialized.retention) < least_us:
        parts = _size_and_grace(node.windows)
        raise TopologyError(
            "R14", node.name,
            f"a retention of {in_words(materialized.retention)} is shorter than {parts}: windows would be forgotten "
            "while they can still change. Lengthen the retention or shorten the grace.",
        )  # fmt: skip


def _check_merger(node: StreamAggregate | WindowedAggregate) -> None:
    has_sessions = isinstance(node, WindowedAggregate) and isinstance(node.windows, SessionWindows)
    if node.aggregation.merger is not None and not has_sessions:
        raise TopologyError(
            "session-merger", node.name,
            "merger would have no effect: it merges sessions, and there are none. Leave it out, or group by windows of "
            "SessionWindows.",
        )  # fmt: skip


def _check_group_of_windows(node: WindowedAggregate) -> None:
    """Refuse a group key that has window fields already: of two fields with one name, one would be lost."""
    group = group_fields(node) or ()
    taken = [name for name in group if name.lower() in _WINDOW_FIELDS]
    if taken:
        plain = ", ".join(f'"{name}": key.{name}' for name in group if name not in taken) or '"all": 1'
        raise TopologyError(
            "nested-windows", node.name,
            f"its groups have {' and '.join(taken)} already, which it puts behind the key itself. Behind a table with "
            f"windows regroup by the plain key, such as group_by(lambda key, value: {{{plain}}}); or give the fields "
            "other names.",
        )  # fmt: skip


def _size_and_grace(windows: Windows) -> str:
    grace = in_words(windows.grace_us)
    if isinstance(windows, TimeWindows):
        return f"size {in_words(windows.size_us)} + grace {grace}"
    if isinstance(windows, SessionWindows):
        return f"gap {in_words(windows.gap_us)} + grace {grace}"
    difference_us = windows.difference_us if isinstance(windows, SlidingWindows) else 0
    return f"twice the difference {in_words(difference_us)} + grace {grace}"


def _check_table_aggregate(node: TableAggregate) -> None:
    kind = node.aggregation.kind
    if kind in ("reduce", "aggregate") and node.aggregation.subtractor is None:
        raise TopologyError("R163", node.name, f"a {kind} of a table needs a subtractor for the old values.")


def _check_foreign_key_join(node: ForeignKeyJoin) -> None:
    _check_not_outer(node, node.kind)


def _check_global_table_join(node: StreamGlobalTableJoin) -> None:
    _check_not_outer(node, node.kind)
    if not isinstance(node.parents[1], GlobalTableSource):
        raise TopologyError("global-table", node.name, f"{node.parents[1].name} is not a global table.")


def _check_global_table(node: GlobalTableSource) -> None:
    if node.materialized is not None and node.materialized.is_versioned:
        raise TopologyError(
            "R170", node.name,
            "a global table cannot be versioned: its changes are not synchronised in time with any stream, so a "
            "look-up at a time would mean nothing. Use StreamsBuilder.table, or Materialized.key_value().",
        )  # fmt: skip


def _check_reorder(node: TableSource | ToTable) -> None:
    if node.reorder is not None and node.reorder < timedelta(0):
        raise TopologyError("R169", node.name, f"reorder must not be negative; got {in_words(node.reorder)}.")


def _check_condition(node: StreamFilter | TableFilter) -> None:
    fault = condition_fault(node.predicate)
    if fault is not None:
        raise TopologyError("condition", node.name, fault)


_CHECKS: Final[tuple[tuple[type[Node] | tuple[type[Node], ...], Callable[[Any], None]], ...]] = (
    (Suppress, _check_suppress),
    (StreamTableJoin, _check_stream_table_join),
    (TableTableJoin, _check_table_table_join),
    (ForeignKeyJoin, _check_foreign_key_join),
    (GlobalTableSource, _check_global_table),
    (StreamGlobalTableJoin, _check_global_table_join),
    (WindowedAggregate, _check_windowed_aggregate),
    ((StreamAggregate, WindowedAggregate), _check_merger),
    (TableAggregate, _check_table_aggregate),
    ((TableSource, ToTable), _check_reorder),
    ((StreamFilter, TableFilter), _check_condition),
)
