"""Runs traces of Kafka Streams: ``python -m streams.testing.traces FILE... --engine driver --out OUT.json``.

A file is a list of scenarios (``id``, ``op``, ``params``, ``steps``, ``expected``). Each is run without looking at what
is expected; the actual outcome is written per id, in the shape of ``expected``, and then compared with it.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streams.testing.trace_engines import ENGINES, Actual, Scenario, runner_of
from versioned.errors import ConfigurationError

#: The fields of ``expected`` that are compared; of ``error`` only that there is one and at which step.
COMPARED: Final = ("outputs", "returns", "dropped", "buffer", "versioned")

#: What a scenario says about its outcome; no engine sees it.
_ANSWERS: Final = ("expected", "kafka", "kip_outputs")


def run(scenarios: Sequence[Scenario], engine: str) -> dict[str, Actual]:
    """The outcomes of scenarios on an engine, by id, in the order of the scenarios.

    Raises:
        ConfigurationError: the engine does not run an operation.
    """
    questions_only = [{name: part for name, part in each.items() if name not in _ANSWERS} for each in scenarios]
    by_operation = _by_operation(questions_only)
    runners = {operation: runner_of(engine, operation) for operation in by_operation}
    outcomes: dict[str, Actual] = {}
    for operation, questions in by_operation.items():
        outcomes.update(runners[operation](questions))
    return {scenario["id"]: outcomes[scenario["id"]] for scenario in scenarios}


def run_scenario(scenario: Scenario, engine: str) -> Actual:
    """The outcome of one scenario on an engine.

    Raises:
        ConfigurationError: the engine does not run its operation.
    """
    return run([scenario], engine)[scenario["id"]]


def first_difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """The first difference that counts, as text; ``None`` if there is none."""
    if "failure" in actual:
        return f"not run: {actual['failure']}"
    if "ok" in expected:
        # Of a refused plan only the refusal is compared, not its message.
        return None if expected["ok"] == actual["ok"] else f"ok: expected {expected['ok']}, got {actual['ok']}"
    wanted_error, error = expected.get("error"), actual.get("error")
    if (wanted_error is None) != (error is None):
        return f"error: expected {wanted_error}, got {error}"
    if wanted_error and error and wanted_error["input_index"] != error["input_index"]:
        return f"error at step {error['input_index']}, expected at step {wanted_error['input_index']}"
    failing = wanted_error["input_index"] if wanted_error else None
    for name in COMPARED:
        if name in expected and name not in actual.get("unseen", ()):
            wanted, got = (_before(_shape(items), failing) for items in (expected[name], actual.get(name)))
            difference = _list_difference(name, wanted, got)
            if difference:
                return difference
    return None


def differences(scenarios: Sequence[Scenario], outcomes: Mapping[str, Actual]) -> dict[str, str]:
    """The first difference of each scenario that failed, by id."""
    found = {scenario["id"]: first_difference(scenario["expected"], outcomes[scenario["id"]]) for scenario in scenarios}
    return {name: difference for name, difference in found.items() if difference is not None}


def unseen(outcomes: Mapping[str, Actual]) -> dict[str, int]:
    """The fields that an engine cannot show and that are not compared, with the number of scenarios."""
    return dict(Counter(name for actual in outcomes.values() for name in actual.get("unseen", ())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 if a scenario failed, 2 if the engine cannot run one."""
    options = _options(arguments)
    scenarios = [scenario for path in options.files for scenario in json.loads(path.read_text(encoding="utf-8"))]
    if options.engine == "spark":
        _cut_on_spark(options.batches, options.seed)
    by_operation = _by_operation(scenarios)
    try:
        for operation in by_operation:
            runner_of(options.engine, operation)
    except ConfigurationError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 2
    outcomes: dict[str, Actual] = {}
    failed = 0
    for operation, some in by_operation.items():
        started = time.monotonic()
        with _quiet():
            told = run(some, options.engine)
        outcomes.update(told)
        # Write after each operation: on Spark they take a while, and results must outlive an interruption.
        if options.out:
            options.out.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
        failures = differences(some, told)
        failed += len(failures)
        _tell(options.engine, told, failures)
        seconds = time.monotonic() - started
        sys.stderr.write(f"{operation}: {len(some)} scenarios, {len(failures)} failed, {seconds:.0f} s\n")
    sys.stdout.write(f"{len(outcomes) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


def _tell(engine: str, outcomes: Mapping[str, Actual], failures: Mapping[str, str]) -> None:
    for name, difference in failures.items():
        sys.stdout.write(f"{name}: {difference}\n")
    for name, count in unseen(outcomes).items():
        sys.stdout.write(f"The {engine} engine does not tell {name} step by step: not compared in {count} scenarios.\n")
    sys.stdout.flush()


def _by_operation(scenarios: Sequence[Scenario]) -> dict[str, list[Scenario]]:
    found: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        found.setdefault(scenario["op"], []).append(scenario)
    return found


def _cut_on_spark(batches: int, seed: int) -> None:
    # The driver must run without Spark installed.
    from streams.testing.trace_packing import Cut
    from streams.testing.trace_spark import register_all

    register_all(Cut(batches, seed))


@contextmanager
def _quiet() -> Iterator[None]:
    # Expired lookups are part of many scenarios; their warnings would hide the result.
    logger = logging.getLogger("streams")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m streams.testing.traces", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lists of scenarios")
    parser.add_argument("--engine", choices=ENGINES, default="driver")
    parser.add_argument("--batches", type=int, default=1, help="Spark: cut each scenario into this many micro-batches")
    parser.add_argument("--seed", type=int, default=0, help="Spark: where to cut")
    parser.add_argument("--out", type=Path, help="where the actual outcomes go, as JSON by scenario id")
    return parser.parse_args(arguments)


def _before(items: Any, failing: int | None) -> Any:
    # On Spark a batch is atomic, so what the failing step gave before it failed does not count.
    if failing is None or not isinstance(items, list):
        return items
    return [item for item in items if (item["input_index"] if isinstance(item, dict) else item[0]) < failing]


def _shape(items: Any) -> Any:
    # Of an error only its presence counts, for a single call as well.
    if not isinstance(items, list):
        return items
    return [item | {"error": True} if isinstance(item, dict) and "error" in item else item for item in items]


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


if __name__ == "__main__":
    sys.exit(main())
