"""Structs and maps within keys, values and aggregates: functions of the user get and return the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from both_engines import in_two_batches, unwrapped
from pyspark.sql import SparkSession

from streams.nodes import Materialized, Topology
from streams.rows import Inner, Row
from streams.spark import StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows

pytestmark = pytest.mark.slow

_FIELDS: Final = (
    "pos STRUCT<x: BIGINT, at: STRUCT<y: STRING, n: BIGINT>>, parts ARRAY<STRUCT<n: BIGINT, s: STRING>>, "
    "named MAP<STRING, STRUCT<n: BIGINT>>, tags MAP<STRING, BIGINT>"
)
_SCHEMA: Final = (
    f"k STRING, place STRUCT<x: BIGINT, y: STRUCT<z: BIGINT>>, seen STRING, {_FIELDS}, ts TIMESTAMP, seq LONG"
)
_VALUES: Final = ("seen", "pos", "parts", "named", "tags")
#: The last sees a struct that is null, and one of nulls.
_RECORDS: Final = (
    ("a", ((1, ("u", 1)), [(1, "p"), (2, "q")], {"n": (1,)}, {"t": 1})),
    ("a", ((2, ("v", 2)), [(3, None)], {"n": (2,), "m": (None,)}, {"t": 2, "w": 5})),
    ("b", ((3, ("w", 3)), [], {}, {})),
    ("a", (None, [None], {"n": None}, {"t": None})),
    ("b", ((None, None), [(None, None)], {"o": (7,)}, {"w": 1})),
)


def _shown(value: Any) -> str:
    """What a function is given, read by attributes and by names, with the types in which it comes."""
    pos = value.pos
    read = None if pos is None else (pos.x, pos["x"], pos.at and pos.at.y, pos["at"] and pos["at"]["n"], sorted(pos))
    parts = [part and (part.n, part["s"]) for part in value.parts]
    # Entries of a map have no order.
    named = sorted((name, part and part.n) for name, part in value.named.items())
    inside = [pos, *value.parts, value.named, *value.named.values(), value.tags]
    kinds = [type(part).__name__ for part in inside if part is not None]
    return f"{type(value).__name__}: {read} {parts} {named} {value.tags.get('t')} {kinds}"


def _reduced(total: Row, value: Row) -> dict[str, Any]:
    # Structs come back as they were given, as rows and as dictionaries.
    pos = None if value.pos is None else {"x": value.pos.x, "at": Row(y="made", n=1)}
    parts = [*total.parts, Row(n=9, s="row"), {"n": 8, "s": "dictionary"}]
    seen = f"{_shown(total)} + {_shown(value)}"
    return {"seen": seen, "pos": pos, "parts": parts, "named": {**total.named, "new": {"n": 1}}, "tags": total.tags}


def _empty() -> dict[str, Any]:
    return {"seen": "", "pos": {"x": 0, "at": Row(y="", n=0)}, "parts": [], "named": {}, "tags": {}}


def _added(key: Row, value: Row, state: Row) -> dict[str, Any]:
    # In place, at every depth.
    before = _shown(state)
    state.pos["x"] += 1
    state.pos.at["n"] += 1
    state.parts.append(value.parts[0] if value.parts else {"n": 0, "s": ""})
    state.named["last"] = {"n": len(state.parts)}
    state.tags["t"] = state.tags.get("t", 0) + 1
    return {**state, "seen": f"{_place(key)} {before} + {_shown(value)}"}


def _place(key: Row) -> Any:
    return (key.place.x, key.place["y"].z) if "place" in key else key.k


def _merged(key: Row, left: Row, right: Row) -> dict[str, Any]:
    return {**right, "seen": f"{_place(key)} {_shown(left)} & {_shown(right)}"}


def _mapped(key: Row, value: Row) -> dict[str, Any]:
    return {**value, "seen": f"{_place(key)} {_shown(value)}", "pos": {"x": 1, "at": {"y": "made", "n": 1}}}


def _kept(key: Row, value: Row, state: Row) -> Row:
    return state


def _topology() -> Topology:
    builder = StreamsBuilder()
    schema = f"seen STRING, {_FIELDS}"
    stream = builder.stream("s", key="k", value=_VALUES, name="s")
    stream.group_by_key().reduce(_reduced, name="reduce").to_changelog("reduced")
    stream.transform_values(_mapped, returns=schema, name="map").to_changelog("mapped")
    # What a function returned, within one step and behind it.
    mapped = builder.stream("s", key="k", value=_VALUES, name="t").transform_values(
        _mapped, returns=schema, name="first"
    )
    mapped.transform_values(_mapped, returns=schema, name="second").to_changelog("mapped_twice")
    placed = builder.stream("s", key="place", value=_VALUES, name="p").group_by_key()
    placed.aggregate(_empty, _added, schema=schema, name="aggregate").to_changelog("aggregated")
    hourly = placed.windowed_by(TimeWindows.of("1 hour").grace("1 day"))
    hourly.aggregate(_empty, _added, schema=schema, name="hours").to_changelog("hourly")
    sessions = placed.windowed_by(SessionWindows.of("1 hour").grace("1 day"))
    sessions.aggregate(_empty, _added, schema=schema, merger=_merged, name="visits").to_changelog("sessions")
    table = builder.table("s", Materialized.key_value("held"), key="k", value=_VALUES, name="held_table")
    of_table = table.group_by(lambda key, value: {"k": key.k})
    of_table.aggregate(_empty, _added, _kept, schema=schema, name="table").to_changelog("of_table")
    return builder.build()


_SINKS: Final = ("reduced", "mapped", "mapped_twice", "aggregated", "hourly", "sessions", "of_table")


def _on_driver(struct: Callable[..., Any]) -> dict[str, list[Any]]:
    """What the sinks of the driver got, where tests give structs as rows or as dictionaries."""
    driver = TopologyTestDriver(_topology())
    for number, (k, (pos, parts, named, tags)) in enumerate(_RECORDS):
        at = None if pos is None or pos[1] is None else struct(y=pos[1][0], n=pos[1][1])
        value = {
            "seen": "",
            "pos": None if pos is None else struct(x=pos[0], at=at),
            "parts": [None if part is None else struct(n=part[0], s=part[1]) for part in parts],
            "named": {name: None if part is None else struct(n=part[0]) for name, part in named.items()},
            "tags": tags,
        }
        key = {"k": k, "place": struct(x=1, y=struct(z=2))}
        driver.pipe_input("s", key, value, number * 1_000)
    return {sink: [unwrapped(record.value or {}) for record in driver.read_output(sink)] for sink in _SINKS}


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the sinks of Spark got, in two batches."""
    folder = tmp_path_factory.mktemp("nested")
    rows = [(k, (1, (2,)), "", *value, number, number) for number, (k, value) in enumerate(_RECORDS)]
    source = in_two_batches(spark, folder, rows, _SCHEMA, 2)
    app = StreamingApplication(spark, "nested", _topology(), str(folder / "out"), {"s": source}, order="sequence")
    app.run()
    return {sink: _told(spark, app, sink) for sink in _SINKS}


def _told(spark: SparkSession, app: StreamingApplication, sink: str) -> list[Any]:
    frame = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_seq", "_scope")
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return [{} if row.get("deleted") else {name: row[name] for name in _VALUES} for row in rows]


@pytest.mark.parametrize("struct", [Row, dict], ids=["rows", "dictionaries"])
@pytest.mark.parametrize("sink", _SINKS)
def test_functions_of_the_user_get_and_return_the_same_within_rows_on_both_engines(
    on_spark: dict[str, Sequence[Any]], struct: Callable[..., Any], sink: str
) -> None:
    assert on_spark[sink] == _on_driver(struct)[sink]
    assert any(Inner.__name__ in value.get("seen", "") for value in on_spark[sink])
