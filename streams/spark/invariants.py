"""The invariants of stored tables, as data: a name, a sentence and an expectation that a row satisfies or breaks.

The same list is checked in two ways: by Great Expectations over whole tables (``versioned validate``), and by
``streams.spark.row_rules`` in one aggregate after a batch (``guards``). What a rule needs of neighbouring rows is put
into columns first (:func:`with_facts`), so that each rule is about a single row or about equal rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window

from streams import reasons
from streams.fields import MAX_TS, WINDOW_END, WINDOW_START
from streams.spark.flow import SCOPE, lookup_times
from streams.spark.row_rules import BETWEEN, EQUAL, GREATER, IN_SET, NOT_NULL, NULL, UNIQUE, UNIQUE_COLUMN
from streams.spark.stored_kinds import StoredTable
from streams.spark.window_upkeep import OPEN
from versioned import spark_functions as F
from versioned.identifiers import quote
from versioned.spec import CURRENT, DELETED

#: Columns that :func:`with_facts` adds. They cannot clash with a user's columns, which begin with a letter.
NEXT_START, IS_OPEN, HAS_VALUES, STREAM_TIME = "_next_valid_from", "_is_open", "_has_values", "_stream_time"
DUE_AT, NEXT_CLOCK, UNBALANCED, CODE = "_due_at", "_next_clock", "_unbalanced_nodes", "_reason_code"

_CODES: Final = tuple(sorted(code for code in vars(reasons).values() if isinstance(code, str) and code.isupper()))


@dataclass(frozen=True)
class Invariant:
    """A rule that always holds; ``expectation`` and ``arguments`` are named as in Great Expectations."""

    name: str
    said: str
    expectation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What a table's rows are compared with: stream time per scope, and the batch clock, in microseconds."""

    stream_times: Mapping[int, int] = field(default_factory=dict)
    clock_us: int | None = None


def invariants_of(table: StoredTable) -> tuple[Invariant, ...]:
    """The invariants of a table, by its kind; none for kind ``other``."""
    made = {
        "versions": _versions,
        "windows": _windows,
        "buffer": _buffer,
        "waiting": _waiting,
        "join": _join,
        "answers": _answers,
        "ledger": _ledger,
        "rejects": _rejects,
        "sink": _sink,
        "table": _table,
    }
    return tuple(made[table.kind](table)) if table.kind in made else ()


def unique(name: str, said: str, columns: Sequence[str]) -> Invariant:
    """The invariant that no two rows have the same values in all of some columns."""
    if len(columns) == 1:
        return Invariant(name, said, UNIQUE_COLUMN, {"column": columns[0]})
    return Invariant(name, said, UNIQUE, {"column_list": list(columns)})


def with_facts(rows: DataFrame, table: StoredTable, facts: Facts) -> DataFrame:
    """Rows of a table with the additional columns that its invariants use.

    Args:
        rows: All rows, or all those of some keys.
        table: The table.
        facts: Stream times and clock, read before the rows; rows are not compared with unknown ones.
    """
    if table.kind == "versions":
        return _with_neighbours(rows, table, facts)
    if table.kind == "windows":
        return rows.withColumn(STREAM_TIME, _stream_time(facts))
    if table.kind == "waiting":
        return rows.withColumn(DUE_AT, _stream_time(facts))
    if table.kind == "join":
        # As text, which can be shown: only whether they are null matters.
        return rows.withColumns({side: F.to_json(side) for side in ("left", "right")})
    if table.kind == "buffer":
        # A row that waits by the wall clock counts from its arrival, and is due by the clock of the newest batch.
        by_clock = F.col("_firstTime") == F.col("arrivedAt")
        return rows.withColumn(DUE_AT, F.when(by_clock, _instant(facts.clock_us)).otherwise(_stream_time(facts)))
    if table.kind == "ledger":
        return _with_balance(rows)
    if table.kind == "rejects":
        # The reason of a user's own rule is the code followed by its name.
        return rows.withColumn(CODE, F.split("reason", ":").getItem(0))
    return rows


def _with_neighbours(rows: DataFrame, table: StoredTable, facts: Facts) -> DataFrame:
    spec = table.spec
    assert spec is not None
    start, end = quote(spec.valid_from), F.col(quote(spec.valid_to))
    by_time = Window.partitionBy(*map(quote, spec.keys)).orderBy(start, end.asc_nulls_last())
    has_values = F.lit(False)
    for name in spec.values:
        has_values = has_values | F.col(quote(name)).isNotNull()
    # Rows of a versioned table have no scope: none may be newer than the newest stream time of all scopes.
    newest = max(facts.stream_times.values(), default=None)
    return rows.withColumns(
        {
            NEXT_START: F.lead(start).over(by_time),
            IS_OPEN: end.isNull(),
            HAS_VALUES: has_values,
            STREAM_TIME: _instant(newest),
        }
    )


def _with_balance(rows: DataFrame) -> DataFrame:
    def is_unbalanced(key: Column) -> Column:
        node = F.regexp_replace(key, r"\.input$", "")
        taken, dropped = (F.coalesce(F.col("counts")[F.concat(node, F.lit(w))], F.lit(0)) for w in _TAKEN)
        return key.endswith(".input") & (F.col("counts")[key] != taken + dropped)

    unbalanced = F.size(F.filter(F.map_keys("counts"), is_unbalanced))
    in_order = Window.partitionBy("application").orderBy("epoch", "batch_id")
    return rows.withColumns({UNBALANCED: unbalanced, NEXT_CLOCK: F.lead("clock").over(in_order)})


_TAKEN: Final = (".accepted", ".dropped")


def _stream_time(facts: Facts) -> Column:
    if not facts.stream_times:
        return F.lit(None).cast("timestamp_ltz")
    return F.timestamp_micros(lookup_times(facts.stream_times))


def _instant(us: int | None) -> Column:
    return F.lit(None).cast("timestamp_ltz") if us is None else F.timestamp_micros(F.lit(us))


def _filled(*columns: str) -> list[Invariant]:
    return [
        Invariant(f"null_{name.lstrip('_')}", f"Every row has {name}.", NOT_NULL, {"column": name}) for name in columns
    ]


def _unique(said: str, *columns: str) -> Invariant:
    return unique("doubled", said, columns)


def _given(name: str, said: str, column: str, where: str | None = None) -> Invariant:
    return Invariant(name, said, NOT_NULL, _where({"column": column}, where))


def _empty(name: str, said: str, column: str, where: str) -> Invariant:
    return Invariant(name, said, NULL, _where({"column": column}, where))


def _same(name: str, said: str, first: str, second: str) -> Invariant:
    return Invariant(name, said, EQUAL, {"column_A": first, "column_B": second})


def _one_of(name: str, said: str, column: str, values: Sequence[Any], where: str | None = None) -> Invariant:
    return Invariant(name, said, IN_SET, _where({"column": column, "value_set": list(values)}, where))


def _not_negative(name: str, said: str, column: str) -> Invariant:
    return Invariant(name, said, BETWEEN, {"column": column, "min_value": 0})


def _where(arguments: dict[str, Any], condition: str | None) -> dict[str, Any]:
    return arguments if condition is None else {**arguments, "row_condition": condition}


def _ordered(name: str, said: str, low: str, high: str, *, strict: bool = False) -> Invariant:
    arguments = {"column_A": high, "column_B": low, "or_equal": not strict, "ignore_row_if": "either_value_is_missing"}
    return Invariant(name, said, GREATER, arguments)


def _versions(table: StoredTable) -> list[Invariant]:
    spec = table.spec
    assert spec is not None
    start, end = spec.valid_from, spec.valid_to
    rules = [
        *_filled(*spec.keys, start),
        _ordered("empty", "A version ends after it begins.", start, end, strict=True),
        _ordered("overlap", "A version ends before the next one of its key begins, or just then.", end, NEXT_START),
        _ordered("gap", "A version ends when the next one begins: a deletion is a row.", NEXT_START, end),
        _given("open_before_next", "Only the newest version of a key is open.", end, f"{NEXT_START} IS NOT NULL"),
        _empty("no_current", "The newest version of a key is open.", end, f"{NEXT_START} IS NULL"),
        _unique("A key has one version per start.", *spec.keys, start),
        _same("partition", "Open versions lie in the current partition, others do not.", CURRENT, IS_OPEN),
        _ordered("ahead", "No version begins after stream time.", start, STREAM_TIME),
    ]
    if spec.values:
        rules.append(_one_of("value_of_deleted", "A tombstone has no values.", HAS_VALUES, [False], quote(DELETED)))
    return rules


def _windows(table: StoredTable) -> list[Invariant]:
    return [
        *_filled(*table.keys, MAX_TS, SCOPE, OPEN),
        _ordered("backwards", "A window does not end before it begins.", WINDOW_START, WINDOW_END),
        _ordered("newest_before", "The newest record of a window is not older than its start.", WINDOW_START, MAX_TS),
        _ordered("newest_after", "The newest record of a window is not newer than its end.", MAX_TS, WINDOW_END),
        _unique("A key has one row per window.", *table.keys),
        _ordered("ahead", "No window has a record that is newer than stream time.", MAX_TS, STREAM_TIME),
    ]


def _buffer(table: StoredTable) -> list[Invariant]:
    return [
        *_filled(*table.keys, "ts", "bufferTime", "arrivedAt", "size", SCOPE),
        _not_negative("negative_size", "No size is negative.", "size"),
        _ordered("deadline_first", "No row is due before its time.", "bufferTime", "deadline"),
        _ordered("overdue", "What is due has left.", DUE_AT, "deadline", strict=True),
        _unique("A key waits once.", *table.keys, SCOPE),
    ]


def _waiting(table: StoredTable) -> list[Invariant]:
    return [
        *_filled(*table.keys, "ts", "deadline", SCOPE, "_seq", "_batch_id"),
        _ordered("deadline_first", "No record is due before its time.", "ts", "deadline"),
        _ordered("overdue", "What is due has left.", DUE_AT, "deadline", strict=True),
    ]


def _join(table: StoredTable) -> list[Invariant]:
    rules = [
        *_filled(*table.keys, "ts", "matched", "padded", SCOPE),
        _one_of("side", "A record is of the left or the right side.", "side", ["left", "right"]),
        _one_of("padded_match", "What was sent out as unmatched has met nobody.", "matched", [False], "padded"),
        _unique("Each record of a scope has its own arrival.", SCOPE, "_arrival"),
    ]
    for side, other in (("left", "right"), ("right", "left")):
        here = f"side = '{side}'"
        rules.append(_given(f"no_{side}", f"A {side} record has its value.", side, here))
        rules.append(_empty(f"{other}_of_{side}", f"A {side} record has no value of the other side.", other, here))
    return rules


def _answers(table: StoredTable) -> list[Invariant]:
    return [
        *_filled("ts", "revision", SCOPE, "_seq"),
        _not_negative("negative_revision", "No revision is negative.", "revision"),
    ]


def _ledger(table: StoredTable) -> list[Invariant]:
    return [
        *_filled("application", "epoch", "batch_id", "seconds", "input", "state"),
        _given("no_clock", "Every batch has a clock.", "clock", "batch_id >= 0"),
        _not_negative("negative_seconds", "No batch took less than no time.", "seconds"),
        _not_negative("negative_input", "No batch had less than no input.", "input"),
        _ordered("clock_back", "The clock of batches does not go back.", "clock", NEXT_CLOCK),
        _one_of("unbalanced", "At every node accepted + dropped = input.", UNBALANCED, [0]),
        _unique("A batch has one row.", "application", "epoch", "batch_id"),
    ]


def _rejects(table: StoredTable) -> list[Invariant]:
    return [
        *_filled("node", "reason", "record", "scope", "_batch_id"),
        _one_of("unknown_reason", "Every reason is a known code.", CODE, _CODES),
    ]


def _sink(table: StoredTable) -> list[Invariant]:
    return [
        *_filled("ts", "_batch_id", SCOPE, "_seq"),
        _not_negative("negative_batch", "No batch has a negative number.", "_batch_id"),
    ]


def _table(table: StoredTable) -> list[Invariant]:
    return [*_filled(*table.keys, "ts"), *([_unique("A key has one row.", *table.keys)] if table.keys else [])]
