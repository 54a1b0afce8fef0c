"""Which engine runs which operation of the traces.

An engine takes all scenarios at once, so that it may pack them into few runs. The driver's adapters are here; those of
Spark register themselves with :func:`register` when ``streams.testing.trace_spark`` is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from versioned.errors import ConfigurationError

Scenario = Mapping[str, Any]
Actual = dict[str, Any]
#: Runs scenarios of one operation; returns what happened, by scenario id.
Runner = Callable[[Sequence[Scenario]], Mapping[str, Actual]]

ENGINES: Final = ("driver", "spark")
_RUNNERS: Final[dict[str, dict[str, Runner]]] = {engine: {} for engine in ENGINES}
_LOADED: Final[set[str]] = set()
_SPARK_ADAPTERS: Final = "streams.testing.trace_spark"


def register(engine: str, operations: Iterable[str], runner: Runner) -> None:
    """Make an engine able to run operations.

    Args:
        engine: ``driver`` or ``spark``.
        operations: Values of a scenario's ``op``.
        runner: Runs scenarios of any of them; it never sees what is expected.
    """
    _RUNNERS[engine].update(dict.fromkeys(operations, runner))


def runner_of(engine: str, operation: str) -> Runner:
    """The runner of an operation on an engine.

    Raises:
        ConfigurationError: the engine does not run the operation.
    """
    _load(engine)
    runner = _RUNNERS.get(engine, {}).get(operation)
    if runner is None:
        known = sorted(_RUNNERS.get(engine, {}))
        raise ConfigurationError(
            f'The engine "{engine}" does not run "{operation}"; it runs {known or "nothing here"}. '
            "Choose other files, or the other engine."
        )
    return runner


def _load(engine: str) -> None:
    # Loaded only when asked for, so that one engine does not need what the other needs.
    if engine in _LOADED:
        return
    _LOADED.add(engine)
    from streams.testing import trace_errors

    # Both engines run these: a plan is refused before any engine sees it.
    _register_each(engine, trace_errors.RUNNERS)
    if engine == "driver":
        from streams.testing import trace_store, trace_tables, trace_windows

        for adapters in (trace_store, trace_tables, trace_windows):
            _register_each(engine, adapters.RUNNERS)
    elif importlib.util.find_spec(_SPARK_ADAPTERS) is not None:
        importlib.import_module(_SPARK_ADAPTERS)


def _register_each(engine: str, runners: Mapping[str, Callable[[Scenario], Actual]]) -> None:
    for operation, run in runners.items():
        register(engine, [operation], _one_by_one(run))


def _one_by_one(run: Callable[[Scenario], Actual]) -> Runner:
    def run_each(scenarios: Sequence[Scenario]) -> dict[str, Actual]:
        return {scenario["id"]: outcome_or_failure(run, scenario) for scenario in scenarios}

    return run_each


def outcome_or_failure(run: Callable[[Scenario], Actual], scenario: Scenario) -> Actual:
    """The outcome of a scenario, or a ``failure`` if it cannot be run at all, so that all others are still run."""
    try:
        return run(scenario)
    except Exception as failure:  # Whatever it is, it is the failure of this scenario alone.
        return {"outputs": [], "failure": f"{type(failure).__name__}: {failure}"}
