"""One small application for each kind of state, and input for them: out of order, late, and bad."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streams.functions import coalesce, concat, substring
from streams.ktable import KTable
from streams.nodes import Joined, Materialized
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, TimeWindows

TOPICS: Final = ("a", "c")
#: Records of both topics in a batch, one every 20 ms.
PER_BATCH: Final = 30
_SCHEMA: Final = "seq LONG, k STRING, v STRING, ts TIMESTAMP, dead BOOLEAN"
_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_STEP_MS: Final = 20
_UNBOUNDED: Final = BufferConfig.unbounded()


def write_batches(folder: Path, count: int, *, first: int = 0, seed: int = 1) -> None:
    """Files of ``count`` batches, one of each topic for a batch, numbered from ``first``."""
    for number in range(first, first + count):
        chance = random.Random(seed * 1000 + number)
        rows: dict[str, list[str]] = {topic: [] for topic in TOPICS}
        for place in range(number * PER_BATCH, (number + 1) * PER_BATCH):
            rows[chance.choice(TOPICS)].append(json.dumps(_record(chance, place)))
        for topic in TOPICS:
            _write_file(folder / topic, number, rows[topic])


def application(spark: SparkSession, kind: str, source: Path, out: Path) -> StreamingApplication:
    """The application of a kind over the files of ``source``, one of each topic a batch."""
    builder = StreamsBuilder()
    (KINDS | SUBTRACTING)[kind](builder)
    topology = builder.build()
    topics = {node.topic for node in topology if hasattr(node, "topic")}
    sources = {
        topic: SparkSource("json", {"path": str(source / topic), "maxFilesPerTrigger": "1"}, _SCHEMA, sequence_by="seq")
        for topic in topics
    }
    return StreamingApplication(spark, "faults", topology, str(out), sources, order="sequence")


def _record(chance: random.Random, place: int) -> dict[str, Any]:
    late_ms = chance.choice((0, 0, 0, 30, 80, 600, 2500))
    roll = chance.random()
    return {
        "seq": place,
        "k": None if roll < 0.05 else chance.choice("abcx"),
        "v": None if roll > 0.85 else chance.choice("abc") + chance.choice(("", "q", "zz")),
        "ts": None if 0.05 <= roll < 0.1 else _instant(max(0, place * _STEP_MS - late_ms)),
        "dead": roll > 0.85,
    }


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds")


def _write_file(folder: Path, number: int, lines: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / f"{number:05}.json"
    # A reader never sees a part of it, and the files come in the order of their times.
    part = folder / f".{number:05}.part"
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(part, (1_700_000_000 + number, 1_700_000_000 + number))
    part.rename(whole)


def millis(count: int) -> timedelta:
    """So many milliseconds."""
    return timedelta(milliseconds=count)


def _plain(builder: StreamsBuilder, topic: str) -> KTable:
    return builder.table(topic, Materialized.key_value(f"plain_{topic}"), name=f"table_{topic}", **_SOURCE)


def _history(builder: StreamsBuilder, topic: str, reorder: timedelta | None = None) -> KTable:
    stored = Materialized.versioned(millis(1000), name=f"history_{topic}", late_policy="side_table")
    return builder.table(topic, stored, name=f"versions_{topic}", reorder=reorder, **_SOURCE)


def sides(left: Any, right: Any) -> Any:
    """The values of both sides of a join, a dash for one that is not there."""
    return {"j": concat(coalesce(left.v, "-"), "/", coalesce(right.v, "-"))}


def _stream_table_join(builder: StreamsBuilder) -> None:
    table = _history(builder, "c")
    builder.stream("a", name="stream", **_SOURCE).left_join(table, sides, name="join").to_changelog("joined")
    table.to_latest("newest")


def _waiting_records(builder: StreamsBuilder) -> None:
    table = _history(builder, "c", reorder=millis(60))
    waits = Joined.with_grace_period(millis(40))
    builder.stream("a", name="stream", **_SOURCE).join(table, sides, joined=waits, name="waits").to_changelog("joined")


def _table_table_joins(builder: StreamsBuilder) -> None:
    plain, versions = _plain(builder, "a"), _history(builder, "c")
    both = Materialized.key_value("both")
    plain.outer_join(versions, sides, materialized=both, name="by_key").to_changelog("joined")
    foreign = versions.left_join(plain, sides, foreign_key=lambda value: substring(value.v, 1, 1), name="by_foreign")
    foreign.to_changelog("looked_up")


def _complete_history(builder: StreamsBuilder) -> None:
    left, right = _history(builder, "a"), _history(builder, "c")
    results = Materialized.versioned(millis(1000), name="results")
    joined = left.left_join(right, sides, history="complete", materialized=results, name="complete")
    joined.to_changelog("joined")


def _table_aggregates(builder: StreamsBuilder) -> None:
    plain, versions = _plain(builder, "a"), _history(builder, "c")
    grouped = plain.group_by(lambda value: substring(value.v, 1, 1))
    grouped.min(lambda value: value.v, name="least").to_changelog("least_told")
    grouped.reduce(plus, minus, name="texts").to_changelog("texts_told")
    versions.group_by(lambda value: substring(value.v, 1, 1)).count(name="counts").to_latest("counts_now")


def _final_windows(builder: StreamsBuilder) -> None:
    grouped = builder.stream("a", name="stream", **_SOURCE).group_by_key()
    hopping = TimeWindows.of_size_and_grace(millis(80), millis(60)).advance_by(millis(40))
    sessions = SessionWindows.of_inactivity_gap_and_grace(millis(50), millis(60))
    counts = grouped.windowed_by(hopping, late_policy="side_table").count(name="counts")
    counts.to_latest("counts_now")
    counts.suppress(Suppressed.until_window_closes(_UNBOUNDED), name="final_counts").to_changelog("counts_told")
    visits = grouped.windowed_by(sessions).count(name="visits")
    visits.suppress(Suppressed.until_window_closes(_UNBOUNDED), name="final_visits").to_changelog("visits_told")


def _bounded_buffers(builder: StreamsBuilder) -> None:
    plain = _plain(builder, "a")
    early = Suppressed.until_time_limit(millis(150), BufferConfig.max_records(3))
    spilling = Suppressed.until_time_limit(millis(150), BufferConfig.max_records(2).spill_to_disk_when_full())
    plain.suppress(early, name="early").to_changelog("early_told")
    plain.suppress(spilling, name="spilling").to_changelog("spilling_told")


def _closed_by_the_clock(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(millis(300), millis(100_000))
    counts = builder.stream("a", name="stream", **_SOURCE).group_by_key().windowed_by(windows).count(name="counts")
    # Whatever a batch leaves is due in the next, so the clocks of two runs decide alike.
    final = Suppressed.until_window_closes(_UNBOUNDED, close_idle=True, retention=timedelta(microseconds=1))
    counts.suppress(final, name="final").to_changelog("told")


def _stream_stream_join(builder: StreamsBuilder) -> None:
    left, right = (builder.stream(topic, name=f"stream_{topic}", **_SOURCE) for topic in TOPICS)
    left.outer_join(right, sides, windows=JoinWindows(60_000, 60_000, 60_000), name="pairs").to_changelog("paired")
    everywhere = builder.global_table("c", Materialized.key_value("everywhere"), name="global", **_SOURCE)
    left.left_join(everywhere, sides, key=lambda key, value: key.k, name="anywhere").to_changelog("looked_up")


def _corrections(builder: StreamsBuilder) -> None:
    options = Joined().with_corrections(millis(700))
    stream = builder.stream("a", name="stream", **_SOURCE)
    answers = stream.left_join(_history(builder, "c"), sides, joined=options, name="answers")
    answers.to_changelog("joined")
    answers.corrections(name="corrections").to_changelog("corrected")


def plus(total: Any, part: Any) -> Any:
    """Adds a text to another one, for ``reduce``."""
    return {"v": f"{total.v}+{part.v}"}


def minus(total: Any, part: Any) -> Any:
    """Takes it away, so that it can be seen."""
    return {"v": f"{total.v}-{part.v}"}


def _with(total: Any, part: Any) -> Any:
    return {"v": "+".join(sorted([*total.v.split("+"), part.v]))}


def _without(total: Any, part: Any) -> Any:
    names = total.v.split("+")
    names.remove(part.v)  # Fails where it is taken away a second time.
    return {"v": "+".join(names)}


def _subtracting(builder: StreamsBuilder) -> None:
    grouped = _plain(builder, "a").group_by(lambda value: substring(value.v, 1, 1))
    grouped.reduce(_with, _without, name="names").to_changelog("names_told")


#: One that needs so little time that it dies in `make test`.
SUBTRACTING: Final[dict[str, Callable[[StreamsBuilder], None]]] = {"an aggregate that subtracts": _subtracting}
#: What is built for each kind of application.
KINDS: Final[dict[str, Callable[[StreamsBuilder], None]]] = {
    "stream-table join": _stream_table_join,
    "join with grace, reordered table": _waiting_records,
    "table-table and foreign-key join": _table_table_joins,
    "join with complete history": _complete_history,
    "table aggregates": _table_aggregates,
    "windows with final results": _final_windows,
    "time limits with bounded buffers": _bounded_buffers,
    "windows closed by the clock": _closed_by_the_clock,
    "stream-stream and global-table join": _stream_stream_join,
    "correction feed": _corrections,
}
