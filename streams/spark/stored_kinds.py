"""The kind of a stored table, found from its properties and columns without a plan.

========== ====================================================================================================
versions   a versioned table
windows    the window store of a windowed aggregate
buffer     what a suppression holds back
waiting    records that wait for stream time: a join with grace, a table with reorder
join       the buffer of a stream-stream join
answers    what a correction feed remembers
ledger     one row per batch, and one where an epoch begins
rejects    records put aside
sink       a changelog, or a table that a sink keeps
table      the latest value per key
other      anything else
========== ====================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streams.field_checks import ANSWERED, HELD, PAIRED, SUPPRESSED
from streams.fields import WINDOW_END
from streams.spark.window_upkeep import KIND, NODE, WINDOW_STORE
from versioned.spec import SPEC_PROPERTY, VersionedTableSpec

TableKind = Literal[
    "versions", "windows", "buffer", "waiting", "join", "answers", "ledger", "rejects", "sink", "table", "other"
]

#: The columns that identify a kind, the most specific kind first; the first of these columns follows the key.
_SIGNS: Final[Mapping[TableKind, tuple[str, ...]]] = {
    "ledger": ("application", "epoch", "batch_id", "clock", "state"),
    "rejects": ("node", "reason", "ts", "scope", "place", "record"),
    "buffer": SUPPRESSED,
    "join": PAIRED,
    "waiting": (*HELD, "_scope", "_seq", "_batch_id"),
    "answers": (*ANSWERED, "_scope", "_seq"),
    "sink": ("ts", "_batch_id", "_scope", "_seq"),
    "table": ("ts",),
}
#: Kinds whose key columns come before the first of these columns.
_KEYED: Final = ("buffer", "join", "waiting", "answers", "table")
#: A sink has these, in this order, after a user's columns, which may have any names; no other kind has them so.
_IN_A_SINK: Final = ("_batch_id", "_scope", "_seq")


@dataclass(frozen=True)
class StoredTable:
    """A stored table: its name, kind, columns and, as far as they are known, key columns.

    ``node`` is the operator that owns it, if the table's properties say so; ``spec`` a versioned table's contract.
    """

    name: str
    kind: TableKind
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    node: str | None = None
    spec: VersionedTableSpec | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """A versioned table's value columns."""
        return () if self.spec is None else self.spec.values


def stored_table(name: str, columns: Sequence[str], properties: Mapping[str, str]) -> StoredTable:
    """A table's kind and key columns, found from its columns and properties.

    Args:
        name: Its name.
        columns: Its columns, in order.
        properties: Its Delta table properties.

    >>> stored_table("priced_waiting", ["id", "value", "ts", "deadline", "_scope", "_seq", "_batch_id"], {}).keys
    ('id',)
    >>> stored_table("told", ["id", "value", "deadline", "ts", "_batch_id", "_scope", "_seq"], {}).kind
    'sink'
    >>> stored_table("mine", ["a", "b"], {}).kind
    'other'
    """
    if SPEC_PROPERTY in properties:
        spec = VersionedTableSpec.from_properties(properties, name)
        return StoredTable(name, "versions", tuple(columns), spec.keys, None, spec)
    if properties.get(KIND) == WINDOW_STORE:
        keys = tuple(columns[: columns.index(WINDOW_END) + 1])
        return StoredTable(name, "windows", tuple(columns), keys, properties.get(NODE))
    kind: TableKind = "sink" if _is_sink(columns) else _signed(columns)
    keys = tuple(columns[: columns.index(_SIGNS[kind][0])]) if kind in _KEYED else ()
    return StoredTable(name, kind, tuple(columns), keys)


def _is_sink(columns: Sequence[str]) -> bool:
    first = columns.index(_IN_A_SINK[0]) if _IN_A_SINK[0] in columns else len(columns)
    return "ts" in columns and tuple(columns[first : first + len(_IN_A_SINK)]) == _IN_A_SINK


def _signed(columns: Sequence[str]) -> TableKind:
    return next((kind for kind, signs in _SIGNS.items() if set(signs) <= set(columns)), "other")
