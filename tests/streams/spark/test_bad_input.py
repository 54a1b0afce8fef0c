"""Bad input: each row of a table of cases has its stated result, all of them in one batch; nothing goes uncounted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.nodes import Topology
from streams.rows import Row
from streams.spark import BatchReport, SparkSource, StreamingApplication
from streams.spark.contract import InputContract
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, TimeWindows

_MAX_LONG = 2**63 - 1
_NFC, _NFD = "caf\u00e9", "cafe\u0301"
_HOT = 300


@dataclass(frozen=True)
class Order:
    """One row of the topic ``orders``, and why it is put aside; None = it is not."""

    case: str
    reason: str | None = None
    item: str | None = "tea"
    amount: str | None = "1"
    share: float | None = 1.0
    ts: str | None = "2026-01-01T10:00:00Z"
    note: str | None = None
    due: str | None = None
    seq: int | None = None


@dataclass(frozen=True)
class Price:
    """One row of the topic ``prices``; ``at`` is in milliseconds."""

    case: str
    reason: str | None = None
    item: str | None = "tea"
    place: tuple[str | None, str | None] | None = ("x", "y")
    tags: list[str] | None = field(default_factory=lambda: ["a"])
    code: bytes | None = b"\x00\xff"
    price: float | None = 1.5
    at: int | None = 1_767_225_600_000
    gone: bool | None = False


#: In order of their sequence.
ORDERS = (
    Order("the first year", ts="0001-01-01T00:00:00Z"),
    Order("before 1970", ts="1969-12-31T23:00:00Z"),
    Order("good"),
    Order("another zone", ts="2026-01-01T12:30:00+02:00"),
    Order("no key: a stream passes it on", item=None),
    Order("no value", amount=None, share=None),
    Order("no time", "NULL_TS", ts=None),
    Order("far ahead", "FUTURE_TS", ts="2099-01-01T00:00:00Z"),
    Order("the last year", "FUTURE_TS", ts="9999-12-31T23:59:59.999999Z"),
    Order("beyond the last year", "TS_RANGE", ts="+10000-01-01T00:00:00Z"),
    Order("before the first year", "TS_RANGE", ts="0000-12-31T23:59:59Z"),
    Order("a value in the last year", due="9999-12-31T23:59:59.999999Z"),
    Order("a value beyond the last year", "TS_RANGE", due="+10000-01-01T00:00:00Z"),
    Order("a value before the first year", "TS_RANGE", due="0000-12-31T23:59:59Z"),
    Order("a time beyond 64 bits", "BAD_TYPE", ts="+294248-01-01T00:00:00Z"),
    Order("a time without zone, in no hour of New York", "BAD_TYPE", ts="2026-03-08T02:30:00"),
    Order("a day without zone", "BAD_TYPE", ts="2026-03-08"),
    Order("no instant", "BAD_TYPE", ts="soon"),
    Order("a number as text", amount="7"),
    Order("no number", "BAD_TYPE", amount="seven"),
    Order("a fraction as text", "BAD_TYPE", amount="7.5"),
    Order("a number beyond 64 bits", "BAD_TYPE", amount="99999999999999999999"),
    Order("a fraction", "BAD_TYPE", share=0.5),
    Order("a number beyond 32 bits", "BAD_TYPE", share=1e12),
    Order("not a number", "BAD_TYPE", share=float("nan")),
    Order("two megabytes", "TOO_LARGE", note="x" * (2 << 20)),
    Order("two megabytes of key", "TOO_LARGE", item="k" * (2 << 20)),
    Order("composed", item=_NFC),
    Order("decomposed", item=_NFD),
    Order("emoji", item="\U0001f375"),
    Order("right to left", item="\u05ea\u05d4"),
    Order("NUL", item="a\u0000b"),
    Order("spaces", item=" tea "),
    Order("empty", item=""),
    Order("comes twice", seq=10_000),
    Order("comes twice: the second", "DUPLICATE", seq=10_000),
    *(Order("a hot key", item="hot", ts=f"2026-01-01T11:{number % 60:02d}:00Z") for number in range(_HOT)),
    Order("closes the windows of that day", ts="2026-01-03T00:00:00Z"),
)
PRICES = (
    Price("good", at=1_767_225_600_000),
    Price("before 1970", at=-1_000),
    Price("same key and time: replaced", price=2.0, at=1_767_229_200_000),
    Price("same key and time: replaces", price=3.0, at=1_767_229_200_000),
    Price("a deletion", item="rice", gone=True),
    Price("no key", "NULL_KEY", item=None),
    Price("no part of the key", "NULL_KEY", place=None),
    Price("null inside a part of the key", "NULL_KEY", place=(None, "y")),
    Price("no binary key", "NULL_KEY", code=None),
    Price("no array key", "NULL_KEY", tags=None),
    Price("no time", "NULL_TS", at=None),
    Price("microseconds taken for milliseconds", "TS_RANGE", at=1_767_225_600_000_000),
    Price("the largest long", "TS_RANGE", at=_MAX_LONG),
    Price("the smallest long", "TS_RANGE", at=-_MAX_LONG - 1),
    Price("far ahead", "FUTURE_TS", at=4_070_908_800_000),
)
#: Two rows of a later batch.
LATER = (Order("came before", "DUPLICATE", seq=3), Order("new", item="new", seq=10_001))

_ORDERS_READ = "item STRING, amount STRING, share DOUBLE, ts STRING, note STRING, due STRING, seq LONG, extra STRING"
_ORDERS = "ITEM STRING, amount LONG, share INT, ts TIMESTAMP, note STRING, due TIMESTAMP, seq LONG"
_PRICES_READ = (
    "item STRING, place STRUCT<a: STRING, b: STRING>, tags ARRAY<STRING>, code BINARY, price DOUBLE, at LONG, "
    "gone BOOLEAN, seq LONG"
)
_PRICE_KEY = ("item", "place", "tags", "code")
#: What is dropped is counted, but not kept.
_DROPPED = {("orders", "FUTURE_TS"), ("per_hour", "NULL_KEY")}


def _topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key="item", name="orders")
    orders.to_changelog("orders_out")
    counts = orders.group_by_key().windowed_by(TimeWindows.of("1 hour").grace("1 hour")).count(name="per_hour")
    counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="closed").to_changelog(
        "per_hour_out"
    )
    history = Materialized.versioned("100000 days")
    builder.table("prices", history, key=_PRICE_KEY, timestamp="at", value="price", deleted="gone")
    return builder.build()


def _application(spark: SparkSession, folder: Path, failing: bool = False, **options: Any) -> StreamingApplication:
    actions = {"FUTURE_TS": "drop", "NULL_KEY": "drop"} | ({"BAD_TYPE": "fail"} if failing else {})
    contracts = {
        "orders": InputContract(types=_ORDERS, unique=True, on_invalid=actions),
        "prices": InputContract(ts_unit="ms"),
    }
    sources = {
        topic: SparkSource(
            "parquet",
            {"path": str(folder / topic), "maxFilesPerTrigger": "1"},
            schema,
            sequence_by="seq",
            contract=contracts[topic],
        )
        for topic, schema in (("orders", _ORDERS_READ), ("prices", _PRICES_READ))
    }
    return StreamingApplication(spark, "bad", _topology(), str(folder / "out"), sources, order="sequence", **options)


def _write(
    spark: SparkSession, folder: Path, topic: str, number: int, rows: list[tuple[Any, ...]], schema: str
) -> None:
    made = folder / "made"
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(str(made))
    (folder / topic).mkdir(parents=True, exist_ok=True)
    file = next(made.glob("*.parquet")).rename(folder / topic / f"{number}.parquet")
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _sequenced(orders: tuple[Order, ...]) -> list[tuple[int, Order]]:
    return [(number if order.seq is None else order.seq, order) for number, order in enumerate(orders)]


def _order_rows(orders: tuple[Order, ...]) -> list[tuple[Any, ...]]:
    return [(o.item, o.amount, o.share, o.ts, o.note, o.due, seq, "extra") for seq, o in _sequenced(orders)]


@dataclass(frozen=True)
class Ran:
    """An application that failed on the batch first, was told to reject, and then ran two batches."""

    folder: Path
    failed: str
    after_failure: dict[str, int]
    reports: list[BatchReport]

    def rows(self, spark: SparkSession, table: str) -> DataFrame:
        return spark.read.format("delta").load(str(self.folder / "out" / table))

    def put_aside(self, spark: SparkSession) -> Counter[tuple[str, int, str]]:
        """Node, sequence and reason of all rejects."""
        rows = self.rows(spark, "rejects").selectExpr("node", "place[0] AS seq", "reason").collect()
        return Counter((row["node"], row["seq"], row["reason"]) for row in rows)


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("bad")
    prices = [
        (p.item, p.place, p.tags, None if p.code is None else bytearray(p.code), p.price, p.at, p.gone, seq)
        for seq, p in enumerate(PRICES)
    ]
    _write(spark, folder, "orders", 0, _order_rows(ORDERS), _ORDERS_READ)
    _write(spark, folder, "orders", 1, _order_rows(LATER), _ORDERS_READ)
    _write(spark, folder, "prices", 0, prices, _PRICES_READ)
    with pytest.raises(Exception, match="RecordError") as failed:
        _application(spark, folder, failing=True).run()
    tables = [log.parent for log in (folder / "out").glob("*/_delta_log") if log.parent.name != "ledger"]
    after_failure = {table.name: spark.read.format("delta").load(str(table)).count() for table in tables}
    reports: list[BatchReport] = []
    _application(spark, folder, on_batch=reports.append).run()
    return Ran(folder, str(failed.value), after_failure, reports)


def test_each_bad_record_is_in_the_rejects_with_its_reason_and_no_good_one_is(spark: SparkSession, ran: Ran) -> None:
    told = ran.put_aside(spark)
    expected = Counter(
        (node, seq, row.reason)
        for node, rows in (("orders", [*_sequenced(ORDERS), *_sequenced(LATER)]), ("prices", list(enumerate(PRICES))))
        for seq, row in rows
        if row.reason is not None and (node, row.reason) not in _DROPPED
    )
    assert told == expected


def test_the_ledger_tells_the_reports_of_batches_again(spark: SparkSession, ran: Ran) -> None:
    app = _application(spark, ran.folder)
    came = [replace(report, input={topic: n for topic, n in report.input.items() if n}) for report in ran.reports]
    assert app.reports() == came
    assert app.reports((1, 0)) == came[1:]
    assert app.reports((0, -1), (1, 0)) == came[:1]


def test_accepted_and_put_aside_are_the_input_of_every_node_in_every_batch(spark: SparkSession, ran: Ran) -> None:
    kept = Counter((row["_batch_id"], row["node"], row["reason"]) for row in ran.rows(spark, "rejects").collect())
    assert [report.batch_id for report in ran.reports] == [0, 1]
    for report in ran.reports:
        for node in ("orders", "prices", "per_hour"):
            counts = {
                what.removeprefix(f"{node}."): n for what, n in report.counts.items() if what.startswith(f"{node}.")
            }
            if not counts:
                continue
            aside = {what.removeprefix("put_aside."): n for what, n in counts.items() if what.startswith("put_aside.")}
            dropped = sum(n for reason, n in aside.items() if (node, reason) in _DROPPED)
            rejected = sum(n for (batch, of, _), n in kept.items() if (batch, of) == (report.batch_id, node))
            late = counts.get("late", 0)
            assert counts["accepted"] + rejected + dropped + late == counts["input"], (report.batch_id, node, counts)
            assert rejected == sum(n for reason, n in aside.items() if (node, reason) not in _DROPPED)
    first = ran.reports[0]
    assert first.counts["orders.input"] == len(ORDERS)
    assert first.counts["orders.put_aside.FUTURE_TS"] == 2
    assert first.counts["per_hour.put_aside.NULL_KEY"] == 1
    assert first.rejected == sum(n for (batch, _, _), n in kept.items() if batch == 0)


def test_one_record_of_2099_costs_no_good_record_and_windows_still_close(spark: SparkSession, ran: Ran) -> None:
    good = [o for o in (*ORDERS, *LATER) if o.reason is None]
    assert ran.rows(spark, "orders_out").count() == len(good)
    hot = ran.rows(spark, "per_hour_out").where("item = 'hot'").collect()
    assert [(row["count"], row["windowStart"].hour) for row in hot] == [(_HOT, _hour(11))]


def _hour(utc: int) -> int:
    """What a collected timestamp shows, which is in the zone of this process."""
    return datetime(2026, 1, 1, utc, tzinfo=timezone.utc).astimezone().hour


def test_keys_are_their_bytes(spark: SparkSession, ran: Ran) -> None:
    items = {row["item"] for row in ran.rows(spark, "orders_out").select("item").collect()}
    assert items == {o.item for o in (*ORDERS, *LATER) if o.reason is None}
    assert {_NFC, _NFD, "a\u0000b", " tea ", "", None} <= items


def test_values_are_cast_and_columns_that_are_not_declared_are_left_out(spark: SparkSession, ran: Ran) -> None:
    out = ran.rows(spark, "orders_out")
    types = {field.name: field.dataType.simpleString() for field in out.schema.fields}
    assert {name: types[name] for name in ("item", "amount", "share", "note", "ts")} == {
        "item": "string", "amount": "bigint", "share": "int", "note": "string", "ts": "timestamp",
    }  # fmt: skip
    assert "extra" not in types
    assert out.where("amount = 7").count() == 1


def test_a_table_takes_structs_arrays_and_binaries_as_keys_and_the_last_record_of_an_instant(
    spark: SparkSession, ran: Ran
) -> None:
    rows = ran.rows(spark, "prices").where("_current").select("item", "price", "deleted", "code").collect()
    assert sorted(
        (row["item"], row["price"], row["deleted"], bytes(row["code"])) for row in rows if not row["deleted"]
    ) == [("tea", 3.0, False, b"\x00\xff")]
    assert [row["item"] for row in rows if row["deleted"]] == ["rice"]


def test_a_record_that_does_not_fit_is_kept_as_it_came_and_a_large_one_is_cut(spark: SparkSession, ran: Ran) -> None:
    rows = ran.rows(spark, "rejects").where("reason IN ('BAD_TYPE', 'TOO_LARGE')").collect()
    records = [(row["reason"], json.loads(row["record"])) for row in rows]
    assert all(set(record) - {"misfits"} == {"key", "value"} for _, record in records)
    assert "seven" in {record["value"].get("amount") for _, record in records}
    large = [len(json.dumps(record)) for reason, record in records if reason == "TOO_LARGE"]
    assert len(large) == 2
    assert max(large) < 4_000


def test_of_a_record_that_does_not_fit_the_columns_are_told_with_the_types_that_they_should_have(
    spark: SparkSession, ran: Ran
) -> None:
    told = {
        (row["place"][0], json.loads(row["record"]).get("misfits"))
        for row in ran.rows(spark, "rejects").where("node = 'orders'").collect()
    }
    wrong = {"ts": "ts is no timestamp", "amount": "amount is no bigint", "share": "share is no int"}
    usual = Order("usual")
    expected = {
        (seq, next(words for name, words in wrong.items() if getattr(order, name) != getattr(usual, name)))
        for seq, order in _sequenced(ORDERS)
        if order.reason == "BAD_TYPE"
    }
    assert {(seq, words) for seq, words in told if words is not None} == expected


def test_bytes_that_are_no_text_are_put_aside_with_their_column_and_come_to_no_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    keys = ("'tea'", "CAST(X'61FF62' AS STRING)", "'rice'")
    rows = " UNION ALL ".join(f"SELECT {key} item, 'x' note, TIMESTAMP '2026-01-01T00:00:00Z' ts" for key in keys)
    spark.sql(rows).coalesce(1).write.parquet(str(tmp_path / "in"))
    builder = StreamsBuilder()
    sessions = SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=1), timedelta(minutes=1))
    orders = builder.stream("orders", key="item", value="note").group_by_key()
    orders.windowed_by(sessions).count(name="sessions").to_changelog("counted")
    source = SparkSource("parquet", {"path": str(tmp_path / "in")}, "item STRING, note STRING, ts TIMESTAMP")
    app = StreamingApplication(spark, "bytes", builder.build(), str(tmp_path / "out"), {"orders": source})
    app.run()
    read = spark.read.format("delta")
    counted = read.load(str(app.table("counted"))).collect()
    assert sorted(row["item"] for row in counted) == ["rice", "tea"]
    (reject,) = read.load(str(app.table("rejects"))).collect()
    told = json.loads(reject["record"])
    assert (reject["reason"], told["misfits"]) == ("BAD_TYPE", "item is no string")
    assert told["key"] == {"item": "a\ufffdb"}


def test_a_reason_that_is_to_fail_ends_the_batch_before_anything_of_it_is_written(ran: Ran) -> None:
    number = sum(order.reason == "BAD_TYPE" for order in ORDERS)
    assert f"{number} of orders are BAD_TYPE" in ran.failed
    assert "seven" not in ran.failed
    assert ran.after_failure
    assert set(ran.after_failure.values()) == {0}


@pytest.mark.parametrize(
    ("key", "value", "ts_us", "reason"),
    [
        ({"item": "a", "place": Row(a="x", b="y")}, 1, 0, None),
        ({"item": "a", "place": Row(a=None, b="y")}, 1, 0, "NULL_KEY"),
        ({"item": None, "place": Row(a="x", b="y")}, 1, 0, "NULL_KEY"),
        ({"item": "a", "place": Row(a="x", b="y")}, None, 0, None),
        ({"item": "a", "place": Row(a="x", b="y")}, 1, None, "NULL_TS"),
        ({"item": "a", "place": Row(a="x", b="y")}, 1, -1, None),
        ({"item": "a", "place": Row(a="x", b="y")}, 1, 1_767_225_600_000_000_000, "TS_RANGE"),
        ({"item": "a", "place": Row(a="x", b="y")}, 1, -_MAX_LONG - 1, "TS_RANGE"),
        ({"item": "a", "place": Row(a="x", b="y")}, 1, 4_070_908_800_000_000, "FUTURE_TS"),
    ],
)
def test_the_test_driver_has_the_same_reasons(key: Any, value: Any, ts_us: int | None, reason: str | None) -> None:
    builder = StreamsBuilder()
    builder.table("prices", Materialized.versioned("100000 days"), key=("item", "place"), value="price")
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    driver = TopologyTestDriver(builder.build(), start=now, max_future_skew="1 day")
    driver.pipe_input("prices", key, value, ts_us)
    assert [reject.reason for reject in driver.rejects] == ([] if reason is None else [reason])
    counts = driver.counters("prices")
    assert counts["input"] == counts["accepted"] + counts["dropped"] == 1


_SMALL_DRIVER = """
import json, sys
from pathlib import Path
from jobs.session import build_session
from streams.spark import SparkSource, StreamingApplication
from streams.topology import Materialized, StreamsBuilder
folder = Path(sys.argv[1])
builder = StreamsBuilder()
orders = builder.stream("orders", key="k", value="v")
orders.group_by_key().count(name="counts").to_latest("counted")
orders.to_table(Materialized.versioned("1 day", name="latest"))
spark = build_session("small", {"spark.driver.memory": "1g"})
source = SparkSource("json", {"path": str(folder / "in")}, "k STRING, v STRING, ts TIMESTAMP")
reports = []
app = StreamingApplication(
    spark, "small", builder.build(), str(folder / "out"), {"orders": source}, on_batch=reports.append
)
app.run()
rows = spark.read.format("delta").load(str(app.table("rejects"))).collect()
print("TOLD", json.dumps([[row["node"], row["reason"], len(row["record"])] for row in rows]))
print("KEPT", spark.read.format("delta").load(str(app.table("counted"))).count())
"""


@pytest.mark.slow
def test_a_value_of_64_mebibytes_does_not_kill_a_driver_of_one_gibibyte(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    good = {"k": "a", "v": "x", "ts": "2026-01-01T00:00:00Z"}
    with (tmp_path / "in" / "0.json").open("w", encoding="utf-8") as file:
        for row in (good, good | {"k": "huge", "v": "x" * (64 << 20)}, good | {"k": "b"}):
            file.write(json.dumps(row) + "\n")
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", _SMALL_DRIVER, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    told = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("TOLD"))[5:])
    assert [row[:2] for row in told] == [["stream-orders", "TOO_LARGE"]]
    assert told[0][2] < 2_000
    assert "KEPT 2" in ended.stdout
