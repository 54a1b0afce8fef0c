"""Runs traces of Kafka Streams: ``python -m streams.testing.traces FILE... --engine driver --out OUT.json``.

A file is a list of scenarios (``id``, ``op``, ``params``, ``steps``, ``expected``). Each is run without looking at what is
expected; the actual outcome is written per id, in the shape of ``expected``, and then compared with it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from versioned.errors import ConfigurationError

Scenario = Mapping[str, Any]
Actual = dict[str, Any]
Runner = Callable[[Scenario], Actual]

#: The fields of ``expected`` that are compared; of ``error`` only that there is one and at which step.
COMPARED: Final = ("outputs", "returns", "dropped", "buffer", "versioned", "ok")

#: Engine name, then operation name, to the function that runs a scenario.
RUNNERS: Final[dict[str, dict[str, Runner]]] = {"driver": {}, "spark": {}}


def register(engine: str, runners: Mapping[str, Runner]) -> None:
    """Make an engine able to run operations."""
    RUNNERS.setdefault(engine, {}).update(runners)


def run_scenario(scenario: Scenario, engine: str) -> Actual:
    """The actual outcome of one scenario.

    Raises:
        ConfigurationError: the engine does not run this operation.
    """
    runner = RUNNERS.get(engine, {}).get(scenario["op"])
    if runner is None:
        known = sorted(RUNNERS.get(engine, {}))
        raise ConfigurationError(f'The engine "{engine}" does not run "{scenario["op"]}"; it runs {known}.')
    return runner({name: part for name, part in scenario.items() if name not in ("expected", "kafka", "kip_outputs")})


def first_difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """What differs first, as text; ``None`` if nothing that counts does."""
    wanted_error, error = expected.get("error"), actual.get("error")
    if (wanted_error is None) != (error is None):
        return f"error: expected {wanted_error}, got {error}"
    if wanted_error and error and wanted_error["input_index"] != error["input_index"]:
        return f"error at step {error['input_index']}, expected at step {wanted_error['input_index']}"
    failing = wanted_error["input_index"] if wanted_error else None
    for name in COMPARED:
        if name in expected:
            difference = _list_difference(
                name, _before(expected[name], failing), _before(actual.get(name), failing)
            )
            if difference:
                return difference
    return None


def compare(scenarios: Iterable[Scenario], engine: str) -> tuple[dict[str, Actual], dict[str, str]]:
    """The actual outcome per id, and the first difference of each one that failed."""
    outcomes: dict[str, Actual] = {}
    failures: dict[str, str] = {}
    for scenario in scenarios:
        outcomes[scenario["id"]] = actual = run_scenario(scenario, engine)
        difference = first_difference(scenario["expected"], actual)
        if difference:
            failures[scenario["id"]] = difference
    return outcomes, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code, 1 if a scenario failed."""
    parser = argparse.ArgumentParser(prog="python -m streams.testing.traces", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lists of scenarios")
    parser.add_argument("--engine", choices=sorted(RUNNERS), default="driver")
    parser.add_argument("--out", type=Path, help="where the actual outcomes go, as JSON by scenario id")
    options = parser.parse_args(arguments)
    scenarios = [scenario for path in options.files for scenario in json.loads(path.read_text(encoding="utf-8"))]
    outcomes, failures = compare(scenarios, options.engine)
    if options.out:
        options.out.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    for name, difference in failures.items():
        sys.stdout.write(f"{name}: {difference}\n")
    sys.stdout.write(f"{len(outcomes) - len(failures)} passed, {len(failures)} failed\n")
    return 1 if failures else 0


def _before(items: Any, failing: int | None) -> Any:
    # On Spark a batch is atomic, so what the failing step gave before it failed does not count.
    if failing is None or not isinstance(items, list):
        return items
    return [item for item in items if (item["input_index"] if isinstance(item, dict) else item[0]) < failing]


def _list_difference(name: str, expected: Any, actual: Any) -> str | None:
    if expected == actual:
        return None
    if not isinstance(expected, list) or not isinstance(actual, list):
        return f"{name}: expected {expected}, got {actual}"
    for position in range(max(len(expected), len(actual))):
        wanted = expected[position] if position < len(expected) else "nothing more"
        got = actual[position] if position < len(actual) else "nothing more"
        if wanted != got:
            return f"{name}[{position}]: expected {wanted}, got {got}"
    return None


def _register_driver() -> None:
    # Imported late: the adapters import this module's types.
    from streams.testing import trace_windows

    register("driver", trace_windows.RUNNERS)


_register_driver()

if __name__ == "__main__":
    sys.exit(main())
