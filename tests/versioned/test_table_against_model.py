"""Random uses of versioned tables, one after the other, equal the model's answers after each."""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from table_model import Judged, Key, Record, Row, TableModel, Value
from touched_keys import WAYS, rows_by_key

from versioned import put as put_module
from versioned import sent_rows, touched
from versioned.durations import Resolution, instant
from versioned.session_settings import session_settings
from versioned.table import VersionedTable

_FIRST: Final = int(os.environ.get("RANDOM_TABLES_FROM", "0"))
_SEEDS: Final = range(_FIRST, _FIRST + int(os.environ.get("RANDOM_TABLES", "6")))
_STEPS: Final = int(os.environ.get("RANDOM_STEPS", "12"))
_ROLES: Final = "us LONG, told_part INT, told_seq LONG, told_dead BOOLEAN"
#: How the columns of a table are called: two keys, two values, start and end.
_NAMES: Final = (
    ("k", "n", "v", "w", "validFrom", "validTo"),
    ("ts", "select", "us", "old", "start", "end"),
    ("sequence", "put_ts", "reason", "is_latest", "from", "to"),
    ("put_result", "first_1", "outcome", "new", "K", "ts"),
)
#: Settings of a session that may not change what is meant.
_SETTINGS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"spark.sql.session.timeZone": "America/New_York"},
    {"spark.sql.session.timeZone": "Asia/Kolkata", "spark.sql.ansi.enabled": "false"},
    {"spark.sql.caseSensitive": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
    {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"},
    {"spark.sql.parquet.outputTimestampType": "INT96", "spark.sql.shuffle.partitions": "5"},
)

#: What is made nought for the two ways of writing that only large batches take.
_SIZES: Final = {"spliced": ("ROWS_PER_SPLICE", "ROWS_FOR_ANY_SPLICE"), "many": ("FEW_RECORDS", "FEW_PAIRS")}


@dataclass(frozen=True)
class _Kind:
    """Types of both keys and both values, and what there is of each, in Spark's order."""

    types: tuple[str, str, str, str]
    there: tuple[tuple[Any, ...], ...]


_KINDS: Final = (
    _Kind(
        ("STRING", "INT", "STRING", "DOUBLE"),
        (("", "A", "a", "a' b", "\u00fc"), (-1, 0, 1, 2, 3), (None, "x", "y"), (None, 0.0, 1.5, float("inf"))),
    ),
    _Kind(
        ("DATE", "DECIMAL(20, 3)", "BINARY", "ARRAY<INT>"),
        (
            (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
            tuple(map(Decimal, ("-1.500", "0.000", "0.001", "1000.000", "99999999999999999.999"))),
            (None, b"", b"\x00", b"\xff"),
            (None, (), (1,), (1, None)),
        ),
    ),
    _Kind(
        ("BINARY", "STRUCT<a: INT, b: STRING>", "STRUCT<x: DOUBLE>", "BOOLEAN"),
        (
            (b"", b"\x00", b"\x00\x00", b"a", b"\xff"),
            ((None, "b"), (0, None), (0, ""), (0, "a"), (1, "")),
            (None, (None,), (0.5,)),
            (None, False, True),
        ),
    ),
    _Kind(
        ("TIMESTAMP", "BIGINT", "DECIMAL(38, 18)", "TIMESTAMP"),
        (
            (datetime(1900, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1),
             datetime(2024, 11, 3, 5, 30), datetime(2100, 1, 1)),
            (-(2**63), -1, 0, 1, 2**63 - 1),
            (None, Decimal("0.000000000000000001"), Decimal("-99999999999999999999.999999999999999999")),
            (None, datetime(2024, 3, 10, 7), datetime(1970, 1, 1)),
        ),
    ),
)  # fmt: skip
_READ: Final = ("k", "n", "validFrom", "validTo", "v", "w")


@dataclass
class _Use:
    """A table and its model, used at random."""

    spark: SparkSession
    table: VersionedTable
    model: TableModel
    chance: random.Random
    now_us: int
    names: tuple[str, ...]
    kind: _Kind
    seq: int = 0
    #: What was known at some instants.
    moments: list[tuple[datetime, dict[Key, dict[int, Value]]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def records(self, most: int, *, back: int = 60) -> list[Record]:
        made, unit = [], self.model.resolution
        for _ in range(self.chance.randint(1, most)):
            self.now_us += self.chance.choice([0, 0, 1, 2 * unit, 5 * unit])
            grace = self.model.grace_us
            late = self.chance.choice([0, 0, 0, 0, 1, 7 * unit, grace, grace + 1, grace + unit, back * unit])
            value = None if self.chance.random() < 0.2 else self.value()
            made.append(Record(self.key(), self.now_us - late, value, self.chance.randint(0, 2)))
        return made

    def key(self) -> Key:
        return (self.chance.choice(self.kind.there[0]), self.chance.choice(self.kind.there[1]))

    def value(self) -> Value:
        return (self.chance.choice(self.kind.there[2]), self.chance.choice(self.kind.there[3]))

    def frame(self, records: Iterable[Record], rejected: int = 0) -> DataFrame:
        rows: list[tuple[Any, ...]] = []
        for record in records:
            self.seq += 1
            told = self.value() if record.value is None else record.value
            assert told is not None
            rows.append((*record.key, *told, record.us, record.partition, self.seq, record.value is None))
        for n in range(rejected):
            k, i = self.key()
            rows.append((None if n % 2 else k, i, None, None, 5 if n % 2 else None, 0, self.seq + n, False))
        self.chance.shuffle(rows)
        return self.with_instants(rows, f"{self.columns()}, {_ROLES}", "told_at")

    def columns(self, *, values: bool = True) -> str:
        return _columns(self.names[: 4 if values else 2], self.kind)

    def with_instants(self, rows: list[tuple[Any, ...]], schema: str, name: str) -> DataFrame:
        """Without ``us`` then, which a table may have a column of its own for."""
        schema = schema.replace("us LONG", "told_us LONG")
        return self.spark.createDataFrame(rows, schema).withColumn(name, F.timestamp_micros("told_us")).drop("told_us")

    def roles(self) -> dict[str, Any]:
        partition = "told_part" if self.model.scope == "partition" else None
        return {"timestamp": "told_at", "sequence": "told_seq", "partition": partition}

    # -- what changes the table ----------------------------------------------------------------------------------

    def put(self) -> None:
        records, bad = self.records(self.chance.choice([3, 40, 200])), self.chance.randint(0, 3)
        said = self.table.put(self.frame(records, bad), deleted="told_dead", **self.roles())
        first = self.seq - len(records) + 1
        judged = self.model.put(records)
        words, counts = [one.outcome for one in judged], said.counts
        assert (counts.refused, counts.out_of_order) == (words.count("refused"), words.count("out_of_order"))
        assert (counts.accepted, said.rejected_count) == (len(judged) - counts.refused, bad)
        if self.chance.random() < 0.5:
            assert _told(said.outcomes) == {first + n: (one.result, one.outcome) for n, one in enumerate(judged)}
            self.check_changes(said.changes, first, judged)
            assert said.rejected.count() == bad

    def check_changes(self, changes: DataFrame, first: int, judged: list[Judged]) -> None:
        named = changes.toDF("k", "n", "ts", "sequence", "old_valid_from", "old", "new", "is_latest")
        rows = named.withColumn("from_us", F.unix_micros("old_valid_from")).collect()
        told = {
            row["sequence"]: None if row["from_us"] is None else (row["from_us"], _plain(row["old"])) for row in rows
        }
        assert told == {first + n: one.old for n, one in enumerate(judged) if one.outcome != "refused"}

    def delete(self) -> None:
        records = [Record(one.key, one.us, None, one.partition) for one in self.records(20)]
        said = self.table.delete(self.frame(records), **self.roles())
        judged = self.model.put(records)
        named = said.toDF("k", "n", "ts", "put_result", "validFrom", "v", "w")
        rows = named.select("*", F.unix_micros("ts").alias("at"), F.unix_micros("validFrom").alias("from")).collect()
        told = [_plain([row[name] for name in ("k", "n", "at", "put_result", "from", "v", "w")]) for row in rows]
        unit, nothing = self.model.resolution, (None, (None, None))
        asked = []
        for record, one in zip(records, judged, strict=True):
            since, value = one.old or nothing
            asked.append((*record.key, record.us // unit * unit, one.result, since, *(value or ())))
        assert sorted(map(str, told)) == sorted(map(str, asked))

    def backfill(self) -> None:
        unit = self.model.resolution
        records = [
            Record(one.key, one.us - self.chance.choice([0, 50, 200, 400]) * unit, one.value)
            for one in self.records(40)
        ]
        dry = self.chance.random() < 0.2
        frame, first = self.frame(records, 2), self.seq - len(records) + 1
        model = copy.deepcopy(self.model) if dry else self.model
        said = self.table.backfill(frame, timestamp="told_at", deleted="told_dead", sequence="told_seq", dry_run=dry)
        judged = model.backfill(records)
        taken = {first + n: (one.result, one.outcome) for n, one in enumerate(judged) if one is not None}
        assert _told(said.outcomes) == taken
        assert said.counts["accepted"] == len(taken)
        assert said.counts["rejected"] == len(records) + 2 - len(taken) == said.rejected.count()

    def purge(self) -> None:
        assert self.table.purge() == bool(self.model.purge())

    def optimize(self) -> None:
        self.table.optimize(current=self.chance.random() < 0.5)

    def vacuum(self) -> None:
        self.table.vacuum()

    def reopen(self) -> None:
        self.table = VersionedTable.open(self.spark, str(self.table.target))

    def toggle_vectors(self) -> None:
        on = self.chance.choice(["true", "false"])
        self.spark.sql(f"ALTER TABLE {self.table.target.sql} SET TBLPROPERTIES ('{touched.DELETION_VECTORS}' = '{on}')")
        self.reopen()

    # -- what asks it --------------------------------------------------------------------------------------------

    def instant_us(self) -> int:
        unit = self.model.resolution
        return self.now_us - self.chance.choice([0, 1, 3, 10, 30, 80, 200]) * unit + self.chance.choice([0, 0, 10**4])

    def check(self) -> None:
        """Every question, against the model."""
        at = self.instant_us()
        same(self.table.current(), self.model.current())
        same(self.table.as_of(instant(at)), self.model.as_of(at))
        bounds = sorted((self.instant_us(), self.instant_us()))
        low = None if self.chance.random() < 0.3 else bounds[0]
        high = None if self.chance.random() < 0.3 else bounds[1]
        times = (None if low is None else instant(low), None if high is None else instant(high))
        same(self.table.between(*times), self.model.between(low, high))
        self.check_history(low, high)
        self.check_lookup()
        stored = _micros(self.table.rows().toDF(*_READ, "deleted", "_current"))
        asked = [
            (*key, start, end, *((None, None) if value is None else value), value is None, end is None)
            for key, start, end, value in self.model.rows()
        ]
        assert sorted(map(str, map(_plain, stored.collect()))) == sorted(map(str, asked))
        observed = self.model.observed
        if self.model.scope == "key":
            observed = {0: max(observed.values())} if observed else {}
        assert self.table.stream_times() == observed
        horizon = self.model.horizon_us()
        assert self.table.horizon() == (None if horizon is None else instant(horizon))
        assert self.table.verify().is_sound
        if self.table.spec.system_history:
            self.check_known()

    def check_history(self, low: int | None, high: int | None) -> None:
        keys = {self.key() for _ in range(3)}
        asked = self.spark.createDataFrame(list(keys), self.columns(values=False))
        ascending = self.chance.random() < 0.5
        start, end = (None if us is None else instant(us) for us in (low, high))
        told = [_row(row) for row in _read(self.table.history(asked, start, end, ascending=ascending))]
        rows = [row for row in self.model.between(low, high) if row[0] in keys]
        first, second = (self.kind.there[place].index for place in range(2))
        rows.sort(key=lambda row: (first(row[0][0]), second(row[0][1]), row[1] if ascending else -row[1]))
        assert list(map(str, told)) == list(map(str, rows))

    def check_lookup(self) -> None:
        asked: list[tuple[Any, ...]] = [(n, *self.key(), self.instant_us()) for n in range(40)]
        asked += [(40, None, self.key()[1], self.now_us), (41, *self.key(), None)]
        schema = f"asked_id INT, {self.columns(values=False)}, us LONG"
        how = self.chance.choice(["left", "inner"])
        frame = self.with_instants(asked, schema, "asked_at")
        if self.chance.random() < 0.5:
            frame.persist()
        with patch.object(sent_rows, "LARGE_BYTES", 0):
            found = self.table.lookup(frame, "asked_at", how)  # type: ignore[arg-type]
        rows = _micros(found.toDF("id", "k", "n", "at", "v", "w", "validFrom", "validTo", "reason")).collect()
        told = {row["id"]: str(row["reason"] or _row(row)) for row in rows}
        expected = {n: self.model.lookup(None if k is None else (k, i), at) for n, k, i, at in asked}
        if how == "inner":
            expected = {n: found for n, found in expected.items() if not isinstance(found, str)}
        assert told == {n: str(found) for n, found in expected.items()}
        frame.unpersist()

    def check_known(self) -> None:
        self.moments.append((datetime.now(timezone.utc), copy.deepcopy(self.model.known)))
        time.sleep(0.002)
        moment, known = self.chance.choice(self.moments)
        at = self.instant_us()
        same(self.table.as_of(instant(at), known_at=moment), self.model.known_as_of(known, at))
        rows = [row for row in self.model.rows(known) if row[3] is not None]
        same(self.table.between(known_at=moment), rows)


def _told(outcomes: DataFrame) -> dict[int, tuple[int, str]]:
    named = outcomes.toDF("k", "n", "ts", "sequence", "put_result", "outcome", "is_latest")
    return {row["sequence"]: (row["put_result"], row["outcome"]) for row in named.collect()}


def _read(frame: DataFrame) -> list[Any]:
    return _micros(frame.toDF(*_READ)).collect()


def _micros(frame: DataFrame) -> DataFrame:
    return frame.withColumns({name: F.unix_micros(name) for name in ("validFrom", "validTo")})


def _row(row: Any) -> Row:
    return _plain(((row["k"], row["n"]), row["validFrom"], row["validTo"], (row["v"], row["w"])))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """Structs and arrays as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return bytes(value) if isinstance(value, bytearray) else value


def _columns(names: Iterable[str], kind: _Kind) -> str:
    return ", ".join(f"`{name}` {type_}" for name, type_ in zip(names, kind.types, strict=False))


def same(frame: DataFrame, rows: list[Row]) -> None:
    assert sorted(str(_row(row)) for row in _read(frame)) == sorted(map(str, rows))


def _made(spark: SparkSession, path: Path, chance: random.Random) -> _Use:
    retention = chance.choice([0, 20, 100])
    grace = chance.choice([0, retention // 2, retention])
    scope = chance.choice(["partition", "store", "key"])
    resolution = chance.choice([Resolution.MICROSECOND, Resolution.MICROSECOND, Resolution.MILLISECOND])
    scale = resolution.value
    first = chance.choice([None, None, -scale])
    names, kind = chance.choice(_NAMES), chance.choice(_KINDS)
    table = VersionedTable.create(
        spark, str(path / "table"), _columns(names[:4], kind), keys=names[:2], valid_from=names[4], valid_to=names[5],
        history_retention=timedelta(microseconds=retention * scale), grace=timedelta(microseconds=grace * scale),
        time_scope=scope, time_resolution=resolution, first_stream_time_us=first,
        system_history=chance.random() < 0.4,
    )  # fmt: skip
    model = TableModel(retention * scale, grace * scale, scope, scale, first)
    return _Use(spark, table, model, chance, chance.choice([-30, 0, 10**12]), names, kind)


_CHANGES: Final[list[tuple[Callable[[_Use], None], int]]] = [
    (_Use.put, 8), (_Use.delete, 3), (_Use.backfill, 3), (_Use.purge, 3), (_Use.optimize, 1), (_Use.vacuum, 1),
    (_Use.reopen, 1), (_Use.toggle_vectors, 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_a_table_used_at_random_answers_as_its_model(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with session_settings(spark, chance.choice(_SETTINGS)):
        use = _made(spark, tmp_path, chance)
        changes, weights = zip(*_CHANGES, strict=True)
        for _ in range(_STEPS):
            change = chance.choices(changes, weights)[0]
            use.log.append(change.__name__)
            with _written(spark, chance.choice(("as it is", *_SIZES, *WAYS))):
                change(use)
            use.check()


@contextmanager
def _written(spark: SparkSession, way: str) -> Iterator[None]:
    """How a batch is written, which else depends on sizes."""
    by_key = rows_by_key(spark, way) if way in WAYS else nullcontext()
    with pytest.MonkeyPatch.context() as patch, by_key:
        for name in _SIZES.get(way, ()):
            patch.setattr(put_module, name, 0)
        yield
