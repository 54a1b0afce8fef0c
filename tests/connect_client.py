"""What a client of Spark Connect does with the library; prints what it found as JSON. Run by ``test_connect.py``.

A process of its own: one Python process has either classic sessions or remote ones.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql import functions as F

from streams import BufferConfig, Materialized, StreamsBuilder, Suppressed, TimeWindows
from streams.nodes import Topology
from streams.spark import SparkSource, StreamingApplication
from versioned import VersionedTable

_DAY = 86_400


def _prices(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A versioned table: created, written to (in order and late), queried, looked up in, purged."""
    table = VersionedTable.create(
        spark, f"{folder}/prices", "item STRING, price DOUBLE", keys="item", history_retention="30 days"
    )
    first = table.put(_rows(spark, [("tea", 10.0, 1), ("tea", 12.0, 5), ("oil", 7.0, 2), (None, 1.0, 2)])).counts
    late = table.put(_rows(spark, [("tea", 11.0, 3), ("tea", 9.0, 2)])).counts
    refused = table.put(_rows(spark, [("oil", 9.0, -40)])).counts
    orders = spark.createDataFrame([("tea",), ("oil",), ("rum",)], "item STRING").withColumn(
        "at", F.timestamp_seconds(F.lit(4 * _DAY))
    )
    found = VersionedTable.open(spark, f"{folder}/prices").lookup(orders, at="at")
    return {
        "counts": [str(first), str(late), str(refused)],
        "history": _listed(table.history().select("item", "price", F.unix_seconds("validFrom") / _DAY)),
        "as_of": _listed(table.as_of(datetime(1970, 1, 3)).select("item", "price").orderBy("item")),
        "lookup": _listed(found.select("item", "price", "reason").orderBy("item")),
        "is_sound": table.verify().is_sound,
        "deleted": _listed(table.delete(_rows(spark, [("tea", 0.0, 6)]).drop("price")).select("item", "price")),
        "current": _listed(table.current().select("item", "price")),
        "purged": [table.put(_rows(spark, [("oil", 8.0, 60)])).counts.accepted, table.purge(), table.history().count()],
    }


def _rows(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    frame = spark.createDataFrame(rows, "item STRING, price DOUBLE, day INT")
    return frame.select("item", "price", F.timestamp_seconds(F.col("day") * _DAY).alias("ts"))


def _listed(frame: DataFrame) -> list[list[Any]]:
    return [list(row) for row in frame.collect()]


def _small_plan() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("prices", Materialized.versioned("30 days"), key="item", value="price", name="prices")
    orders = builder.stream("orders", key="item", value="amount")
    orders.left_join(table, lambda left, right: {"amount": left.amount, "price": right.price}).to_changelog("priced")
    return builder.build()


def _whole_plan() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("prices", Materialized.versioned("30 days"), key="item", value="price", name="prices")
    orders = builder.stream("orders", key="item", value="amount")
    joined = orders.left_join(table, lambda left, right: {"amount": left.amount, "price": right.price}, name="joined")
    joined.to_changelog("priced")
    joined.to_table(name="last").to_latest("latest")
    daily = orders.group_by_key().windowed_by(TimeWindows.of("1 day").grace("1 day")).count(name="daily")
    daily.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final").to_changelog("finals")
    calm = Suppressed.until_time_limit("1 day", BufferConfig.max_records(10).emit_early_when_full())
    table.to_stream().to_table(name="plain").suppress(calm, name="calm").to_changelog("calmed")
    return builder.build()


#: Prices and orders that arrive before each start: (number, item, price or amount, day).
_INPUT: list[dict[str, list[tuple[int, str, float, int]]]] = [
    {"prices": [(1, "tea", 10.0, 1), (2, "tea", 12.0, 5)], "orders": [(3, "tea", 1, 4)]},
    {"prices": [(4, "tea", 11.0, 3)], "orders": [(5, "tea", 2, 4), (6, "oil", 3, 9)]},
]
_SCHEMAS = {
    "prices": "n BIGINT, item STRING, price DOUBLE, ts TIMESTAMP",
    "orders": "n BIGINT, item STRING, amount INT, ts TIMESTAMP",
}


def _run(spark: SparkSession, folder: Path, plan: Topology, starts: int) -> None:
    """Start an application ``starts`` times, each time with new input, and with the state that the last run left."""
    sources = {
        name: SparkSource("json", {"path": f"{folder}/in/{name}"}, schema, sequence_by="n")
        for name, schema in _SCHEMAS.items()
    }
    for number, part in enumerate(_INPUT[:starts]):
        for name, rows in part.items():
            column = "price" if name == "prices" else "amount"
            lines = [
                json.dumps({"n": n, "item": item, column: what, "ts": f"1970-01-{day + 1:02d}T00:00:00Z"})
                for n, item, what, day in rows
            ]
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)
            (folder / "in" / name / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        StreamingApplication(spark, "shop", plan, f"{folder}/tables", sources, order="sequence").run()


def _sent(spark: SparkSession, folder: Path, name: str, *columns: str) -> list[list[Any]]:
    frame = spark.read.format("delta").load(f"{folder}/tables/{name}")
    return _listed(frame.orderBy("_batch_id", "_scope", "_seq").select(*columns))


def _batch(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """One batch of a stream-table join."""
    _run(spark, folder / "small", _small_plan(), 1)
    return {"priced": _sent(spark, folder / "small", "priced", "item", "amount", "price", "reason")}


def _shop(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Joins, windows, suppressions and sinks, across a restart."""
    _run(spark, folder / "shop", _whole_plan(), 2)
    days = (F.unix_seconds("windowStart") / _DAY).cast("int").alias("day")
    finals = (
        spark.read.format("delta").load(f"{folder}/shop/tables/finals").select("item", days, "count").orderBy("day")
    )
    return {
        "priced": _sent(spark, folder / "shop", "priced", "item", "amount", "price", "reason"),
        "latest": sorted(_sent(spark, folder / "shop", "latest", "item", "amount", "price")),
        "finals": _listed(finals),
        "calmed": _sent(spark, folder / "shop", "calmed", "item", "price"),
        "batches": spark.read.format("delta").load(f"{folder}/shop/tables/ledger").count(),
    }


def _upkeep(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A pass of upkeep beside a stream, in a session of its own: the server lists the tables of ``_batch``."""
    from jobs.maintenance import MaintainSettings, Upkeep, beside

    kept: list[Upkeep] = []
    with beside(spark, MaintainSettings(root=f"file://{folder}/small/tables"), folder, kept.append):
        pass  # The current pass of upkeep ends first.
    return {
        "done": {one.table: [one.rows, *one.done] for one in kept},
        "failed": [one.failed for one in kept if one.failed],
    }


def _missing(spark: SparkSession, folder: Path) -> str:
    """The error of ``DeltaTable`` if the server has no plugin for it."""
    from delta.tables import DeltaTable

    try:
        DeltaTable.forPath(spark, f"{folder}/prices").toDF().count()
    except Exception as error:  # a refusal of the server, or of the client's own modules
        return str(error)
    return "works"


def _job(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """``versioned run`` with metrics for Prometheus: its lines per batch, and those about the tables."""
    from typer.testing import CliRunner

    from jobs.cli import app

    work = folder / "job"
    (work / "in").mkdir(parents=True)
    (work / "in" / "0.json").write_text('{"k": "a", "ts": "2026-01-01T00:00:00Z"}\n' * 3, encoding="utf-8")
    (work / "job.yaml").write_text(_JOB, encoding="utf-8")
    ended = CliRunner().invoke(app, ["run", "-c", str(work / "job.yaml"), "-w", str(work)])
    lines = [line.split() for line in ended.stdout.splitlines()]
    metrics = (work / "told.prom").read_text(encoding="utf-8") if (work / "told.prom").exists() else ""
    said = [line[:2] for line in lines if line[:1] in (["0"], ["1"])]
    tables = {line[1]: int(line[2]) for line in lines if line[:1] == ["table"]}
    return {"code": ended.exit_code, "batches": said, "tables": tables, "metrics": "late_record_drop_total" in metrics}


_JOB = """
application: told
root: tables
metrics: {prometheus: told.prom}
sources: {s: {format: json, path: in, schema: "ts TIMESTAMP, k STRING"}}
plan:
  s: {op: stream, key: k}
  out: {op: to_changelog, from: s}
"""
_PARTS = {"job": _job, "prices": _prices, "missing": _missing, "batch": _batch, "upkeep": _upkeep, "shop": _shop}

if __name__ == "__main__":
    os.environ["SPARK_REMOTE"] = sys.argv[1]  # As users of a command set it.
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    said: dict[str, Any] = {"remote": is_remote(), "session": type(session).__module__}
    print(json.dumps(said | {name: _PARTS[name](session, Path(sys.argv[2])) for name in sys.argv[3:]}))
