"""The contract of a source, and what happens to rows that break it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import StructType

from streams.nodes import SOURCES, Node
from streams.options import Action, Extra, TsUnit
from streams.reasons import INVALID
from versioned.choices import check_choice
from versioned.errors import ConfigurationError
from versioned.given import check_flag, check_kind, check_mapping, check_optional, near
from versioned.schema import columns_of

#: The same as Kafka's default for the size of a message.
_LARGEST: Final = 1 << 20


@dataclass(frozen=True)
class InputContract:
    """What the rows of a source must look like. A row that does not is rejected with a reason, never accepted in part.

    Args:
        types: DDL of the topic's columns, if the source has other types or more columns. Each row is cast on its own: a
            row with a value that does not fit is ``BAD_TYPE``. Fractions never become whole numbers, and text becomes a
            timestamp only with its offset from UTC. Columns that are not listed here are extra columns.
        extra_columns: ``ignore`` leaves extra columns out; ``fail`` refuses to start. No table ever gets new columns.
        max_bytes: The largest text and binary content of a row, in bytes. A larger row is ``TOO_LARGE``, and is kept
            truncated. None = any size.
        ts_unit: The unit of an event time column of whole numbers; required for such a column.
        unique: Whether each (partition, sequence) occurs only once, in a sequence that only grows. Then a second one is
            a ``DUPLICATE``; so is, in a later batch, any record at or before the greatest sequence of its partition's
            valid records. Invalid records do not count, so that no valid one is lost because of a wrong sequence.
        allow_float_keys: Whether keys may be floating-point numbers, for which NaN and -0.0 are traps. Never allowed in
            a versioned table.
        on_invalid: What to do with invalid records, by reason; ``reject`` by default. Downstream nodes use the
            strictest action of the sources that they read.

    Raises:
        ConfigurationError: an argument of the wrong kind, an unknown reason or action, or a size below 1.

    >>> InputContract(on_invalid={"NULL_TS": "fail"}).action("NULL_TS")
    'fail'
    >>> InputContract(on_invalid={"NUL_TS": "fail"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: on_invalid.NUL_TS: there is no such reason; did you mean ...
    """

    types: str | StructType | None = None
    extra_columns: Extra = "ignore"
    max_bytes: int | None = _LARGEST
    ts_unit: TsUnit | None = None
    unique: bool = False
    allow_float_keys: bool = False
    on_invalid: Mapping[str, Action] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_optional("types", self.types, (str, StructType), 'DDL, such as "id STRING", or a StructType')
        check_mapping("on_invalid", self.on_invalid, object, '"reject", "drop" or "fail"')
        for reason, action in self.on_invalid.items():
            if reason not in INVALID:
                raise ConfigurationError(
                    f"on_invalid.{reason}: there is no such reason{near(reason, INVALID)} "
                    f"Allowed here: {', '.join(INVALID)}"
                )
            check_choice(f"on_invalid.{reason}", action, Action)
        check_choice("extra_columns", self.extra_columns, Extra)
        check_flag("unique", self.unique)
        check_flag("allow_float_keys", self.allow_float_keys)
        if self.ts_unit is not None:
            check_choice("ts_unit", self.ts_unit, TsUnit)
        if self.max_bytes is None:
            return
        check_kind("max_bytes", self.max_bytes, int, "a whole number of bytes, such as 1_048_576; None = any size")
        if self.max_bytes < 1:
            raise ConfigurationError(f"max_bytes must be at least 1; got {self.max_bytes}. None = any size.")

    def declared(self) -> StructType | None:
        """The declared columns; None if there are none. Needs a running session.

        Raises:
            ConfigurationError: they are not written as DDL, or have texts of a bounded length.
        """
        if self.types is None:
            return None
        try:
            return columns_of(self.types)
        except ConfigurationError as error:
            raise ConfigurationError(f"types: {error}") from error

    def action(self, reason: str) -> Action:
        """What to do with a record that has this reason."""
        return self.on_invalid.get(reason.partition(":")[0], "reject")


def action_at(node: Node, reason: str, contracts: Mapping[str, InputContract]) -> Action:
    """What a node does with a record of this reason: the strictest action of any of its sources' contracts.

    Args:
        node: The node that puts the record aside.
        reason: Why it is put aside.
        contracts: The contract of each topic.
    """
    asked = {contracts[topic].action(reason) for topic in _topics(node)}
    return next((action for action in ("fail", "reject", "drop") if action in asked), "reject")


def _topics(node: Node) -> set[str]:
    if isinstance(node, SOURCES):
        return {node.topic}
    return {topic for parent in node.parents for topic in _topics(parent)}
