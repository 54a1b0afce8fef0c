"""P1 to P4 and P9: putting batches into a versioned table, against the SCD2 MERGE and Kafka's versioned store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import functions as F

from benchmarks import data, scd2
from benchmarks.kafka import KafkaPeer
from benchmarks.measure import Contestant, Figure, alternate
from benchmarks.setting import Setting, contents
from versioned.table import VersionedTable

KEYS, STORED, SMALL, LARGE = 1_000_000, 3, 200_000, 1_000_000
_OURS, _MERGE, _KAFKA = "versioned put", "SCD2 MERGE", "Kafka's versioned store"


def against_merge(setting: Setting, point: str, late: float, aim: float) -> list[Figure]:
    """P1 (all in order) and P2 (a share out of order)."""
    keys, size = setting.size(KEYS), setting.size(SMALL)
    table = setting.versioned_table(f"{point}-ours", keys, STORED)
    path = setting.folder(f"{point}-merge")
    scd2.create(setting.spark, path, setting.versions(keys, STORED))
    batches = [data.batch(keys, size, STORED + n, late=late, stored=STORED) for n in range(setting.runs + 1)]
    frames = [setting.records(batch, f"{point}-{n}")[1] for n, batch in enumerate(batches)]
    contestants = [
        Contestant(_OURS, _put_of(table, frames)),
        Contestant(_MERGE, lambda n: scd2.merge(setting.spark, path, frames[n].drop("seq"))),
    ]
    timings = alternate(contestants, setting.runs)
    notes: dict[str, Any] = {"wrong intervals": {_OURS: sum(table.verify().broken.values()), _MERGE: 0}}
    if late:
        notes["wrong intervals"][_MERGE] = scd2.wrong_intervals(setting.spark, path)
    else:
        ours = contents(table.current().select("key", "validFrom", "a", "name"))
        notes["same current rows"] = ours == contents(scd2.current(setting.spark, path))
    what = f"{size:,} records, {keys:,} keys x {STORED} versions, {late:.0%} out of order"
    return [Figure(point, what, _OURS, _MERGE, timings, size, aim, notes=notes)]


def flat_history(setting: Setting) -> list[Figure]:
    """P3: the same batches on tables with more and more closed history."""
    keys, size = setting.size(KEYS), setting.size(SMALL)
    stored = (STORED, 12, 48)
    contestants = []
    for versions in stored:
        table = setting.versioned_table(f"P3-{versions}", keys, versions)
        batches = [data.batch(keys, size, versions + n) for n in range(setting.runs + 1)]
        frames = [setting.records(batch, f"P3-{versions}-{n}")[1] for n, batch in enumerate(batches)]
        contestants.append(Contestant(_at(versions), _put_of(table, frames)))
    timings = alternate(contestants, setting.runs)
    what = f"{size:,} records, {keys:,} keys"
    return [
        Figure("P3", what, _at(versions), _at(STORED), timings, size, 1.15, "slower") for versions in stored[1:]
    ]  # fmt: skip


def against_kafka(setting: Setting) -> list[Figure]:
    """P4: large batches, keys at random."""
    keys, size = setting.size(KEYS), setting.size(LARGE)
    peer = KafkaPeer(setting.kafka, setting.folder("P4-kafka"), "store")
    try:
        for file in setting.loads(keys, STORED):
            peer.say("load", file)
        table = setting.versioned_table("P4-ours", keys, STORED)
        batches = [data.batch(keys, size, STORED + n, repeated=True) for n in range(setting.runs + 1)]
        frames = [setting.records(batch, f"P4-{n}")[1] for n, batch in enumerate(batches)]
        files = [setting.longs(batch, f"P4-{n}") for n, batch in enumerate(batches)]
        peer.answer()
        contestants = [
            Contestant(_OURS, _put_of(table, frames)),
            Contestant(_KAFKA, lambda n: peer.ask("run", files[n]).seconds),
        ]
        timings = alternate(contestants, setting.runs)
        questions = data.asked(keys, setting.size(100_000), 0, STORED + setting.runs + 1)
        theirs = peer.ask("ask", setting.longs(questions, "P4-q")).told
        notes = {"same answers": look_up(setting, table, questions) == theirs}
    finally:
        peer.close()
    what = f"{size:,} records, {keys:,} keys x {STORED} versions"
    return [Figure("P4", what, _OURS, _KAFKA, timings, size, 1.5, notes=notes)]


def look_up(setting: Setting, table: VersionedTable, questions: data.Records) -> tuple[int, int, int]:
    """Count and sums of the versions found, as Kafka's process reports them."""
    _, frame = setting.records(questions, "questions")
    found = table.lookup(frame.select("key", "ts"), "ts", "inner")
    row = found.agg(
        F.count("*"), F.sum(F.unix_millis("validFrom")), F.sum(F.round(F.col("a") * 4).cast("long"))
    ).collect()[0]
    return row[0], row[1] or 0, row[2] or 0


def skew(setting: Setting) -> list[Figure]:
    """P9: most records on one key, and one key with very many versions; also with the change that each record made."""
    keys, size = setting.size(KEYS), setting.size(SMALL)
    deep = setting.size(10_000)

    def even(n: int, late: float = 0) -> data.Records:
        return data.batch(keys, size, STORED + n, repeated=True, late=late, stored=STORED)

    made: dict[str, Callable[[int], data.Records]] = {
        "no skew": even,
        "90 % on one key": lambda n: _on_one_key(even(n), 0.9),
        "90 % on one key, 10 % late": lambda n: _on_one_key(even(n, 0.1), 0.9),
        "no skew, 10 % late": lambda n: even(n, 0.1),
        "one key of 10,000 versions": lambda n: data.batch(keys, size, STORED + 1 + n, repeated=True),
        "90 % on one key, 10 % late, each told": lambda n: _on_one_key(even(n, 0.1), 0.9),
        "no skew, 10 % late, each told": lambda n: even(n, 0.1),
    }
    contestants: list[Contestant] = []
    for name, make in made.items():
        table = setting.versioned_table(f"P9-{len(contestants)}", keys, STORED)
        if name.startswith("one key"):
            table.put(setting.records(_versions_of_one(deep), "P9-deep")[1], timestamp="ts", sequence="seq")
        frames = [setting.records(make(n), f"P9-{len(contestants)}-{n}")[1] for n in range(setting.runs + 1)]
        run = _told_put_of if name.endswith("told") else _put_of
        contestants.append(Contestant(name, run(table, frames)))
    timings = alternate(contestants, setting.runs)
    pairs = [
        ("90 % on one key", "no skew"),
        ("90 % on one key, 10 % late", "no skew, 10 % late"),
        ("one key of 10,000 versions", "no skew"),
        ("90 % on one key, 10 % late, each told", "no skew, 10 % late, each told"),
    ]
    what = f"{size:,} records, {keys:,} keys x {STORED} versions"
    return [Figure("P9", what, ours, peer, timings, size, 1.5, "slower") for ours, peer in pairs]


def _put_of(table: VersionedTable, frames: list[Any]) -> Callable[[int], None]:
    def run(number: int) -> None:
        assert table.put(frames[number], timestamp="ts", sequence="seq").rejected_count == 0

    return run


def _told_put_of(table: VersionedTable, frames: list[Any]) -> Callable[[int], None]:
    """As :func:`_put_of`, but with what each record replaced, which a table's changelog and its readers need."""

    def run(number: int) -> None:
        told = table.put(frames[number], timestamp="ts", sequence="seq")
        assert told.changes.count() == told.counts.accepted

    return run


def _at(versions: int) -> str:
    return f"{versions} versions per key"


def _on_one_key(records: data.Records, share: float) -> data.Records:
    chosen = np.random.default_rng(1).random(len(records)) < share
    return data.Records(np.where(chosen, 0, records.key), records.ts, records.n)


def _versions_of_one(count: int) -> data.Records:
    moments = data.BASE_MS + STORED * data.DAY_MS + np.arange(count) * (data.DAY_MS // count)
    return data.Records(np.zeros(count, dtype=np.int64), moments, np.arange(count))
