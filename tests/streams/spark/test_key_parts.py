"""Keys of several fields, some null, and keys that are arrays or structs: on Spark as on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import in_two_batches
from pyspark.sql import SparkSession

from streams.nodes import Materialized, Topology
from streams.rows import Row
from streams.spark import StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows

_SCHEMA: Final = (
    "c STRING, n STRING, tags ARRAY<STRING>, place STRUCT<x: LONG, y: ARRAY<LONG>>, v STRING, ts TIMESTAMP, seq LONG"
)
_RECORDS: Final = (
    ("AA", None, ["a", "b"], (1, [2]), "one", 1),
    ("AA", "17", ["a", "b"], (1, [2]), "two", 2),
    ("AA", None, ["b"], (1, []), "three", 30),
    ("AA", "18", ["b"], (None, [2]), "in parts", 31),
    (None, "17", ["a", "b"], (1, [2]), "four", 40),
)
_SINKS: Final = (
    *("keyed", "flown", "carriers", "by_nested", "sessions", "limited", "pairs"),
    *("renamed", "groups", "table_groups", "there", "pointing"),
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    flights = builder.stream("s", key=("c", "n"), value="v", name="flights")
    flights.to_changelog("keyed")
    flights.group_by_key().count(name="flight_count").to_changelog("flown")
    carriers = flights.select_key(lambda key, value: {"c": key.c}, name="by_carrier")
    carriers.group_by_key().count(name="carrier_count").to_changelog("carriers")
    nested = flights.select_key(lambda key, value: {"all": key}, name="nested")
    nested.group_by_key().count(name="nested_count").to_changelog("by_nested")
    tagged = builder.stream("s", key="tags", value="v", name="tagged")
    sessions = tagged.group_by_key().windowed_by(SessionWindows.of("5 milliseconds").grace("1 second"))
    sessions.count(name="session_count").to_changelog("sessions")
    placed = builder.stream("s", key="place", value="v", name="placed")
    limit = Suppressed.until_time_limit("1 millisecond", BufferConfig.max_records(10))
    table = builder.table("s", Materialized.key_value("places"), key="place", value="v", name="table")
    table.suppress(limit, name="held").to_changelog("limited")
    near = JoinWindows.of("1 millisecond")
    pairs = placed.join(placed, lambda left, right: {"l": left.v, "r": right.v}, windows=near, name="paired")
    pairs.to_changelog("pairs")
    _add_computed_keys(builder)
    return builder.build()


def _add_computed_keys(builder: StreamsBuilder) -> None:
    """Keys that are computed of values: a part of theirs is null for one of the records."""
    parts = builder.stream("s", key=("c", "n"), value=("place", "v"), name="parts")
    parts.select_key(lambda key, value: {"c": key.c, "where": value.place}, name="rename").to_changelog("renamed")
    parts.group_by(lambda value: {"place": value.place}).count(name="group_count").to_changelog("groups")
    everywhere = builder.global_table("s", key="place", value="v", name="everywhere")
    found = parts.left_join(everywhere, _pair, key=lambda value: {"place": value.place}, name="finding")
    found.to_changelog("there")
    owners = builder.table("s", Materialized.key_value("owners"), key="c", value=("place", "v"), name="owner")
    owners.group_by(lambda value: {"place": value.place}).count(name="owner_count").to_changelog("table_groups")
    places = builder.table("s", Materialized.key_value("pointed"), key="place", value="v", name="pointed_at")
    pointing = owners.join(places, _pair, foreign_key=lambda value: {"place": value.place}, name="pointer")
    pointing.to_changelog("pointing")


def _pair(left: Any, right: Any) -> Any:
    return {"l": left.v, "r": right.v}


def _plain(part: Any) -> Any:
    """Rows and structs as tuples, arrays as lists, whatever each engine calls them."""
    if isinstance(part, Mapping):
        return tuple(map(_plain, part.values()))
    return [_plain(each) for each in part] if isinstance(part, list) else part


def _on_driver() -> dict[str, list[Any]]:
    driver = TopologyTestDriver(_topology())
    for c, n, tags, (x, y), v, ms in _RECORDS:
        key = {"c": c, "n": n, "tags": tags, "place": Row(x=x, y=y)}
        driver.pipe_input("s", key, {"v": v, "place": key["place"]}, ms * 1_000)
    told = {sink: driver.read_output(sink) for sink in _SINKS}
    return {
        sink: [((*_plain(r.key), *((r.value or {}).get(name) for name in _SHOWN.get(sink, ()))), r.ts_us) for r in rows]
        for sink, rows in told.items()
    }


def _on_spark(spark: SparkSession, folder: Path) -> dict[str, list[Any]]:
    rows = [(*record[:5], record[5], number) for number, record in enumerate(_RECORDS)]
    source = in_two_batches(spark, folder, rows, _SCHEMA, 2)
    app = StreamingApplication(spark, "keys", _topology(), str(folder / "out"), {"s": source}, order="sequence")
    app.run()
    return {sink: _told(spark, app, sink) for sink in _SINKS}


_KEYS: Final = {
    "keyed": ("c", "n"),
    "flown": ("c", "n", "count"),
    "carriers": ("c",),
    "by_nested": ("all",),
    "sessions": ("tags", "windowStart", "windowEnd"),
    "limited": ("place",),
    "pairs": ("place",),
    "renamed": ("c", "where"),
    "groups": ("place", "count"),
    "table_groups": ("place", "count"),
    "there": ("c", "n", "r"),
    "pointing": ("c", "l", "r"),
}
#: What sinks show of their values.
_SHOWN: Final = {
    "flown": ("count",),
    "groups": ("count",),
    "table_groups": ("count",),
    "there": ("r",),
    "pointing": ("l", "r"),
}


def _told(spark: SparkSession, app: StreamingApplication, sink: str) -> list[Any]:
    frame = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_seq")
    shown = [f"unix_micros({name}) AS {name}" if name.startswith("window") else name for name in _KEYS[sink]]
    rows = frame.selectExpr(*shown, "unix_micros(ts) AS at").collect()
    return [(_plain(row.asDict(recursive=True) | {})[:-1], row["at"]) for row in rows]


@pytest.mark.slow
def test_keys_with_parts_that_are_null_or_nested_are_the_drivers(spark: SparkSession, tmp_path: Path) -> None:
    wanted = _on_driver()
    assert all(wanted.values())
    assert _on_spark(spark, tmp_path) == wanted
