"""What a suppression of the plan promises, and how final results say what closed them; for both engines."""

from __future__ import annotations

from typing import Final

from streams.fields import CLOSED_BY
from streams.nodes import Suppress
from streams.plan_facts import windowed_ancestor
from streams.rows import Row
from suppress.buffer_rules import BufferRule, Cause
from suppress.suppress_rules import buffer_rule

#: What let a final result go, if it was not stream time.
_NOT_BY_STREAM_TIME: Final = {Cause.RETENTION: "wall_clock", Cause.DRAIN: "drain"}


def rule_of(node: Suppress, default_retention_us: int | None = None) -> BufferRule:
    """The rule that the buffer of a suppression follows.

    Args:
        node: The suppression.
        default_retention_us: ``suppressed.record.retention.ms`` of the application, in microseconds; None = off.
    """
    source = windowed_ancestor(node.parents[0])
    windows = None if source is None else source.windows
    unit_us = 1 if source is None or source.materialized is None else source.materialized.time_resolution.value
    return buffer_rule(node.name, node.suppressed, windows, unit_us, default_retention_us)


def stamped(rule: BufferRule, value: Row | None, cause: Cause) -> Row | None:
    """A value as it leaves the buffer: a final result says what let it go, if the wall clock may do so."""
    if value is None or not rule.final or rule.retention_us is None:
        return value
    return Row({**value, CLOSED_BY: _NOT_BY_STREAM_TIME.get(cause, "stream_time")})
