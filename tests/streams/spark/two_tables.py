"""The smallest application with state: prices of items, and orders joined to the price that held."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streams.expressions import trace
from streams.nodes import ChangelogSink, Materialized, StreamSource, StreamTableJoin, TableSource, Topology
from streams.spark import SparkSource, StreamingApplication

SCHEMAS = {
    "orders": "seq LONG, item STRING, amount LONG, ts TIMESTAMP",
    "prices": "seq LONG, item STRING, price DOUBLE, ts TIMESTAMP",
}


def topology(hours: int = 1, *, system_history: bool = False, node: str = "prices") -> Topology:
    """Orders with the price of their item at their time; prices that are late by so many hours go to the rejects.

    The table of the prices is called ``prices``, whatever their node is.
    """
    history = Materialized(
        name="prices",
        history_retention=timedelta(hours=hours),
        late_policy="side_table",
        system_history=system_history,
    )
    prices = TableSource(node, topic="prices", key=("item",), value=("price",), materialized=history)
    orders = StreamSource("orders", topic="orders", key=("item",), value=("amount",))
    joiner = trace(lambda left, right: {"amount": left.amount, "price": right.price}, "left", "right")
    joined = StreamTableJoin("priced", (orders, prices), kind="left", joiner=joiner)
    return Topology((prices, orders, joined, ChangelogSink("priced_orders", (joined,))))


def write_batch(folder: Path, number: int, amount: int = 1, year: int = 2026) -> None:
    """One file per topic: an order and a price for each of two items, in the hour of that number of the year."""
    rows: dict[str, list[dict[str, Any]]] = {"orders": [], "prices": []}
    for place, item in enumerate(("tea", "rice")):
        seq, ts = number * 10 + place * 2, f"{year}-01-01T{number:02d}:0{place}:00Z"
        rows["prices"].append({"seq": seq, "item": item, "price": float(number), "ts": ts})
        rows["orders"].append({"seq": seq + 1, "item": item, "amount": amount, "ts": ts})
    for topic, said in rows.items():
        (folder / topic).mkdir(parents=True, exist_ok=True)
        file = folder / topic / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, said)) + "\n", encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def application(
    spark: SparkSession, source: Path, out: Path, plan: Topology | None = None, name: str = "shop", **options: Any
) -> StreamingApplication:
    """The application over the files of ``source``, one of each topic a batch; with another plan of the same topics."""
    sources = {
        topic: SparkSource("json", {"path": str(source / topic), "maxFilesPerTrigger": "1"}, schema, sequence_by="seq")
        for topic, schema in SCHEMAS.items()
    }
    return StreamingApplication(spark, name, plan or topology(), str(out), sources, order="sequence", **options)


def commits(out: Path) -> set[str]:
    """Every commit of every table."""
    return {str(file.relative_to(out)) for file in out.glob("*/_delta_log/*.json")}
