"""What others do to the tables while a batch is under way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from busy_tables import rows_of
from crashing import then
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from two_tables import application, write_batch

from streams.spark.doctor import examine
from streams.spark.rollback import rollback
from versioned import faults
from versioned.errors import CheckpointMismatchError
from versioned.table import VersionedTable

Act = Callable[[SparkSession, Path], object]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input of three batches."""
    folder = tmp_path_factory.mktemp("input")
    for number in range(3):
        write_batch(folder, number)
    return folder


@pytest.fixture(scope="module")
def whole(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables after all of it, which nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    application(spark, source, out).run()
    return out


def _restore(spark: SparkSession, table: Path) -> None:
    newest = max(int(file.stem) for file in (table / "_delta_log").glob("*.json"))
    spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {newest - 1}")


def _replace(spark: SparkSession, table: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}-copy` SHALLOW CLONE delta.`{table}` VERSION AS OF 1")
    spark.sql(f"DELETE FROM delta.`{table}`")
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{table}` SHALLOW CLONE delta.`{table}-copy`")


def _delete(_: SparkSession, table: Path) -> None:
    shutil.rmtree(table)


_TAKEN_BACK = {
    "a restored table of versions": ("prices", "prices/main", _restore, "was restored while batch 2 was under way"),
    "a restored changelog": ("priced_orders", "priced_orders/main", _restore, "was restored while batch 2"),
    "a clone in a table's place": ("prices", "prices/main", _replace, "was restored while batch 2 was under way"),
    "a deleted changelog": ("priced_orders", "priced_orders/main", _delete, "is at version 0, but was at"),
    "a restored ledger": ("ledger", "ledger/row", _restore, 'The ledger of "shop" was restored meanwhile'),
}
_RULES = {"a deleted changelog": "table-replaced", "a restored ledger": "ledger-restored"}
_SLOW = dict.fromkeys(_TAKEN_BACK.keys() - {"a restored table of versions", "a restored ledger"}, pytest.mark.slow)


@pytest.mark.parametrize("what", [pytest.param(name, marks=_SLOW.get(name, ())) for name in _TAKEN_BACK])
def test_what_takes_a_table_back_within_a_batch_ends_it_and_is_told_by_the_next_start(
    what: str, spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    out, (table, step, act, said) = tmp_path / "out", _TAKEN_BACK[what]
    disturbing = then(f"before:{step}", lambda: act(spark, out / table), skip=2)
    with (
        faults.armed(disturbing),
        pytest.raises(StreamingQueryException, match=rf"{said}.*The batch has not ended\. To go on: "),
    ):
        application(spark, source, out).run()
    rule = _RULES.get(what, "table-restored")
    assert rule in {found.rule for found in examine(application(spark, source, out)).findings}
    with pytest.raises(CheckpointMismatchError, match=rf"{table}.*Nothing was written"):
        application(spark, source, out).run()


def _ended_by_a_restore(spark: SparkSession, source: Path, out: Path, table: str, step: str) -> None:
    """The third batch ends since a table is restored before it writes that."""
    disturbing = then(f"before:{table}/{step}", lambda: _restore(spark, out / table), skip=2)
    with faults.armed(disturbing), pytest.raises(StreamingQueryException):
        application(spark, source, out).run()


@pytest.mark.slow
def test_a_rollback_mends_what_a_restore_within_a_batch_took_back(
    spark: SparkSession, source: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _ended_by_a_restore(spark, source, out, "prices", "main")
    (found,) = examine(application(spark, source, out)).findings
    assert found.remedy.startswith("take the tables back to the batch before: versioned rollback --batch 1, or")
    rollback(application(spark, source, out), 1)
    application(spark, source, out).run()
    assert _rows(spark, out) == _rows(spark, whole)


@pytest.mark.slow
def test_a_ledger_that_was_restored_within_a_batch_is_mended_by_another_restore(
    spark: SparkSession, source: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _ended_by_a_restore(spark, source, out, "ledger", "row")
    _restore(spark, out / "ledger")
    application(spark, source, out).run()
    assert _rows(spark, out) == _rows(spark, whole)


def _tend(spark: SparkSession, out: Path) -> None:
    table = VersionedTable.open(spark, str(out / "prices"))
    table.optimize(current=True)
    table.purge()
    table.vacuum()


def _put(spark: SparkSession, out: Path) -> None:
    put = spark.sql("SELECT 'milk' AS item, 1.0D AS price, TIMESTAMP '2026-01-01 02:00:00' AS ts")
    VersionedTable.open(spark, str(out / "prices")).put(put, owner="shop")


def _forward_again(spark: SparkSession, out: Path) -> None:
    newest = max(int(file.stem) for file in (out / "prices" / "_delta_log").glob("*.json"))
    for version in (newest - 1, newest):
        spark.sql(f"RESTORE TABLE delta.`{out / 'prices'}` TO VERSION AS OF {version}")


def _tend_the_ledger(spark: SparkSession, out: Path) -> None:
    spark.sql(f"OPTIMIZE delta.`{out / 'ledger'}`")


_LET_THROUGH: dict[str, tuple[str, Act]] = {
    "upkeep": ("prices/main", _tend),
    "a put by hand in the application's name": ("prices/main", _put),
    "a restore that another one brought forward": ("prices/main", _forward_again),
    "upkeep of the ledger": ("ledger/row", _tend_the_ledger),
}


@pytest.mark.parametrize("what", [pytest.param(name, marks=pytest.mark.slow) for name in _LET_THROUGH])
def test_beside_what_takes_nothing_back_a_batch_goes_on(
    what: str, spark: SparkSession, source: Path, whole: Path, tmp_path: Path
) -> None:
    out, (step, act) = tmp_path / "out", _LET_THROUGH[what]
    with faults.armed(then(f"before:{step}", lambda: act(spark, out), skip=2)):
        application(spark, source, out).run()
    assert examine(application(spark, source, out)).is_healthy
    told, undisturbed = (_rows(spark, folder)["prices"] for folder in (out, whole))
    assert undisturbed - told == type(told)()


def _rows(spark: SparkSession, out: Path) -> dict[str, object]:
    return dict(rows_of(spark, out, "prices", "priced_orders", "rejects", without=("_batch_id",)))
