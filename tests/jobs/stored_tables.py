"""One application with a table of every kind, and rows that break each invariant of each of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.quality_settings import QualitySettings
from jobs.source_quality import checks_of
from jobs.strict import validated
from streams import BufferConfig, Joined, JoinWindows, Materialized, StreamsBuilder, Suppressed, TimeWindows
from streams.nodes import Topology
from streams.spark import BatchReport, SparkSource, StreamingApplication
from versioned.identifiers import quote

COLUMNS = {
    "prices": "price DOUBLE",
    "orders": "amount BIGINT, paid BIGINT",
    "clicks": "page STRING",
    "items": "label STRING",
}
#: The records of each topic; ``s`` is the second after the start of 2020.
INPUT: dict[str, list[dict[str, Any]]] = {
    "prices": [
        {"seq": 1, "s": 10, "item": "tea", "price": 1.0},
        {"seq": 2, "s": 20, "item": "tea", "price": 2.0},
        {"seq": 3, "s": 90, "item": "xylo", "price": 3.0},
        {"seq": 4, "s": 120, "item": "xylo", "price": 4.0},
    ],
    "orders": [
        {"seq": 5, "s": 30, "item": "tea", "amount": 5, "paid": 5},
        {"seq": 6, "s": 70, "item": "tea", "amount": 6, "paid": 7},
        {"seq": 7, "s": 80, "item": "xylo", "amount": -1, "paid": -1},
        {"seq": 8, "s": None, "item": "xylo", "amount": 1, "paid": 1},
        {"seq": 9, "s": 130, "item": "xylo", "amount": 3, "paid": 2},
    ],
    "clicks": [{"seq": 10, "s": 125, "item": "xylo", "page": "a"}, {"seq": 11, "s": 131, "item": "gin", "page": "b"}],
    "items": [{"seq": 12, "s": 1, "item": "tea", "label": "Tea"}, {"seq": 13, "s": 2, "item": "xylo", "label": "Xylo"}],
}
#: Rows of orders that break a rule are rejected.
ORDERS = {
    "policy": "reject",
    "expectations": [
        {"expect_column_values_to_be_between": {"column": "amount", "min_value": 0}},
        {"expect_rows_to_satisfy": {"condition": "paid <= amount", "name": "paid_at_most_amount"}},
    ],
}
#: Batches of prices are shown to Great Expectations: one rule holds, one does not, one cannot be judged.
PRICES = {
    "expectations": [
        {"expect_column_values_to_not_be_null": {"column": "price"}},
        {"expect_column_values_to_be_between": {"column": "price", "max_value": 2, "name": "cheap"}},
        {"expect_column_values_to_match_regex": {"column": "item", "regex": "^[a-w]", "name": "letters"}},
        {"expect_column_values_to_not_be_null": {"column": "no_such_column"}},
    ]
}


def topology() -> Topology:
    """A plan with every kind of stored table."""
    builder = StreamsBuilder()
    prices = builder.table(
        "prices", Materialized.versioned("1 day"), key="item", value="price", reorder="20 seconds", name="prices"
    )
    orders = builder.stream("orders", key="item", value=("amount", "paid"), name="orders")
    clicks = builder.stream("clicks", key="item", value="page", name="clicks")
    orders.left_join(prices, joined=Joined().with_corrections("1 hour"), name="priced").corrections(name="answers")
    counts = orders.group_by_key().windowed_by(TimeWindows.of("1 minute").grace("10 minutes")).count(name="counts")
    counts.suppress(Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()), name="held")
    orders.join(clicks, windows=JoinWindows.of("30 seconds"), name="met")
    builder.table("items", key="item", value="label", name="items").to_latest("items_now")
    return builder.build()


def written(folder: Path) -> None:
    """Write the input as JSON, one folder per topic."""
    for topic, records in INPUT.items():
        place = folder / topic
        place.mkdir(parents=True)
        said = [
            {**r, "ts": None if r["s"] is None else f"2020-01-01T00:{r['s'] // 60:02}:{r['s'] % 60:02}Z"}
            for r in records
        ]
        (place / "0.json").write_text("\n".join(map(json.dumps, said)), encoding="utf-8")


def application(
    spark: SparkSession, work: Path, orders: dict[str, Any], reports: list[BatchReport]
) -> StreamingApplication:
    """The application over that input, with guards that end it if anything is broken."""
    quality = {"orders": orders, "prices": PRICES}
    sources = {
        topic: SparkSource(
            "json",
            {"path": str(work / "input" / topic)},
            f"seq BIGINT, ts TIMESTAMP, item STRING, {columns}",
            sequence_by="seq",
            checks=checks_of(validated(QualitySettings, quality[topic])) if topic in quality else None,
        )
        for topic, columns in COLUMNS.items()
    }
    return StreamingApplication(
        spark, "shop", topology(), f"{work}/tables", sources, order="sequence", guards="fail", on_batch=reports.append
    )


class Heard(logging.Handler):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append((record.levelname, record.getMessage()))


Fault = dict[str, str]


def _nulls(*columns: str) -> list[tuple[list[Fault], dict[str, int]]]:
    return [([{column: "NULL"}], {f"null_{column.lstrip('_')}": 1}) for column in columns]


def _version(key: str, start: int, end: int | None, **changed: str) -> Fault:
    bounds = [f"TIMESTAMP '2020-01-01 00:00:{s:02}'" if s is not None else "NULL" for s in (start, end)]
    row = {"item": f"'{key}'", "validFrom": bounds[0], "validTo": bounds[1], "_current": str(end is None)}
    return {**row, "deleted": "false", "price": "1", **changed}


_LATER = "TIMESTAMP '2020-06-01'"
#: Table -> groups of rows, each row as its differences from a sound one, and how many rows break which rule by them.
FAULTS: dict[str, list[tuple[list[Fault], dict[str, int]]]] = {
    "prices": [
        ([_version("null", 1, None, item="NULL")], {"null_item": 1}),
        ([_version("n", 1, None, validFrom="NULL")], {"null_validFrom": 1}),
        ([_version("e", 9, 5)], {"empty": 1, "no_current": 1}),
        ([_version("o", 1, 9), _version("o", 5, None)], {"overlap": 1}),
        ([_version("g", 1, 2), _version("g", 5, None)], {"gap": 1}),
        ([_version("p", 1, None), _version("p", 5, None)], {"open_before_next": 1}),
        ([_version("c", 1, 2)], {"no_current": 1}),
        ([_version("d", 1, None), _version("d", 1, None)], {"doubled": 2, "open_before_next": 1}),
        ([_version("q", 1, None, _current="false")], {"partition": 1}),
        ([_version("a", 1, None, validFrom=_LATER)], {"ahead": 1}),
        ([_version("v", 1, None, deleted="true")], {"value_of_deleted": 1}),
    ],
    "counts": [
        *_nulls("item", "windowStart", "windowEnd", "maxTs", "_scope", "_open"),
        (
            [{"item": "'back'", "windowEnd": "windowStart - INTERVAL 1 SECOND", "maxTs": "windowStart"}],
            {"backwards": 1, "newest_after": 1},
        ),
        ([{"item": "'early'", "maxTs": "windowStart - INTERVAL 1 SECOND"}], {"newest_before": 1}),
        ([{"item": "'late'", "maxTs": "windowEnd + INTERVAL 1 SECOND"}], {"newest_after": 1}),
        ([{"item": "'twice'"}, {"item": "'twice'"}], {"doubled": 2}),
        ([{"item": "'ahead'", "windowStart": "windowStart + INTERVAL 1 DAY", "windowEnd": "windowEnd + INTERVAL 1 DAY",
           "maxTs": "maxTs + INTERVAL 1 DAY"}], {"ahead": 1}),
    ],
    "held": [
        *_nulls("item", "windowStart", "windowEnd", "ts", "bufferTime", "arrivedAt", "size", "_scope"),
        ([{"item": "'small'", "size": "-1"}], {"negative_size": 1}),
        ([{"item": "'first'", "bufferTime": "deadline + INTERVAL 1 SECOND"}], {"deadline_first": 1}),
        ([{"item": "'due'", "deadline": "bufferTime"}], {"overdue": 1}),
        # By the wall clock only one of these two is due: stream time is in January.
        ([{"item": "'wall'", "deadline": _LATER, "_firstTime": "arrivedAt"}], {"overdue": 1}),
        ([{"item": "'event'", "deadline": _LATER}], {}),
        ([{"item": "'twice'"}, {"item": "'twice'"}], {"doubled": 2}),
    ],
    "prices_waiting": [
        *_nulls("item", "ts", "deadline", "_scope", "_seq", "_batch_id"),
        ([{"ts": "deadline + INTERVAL 1 SECOND"}], {"deadline_first": 1}),
        ([{"ts": "ts - INTERVAL 1 DAY", "deadline": "deadline - INTERVAL 1 DAY"}], {"overdue": 1}),
    ],
    "met": [
        *_nulls("item", "ts", "matched", "padded", "_scope"),
        ([{"side": "'middle'"}], {"side": 1}),
        ([{"matched": "true", "padded": "true"}], {"padded_match": 1}),
        ([{"_arrival": "999"}, {"_arrival": "999"}], {"doubled": 2}),
        ([{"side": "'left'", "left": "NULL", "right": "NULL"}], {"no_left": 1}),
        ([{"side": "'right'", "left": "NULL", "right": "NULL"}], {"no_right": 1}),
        ([{"side": "'left'", "left": "named_struct('amount', 1L, 'paid', 1L)", "right": "named_struct('page', 'p')"}],
         {"right_of_left": 1}),
        ([{"side": "'right'", "left": "named_struct('amount', 1L, 'paid', 1L)", "right": "named_struct('page', 'p')"}],
         {"left_of_right": 1}),
    ],
    "answers": [
        *_nulls("ts", "revision", "_scope", "_seq"),
        ([{"revision": "-1"}], {"negative_revision": 1}),
    ],
    "ledger": [
        *_nulls("application", "epoch", "batch_id", "seconds", "input", "state"),
        ([{"application": "'clock'", "clock": "NULL"}], {"no_clock": 1}),
        ([{"application": "'s'", "seconds": "-1"}], {"negative_seconds": 1}),
        ([{"application": "'i'", "input": "-1"}], {"negative_input": 1}),
        ([{"application": "'b'"}, {"application": "'b'", "batch_id": "9", "clock": "clock - INTERVAL 1 DAY"}],
         {"clock_back": 1}),
        ([{"application": "'u'", "counts": "map('n.input', 3L, 'n.accepted', 1L, 'n.dropped', 1L)"}],
         {"unbalanced": 1}),
        ([{"application": "'d'"}, {"application": "'d'"}], {"doubled": 2}),
    ],
    "rejects": [
        *_nulls("node", "reason", "record", "scope", "_batch_id"),
        ([{"reason": "'NONSENSE'"}], {"unknown_reason": 1}),
        ([{"reason": "'QUALITY:some_rule'"}], {}),
    ],
    "items_now": [
        *_nulls("ts", "_batch_id", "_scope", "_seq"),
        ([{"_batch_id": "-1"}], {"negative_batch": 1}),
    ],
    "items": [
        *_nulls("item", "ts"),
        ([{"item": "'twice'"}, {"item": "'twice'"}], {"doubled": 2}),
    ],
}  # fmt: skip
#: Table -> a column, and its value for each row, so that no two rows are equal by accident.
_OWN = {
    "counts": ("item", "'own{}'"), "held": ("item", "'own{}'"), "met": ("_arrival", "{}"),
    "ledger": ("application", "'own{}'"), "items": ("item", "'own{}'"),
}  # fmt: skip


def expected(table: str) -> dict[str, int]:
    """How many rows break each rule, once all faults of a table are in it."""
    found: dict[str, int] = {}
    for _, broken in FAULTS[table]:
        for rule, number in broken.items():
            found[rule] = found.get(rule, 0) + number
    return found


def unguard(spark: SparkSession, path: str) -> None:
    """Remove the constraints that keep a foreign writer from the worst."""
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT versioned_interval")
    for column in ("item", "validFrom"):
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {column} DROP NOT NULL")


def inject(spark: SparkSession, path: str, table: str, where: str = "true") -> None:
    """Append all faults of a table, as a foreign writer would: in one commit."""
    rows = spark.read.format("delta").load(path)
    faults: Iterable[Fault] = [fault for made, _ in FAULTS[table] for fault in made]
    own = _OWN.get(table)
    made = []
    for number, fault in enumerate(faults):
        said = fault if own is None or own[0] in fault else {own[0]: own[1].format(100 + number), **fault}
        columns = [F.expr(said.get(f.name, quote(f.name))).cast(f.dataType).alias(f.name) for f in rows.schema.fields]
        made.append(F.struct(*columns))
    broken = rows.where(where).limit(1).select(F.inline(F.array(*made)))
    broken.write.format("delta").mode("append").save(path)
