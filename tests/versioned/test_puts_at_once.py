"""Puts into one table that come in between each other: each is as if it had come before or after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from touched_keys import WAYS, rows_by_key, was_taken

import versioned.put
import versioned.table
from versioned import faults
from versioned.commit import saying
from versioned.errors import OvertakenError
from versioned.stream_times import said_times
from versioned.table import VersionedTable


def _begun(spark: SparkSession, path: Path) -> VersionedTable:
    made = VersionedTable.create(spark, f"{path}/t", "k STRING", keys="k", history_retention="1 day")
    made.put(_at(spark, 10))
    return made


def _at(spark: SparkSession, *seconds: int) -> DataFrame:
    return spark.createDataFrame([("a", s) for s in seconds], "k STRING, s LONG").select(
        "k", F.timestamp_seconds("s").alias("ts")
    )


def _overtaking(table: VersionedTable, *batches: DataFrame) -> Callable[[str], None]:
    """Another put comes before the write of the one under way, as long as there are batches."""
    waiting, own = list(batches), [False]

    def reached(point: str) -> None:
        if point.startswith("before:") and not own[0] and waiting:
            own[0] = True
            VersionedTable.open(table.rows().sparkSession, str(table.target)).put(waiting.pop(0))
            own[0] = False

    return reached


def _behind_the_splice(overtake: Callable[[str], None]) -> Callable[[str], None]:
    """The same, but not before the first write of the put under way."""
    writes: list[str] = []

    def reached(point: str) -> None:
        if point.startswith("before:"):
            writes.append(point)
        if len(writes) > 1:
            overtake(point)

    return reached


@pytest.fixture
def with_a_splice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late records take a commit of their own."""
    for limit in ("ROWS_PER_SPLICE", "ROWS_FOR_ANY_SPLICE"):
        monkeypatch.setattr(versioned.put, limit, 0)


def _starts(table: VersionedTable) -> list[int]:
    return sorted(row[0] for row in table.rows().select(F.unix_seconds("validFrom")).collect())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "named", "merged"])
@pytest.mark.parametrize("other", [5, 15, 20, 30])
def test_a_put_that_another_one_overtakes_takes_its_place_in_time(
    spark: SparkSession, tmp_path: Path, other: int, way: str
) -> None:
    with rows_by_key(spark, way) if way in WAYS else nullcontext():
        table = _begun(spark, tmp_path)
        with faults.armed(_overtaking(table, _at(spark, other))):
            said = table.put(_at(spark, 20))
    assert {known for known in WAYS if was_taken(known, tmp_path / "t")} == {way} & set(WAYS)
    assert (said.counts.accepted, said.counts.out_of_order) == (1, int(other > 20))
    assert _starts(table) == sorted({10, 20, other})
    assert table.verify().is_sound
    assert table.stream_times() == {0: max(20, other) * 1_000_000}


@pytest.mark.slow
def test_a_put_that_is_overtaken_too_often_says_so_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _begun(spark, tmp_path)
    monkeypatch.setattr(versioned.table, "_TRIES", 2)
    others = [_at(spark, 30), _at(spark, 110)]
    with (
        faults.armed(_overtaking(table, *others)),
        pytest.raises(OvertakenError, match=r"wrote newer versions .* put the batch again"),
    ):
        table.put(_at(spark, 20, 100))
    assert _starts(table) == [10, 30, 110]


def test_a_put_that_another_makes_too_late_takes_no_value_of_the_others_instant(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="5 seconds")
    table.put(_at(spark, 0).withColumn("v", F.lit(0)))
    of_another_key = _at(spark, 1_000).withColumn("k", F.lit("b"))
    other = _at(spark, 20).unionByName(of_another_key).withColumn("v", F.lit(1))
    with faults.armed(_overtaking(table, other)):
        said = table.put(_at(spark, 20).withColumn("v", F.lit(2)))
    assert (said.counts.accepted, said.counts.refused) == (0, 1)
    assert sorted(row["v"] for row in table.rows().collect()) == [0, 1, 1]


@pytest.mark.slow
def test_a_put_that_comes_behind_the_purge_of_a_later_deletion_brings_nothing_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="5 seconds")
    table.put(_at(spark, 0).withColumn("k", F.lit("b")))
    waiting = [VersionedTable.open(spark, str(table.target))]

    def purge(point: str) -> None:
        if point.startswith("before:") and waiting:
            other = waiting.pop()
            other.put(_at(spark, 10, 12).withColumn("dead", F.unix_seconds("ts") == 12), deleted="dead")
            other.put(_at(spark, 1_000).withColumn("k", F.lit("c")))
            assert other.purge()

    with faults.armed(purge):
        said = table.put(_at(spark, 9))
    assert (said.counts.accepted, said.counts.refused) == (0, 1)
    assert sorted(row["k"] for row in table.rows().collect()) == ["b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "named", "spliced", "merged"])
def test_a_late_put_whose_keys_deletion_is_purged_meanwhile_leaves_no_closed_version_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "spliced":
        for limit in ("ROWS_PER_SPLICE", "ROWS_FOR_ANY_SPLICE"):
            monkeypatch.setattr(versioned.put, limit, 0)
    with rows_by_key(spark, way) if way in WAYS else nullcontext():
        table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="100 seconds")
        table.put(_at(spark, 60).withColumn("dead", F.lit(True)), deleted="dead")
        waiting = [VersionedTable.open(spark, str(table.target))]

        def purge(point: str) -> None:
            if point.startswith("before:") and waiting:
                other = waiting.pop()
                other.put(_at(spark, 10_000).withColumn("k", F.lit("b")))
                assert other.purge()

        with faults.armed(purge):
            said = table.put(_at(spark, 55))
    assert {known for known in WAYS if was_taken(known, tmp_path / "t")} == {way} & set(WAYS)
    assert (said.counts.accepted, said.counts.refused) == (0, 1)
    assert _starts(table) == [10_000]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "named", "spliced", "merged"])
@pytest.mark.parametrize(("moved", "refused"), [(25, 0), (26, 1)])
def test_a_late_put_that_another_makes_too_late_by_its_keys_own_stream_time_takes_no_value_of_the_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, moved: int, refused: int
) -> None:
    if way == "spliced":
        for limit in ("ROWS_PER_SPLICE", "ROWS_FOR_ANY_SPLICE"):
            monkeypatch.setattr(versioned.put, limit, 0)
    with rows_by_key(spark, way) if way in WAYS else nullcontext():
        columns, told = "k STRING, v INT", {"history_retention": "5 seconds", "time_scope": "key"}
        table = VersionedTable.create(spark, f"{tmp_path}/t", columns, keys="k", **told)
        table.put(_at(spark, 22).withColumn("v", F.lit(0)))
        other = _at(spark, 20, moved).withColumn("v", F.lit(1))
        with faults.armed(_overtaking(table, other)):
            said = table.put(_at(spark, 20).withColumn("v", F.lit(2)))
    assert {known for known in WAYS if was_taken(known, tmp_path / "t")} == {way} & set(WAYS)
    assert (said.counts.accepted, said.counts.refused) == (1 - refused, refused)
    stored = table.rows().select(F.unix_seconds("validFrom"), "v").collect()
    assert sorted(map(tuple, stored)) == [(20, 1 if refused else 2), (22, 0), (moved, 1)]


def test_what_is_too_late_behind_another_put_is_refused_and_never_was_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="5 seconds", system_history=True
    )
    with faults.armed(_overtaking(table, _at(spark, 30))):
        said = table.put(_at(spark, 20))
    assert (said.counts.accepted, said.counts.refused) == (0, 1)
    known = table.between(known_at=datetime.now(timezone.utc)).select(F.unix_seconds("validFrom")).collect()
    assert _starts(table) == [row[0] for row in known] == [30]


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_splice")
def test_a_put_that_is_overtaken_behind_its_splice_is_not_late_by_its_own_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="100 seconds")
    table.put(_at(spark, 110, 150, 200))
    of_another_key = _at(spark, 130).withColumn("k", F.lit("b"))
    batch = of_another_key.unionByName(_at(spark, 140, 1_000)).withColumn("s", F.unix_seconds("ts"))
    overtake = _overtaking(table, of_another_key.withColumn("ts", F.timestamp_seconds(F.lit(190))))
    with faults.armed(_behind_the_splice(overtake)):
        said = table.put(batch, sequence="s")
    assert (said.counts.accepted, said.counts.refused) == (3, 0)
    assert _starts(table) == [110, 130, 140, 150, 190, 200, 1_000]
    assert table.verify().is_sound


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_splice")
@pytest.mark.parametrize(("seconds", "refused"), [((11, 20), [20]), ((11,), [])])
def test_late_records_that_landed_before_another_put_moved_on_stay_accepted_and_are_known(
    spark: SparkSession, tmp_path: Path, seconds: tuple[int, ...], refused: list[int]
) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="5 seconds", system_history=True
    )
    table.put(_at(spark, 10, 12))
    with faults.armed(_behind_the_splice(_overtaking(table, _at(spark, 30)))):
        said = table.put(_at(spark, *seconds))
    assert (said.counts.accepted, said.counts.refused) == (1, len(refused))
    assert (said.counts.out_of_order, said.counts.spliced) == (1, 1)
    told = said.outcomes.select(F.unix_seconds("ts"), "outcome", "put_result").collect()
    too_late = [(second, "refused", -(2**63)) for second in refused]
    assert sorted(map(tuple, told)) == sorted([(11, "out_of_order", 12_000_000), *too_late])
    known = table.between(known_at=datetime.now(timezone.utc)).select(F.unix_seconds("validFrom")).collect()
    assert _starts(table) == sorted(row[0] for row in known) == [10, 11, 12, 30]
    assert table.stream_times() == {0: 30_000_000}
    assert table.verify().is_sound


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_splice")
def test_a_late_record_that_landed_before_another_put_moves_its_own_partitions_stream_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="100 seconds", time_scope="partition"
    )

    def of(partition: int, records: DataFrame) -> DataFrame:
        return records.withColumn("p", F.lit(partition))

    table.put(of(0, _at(spark, 110, 150, 200)).unionByName(of(1, _at(spark, 105))), partition="p")
    late = of(1, _at(spark, 140)).unionByName(of(0, _at(spark, 210)))
    overtaking = _overtaking(table, _at(spark, 1_000))
    with faults.armed(_behind_the_splice(overtaking)):
        said = table.put(late, partition="p")
    assert (said.counts.accepted, said.counts.refused) == (1, 1)
    assert table.stream_times() == {0: 1_000_000_000, 1: 140_000_000}
    assert _starts(table) == [105, 110, 140, 150, 200, 1_000]


@pytest.mark.usefixtures("with_a_splice")
def test_a_record_that_a_late_one_before_it_makes_too_late_stays_refused_once_that_one_has_landed(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="10 seconds")
    columns = "k STRING, s LONG, p INT, n INT"

    def records(*rows: tuple[str, int, int, int]) -> DataFrame:
        return spark.createDataFrame(rows, columns).withColumn("ts", F.timestamp_seconds("s"))

    table.put(records(("a", 190, 0, 0), ("a", 200, 0, 1), ("b", 105, 1, 2)), partition="p", sequence="n")
    batch = records(("a", 195, 1, 0), ("x", 120, 1, 1), ("y", 201, 0, 2))
    overtake = _overtaking(table, _at(spark, 205).withColumn("k", F.lit("y")))
    with faults.armed(_behind_the_splice(overtake)):
        said = table.put(batch, partition="p", sequence="n")
    assert (said.counts.accepted, said.counts.refused) == (2, 1)
    told = said.outcomes.select("k", "outcome").collect()
    assert sorted(map(tuple, told)) == [("a", "out_of_order"), ("x", "refused"), ("y", "out_of_order")]
    assert _starts(table) == [105, 190, 195, 200, 201, 205]
    assert table.stream_times() == {0: 205_000_000, 1: 195_000_000}


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_splice")
def test_a_purge_leaves_the_late_records_of_a_new_partition_that_landed_before_the_others_of_their_put(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="100 seconds")
    table.put(_at(spark, 10, 30, 1_000))

    def purge(point: str) -> None:
        with faults.armed(lambda _point: None):
            VersionedTable.open(spark, str(table.target)).purge()

    with faults.armed(_behind_the_splice(purge)):
        table.put(_at(spark, 20, 2_000).withColumn("p", F.lit(1)), partition="p")
    assert _starts(table) == [10, 20, 30, 1_000, 2_000]


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_splice")
def test_what_a_delete_tells_of_a_late_record_is_what_was_valid_before_it_however_often_it_is_tried(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    table.put(_at(spark, 10, 20).withColumn("v", F.unix_seconds("ts").cast("int")))
    overtake = _overtaking(table, _at(spark, 50).withColumn("v", F.lit(50)))
    with faults.armed(_behind_the_splice(overtake)):
        told = table.delete(_at(spark, 15, 40))
    replaced = {(row["at"], row["v"]) for row in told.select(F.unix_seconds("ts").alias("at"), "v").collect()}
    assert replaced == {(15, 10), (40, 20)}
    assert _starts(table) == [10, 15, 20, 40, 50]


@pytest.mark.slow
def test_a_put_for_an_application_whose_stream_time_is_behind_looks_at_the_table_once_it_was_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _begun(spark, tmp_path)
    table.put(_at(spark, 1_000))
    # What the application's batches say, by its own stream time.
    for number in range(11):
        with saying(spark, said_times({0: 500_000_000 + number})):
            spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('a' = '{number}')")
    table = VersionedTable.open(spark, str(table.target))
    assert table.stream_times() == {0: 500_000_010}
    assert table.put(_at(spark, 800)).counts.spliced == 1
    assert _starts(table) == [10, 800, 1_000]
    assert table.verify().is_sound
