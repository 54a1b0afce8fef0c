"""What a table knew at an instant about another one: also after purge and VACUUM with no retention at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from crashing import Crash, crash_at
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned import faults, put
from versioned.commit import Step
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.lookup_frames import valid_at
from versioned.put import PutBatch
from versioned.restore import restore
from versioned.spec import VersionedTableSpec, known_target
from versioned.statistics import always_hidden
from versioned.table import VersionedTable
from versioned.table_details import properties_of
from versioned.table_log import history

#: Each put with (key, value or None, second): new keys, a change, a late splice with a replacement, a purging leap.
_PUTS: list[list[tuple[str, str | None, int]]] = [
    [("a", "x", 10), ("b", "p", 15)],
    [("a", "y", 20), ("c", "m", 21)],
    [("a", "z", 12), ("b", "q", 15), ("c", None, 25), ("a", "w", 20), ("a", "v", 20)],
    [("a", "far", 1000), ("b", None, 990), ("a", "lost", 2)],
]
_SECONDS = (9, 10, 11, 12, 15, 20, 21, 25, 989, 990, 1000)
Answers = dict[int, list[tuple[str, str]]]


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, timezone.utc)


def _records(spark: SparkSession, puts: list[tuple[str, str | None, int]]) -> DataFrame:
    rows = [(key, value, second, value is None, place) for place, (key, value, second) in enumerate(puts)]
    frame = spark.createDataFrame(rows, "k STRING, v STRING, s LONG, dead BOOLEAN, place LONG")
    return frame.withColumn("ts", F.timestamp_seconds("s"))


def _pairs(frame: DataFrame) -> list[tuple[str, str]]:
    return sorted((row["k"], row["v"]) for row in frame.select("k", "v").collect())


@dataclass
class _Kept:
    """A table, and what it said after each put and when that was."""

    table: VersionedTable
    said: list[Answers] = field(default_factory=list)
    known: list[datetime] = field(default_factory=list)


def _said(table: VersionedTable, spark: SparkSession) -> Answers:
    rows = table.rows().where("NOT deleted")
    asked = spark.createDataFrame([(second,) for second in _SECONDS], "s LONG")
    joined = asked.withColumn("at", F.timestamp_seconds("s")).join(
        rows, (F.col("validFrom") <= F.col("at")) & (F.col("validTo").isNull() | (F.col("at") < F.col("validTo")))
    )
    found = joined.select("s", "k", "v").collect()
    return {second: sorted((row["k"], row["v"]) for row in found if row["s"] == second) for second in _SECONDS}


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Kept:
    """After all puts: purged, compacted, and every file that is not of the newest version removed."""
    made = VersionedTable.create(
        spark,
        str(tmp_path_factory.mktemp("known") / "rates"),
        "k STRING, v STRING",
        keys="k",
        history_retention="100 seconds",
        system_history=True,
    )
    kept = _Kept(made)
    for puts in _PUTS:
        made.put(_records(spark, puts), deleted="dead", sequence="place")
        kept.said.append(_said(made, spark))
        kept.known.append(_newest(spark, made))
    assert made.purge()
    made.optimize(current=True)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        for target in (made.target, known_target(made.target)):
            spark.sql(f"VACUUM {target.sql} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    made.register_sql("rates")
    return kept


def _newest(spark: SparkSession, table: VersionedTable) -> datetime:
    rows = spark.read.format("delta").load(str(known_target(table.target)))
    us = rows.agg(F.unix_micros(F.max("systemFrom"))).collect()[0][0]
    return datetime.fromtimestamp(us // 1_000_000, timezone.utc) + timedelta(microseconds=us % 1_000_000)


@pytest.mark.slow
def test_what_was_known_after_each_put_is_told_after_vacuum(spark: SparkSession, kept: _Kept) -> None:
    for said, known_at in zip(kept.said, kept.known, strict=True):
        rows, spec = kept.table.between(known_at=known_at), kept.table.spec
        told = {second: _pairs(rows.where(valid_at(spec, F.lit(_at(second))))) for second in (12, 20, 989, 1000)}
        assert told == {second: said[second] for second in told}
    # The puts did change what is said of the same instant, and delta itself cannot tell it any more.
    assert [said[20] for said in kept.said[:3]] == [
        [("a", "x"), ("b", "p")],
        [("a", "y"), ("b", "p")],
        [("a", "v"), ("b", "q")],
    ]
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|DELTA_"):
        spark.read.format("delta").option("versionAsOf", 2).load(str(kept.table.target)).select("v").collect()


@pytest.mark.slow
def test_late_records_count_from_when_they_came_and_refused_ones_never(kept: _Kept) -> None:
    told = [_pairs(kept.table.as_of(_at(12), known_at=known_at)) for known_at in kept.known]
    assert told == [[("a", "x")], [("a", "x")], [("a", "z")], [("a", "z")]]
    assert _pairs(kept.table.as_of(_at(9), known_at=kept.known[-1])) == []


@pytest.mark.slow
def test_an_instant_between_two_puts_and_one_before_all_of_them(kept: _Kept) -> None:
    shortly = timedelta(microseconds=1)
    assert _pairs(kept.table.as_of(_at(20), known_at=kept.known[1] - shortly)) == kept.said[0][20]
    assert _pairs(kept.table.as_of(_at(20), known_at=kept.known[0] - shortly)) == []


@pytest.mark.slow
def test_sql_says_the_same_also_for_a_row_of_another_table(spark: SparkSession, kept: _Kept) -> None:
    instants = [(second, known.isoformat()) for second in (12, 20, 990) for known in kept.known]
    literals = ", ".join(f"({second}, timestamp'{known}')" for second, known in instants)
    query = f"""
        SELECT e.s, e.known, array_sort(collect_list(struct(r.k, r.v))) AS told
        FROM VALUES {literals} e(s, known), LATERAL rates_known_as_of(timestamp_seconds(e.s), e.known) r
        GROUP BY ALL"""
    found = {(row["s"], row["known"]): [tuple(pair) for pair in row["told"]] for row in spark.sql(query).collect()}
    assert len(found) == len(instants)
    for (second, known), told in found.items():
        at = kept.known.index(known.astimezone(timezone.utc) if known.tzinfo else known.replace(tzinfo=timezone.utc))
        assert told == kept.said[at][second]
    alone = spark.sql(f"SELECT k, v FROM rates_known_as_of(timestamp_seconds(20), timestamp'{instants[0][1]}')")
    assert _pairs(alone) == kept.said[0][20]


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["key", "store"])
def test_a_batch_that_died_between_its_writes_is_known_once(
    spark: SparkSession, tmp_path: Path, scope: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The late record takes a commit of its own.
    monkeypatch.setattr(put, "ROWS_PER_SPLICE", 0)
    monkeypatch.setattr(put, "ROWS_FOR_ANY_SPLICE", 0)
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="15 seconds",
        time_scope=scope, system_history=True,
    )  # fmt: skip
    table.put(_records(spark, [("a", "x", 10), ("a", "y", 20)]), sequence="place")
    # The last one is late once the others are there; with a stream time per key the table itself tells that.
    puts = _records(spark, [("a", "z", 12), ("a", "u", 30)])
    shaped = puts.selectExpr("k", "s * 1000000 AS _us", "struct(v) AS _value", "0 AS _scope", "struct(place) AS _place")

    def write() -> None:
        batch = PutBatch(table.target, table.spec, shaped, {0: 20_000_000})
        batch.write(lambda step: Step("app", "node", step, 1, 7), {}, (4_000_000_000_000_000, 7))
        batch.release()

    for point in ("before:node/splice", "after:node/splice", "after:node/main"):
        with faults.armed(crash_at(point)), pytest.raises(Crash):
            write()
    write()
    known = spark.read.format("delta").load(str(known_target(table.target))).where("_batch_id = 7")
    assert sorted(tuple(row) for row in known.selectExpr("v", "unix_seconds(validFrom)").collect()) == [
        ("u", 30),
        ("z", 12),
    ]
    told = table.between(known_at=datetime(2200, 1, 1, tzinfo=timezone.utc)).select("v", "validFrom", "validTo")
    assert sorted(map(tuple, told.collect())) == sorted(
        map(tuple, table.rows().select("v", "validFrom", "validTo").collect())
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "point"),
    [
        (VersionedTable.put, "before:t"),
        (VersionedTable.put, "before:t_known"),
        (VersionedTable.backfill, "before:t"),
    ],
)
def test_of_two_writes_by_hand_of_one_version_the_one_that_landed_last_is_what_is_known(
    spark: SparkSession, tmp_path: Path, write: Callable[[VersionedTable, DataFrame], object], point: str
) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True
    )
    table.put(_records(spark, [("a", "first", 10), ("b", "far", 1000)]))
    waiting = [_records(spark, [("a", "another", 20)])]

    def come_in_between(name: str) -> None:
        if name == point and waiting:
            VersionedTable.open(spark, str(table.target)).put(waiting.pop())

    with faults.armed(come_in_between):
        write(table, _records(spark, [("a", "one", 20)]))
    last = "one" if point == "before:t" else "another"
    known = table.as_of(_at(30), known_at=datetime.now(timezone.utc))
    assert (_pairs(table.as_of(_at(30))), _pairs(known)) == ([("a", last)], [("a", last)])


def test_without_system_history_it_is_said_how_to_get_it(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="1 day")
    with pytest.raises(ConfigurationError, match=r"keeps no system history.*system_history=True"):
        table.as_of(_at(1), known_at=_at(2))


def _table_with_system_history(spark: SparkSession, target: str) -> None:
    made = VersionedTable.create(
        spark, target, "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True
    )
    made.put(_records(spark, [("a", "x", 10)]))


@pytest.mark.slow
def test_a_renamed_table_is_opened_once_its_system_history_has_followed(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE renamed")
    _table_with_system_history(spark, "renamed.rates")
    spark.sql("ALTER TABLE renamed.rates RENAME TO renamed.prices")
    follow = "ALTER TABLE <former name>_known RENAME TO `renamed`.`prices_known`"
    with pytest.raises(ConfigurationError, match=f"renamed.prices_known, which is missing.*{follow}"):
        VersionedTable.open(spark, "renamed.prices")
    spark.sql(follow.replace("<former name>", "renamed.rates"))
    found = VersionedTable.open(spark, "renamed.prices").as_of(_at(11), known_at=datetime.now(timezone.utc))
    assert _pairs(found) == [("a", "x")]
    spark.sql("DROP DATABASE renamed CASCADE")


@pytest.mark.slow
def test_a_table_whose_system_history_is_gone_for_good_is_opened_once_it_promises_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    _table_with_system_history(spark, f"{tmp_path}/rates")
    (tmp_path / "rates_known").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="move the folder <former path>_known to") as told:
        VersionedTable.open(spark, f"{tmp_path}/rates")
    spark.sql(str(told.value).rpartition("keep none: ")[2])
    opened = VersionedTable.open(spark, f"{tmp_path}/rates")
    opened.put(_records(spark, [("a", "y", 20)]))
    assert (_pairs(opened.current()), (tmp_path / "rates_known").exists()) == ([("a", "y")], False)


@pytest.mark.slow
def test_what_is_left_of_a_system_history_without_rows_becomes_that_of_a_table_of_another_shape(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = str(tmp_path / "t")
    VersionedTable.create(spark, target, "k STRING, v INT", keys="k", history_retention="1 day", system_history=True)
    shutil.rmtree(target)
    made = VersionedTable.create(
        spark, target, "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True, pii_columns="v"
    )
    made.put(_records(spark, [("a", "x", 10)]))
    assert _pairs(VersionedTable.open(spark, target).as_of(_at(11), known_at=datetime.now(timezone.utc))) == [
        ("a", "x")
    ]
    assert always_hidden(properties_of(spark, known_target(made.target))) == {"v"}


def test_a_table_that_is_no_system_history_is_never_taken_for_one(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t_known` (a INT) USING DELTA")
    with pytest.raises(
        ConfigurationError, match=r"t_known is no system history, .*/t would keep its own there. Move it"
    ):
        VersionedTable.create(
            spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="1 day", system_history=True
        )
    assert not (tmp_path / "t").exists()


def test_a_table_with_the_system_history_of_another_one_is_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    for name, value in (("t", "STRING"), ("other", "INT")):
        VersionedTable.create(
            spark,
            f"{tmp_path}/{name}",
            f"k STRING, v {value}",
            keys="k",
            history_retention="1 day",
            system_history=True,
        )
    shutil.rmtree(tmp_path / "t_known")
    (tmp_path / "other_known").rename(tmp_path / "t_known")
    with pytest.raises(
        ConfigurationError, match=r"has the columns .*v:int.*, but the system history of .*v:string.* follow"
    ):
        VersionedTable.open(spark, f"{tmp_path}/t")


@pytest.mark.slow
@pytest.mark.parametrize("write", [VersionedTable.put, VersionedTable.backfill])
def test_a_write_through_an_open_handle_is_refused_before_it_lands_where_its_system_history_no_longer_fits(
    spark: SparkSession, tmp_path: Path, write: Callable[[VersionedTable, DataFrame], object]
) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day", system_history=True
    )
    records = spark.sql("SELECT 'a' AS k, 1 AS v, timestamp_seconds(10) AS ts")
    _widen(spark, table.target)
    with pytest.raises(ConfigurationError, match=r"v:int.*, but the system history of .*v:bigint.* other one alike"):
        write(table, records)
    assert table.rows().isEmpty()
    _widen(spark, known_target(table.target))
    write(table, records)
    assert table.as_of(_at(30), known_at=datetime.now(timezone.utc)).count() == 1


@pytest.mark.slow
def test_what_a_restore_took_back_was_never_known_once_the_system_history_is_restored_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k STRING, v STRING", keys="k", history_retention="1 day", system_history=True
    )
    table.put(_records(spark, [("a", "first", 10)]))
    both = (table.target, known_target(table.target))
    versions = [history(spark, target, 1)[0]["version"] for target in both]
    table.put(_records(spark, [("a", "undone", 10), ("b", "undone", 20)]))
    for target, version in zip(both, versions, strict=True):
        restore(spark, target, version)
    table.put(_records(spark, [("c", "later", 30)]))
    known = table.as_of(_at(30), known_at=datetime.now(timezone.utc))
    assert _pairs(known) == _pairs(table.as_of(_at(30))) == [("a", "first"), ("c", "later")]


def _widen(spark: SparkSession, target: TableRef) -> None:
    spark.sql(f"ALTER TABLE {target.sql} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"ALTER TABLE {target.sql} ALTER COLUMN v TYPE BIGINT")


@pytest.mark.slow
def test_what_a_put_that_died_before_its_second_commit_did_not_make_known_a_backfill_adds(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark,
        f"{tmp_path}/t",
        "k STRING, v INT",
        keys="k",
        history_retention="1000 s",
        grace="1 s",
        system_history=True,
    )
    batch = spark.sql(
        "SELECT * FROM VALUES ('a', 1, timestamp_seconds(5)), ('a', 2, timestamp_seconds(9)) AS t(k, v, ts)"
    )

    def die(name: str) -> None:
        if name == "before:t_known":
            raise InterruptedError

    with faults.armed(die), pytest.raises(InterruptedError):
        table.put(batch)
    table.backfill(batch)
    known = table.between(known_at=datetime(2100, 1, 1))
    assert _shown(known) == _shown(table.between()) == [("a", 1), ("a", 2)]


def _shown(versions: DataFrame) -> list[tuple[str, int]]:
    return [(row["k"], row["v"]) for row in versions.orderBy("validFrom").collect()]


def test_its_columns_are_reserved() -> None:
    with pytest.raises(ConfigurationError, match='"systemFrom" is reserved'):
        VersionedTableSpec.of(keys="k", values=["systemFrom"], history_retention="1 day", system_history=True)
    assert VersionedTableSpec.of(keys="k", values=["systemFrom"], history_retention="1 day").values == ("systemFrom",)
