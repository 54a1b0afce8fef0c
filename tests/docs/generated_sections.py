"""Sections of the documentation that follow from the code; ``python tests/docs/generated_sections.py`` renews them.

A section stands between ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->``.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(PROJECT), str(Path(__file__).parent)]

import behaviour_table  # noqa: E402
import sql_columns  # noqa: E402
import typer.main  # noqa: E402

from jobs.cli import app  # noqa: E402
from jobs.config_schema import json_schema_of  # noqa: E402
from jobs.exit_codes import exit_code  # noqa: E402
from jobs.plan_expressions import FUNCTIONS  # noqa: E402
from streams.metrics import CATALOGUE  # noqa: E402
from streams.spark.invariants import invariants_of  # noqa: E402
from streams.spark.stored_kinds import stored_table  # noqa: E402
from streams.spark.window_upkeep import KIND, WINDOW_STORE  # noqa: E402
from versioned import errors  # noqa: E402
from versioned.spec import VersionedTableSpec  # noqa: E402

_SECTION: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)
#: Folders of modules, from the lowest layer up.
FOLDERS: Final = ("versioned", "suppress", "streams", "streams/driver", "streams/spark", "streams/testing", "jobs")
#: Descriptions of a kind of value, not of a setting.
_KINDS_ONLY: Final = ("A number and a unit", "An expression over")
#: Meanings of fields without a description of their own; ``Model.key`` takes precedence over ``key``.
MEANINGS: Final = {
    "JobSettings.application": "Stable name of the application; part of every transaction id.",
    "JobSettings.plan": "The steps of the plan by name, or the function that builds it.",
    "JobSettings.plan_settings": "Arguments of the plan function. Text that reads as a duration is passed as one.",
    "JobSettings.root": "Where the tables are: a folder below the work folder, or an existing catalog schema, "
    "`catalog:main.shop`.",
    "JobSettings.sources": "Where the records of each topic come from.",
    "JobSettings.trigger": "`available_now` processes all available input, then stops; or an interval such as "
    "`10 seconds`.",
    "JobSettings.order": "How several sources are merged. `sequence` needs `sequence_by` on each, and sources that "
    "[keep step](../concepts/places-and-order.md#sources-that-keep-step).",
    "JobSettings.max_future_skew": "Records further ahead of the wall clock are rejected as `FUTURE_TS`. A source's "
    "own setting takes precedence.",
    "SourceSettings.format": "A Spark streaming source: `json`, `parquet`, `delta`, `kafka`, `rate`, ...",
    "SourceSettings.path": "Folder of a file source, which requires one, or of a Delta table, below the work folder. "
    "For files also a glob pattern, if no folder has that name.",
    "SourceSettings.schema": "Columns as DDL; required for file sources other than `text`.",
    "SourceSettings.options": "Options of the Spark source.",
    "SourceSettings.partition_by": "Integer column with the stream-time scope. Default for Kafka: `partition`.",
    "SourceSettings.sequence_by": "Column that orders the records of a scope. Default: `offset` for Kafka, otherwise "
    "event time. With several columns, each [breaks the ties of the ones before it](../how-to/chain-applications.md).",
    "op": "The operation.",
    "until": "What the suppression waits for.",
    "kind": "Selects this kind.",
    "topic": "Name under `sources`. Default: the step's own name.",
    "deleted": "Boolean column that is true for tombstones.",
    "timestamp": "Column with the event time.",
    "StreamStep.key": "Key columns.",
    "TableStep.key": "Key columns.",
    "GlobalTableStep.key": "Key columns.",
    "store": "How the table is stored.",
    "reorder": "Hold records this long and release them in order of time.",
    "where": "The condition.",
    "MapValuesStep.value": "The new value.",
    "function": "Called with key and value; returns the new value.",
    "returns": "DDL of the function's result.",
    "SelectKeyStep.key": "The new key.",
    "grace": "How late a record may be. Default: zero.",
    "VersionedStore.grace": "How late a record may be. Default: the history retention.",
    "JoinStep.grace": "Hold records of the stream this long, for late changes of the table.",
    "JoinStep.retention": "Accepted, but has no effect.",
    "on_expired": "What a left join returns when a lookup is older than the history of a versioned table: `null` gives "
    "the record with nulls, `drop` nothing. `side_table` moves the record to `rejects`, for an inner join as well.",
    "too_late": "What to do with a record that is already beyond the join's `grace`: join it at once, or reject it.",
    "correction_retention": "Remember results this long, for `corrections`.",
    "JoinStep.key": "Key to look up in the global table.",
    "within": "How far apart two stream records may be.",
    "foreign_key": "Key of the right table, taken from the left row.",
    "history": "`complete`: a late record re-emits every result that it changes.",
    "BuiltInStep.value": "The value to aggregate; optional for `count` only.",
    "ReduceStep.adder": "Adds a value: called with aggregate and value, returns the new aggregate.",
    "AggregateStep.adder": "Adds a value: called with key, value and aggregate, returns the new aggregate.",
    "subtractor": "Removes a value; called like `adder`. For tables.",
    "initializer": "Returns the initial aggregate; called without arguments.",
    "merger": "Merges two sessions: called with key and both aggregates.",
    "output": "Name of the result field, if the aggregate is a single value.",
    "result": "DDL of the aggregate, for Spark.",
    "buffer": "Bounds of the buffer.",
    "size_of": "What a byte bound counts. A function is called with the row: `key`, `value`, `ts_us`.",
    "close_idle": "Let the job's `suppressed.record.retention.ms` close a window that long after its first record, "
    "even if the input is silent. A `retention` of the step does so without this flag.",
    "retention": "Longest wait by the wall clock: `suppressed.record.retention.ms` for this step.",
    "WindowStore.retention": "`versioned maintain` may purge windows older than this; without it, none.",
    "wait": "How long an update waits.",
    "timer": "The update that the wait counts from.",
    "max_age": "Longest wait with `timer: last`.",
    "clock": "Count from the record's time or from the start of the window.",
    "emit": "Every change, or one per key and batch.",
    "name": "Name of the store. Default: the step's own name.",
    "history_retention": "How far behind stream time a version can be looked up.",
    "segment_interval": "Accepted as in Kafka Streams, but has no effect: history expires version by version.",
    "time_scope": "The scope whose largest timestamp is stream time.",
    "time_resolution": "Finer timestamps are rounded down to it.",
    "late_policy": "`side_table` also keeps late records in `rejects`; `drop` only counts them.",
    "size": "Length of a window.",
    "advance": "Interval between the starts of two windows.",
    "difference": "Largest time difference between two records.",
    "gap": "Largest time difference between two neighbouring records.",
    "start": "Where the window begins. Default: the epoch.",
    "before": "The right record may be at most this long before the left one.",
    "after": "The right record may be at most this long after the left one.",
    "max_records": "Maximum number of keys.",
    "max_bytes": "Maximum size: a number of bytes, or text such as `10 MB`.",
    "when_full": "What happens then; required with a bound.",
}


#: A table of each kind, by its columns.
_STORED: Final = {
    "versioned table": "key validFrom validTo value deleted _current",
    "window store": "key windowStart windowEnd count maxTs _scope _open",
    "buffer of a suppression": "key value ts bufferTime deadline arrivedAt size _scope",
    "waiting records": "key value ts deadline _scope _seq _batch_id",
    "stream-stream join": "key side left right ts matched padded _arrival _scope",
    "answers of a correction feed": "key value ts found revision _scope _seq",
    "plain table": "key ts value",
    "sink": "key value ts _batch_id _scope _seq",
    "rejects": "node reason ts scope place record _batch_id",
    "ledger": "application epoch batch_id clock seconds input counts stream_times versions metrics state",
}
_PROPERTIES: Final = {
    "versioned table": VersionedTableSpec.of(keys="key", values="value", history_retention="1 day").to_properties(),
    "window store": {KIND: WINDOW_STORE},
}


def settings_of_a_job() -> str:
    """All settings of a job: the top, then sources, steps, stores, windows, buffers."""
    schema = json_schema_of("job")
    parts = [_keys_table("JobSettings", schema), "### Operations", _operations(schema["$defs"])]
    for name, part in sorted(schema["$defs"].items(), key=lambda item: (_group_of(item[0]), item[0])):
        parts += [f"### {name}", _plain_text(part.get("description", "")), _keys_table(name, part)]
    return "\n\n".join(filter(None, parts))


def settings_of_upkeep() -> str:
    """The settings of ``versioned maintain``."""
    return _keys_table("MaintainSettings", json_schema_of("maintain"))


def settings_of_validation() -> str:
    """The settings of ``versioned validate``."""
    return _keys_table("ValidateSettings", json_schema_of("validate"))


def invariants() -> str:
    """Every invariant of every kind of stored table, of columns that all tables of the kind have."""
    rows = ["| table | invariant | what holds |", "|---|---|---|"]
    for kind, columns in _STORED.items():
        table = stored_table("t", columns.split(), _PROPERTIES.get(kind, {}))
        rows += [f"| {kind} | `{rule.name}` | {rule.said} |" for rule in invariants_of(table)]
    return "\n".join(rows)


def commands() -> str:
    """Every command with its own help and options."""
    rows = ["| command | what it does | options |", "|---|---|---|"]
    rows += sorted(_commands(typer.main.get_command(app), "versioned"))
    return "\n".join(rows)


def metrics() -> str:
    """Every metric with level and what it is kept for."""
    kinds = {"node": "node", "state": "window store", "buffer": "buffer"}
    rows = [f"| `{metric.name}` | {metric.level} | {kinds[metric.kind]} |" for metric in CATALOGUE]
    return "\n".join(["| metric | level | kept per |", "|---|---|---|", *rows])


def error_tree() -> str:
    """Every error with the exit code of a program that it ends, and what it says of itself."""
    rows = ["| error | exit code | meaning |", "|---|---|---|"]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.VersionedError) and kind is not errors.VersionedError:
            code = exit_code(kind("rule", "node", "said") if kind is errors.TopologyError else kind("said"))
            rows.append(f"| `{name}` | {code} | {inspect.getdoc(kind).splitlines()[0]} |")  # type: ignore[union-attr]
    return "\n".join(rows)


def functions() -> str:
    """The functions of expressions."""
    rows = [f"| `{name}` | {_plain_text(_first_line(function))} |" for name, function in sorted(FUNCTIONS.items())]
    return "\n".join(["| function | meaning |", "|---|---|", *rows])


def modules(folder: str) -> str:
    """The modules of a package, without those below it, each with the first line of its docstring."""
    rows = ["| module | what it is |", "|---|---|"]
    for file in sorted((PROJECT / folder).glob("[!_]*.py")):
        told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        rows.append(f"| `{file.name}` | {_plain_text(told.partition(chr(10))[0])} |")
    return "\n".join(rows)


SECTIONS: Final[dict[str, Callable[[], str]]] = {
    "behaviour": behaviour_table.table,
    "job-settings": settings_of_a_job,
    "maintain-settings": settings_of_upkeep,
    "validate-settings": settings_of_validation,
    "invariants": invariants,
    "commands": commands,
    "metrics": metrics,
    "errors": error_tree,
    "functions": functions,
    "sql-columns": sql_columns.table,
    **{f"modules-of-{folder.replace('/', '-')}": partial(modules, folder) for folder in FOLDERS},
}


def renewed(markdown: str) -> str:
    """A page with its generated sections as the code gives them now.

    Raises:
        KeyError: a section of a name that nothing generates.
    """
    return _SECTION.sub(lambda found: f"{found[1]}\n{SECTIONS[found[2]]()}\n\n{found[4]}", markdown)


def names_of(markdown: str) -> list[str]:
    """The generated sections of a page."""
    return [found[2] for found in _SECTION.finditer(markdown)]


def _operations(parts: dict[str, Any]) -> str:
    rows = []
    for name, part in parts.items():
        said = part["properties"].get("op", {})
        words = said.get("enum", [said.get("const")] if said else [])
        until = part["properties"].get("until", {}).get("const")
        rows += [f"| `{word}`{f', `until: {until}`' if until else ''} | [{name}](#{name.lower()}) |" for word in words]
    return "\n".join(["| `op` | keys |", "|---|---|", *sorted(rows)])


def _group_of(name: str) -> int:
    ends = ("Settings", "Step", "Store")
    return next((place for place, end in enumerate(ends) if name.endswith(end)), len(ends))


def _keys_table(model: str, schema: dict[str, Any]) -> str:
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    needed = set(schema.get("required", ()))
    for key, said in schema["properties"].items():
        told = said.get("description", "")
        told = "" if told.startswith(_KINDS_ONLY) else told
        meaning = MEANINGS.get(f"{model}.{key}") or told or MEANINGS[key]
        default = "required" if key in needed else _default(said.get("default"), said)
        rows.append(f"| `{key}` | {_value(said)} | {default} | {_plain_text(meaning)} |")
    return "\n".join(rows)


def _default(default: Any, said: dict[str, Any]) -> str:
    if default is None or default in ([], {}, ()):
        return ""
    if isinstance(default, dict):
        return "unbounded" if "when_full" in default else ""
    words = {"P1D": "1 day", "true": "`true`"}
    text = str(default).lower() if isinstance(default, bool) else str(default)
    if isinstance(default, list):
        text = ", ".join(default)
    return f"`{words.get(text, text).strip('`')}`"


def _value(said: dict[str, Any]) -> str:
    """The kind of a value in words."""
    if "$ref" in said:
        name = said["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in said or "const" in said:
        return " or ".join(f"`{word}`" for word in said.get("enum", [said.get("const")]))
    for union in ("anyOf", "oneOf"):
        if union in said:
            return _several(said, union)
    return _simple(said)


def _several(said: dict[str, Any], union: str) -> str:
    if said.get("examples") == ["10 MB"]:
        return "size"
    members = list(dict.fromkeys(_value(member) for member in said[union] if member.get("type") != "null"))
    # A mapping last: what its values may be must not read as a choice beside it.
    *others, last = sorted(members, key=lambda member: member.startswith("mapping"))
    return f"{', '.join(others)} or {last}" if others else last


def _simple(said: dict[str, Any]) -> str:
    told = said.get("description", "")
    if "expression over" in told:
        return f"expression ({told.split('over ')[1].split(', or')[0]})"
    if said.get("examples") == ["10 minutes", "1 day 2 hours"]:
        return "duration"
    if ":[A-Za-z_]" in said.get("pattern", ""):
        return "`module:function`"
    if said.get("format") == "date-time":
        return "instant"
    kind = said.get("type")
    if kind == "array":
        return "list of mappings" if said["items"].get("type") == "object" else "list of names"
    if kind == "object":
        inner = said.get("additionalProperties") or next(iter(said["patternProperties"].values()))
        return f"mapping of {'steps' if 'discriminator' in inner else _value(inner)}"
    return {"string": "text", "integer": "number", "number": "number", "boolean": "`true` or `false`"}[str(kind)]


def _commands(command: Any, path: str) -> list[str]:
    if hasattr(command, "commands"):
        return [row for name, inner in command.commands.items() for row in _commands(inner, f"{path} {name}")]
    options = [option.opts[0] if option.opts[0].startswith("-") else option.name.upper() for option in command.params]
    told = " ".join((command.help or "").split())
    return [f"| `{path}` | {told} | {' '.join(f'`{option}`' for option in options)} |"]


def _first_line(function: Any) -> str:
    return (inspect.getdoc(function) or "").splitlines()[0]


def _plain_text(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")


def main() -> None:
    """Write all sections."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(PROJECT))


if __name__ == "__main__":
    main()
