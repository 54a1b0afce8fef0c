"""P5: looking versions up as of event time, against Spark's range join, Polars, DuckDB and Kafka's test driver.

All but Kafka read the same Parquet files (ours: its own table, with the same versions) and write what they find as
Parquet. Kafka's test driver is given fewer records, since it takes one at a time; the ratio is per record. Left
lookups keep records that find nothing; inner ones leave them out, on all sides, and our records and those of Spark's
range join are broadcast, as the guide on lookups advises.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import data
from benchmarks.kafka import KafkaPeer
from benchmarks.measure import Contestant, Figure, Timings, alternate
from benchmarks.setting import Setting
from streams.nodes import Materialized
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from versioned.lookup_frames import How
from versioned.table import VersionedTable

KEYS, VERSIONS, ASKED, PIPED = 1_000_000, 5, 1_000_000, 200_000
_OURS: Final[dict[How, str]] = {"left": "lookup", "inner": "inner lookup"}
_KAFKA: Final[dict[How, str]] = {"left": "Kafka's test driver", "inner": "Kafka's test driver, inner"}
_RANGE, _POLARS, _DUCKDB, _APPLICATION = "Spark range join", "Polars join_asof", "DuckDB ASOF JOIN", "application"
_SCHEMA = "key BIGINT, ts TIMESTAMP, a DOUBLE, name STRING, seq BIGINT"


def compare(setting: Setting) -> list[Figure]:
    """P5 on files, with instants over the whole history: left lookups, then inner ones."""
    keys, size = setting.size(KEYS), setting.size(ASKED)
    table = setting.versioned_table("P5-ours", keys, VERSIONS)
    path, frame = setting.records(data.asked(keys, size, 1, VERSIONS), "P5-questions")
    what = f"{size:,} records, {keys:,} keys x {VERSIONS} versions"
    aims = {_RANGE: 1.0, _POLARS: 1 / 1.5, _DUCKDB: 1 / 1.5}
    figures = []
    for how in _OURS:
        lookup, notes = _on_files(setting, keys, table, (path, frame.select("key", "ts", "seq")), how)
        figures += [
            Figure("P5", what, _OURS[how], peer, lookup, size, round(aim, 3), notes=notes) for peer, aim in aims.items()
        ]
    return figures


def against_kafka(setting: Setting) -> list[Figure]:
    """P5 through Kafka's test driver: our lookup, and a whole application that also orders, counts and commits."""
    keys, size = setting.size(KEYS), setting.size(ASKED)
    piped = min(setting.size(PIPED), size)
    peer = KafkaPeer(setting.kafka, setting.folder("P5-kafka"), "join")
    try:
        for file in setting.loads(keys, VERSIONS):
            peer.say("load", file)
        questions = data.asked(keys, size, 1, VERSIONS)
        table = setting.versioned_table("P5-ours", keys, VERSIONS)
        path, frame = setting.records(questions, "P5-questions")
        some = data.Records(questions.key[:piped], questions.ts[:piped], questions.n[:piped])
        file = setting.longs(some, "P5-piped")
        application = _Application(setting, keys, path)
        out = setting.folder("P5-out")
        asked = frame.select("key", "ts", "seq")
        peer.answer()
        contestants = [
            Contestant(_OURS["left"], lambda n: _write(table.lookup(asked, "ts"), out / "left")),
            Contestant(
                _OURS["inner"], lambda n: _write(table.lookup(F.broadcast(asked), "ts", "inner"), out / "inner")
            ),
            Contestant(_APPLICATION, application.run),
            Contestant(_KAFKA["left"], lambda n: peer.ask("run", file).seconds),
            Contestant(_KAFKA["inner"], lambda n: peer.ask("inner", file).seconds),
        ]
        timings = alternate(contestants, setting.runs)
        told = {_of_first(setting, out / how, piped) for how in ("left", "inner")}
        theirs = {(answer.count, answer.sum_n) for answer in (peer.ask("run", file), peer.ask("inner", file))}
        notes = {"same answers": told == theirs and len(told) == 1, **application.notes()}
    finally:
        peer.close()
    what = f"{size:,} records (Kafka: {piped:,}), {keys:,} keys x {VERSIONS} versions"
    return [
        Figure("P5", what, ours, theirs, timings, size, 8.0, peer_records=piped, notes=notes)
        for ours, theirs in (*((_OURS[how], _KAFKA[how]) for how in _OURS), (_APPLICATION, _KAFKA["left"]))
    ]


def _of_first(setting: Setting, path: Path, size: int) -> tuple[int, int]:
    """How many of the first ``size`` records found a version, and the sum of the numbers in what they found."""
    found = setting.spark.read.parquet(str(path)).where((F.col("seq") < size) & F.col("a").isNotNull())
    row = found.agg(F.count("*"), F.sum(F.round(F.col("a") * 4).cast("long"))).collect()[0]
    return row[0], row[1] or 0


class _Application:
    """An application that joins a stream to an existing versioned table; each run is a batch of new records."""

    def __init__(self, setting: Setting, keys: int, questions: Path) -> None:
        self._questions = questions
        self._root = setting.folder("P5-application")
        for topic in ("stream", "table"):
            (self._root / topic).mkdir()
        setting.versioned_table("P5-application/tables/rates", keys, VERSIONS)
        builder = StreamsBuilder()
        rates = builder.table(
            "table", Materialized.versioned("3650 days", name="rates"), key="key", value=["a", "name"], name="rates"
        )
        stream = builder.stream("stream", key="key", value=["seq"])
        joined = stream.left_join(rates, lambda left, right: {"seq": left.seq, "a": right.a, "name": right.name})
        joined.to_changelog("out")
        sources = {
            topic: SparkSource("parquet", {"path": str(self._root / topic)}, schema=_SCHEMA, sequence_by="seq")
            for topic in ("stream", "table")
        }
        self._app = StreamingApplication(
            setting.spark, "benchmark", builder.build(), str(self._root / "tables"), sources
        )  # fmt: skip
        self._spark = setting.spark

    def run(self, number: int) -> None:
        """Run one batch, including the start of the query."""
        (self._root / "stream" / f"{number}.parquet").hardlink_to(self._questions)
        self._app.run()

    def notes(self) -> dict[str, Any]:
        """How many records of the first batch found a version."""
        out = self._spark.read.format("delta").load(str(self._root / "tables" / "out"))
        return {"application found": out.where(F.col("_batch_id") == 0).where("a is not null").count()}


def _on_files(
    setting: Setting, keys: int, table: VersionedTable, questions: tuple[Path, DataFrame], how: How
) -> tuple[Timings, dict[str, Any]]:
    own = _OURS[how]
    versions = setting.version_files(keys, VERSIONS)
    stored = setting.versions(keys, VERSIONS)
    path, frame = questions
    asked = F.broadcast(frame) if how == "inner" else frame
    out = setting.folder(f"P5-{how}-out")

    def ours(_: int) -> None:
        found = table.lookup(asked, "ts", how)
        _write(found.select("key", "ts", "seq", *_renamed("validFrom", "a", "name")), out / own)

    def range_join(_: int) -> None:
        valid = "s.ts >= t.validFrom AND (t.validTo IS NULL OR s.ts < t.validTo)"
        joined = asked.alias("s").join(stored.alias("t"), F.expr(f"s.key = t.key AND {valid}"), how)
        _write(joined.select("s.key", "s.ts", "s.seq", *_renamed("t.validFrom", "t.a", "t.name")), out / _RANGE)

    contestants = [
        Contestant(own, ours),
        Contestant(_RANGE, range_join),
        Contestant(_POLARS, lambda _: polars_asof(path, versions, out / f"{_POLARS}.parquet", how)),
        Contestant(_DUCKDB, lambda _: duckdb_asof(path, versions, out / f"{_DUCKDB}.parquet", how)),
    ]
    timings = alternate(contestants, setting.runs)
    told = {each.name: summed(setting, _found(out, each.name)) for each in contestants}
    return timings, {"same answers": len(set(told.values())) == 1, "found": told[own][0]}


def polars_asof(questions: Path, versions: Path, out: Path, how: How) -> None:
    """Polars: both sides sorted by time, then the as-of join by key."""
    asked = pl.scan_parquet(questions).select("key", "ts", "seq").sort("ts")
    stored = pl.scan_parquet(versions / "*.parquet").select("key", "validFrom", "a", "name").sort("validFrom")
    joined = asked.join_asof(
        stored.with_columns(found_from="validFrom"),
        left_on="ts",
        right_on="validFrom",
        by="key",
        check_sortedness=False,
    )
    told = joined.select("key", "ts", "seq", "found_from", found_a="a", found_name="name")
    if how == "inner":
        told = told.filter(pl.col("found_from").is_not_null())
    told.collect().write_parquet(out)


def duckdb_asof(questions: Path, versions: Path, out: Path, how: How) -> None:
    """DuckDB's ASOF JOIN."""
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT s.key, s.ts, s.seq, t.validFrom AS found_from, t.a AS found_a, t.name AS found_name "
            f"FROM read_parquet('{questions}') s ASOF {how} JOIN read_parquet('{versions}/*.parquet') t "
            f"ON s.key = t.key AND s.ts >= t.validFrom) TO '{out}' (FORMAT parquet)"
        )


def summed(setting: Setting, path: str) -> tuple[int, int, int, int]:
    """Counts of records with a version and of all, and sums of what was found: equal for equal answers."""
    frame = setting.spark.read.parquet(path)
    start, a = F.unix_millis(F.col("found_from").cast("timestamp")), F.round(F.col("found_a") * 4).cast("long")
    row = frame.agg(F.count("found_from"), F.count("*"), F.sum(start % 1_000_003 * F.col("seq")), F.sum(a)).collect()[0]
    return row[0], row[1], row[2] or 0, row[3] or 0


def _found(out: Path, name: str) -> str:
    return str(out / (name if name not in (_POLARS, _DUCKDB) else f"{name}.parquet"))


def _renamed(start: str, a: str, name: str) -> list[Any]:
    return [F.col(start).alias("found_from"), F.col(a).alias("found_a"), F.col(name).alias("found_name")]


def _write(frame: Any, path: Path) -> None:
    frame.write.mode("overwrite").parquet(str(path))
