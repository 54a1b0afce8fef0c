"""A batch that is begun again long after it died: files that it reads may be gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from crashing import crash_at
from fault_plans import KINDS, application, write_batches
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from two_tables import application as small_application
from two_tables import write_batch

from streams.functions import substring
from streams.nodes import Materialized
from streams.spark.gone_files import naming_gone_files
from streams.topology import StreamsBuilder
from versioned import faults
from versioned.errors import ReplayMismatchError, VersionedError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.session_settings import session_settings

#: What Java calls a file that is not found, though it is there, or is one of Spark's own.
_JAVA = "java.io.FileNotFoundException: "
_GONE = RuntimeError("Job aborted.\n [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file /a.json.")


@pytest.mark.parametrize(
    ("batch", "error", "raised", "told"),
    [
        (
            3,
            _GONE,
            ReplayMismatchError,
            r"Batch 3 of .shop. reads a file that is gone: \[FAILED.*/a\.json.*VACUUM.*startingVersion",
        ),
        (3, RuntimeError("out of memory"), RuntimeError, "out of memory"),
        (
            3,
            RuntimeError(f"{_JAVA}/t/part-0 (No such file or directory)"),
            ReplayMismatchError,
            r": java\.io\..*/part-0",
        ),
        (3, RuntimeError(f"{_GONE}\n {_JAVA}/t/part-0 (Too many open files)"), RuntimeError, "^Job aborted"),
        (3, RuntimeError(f"{_JAVA}/t/part-0 (Permission denied)"), RuntimeError, "^java"),
        (3, RuntimeError(f"{_JAVA}/x/blockmgr-1f/0c/shuffle_0_1.data (No such file)"), RuntimeError, "^java"),
        (3, VersionedError("FILE_NOT_EXIST in words"), VersionedError, "^FILE_NOT_EXIST in words"),
    ],
)
def test_only_where_a_file_is_gone_the_error_says_what_to_do_about_that(
    batch: int, error: Exception, raised: type[Exception], told: str, spark: SparkSession
) -> None:
    def run(_: DataFrame, __: int) -> int:
        raise error

    with pytest.raises(raised, match=told):
        naming_gone_files("shop", run)(spark.range(1), batch)


@pytest.mark.slow
def test_input_that_is_gone_before_its_batch_has_written_anything_is_missed(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    with faults.armed(crash_at("before:priced_orders/main")), pytest.raises(StreamingQueryException):
        small_application(spark, own, out).run()
    (own / "prices" / "0.json").unlink()
    with pytest.raises(ReplayMismatchError, match=r"1 files of its input are gone since: \S*prices/0\.json\."):
        small_application(spark, own, out).run()
    write_batch(own, 0)
    small_application(spark, own, out).run()
    assert {row["price"] for row in read_table(spark, TableRef.parse(str(out / "priced_orders"))).collect()} == {0.0}


@pytest.mark.parametrize("gone", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["gone", "there"])
def test_a_batch_that_the_ledger_has_is_over_whatever_became_of_its_input(
    gone: bool, spark: SparkSession, tmp_path: Path
) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    with faults.armed(crash_at("after:ledger/row")), pytest.raises(StreamingQueryException):
        small_application(spark, own, out).run()
    if gone:
        (own / "prices" / "0.json").unlink()
    write_batch(own, 1)
    small_application(spark, own, out).run()
    told = read_table(spark, TableRef.parse(str(out / "priced_orders"))).collect()
    assert sorted(row["price"] for row in told) == [0.0, 0.0, 1.0, 1.0]


def _versioned_counts(builder: StreamsBuilder) -> None:
    stored = Materialized.versioned("1 day", name="texts")
    table = builder.table("a", Materialized.key_value("plain_a"), name="table_a", key="k", value="v", deleted="dead")
    table.group_by(lambda value: substring(value.v, 1, 1)).count(materialized=stored, name="texts")


@pytest.mark.slow
def test_a_vacuum_before_a_batch_is_begun_again_is_named_with_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "versioned counts", _versioned_counts)
    own, out = tmp_path / "input", tmp_path / "out"
    write_batches(own, 1)
    application(spark, "versioned counts", own, out).run()
    write_batches(own, 1, first=1)
    with faults.armed(crash_at("after:texts/main")), pytest.raises(StreamingQueryException):
        application(spark, "versioned counts", own, out).run()
    with session_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        spark.sql(f"VACUUM delta.`{out / 'texts'}` RETAIN 0 HOURS")
    with pytest.raises(StreamingQueryException, match=r"reads a file that is gone: .*a VACUUM has taken it"):
        application(spark, "versioned counts", own, out).run()
