"""Applications in a session whose time zone is not UTC."""

from __future__ import annotations

import json
from pathlib import Path

from both_engines import sink_rows
from pyspark.sql import SparkSession

from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from versioned.session_settings import session_settings

_SCHEMA = "k STRING, ts TIMESTAMP, day DATE, t TIMESTAMP"
_ZONE = "spark.sql.session.timeZone"


def test_expressions_mean_the_same_in_each_zone_and_texts_are_read_in_the_sessions(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key="k", name="stream", value=["day", "t"])
    told = {"day_first": lambda value: value.day <= value.t, "later": lambda value: value.t >= "2026-01-01T00:00:00"}
    stream.map_values(lambda value: {name: ask(value) for name, ask in told.items()}).to_changelog("out")
    (tmp_path / "in").mkdir()
    app = StreamingApplication(
        spark, "zone", builder.build(), str(tmp_path / "out"),
        {"in": SparkSource("json", {"path": str(tmp_path / "in")}, schema=_SCHEMA)},
    )  # fmt: skip
    # Of two batches: the second reads its file as the first did.
    for batch in range(2):
        row = {"k": str(batch), "ts": "2026-01-01 01:00:00", "day": "2026-01-01", "t": "2025-12-31T23:30:00Z"}
        (tmp_path / "in" / f"{batch}.json").write_text(json.dumps(row) + "\n")
        with session_settings(spark, {_ZONE: "Europe/Oslo"}):
            app.run()
            assert spark.conf.get(_ZONE) == "Europe/Oslo"
    midnight_us = 1_767_225_600_000_000
    rows = sink_rows(spark, app, app.topology)["out"]
    assert rows == [((str(batch),), (False, False), midnight_us) for batch in range(2)]
