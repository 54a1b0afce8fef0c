"""A table goes by the name of its store, its stream time by that of its node: the two stay together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from two_tables import application, topology, write_batch

from streams.spark.doctor import examine


def _rules(spark: SparkSession, source: Path, out: Path, node: str) -> list[str]:
    return [found.rule for found in examine(application(spark, source, out, topology(node=node))).findings]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders only: no price has come yet."""
    folder = tmp_path_factory.mktemp("input")
    write_batch(folder, 0)
    (folder / "prices" / "0.json").write_text("", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def unwritten(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a plan with a node ``costs``, whose own is there but was never written; another epoch has begun."""
    folder = tmp_path_factory.mktemp("unwritten") / "out"
    plan = topology(node="costs")
    application(spark, source, folder, plan).run()
    application(spark, source, folder, plan, new_epoch=True)._agreed_state()
    assert (folder / "prices").is_dir()
    return folder


@pytest.fixture(scope="module")
def out(spark: SparkSession, source: Path, unwritten: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, once prices have come, and one more epoch has begun."""
    folder = Path(shutil.copytree(unwritten, tmp_path_factory.mktemp("ran") / "out"))
    plan = topology(node="costs")
    write_batch(source, 1)
    application(spark, source, folder, plan).run()
    application(spark, source, folder, plan, new_epoch=True)._agreed_state()
    return folder


@pytest.mark.slow
def test_what_shuts_others_out_of_a_table_does_not_take_it_from_its_node(
    spark: SparkSession, source: Path, out: Path
) -> None:
    assert _rules(spark, source, out, "costs") == ["no-batch"]


@pytest.mark.slow
def test_a_node_whose_table_was_never_written_may_have_another_name(
    spark: SparkSession, source: Path, unwritten: Path
) -> None:
    assert _rules(spark, source, unwritten, "other") == ["no-batch"]
