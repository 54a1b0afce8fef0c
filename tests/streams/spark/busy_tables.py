"""Input for the application of ``two_tables`` that needs its history: late prices, and orders for older ones."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

ITEMS = ("tea", "rice", "salt", "oil")
_START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def write_busy(folder: Path, numbers: range, seed: int = 5) -> Path:
    """The folder, with a file per topic and batch, 20 minutes of event time apart; the history of prices is an hour."""
    for number in numbers:
        chance = random.Random(seed * 1_000 + number)
        rows: dict[str, list[dict[str, Any]]] = {"orders": [], "prices": []}
        for place, item in enumerate(ITEMS):
            late = chance.choice((0, 0, 0, 30, 55, 200))
            rows["prices"].append(_row(number, place, item, late, price=float(number * 10 + place)))
        for place in range(len(ITEMS), len(ITEMS) + 8):
            ago = chance.choice((0, 5, 25, 45, 58, 90))
            rows["orders"].append(_row(number, place, chance.choice(ITEMS), ago, amount=number))
        for topic, said in rows.items():
            (folder / topic).mkdir(parents=True, exist_ok=True)
            file = folder / topic / f"{number:05}.json"
            file.write_text("\n".join(map(json.dumps, said)) + "\n", encoding="utf-8")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def _row(number: int, place: int, item: str, ago_minutes: int, **value: Any) -> dict[str, Any]:
    at = _START + timedelta(minutes=20 * number + place % 10 - ago_minutes)
    return {"seq": number * 100 + place, "item": item, "ts": at.isoformat(), **value}


def rows_of(spark: SparkSession, out: Path, *tables: str, without: tuple[str, ...] = ()) -> dict[str, Counter[str]]:
    """All rows of some tables as text, but for some columns."""
    told = {}
    for table in tables:
        frame = spark.read.format("delta").load(str(out / table)).drop(*without)
        told[table] = Counter(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())
    return told
