"""Rows that a batch computed once are not kept until Python happens to look for circles of objects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark import SparkSource, StreamingApplication, giving_back
from streams.spark.operator import Batch
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows


@pytest.fixture
def without_pythons_own_looks() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("without_pythons_own_looks")
def test_nothing_refers_to_the_rows_of_batches_that_are_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving_back, "MANY_RECORDS", 1)
    made: dict[int, list[weakref.ref[DataFrame]]] = {}
    cut = Batch.cut

    def remembered(batch: Batch, frame: DataFrame) -> DataFrame:
        kept = cut(batch, frame)
        made.setdefault(batch.batch_id, []).append(weakref.ref(kept))
        return kept

    monkeypatch.setattr(Batch, "cut", remembered)
    rows = spark.range(0, 6, 1, 2).selectExpr("id AS k", "id AS n", "timestamp_seconds(id * 7200) AS ts")
    rows.write.parquet(str(tmp_path / "in"))
    builder = StreamsBuilder()
    counted = builder.stream("in", key="k", value=["n"]).group_by_key().windowed_by(TimeWindows.of("1 hour")).count()
    counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_changelog("out")
    options = {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "1"}
    sources = {"in": SparkSource("parquet", options, schema="k LONG, n LONG, ts TIMESTAMP")}
    app = StreamingApplication(spark, "rows", builder.build(), str(tmp_path / "out"), sources)
    app.run()
    first, _ = (made[batch_id] for batch_id in sorted(made))
    assert [frame().columns for frame in first if frame() is not None] == []


@pytest.mark.parametrize(("records", "looks"), [(giving_back.MANY_RECORDS, 1), (giving_back.MANY_RECORDS - 1, 0)])
def test_only_batches_of_many_records_are_worth_the_look(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, records: int, looks: int
) -> None:
    looked: list[None] = []
    monkeypatch.setattr(giving_back.gc, "collect", lambda: looked.append(None))
    giving_back.giving_back(lambda frame, batch_id: records)(spark.range(1), 0)
    assert len(looked) == looks
