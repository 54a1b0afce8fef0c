"""When a query starts its batches, as users write it and as Spark takes it."""

from __future__ import annotations

from typing import Any

from versioned.durations import duration_us
from versioned.errors import ConfigurationError


def trigger_of(said: str) -> dict[str, Any]:
    """The arguments of Spark's ``trigger``; Spark's own parser of intervals does not accept ``10s`` or ``5 min``.

    Args:
        said: ``available_now`` or an interval.

    Raises:
        ConfigurationError: it is neither, or the interval is below 1 millisecond.

    >>> trigger_of("available_now"), trigger_of("5 min")
    ({'availableNow': True}, {'processingTime': '300000 milliseconds'})
    """
    if said == "available_now":
        return {"availableNow": True}
    every_ms = duration_us(said) // 1000
    if every_ms < 1:
        raise ConfigurationError(f'trigger "{said}": write "available_now" or an interval of at least 1 millisecond.')
    return {"processingTime": f"{every_ms} milliseconds"}
