"""From a plan's ``Suppressed`` to the ``BufferRule`` of a buffer; shared by both engines."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from suppress.buffer_config import EagerBufferConfig, StrictBufferConfig
from suppress.buffer_rules import BufferRule, WhenFull
from suppress.order import canonical_order
from suppress.suppressed import AnySuppressed, UntilWallClockTimeLimit, UntilWindowCloses
from suppress.window_rules import Window, close_wait_us, open_for_us
from suppress.windows import SessionWindows, SlidingWindows, Windows
from versioned.durations import in_words
from versioned.errors import ConfigurationError

_LOG: Final = logging.getLogger(__name__)


def buffer_rule(
    node: str,
    suppressed: AnySuppressed,
    windows: Windows | None = None,
    unit_us: int = 1,
    default_retention_us: int | None = None,
) -> BufferRule:
    """The buffer rule of a suppression.

    Args:
        node: The suppression's name.
        suppressed: What the plan says.
        windows: The windows of its table, or None.
        unit_us: One tick of the windows' time resolution.
        default_retention_us: ``suppressed.record.retention.ms`` of the application, in microseconds; ``None`` = off.
            Final results use it only with ``close_idle``; the node's own retention always wins (R116, R117).

    Raises:
        ConfigurationError: final results of a table without windows that close, or with a retention that is not
            positive.
    """
    if isinstance(suppressed, UntilWindowCloses):
        return _final_rule(node, suppressed, windows, unit_us, default_retention_us)
    retention_us = _first_given(suppressed.retention_us, default_retention_us)
    if isinstance(suppressed, UntilWallClockTimeLimit):
        return BufferRule(node, suppressed.wait_us, "wall", retention_us=retention_us, **_bounds(suppressed.buffer))
    return BufferRule(
        node,
        suppressed.wait_us,
        suppressed.clock,
        suppressed.timer,
        suppressed.max_age_us,
        retention_us=retention_us,
        **_bounds(suppressed.buffer),
    )


def _final_rule(
    node: str,
    suppressed: UntilWindowCloses,
    windows: Windows | None,
    unit_us: int,
    default_retention_us: int | None,
) -> BufferRule:
    wait_us = None if windows is None else close_wait_us(windows, unit_us)
    if wait_us is None:
        raise ConfigurationError(f"{node}: final results need windows that close. Use until_time_limit instead.")
    retention_us = _first_given(suppressed.retention_us, default_retention_us if suppressed.close_idle else None)
    if retention_us is not None and retention_us <= 0:
        # On Spark all records of a batch arrive at the same time: each of them would get a final result of its own.
        raise ConfigurationError(
            f"{node}: a retention of {in_words(retention_us)} would close each window with its first record. Give "
            "one that is longer than records of a window are apart, or none, to close windows by stream time only."
        )
    lead_us = unit_us if isinstance(windows, (SessionWindows, SlidingWindows)) else 0
    return BufferRule(
        node, wait_us, "window_end", retention_us=retention_us, final=True, tombstone_lead_us=lead_us,
        **_bounds(suppressed.buffer),
    )  # fmt: skip


def warn_of_idle(node: str, suppressed: AnySuppressed, rule: BufferRule, windows: Windows | None) -> None:
    """Warn of a retention that closes windows while they still take records, and of ``close_idle`` without a retention.

    Args:
        node: The suppression's name.
        suppressed: What the plan says.
        rule: The suppression's buffer rule.
        windows: The windows of its table, or None.
    """
    if not isinstance(suppressed, UntilWindowCloses):
        return
    needed_us = 0 if windows is None else open_for_us(windows) or 0
    if rule.retention_us is not None and rule.retention_us < needed_us:
        _LOG.warning(
            "%s: the retention of %s counts from a window's first record, while others come too, and windows take "
            "records for %s: those that come later are late. Give a retention of more than that and the longest time "
            "for which the job stands still [R54]",
            node, in_words(rule.retention_us), in_words(needed_us),
        )  # fmt: skip
    if suppressed.close_idle and rule.retention_us is None:
        _LOG.warning(
            "%s: close_idle closes no window, since there is no retention: give one to until_window_closes, or the "
            "application a suppressed_record_retention [R117]",
            node,
        )


def _bounds(buffer: StrictBufferConfig | EagerBufferConfig) -> dict[str, Any]:
    when_full: WhenFull = "emit_early" if isinstance(buffer, EagerBufferConfig) else buffer.when_full
    return {"max_records": buffer.max_records, "max_bytes": buffer.max_bytes, "when_full": when_full}


def _first_given(own_us: int | None, default_us: int | None) -> int | None:
    return default_us if own_us is None else own_us


def tie_order(key: Iterable[Any], window: Window | None) -> bytes:
    """The order of rows with equal buffer time: by key, then window end, then start.

    All windows of a table are equally long, except sessions, so they end in the order in which they start.

    Args:
        key: The fields of the key, without the window.
        window: The window, or None.
    """
    ends = () if window is None else (window.end_us, window.start_us)
    return b"".join(map(canonical_order, (*key, *ends)))
