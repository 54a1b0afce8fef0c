"""Joins of declared steps: what is joined decides which options apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jobs.plan_options import join_windows_of, store_of
from jobs.plan_rows import Constant, joined_row_of, row_of
from jobs.plan_settings import JoinStep
from jobs.plan_words import refused_at
from jobs.strict import PlacedError, at, said_otherwise
from streams.kstream import KStream
from streams.ktable import GlobalKTable, KTable
from streams.nodes import Joined

_COMMON: Final = {"op", "source", "other", "value"}
#: By the kinds of the left and the right side: what the join is called, its operations, and its options besides the
#: common ones.
_PAIRS: Final[dict[tuple[type, type], tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    (KStream, KTable): (
        "a stream with a table",
        ("join", "left_join"),
        ("grace", "retention", "on_expired", "too_late", "correction_retention"),
    ),
    (KStream, GlobalKTable): ("a stream with a global table", ("join", "left_join"), ("key",)),
    (KStream, KStream): ("a stream with a stream", ("join", "left_join", "outer_join"), ("within",)),
    (KTable, KTable): (
        "a table with a table",
        ("join", "left_join", "outer_join"),
        ("foreign_key", "store", "history"),
    ),
}


def join(name: str, step: JoinStep, left: Any, right: Any) -> KStream | KTable:
    """Join two steps.

    Raises:
        ConfigurationError: the two cannot be joined, or an option does not go with them; the message names the path.
        TopologyError: the plan can never work.
    """
    _check(step, left, right)
    joiner = joined_row_of("value", step.value, left.node, right.node)
    if isinstance(left, KTable):
        return _tables(name, step, left, right, joiner)
    options: dict[str, Any] = {"name": name}
    if isinstance(right, KTable):
        options["joined"] = _joined(step)
    elif isinstance(right, GlobalKTable):
        options["key"] = row_of("key", step.key, left.node)
    elif step.within is not None:
        options["windows"] = join_windows_of(step.within)
    why = (
        f"is for tables with a history that ends, and {right.node.name} keeps no versions. Leave it out, or store the "
        "table with kind: versioned."
    )
    with refused_at("on_expired", "R139", why):
        joined: KStream = getattr(left, step.op)(right, joiner, **options)
    return joined


def _check(step: JoinStep, left: Any, right: Any) -> None:
    pair = _PAIRS.get((type(left), type(right)))
    if pair is None:
        kinds = "; ".join(what for what, _, _ in _PAIRS.values())
        raise PlacedError("with", f"{right.node.name} cannot be joined to {left.node.name}. Allowed: {kinds}.")
    what, operations, options = pair
    if step.op not in operations:
        raise PlacedError("op", f"{step.op} of {what} has no meaning. Allowed: {', '.join(operations)}.")
    for given in sorted(said_otherwise(step) - _COMMON):
        if given not in options:
            raise PlacedError(given, f"does not go with a join of {what}. Allowed: {', '.join(options)}.")
    for needed in ("key", "within"):
        if needed in options and getattr(step, needed) is None:
            raise PlacedError(needed, f"is missing: a join of {what} needs it.")


def _joined(step: JoinStep) -> Joined:
    joined = Joined()
    for option in ("grace", "retention", "on_expired", "too_late", "correction_retention"):
        with at(option):
            joined = replace(joined, **{option: getattr(step, option)})
    return joined


def _tables(name: str, step: JoinStep, left: KTable, right: KTable, joiner: Constant | None) -> KTable:
    options: dict[str, Any] = {"materialized": store_of(step.store), "history": step.history, "name": name}
    if step.foreign_key is not None:
        if step.op == "outer_join":
            raise PlacedError("foreign_key", "does not go with outer_join. Allowed: join, left_join.")
        options["foreign_key"] = row_of("foreign_key", step.foreign_key, left.node)
    joined: KTable = getattr(left, step.op)(right, joiner, **options)
    return joined
