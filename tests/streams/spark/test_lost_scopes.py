"""A plan in which partitions meet is refused while rows wait for the stream time of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, application, sink_rows, write_records
from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned.errors import ConfigurationError

pytestmark = pytest.mark.slow

_FIRST = [Input("in", "a", "x", 1, partition=1), Input("in", "b", "y", 1, partition=0)]
_LATER = [Input("in", key, "z", 100 + part, partition=part) for part, key in enumerate("ba")]


def _topology(kind: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", name="in", key="k", value="v")
    grouped = stream.group_by_key() if kind == "whole" else stream.group_by(lambda value: {"g": value.v})
    if kind == "limited":
        limit = Suppressed.until_time_limit("10 milliseconds", BufferConfig.unbounded())
        held = grouped.count(name="counts").suppress(limit, name="held")
    else:
        counts = grouped.windowed_by(TimeWindows.of("10 milliseconds")).count(name="counts")
        held = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="held")
    held.to_changelog("out")
    return builder.build()


@pytest.mark.parametrize(
    ("kind", "table", "apart", "together"),
    [
        ("final", "counts", {"keys_cross_partitions": False}, {}),
        ("limited", "held", {"keys_cross_partitions": False}, {}),
        ("whole", "counts", {}, {"by_arrival": True}),
    ],
)
def test_rows_that_wait_for_a_partitions_time_are_not_left_behind_where_partitions_meet(
    kind: str, table: str, apart: dict[str, Any], together: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    topology = _topology(kind)
    write_records(spark, tmp_path, topology, _FIRST)
    app = application(spark, tmp_path, topology, **apart)
    app.run()
    write_records(spark, tmp_path, topology, _LATER, first=len(_FIRST))
    told = rf'1 rows wait in the table "{table}" for the stream time of the partitions \[1\].*keys_cross_partitions'
    with pytest.raises(ConfigurationError, match=told):
        application(spark, tmp_path, topology, **together).run()
    app.run()
    wanted = ["a", "b"] if kind == "whole" else ["x", "y"]
    assert sorted(key[0] for key, *_ in sink_rows(spark, app, topology)["out"]) == wanted
