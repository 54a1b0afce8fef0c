"""Erasing a subject from every table of an application."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from datetime import date, datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from unittest.mock import Mock

import pytest
from byte_search import hits
from crashing import crash, then
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType
from touched_keys import deletion_vectors
from two_tables import application, commits, topology, write_batch

from streams.nodes import Topology
from streams.spark import SparkSource, StreamingApplication
from streams.spark import erase as erase_module
from streams.spark.doctor import examine
from streams.spark.erase import ErasureReceipt, erase
from streams.spark.past_erasure import gone_on, past_erasure
from streams.topology import Joined, Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, TimeWindows
from versioned import faults
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef
from versioned.replay import ERASED
from versioned.session_settings import session_settings
from versioned.statistics import HIDDEN, always_hidden
from versioned.table import VersionedTable
from versioned.table_log import history, own_details
from versioned.touched import DELETION_VECTORS, MARKED_ROWS
from versioned.written import TableState

_TABLES = ("prices", "priced_orders", "rejects")


def _rows(spark: SparkSession, out: Path, table: str) -> DataFrame:
    return spark.read.format("delta").load(str(out / table))


def _of(spark: SparkSession, out: Path, table: str, item: str) -> int:
    rows = _rows(spark, out, table)
    return rows.where(f"record LIKE '%{item}%'" if table == "rejects" else f"item = '{item}'").count()


@pytest.fixture(scope="module")
def erased(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ErasureReceipt]:
    """An application with several versions of two items and a late price of each; then tea is erased."""
    folder = tmp_path_factory.mktemp("erase")
    for number in (0, 9, 1):
        # The third file's prices are older than history.
        write_batch(folder / "input", number)
        application(spark, folder / "input", folder / "out").run()
    assert [_of(spark, folder / "out", table, "tea") for table in _TABLES] == [2, 3, 1]
    keys = spark.createDataFrame([("tea",), ("coffee",), (None,)], "item STRING")
    return folder, erase(application(spark, folder / "input", folder / "out"), keys)


def test_keys_that_lack_a_value_are_refused_before_anything_is_removed(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    folder, _ = erased
    before = commits(folder / "out")
    keys = spark.createDataFrame([("rice", "a@b"), ("rice", None), (None, None)], "item STRING, price STRING")
    with pytest.raises(ConfigurationError, match="1 of the keys lack"):
        erase(application(spark, folder / "input", folder / "out"), keys)
    assert commits(folder / "out") == before


def test_tables_that_keep_all_their_rows_are_told_together_before_anything_is_removed(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt], tmp_path: Path
) -> None:
    folder, out = erased[0], Path(shutil.copytree(erased[0] / "out", tmp_path / "out"))
    app = application(spark, folder / "input", out)
    for name in ("priced_orders", "rejects"):
        spark.sql(f"ALTER TABLE {app.table(name).sql} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    before, keys = commits(out), spark.createDataFrame([("rice",)], "item STRING")
    for dry_run in (True, False):
        with pytest.raises(ConfigurationError, match=r"removes rows of \['rejects', 'priced_orders'\].*Nothing was"):
            erase(app, keys, dry_run=dry_run)
    assert commits(out) == before
    # Of whom nothing is there nothing has to go.
    assert erase(app, spark.createDataFrame([("milk",)], "item STRING")).rows == 0


def test_every_table_loses_the_rows_of_the_key_and_keeps_the_others(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    out = erased[0] / "out"
    assert [_of(spark, out, table, "tea") for table in _TABLES] == [0, 0, 0]
    assert [_of(spark, out, table, "rice") for table in _TABLES] == [2, 3, 1]


def test_the_receipt_tells_tables_rows_versions_and_the_day_but_no_values(erased: tuple[Path, ErasureReceipt]) -> None:
    receipt = erased[1]
    assert {table.table: table.rows for table in receipt.tables} == {"prices": 2, "priced_orders": 3, "rejects": 1}
    assert receipt.rows == 6
    assert all(table.version is not None for table in receipt.tables)
    assert receipt.files_gone is not None
    assert timedelta(days=8) <= receipt.files_gone - receipt.at.date() <= timedelta(days=10)
    # No pii_columns: the log has told the least and the greatest item of each file.
    assert receipt.log_gone == receipt.files_gone + timedelta(days=23)
    assert "tea" not in str(receipt.to_json())


@pytest.mark.parametrize("hour", [0, 9, 10, 14, 15, 23])
@pytest.mark.parametrize("ahead", [-12, 0, 9, 14])
def test_when_the_day_that_is_told_begins_the_time_is_over_wherever_one_lives(hour: int, ahead: int) -> None:
    at, kept = datetime(2026, 1, 1, hour, 30, tzinfo=timezone.utc), timedelta(days=7)
    day = gone_on(at, kept)
    begins = datetime(day.year, day.month, day.day, tzinfo=timezone(timedelta(hours=ahead)))
    assert at + kept <= begins <= at + kept + timedelta(days=2, hours=3)


def test_the_days_are_counted_from_the_last_commit_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [datetime(2026, 1, 1, tzinfo=timezone.utc)]

    def rewritten(_: str) -> None:
        clock[0] += timedelta(days=3)

    session = Mock(sql=rewritten)
    for name, told in {
        "datetime": Mock(now=lambda _: clock[0]),
        "saying": lambda *_: nullcontext(),
        "_said": lambda *_: {},
        "least_file_retention": lambda *_: timedelta(days=7),
    }.items():
        monkeypatch.setattr(erase_module, name, told)
    kept, state = StructType().add("item", "string"), TableState(features=frozenset({MARKED_ROWS}))
    table = erase_module._Table(session, TableRef.parse("/data/prices"), kept, state, {"item": ("item",)})
    told = table.erase(Mock(), is_there=False, dry_run=False)
    assert (told.files_gone, told.log_gone) == (date(2026, 1, 12), date(2026, 2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("is_switched_off", [False, True])
def test_an_erasure_that_was_cut_off_leaves_no_rows_in_files_when_it_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_switched_off: bool
) -> None:
    with deletion_vectors(spark):
        write_batch(tmp_path / "input", 0)
        application(spark, tmp_path / "input", tmp_path / "out").run()
    keys = spark.createDataFrame([("tea",)], "item STRING")

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # Between the commit that marks the rows and the rewriting of the files that they are in.
        patch.setattr(erase_module, "saying", cut_off)
        with pytest.raises(KeyboardInterrupt):
            erase(application(spark, tmp_path / "input", tmp_path / "out"), keys)
    for table in _TABLES if is_switched_off else ():
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/out/{table}` SET TBLPROPERTIES ('{DELETION_VECTORS}' = 'false')")
    receipt = erase(application(spark, tmp_path / "input", tmp_path / "out"), keys)
    assert receipt.files_gone is not None
    for table in ("prices", "priced_orders"):
        files = _rows(spark, tmp_path / "out", table).inputFiles()
        assert spark.read.parquet(*files).where("item = 'tea'").count() == 0


def test_the_receipt_tells_how_many_of_the_subjects_had_rows(erased: tuple[Path, ErasureReceipt]) -> None:
    # There was tea, and no coffee; the key without any value is none.
    assert (erased[1].subjects, erased[1].subjects_found) == (2, 1)


def test_what_is_left_is_sound_and_goes_on(spark: SparkSession, erased: tuple[Path, ErasureReceipt]) -> None:
    folder = erased[0]
    table = VersionedTable.open(spark, str(folder / "out" / "prices"))
    assert table.verify().is_sound
    assert table.stream_times()
    app = application(spark, folder / "input", folder / "out")
    assert examine(app).findings == ()


def test_a_repeated_erasure_tells_until_when_files_of_the_first_one_may_be_there(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    folder, first = erased
    before = commits(folder / "out")
    keys = spark.createDataFrame([("tea",)], "item STRING")
    again = erase(application(spark, folder / "input", folder / "out"), keys)
    assert (again.rows, again.subjects_found, commits(folder / "out")) == (0, 0, before)
    for at_first, now in zip(first.tables, again.tables, strict=True):
        for told, wanted in ((now.files_gone, at_first.files_gone), (now.log_gone, at_first.log_gone)):
            assert told is not None
            assert wanted is not None
            # It was told of the moment behind the commit, which may have been another day.
            assert told in (wanted, wanted - timedelta(days=1))


def test_where_a_log_cannot_be_read_the_receipt_takes_it_that_rows_went_today(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_module, "past_erasure", Mock(side_effect=RuntimeError("no such file")))
    folder, keys = erased[0], spark.createDataFrame([("tea",)], "item STRING")
    receipt = erase(application(spark, folder / "input", folder / "out"), keys)
    soonest = gone_on(receipt.at, timedelta(days=7))
    assert {table.files_gone in (soonest, soonest + timedelta(days=1)) for table in receipt.tables} == {True}


def test_a_vacuum_then_leaves_no_file_with_the_rows(spark: SparkSession, erased: tuple[Path, ErasureReceipt]) -> None:
    out = erased[0] / "out"
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        for table in _TABLES:
            spark.sql(f"VACUUM delta.`{out / table}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    for table in _TABLES:
        target = TableRef.parse(str(out / table))
        before = past_erasure(spark, target, history(spark, target, 1)[0]["version"])
        assert before is not None
        # It is told of in the log, and came before the day from which on it is sure that it listed all files.
        assert [vacuum.kept for vacuum in before.vacuums] == [timedelta(days=7)]
        for file in (out / table).rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                told = spark.read.parquet(str(file)).selectExpr("to_json(struct(*)) AS row")
                assert told.where("row LIKE '%tea%'").count() == 0, file


def test_upkeep_that_lies_on_an_erasure_does_not_tell_of_one(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    table = VersionedTable.open(spark, str(erased[0] / "out" / "prices"))
    table.vacuum()
    told = [(row, own_details(row)) for row in history(spark, table.target, 100)]
    by_us = {row["operation"]: said["details"] for row, said in told if said is not None}
    assert "streamTimes" in by_us["VACUUM END"]
    assert [operation for operation, details in by_us.items() if ERASED in details] == ["MERGE"]


@pytest.mark.slow
def test_a_version_with_the_values_outside_its_key_becomes_a_deletion(spark: SparkSession, tmp_path: Path) -> None:
    plan = topology(24, system_history=True)
    for number in (0, 5, 9):
        write_batch(tmp_path / "input", number)
        application(spark, tmp_path / "input", tmp_path / "out", plan).run()
    app = application(spark, tmp_path / "input", tmp_path / "out", plan)
    keys = spark.createDataFrame([(5.0,), (5.5,)], "price DOUBLE")
    receipt = erase(app, keys)
    told = {table.table: table.rows for table in receipt.tables}
    assert told == {"prices": 2, "prices_known": 2, "priced_orders": 2, "rejects": 0}
    table = VersionedTable.open(spark, str(tmp_path / "out" / "prices"))
    assert table.verify().is_sound
    assert "price" in table.current().columns
    at = {hour: datetime(2026, 1, 1, hour, 30, tzinfo=timezone.utc) for hour in (0, 5, 9)}
    now = datetime.now(timezone.utc)
    for known_at in (None, now):
        versions = {hour: table.as_of(when, known_at=known_at) for hour, when in at.items()}
        prices = {hour: [row.price for row in rows.collect()] for hour, rows in versions.items()}
        assert prices == {0: [0.0, 0.0], 5: [], 9: [9.0, 9.0]}
    assert erase(app, keys).rows == 0
    # A key that stands beside the values, and keeps no others, goes with them.
    both = spark.createDataFrame([("tea", 0.0), ("tea", 9.0)], "item STRING, price DOUBLE")
    dry = erase(app, both, dry_run=True)
    rows = {table.table: table.rows for table in erase(app, both).tables}
    assert rows == {table.table: table.rows for table in dry.tables}
    assert rows == {"prices": 3, "prices_known": 3, "priced_orders": 2, "rejects": 0}
    assert {row.item for row in table.rows().collect()} == {"rice"}
    assert table.verify().is_sound


def test_the_tables_that_the_plan_does_not_write_any_more_are_named_as_not_searched(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    folder, with_all = erased
    without_sink = Topology(tuple(node for node in topology() if node.name != "priced_orders"))
    app = application(spark, folder / "input", folder / "out", without_sink)
    receipt = erase(app, spark.createDataFrame([("tea",)], "item STRING"), dry_run=True)
    assert (with_all.not_searched, receipt.not_searched) == ((), ("priced_orders",))


def test_a_name_that_no_table_has_is_refused_and_nothing_goes(
    spark: SparkSession, erased: tuple[Path, ErasureReceipt]
) -> None:
    folder = erased[0]
    before = commits(folder / "out")
    with pytest.raises(ConfigurationError, match=r"No table of shop has fields \['itme'\]"):
        erase(application(spark, folder / "input", folder / "out"), spark.createDataFrame([("x",)], "itme STRING"))
    assert commits(folder / "out") == before


def test_a_root_without_tables_of_the_application_is_told_and_where_to_look(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(spark, tmp_path / "input", tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=f"no table of shop in {tmp_path}/elsewhere.*removed.*--work"):
        erase(app, spark.createDataFrame([("tea",)], "item STRING"))


@pytest.mark.slow
def test_an_application_that_runs_is_not_erased_from(spark: SparkSession, tmp_path: Path) -> None:
    write_batch(tmp_path / "input", 0)
    app = application(spark, tmp_path / "input", tmp_path / "out")
    app.run()
    tea, before = spark.createDataFrame([("tea",)], "item STRING"), commits(tmp_path / "out")
    query = app.start("1 hour")
    try:
        with pytest.raises(ConfigurationError, match="runs in this session"):
            erase(app, tea)
    finally:
        query.stop()
    assert commits(tmp_path / "out") == before


def _with_more_to_read(spark: SparkSession, folder: Path) -> tuple[StreamingApplication, DataFrame]:
    """An application that ran, with input for another batch; and the key of tea."""
    write_batch(folder / "input", 0)
    app = application(spark, folder / "input", folder / "out")
    app.run()
    write_batch(folder / "input", 1)
    return app, spark.createDataFrame([("tea",)], "item STRING")


@pytest.mark.slow
def test_nothing_is_erased_while_a_batch_has_begun_that_may_write_its_rows_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    app, tea = _with_more_to_read(spark, tmp_path)
    before = commits(tmp_path / "out")
    with faults.armed(then("before:priced_orders/main", crash)), pytest.raises(StreamingQueryException):
        application(spark, tmp_path / "input", tmp_path / "out").run()
    with pytest.raises(
        CheckpointMismatchError, match=r"Batch 1 of shop has begun and is not in the ledger.* --batch 0"
    ):
        erase(app, tea)
    assert commits(tmp_path / "out") == before
    app.run()
    assert erase(app, tea).rows > 0


@pytest.mark.slow
def test_an_erasure_beside_a_driver_elsewhere_says_that_it_has_to_be_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    app, tea = _with_more_to_read(spark, tmp_path)
    elsewhere = application(spark, tmp_path / "input", tmp_path / "out")
    with (
        faults.armed(then("before:priced_orders", elsewhere.run)),
        pytest.raises(CheckpointMismatchError, match="ran while rows were removed"),
    ):
        erase(app, tea)
    assert erase(app, tea).rows > 0
    assert [_of(spark, tmp_path / "out", table, "tea") for table in _TABLES] == [0, 0, 0]


#: All that is known of the subject, in every column that has it. Only the first is what it is erased by.
_SUBJECT = ("mallory@canary.example", "Mallory of the Canary Islands", "wants-her-canary-back")
_OTHER = ("alice@other.example", "Alice", "wants nothing")
_HIDDEN = ("email", "called", "note", "why", "what", "seen")


def _everywhere() -> Topology:
    """Every kind of table: versions, system history, windows, buffers of three kinds, both kinds of sinks, rejects."""
    builder = StreamsBuilder()
    history = Materialized.versioned("30 days", system_history=True, late_policy="side_table")
    people = builder.table("people", history, key="email", value="called", deleted="gone")
    clicks = builder.stream("clicks", key="email", value=("note", "amount"), name="clicks")
    views = builder.stream("views", key="email", value="seen", name="views")
    clicks.left_join(people, joined=Joined.with_grace_period("1 day", name="waiting")).to_changelog("told")
    clicks.join(
        views, lambda left, right: {"why": left.note, "what": right.seen},
        windows=JoinWindows.of("1 hour").grace("1 day"), name="pairs",
    ).to_changelog("paired")  # fmt: skip
    counts = clicks.group_by_key().windowed_by(TimeWindows.of("1 hour").grace("1 day")).count(name="hourly")
    counts.suppress(Suppressed.until_time_limit("1 day", BufferConfig.unbounded()), name="calm").to_latest("calmed")
    people.to_latest("now")
    return builder.build()


_TOPICS = {
    "people": "seq LONG, email STRING, called STRING, gone BOOLEAN, ts TIMESTAMP",
    "clicks": "seq LONG, email STRING, note STRING, amount LONG, ts TIMESTAMP",
    "views": "seq LONG, email STRING, seen ARRAY<STRING>, ts TIMESTAMP",
}


def _write_everywhere(folder: Path) -> None:
    """Two people with the same records: some released from buffers, some that still wait, one without time."""
    rows: dict[str, list[dict[str, object]]] = {topic: [] for topic in _TOPICS}
    days = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-03T00:10:00Z", None)
    for place, ts in enumerate(days):
        for who, (email, called, note) in enumerate((_SUBJECT, _OTHER)):
            seq = place * 10 + who
            rows["people"].append({"seq": seq, "email": email, "called": called, "ts": ts})
            rows["clicks"].append({"seq": seq + 2, "email": email, "note": note, "amount": seq, "ts": ts})
            rows["views"].append({"seq": seq + 4, "email": email, "seen": [called, note], "ts": ts})
    for topic, said in rows.items():
        (folder / "input" / topic).mkdir(parents=True)
        text = "\n".join(map(json.dumps, said)) + "\n"
        (folder / "input" / topic / "0.json").write_text(text, encoding="utf-8")


def _everywhere_app(spark: SparkSession, folder: Path) -> StreamingApplication:
    sources = {
        topic: SparkSource("json", {"path": str(folder / "input" / topic)}, schema, sequence_by="seq")
        for topic, schema in _TOPICS.items()
    }
    return StreamingApplication(
        spark, "pii", _everywhere(), str(folder / "root"), sources, order="sequence", pii_columns=_HIDDEN
    )


@pytest.mark.slow
def test_a_byte_search_of_the_whole_root_finds_nothing_of_a_subject_after_vacuum(
    spark: SparkSession, tmp_path: Path
) -> None:
    _write_everywhere(tmp_path)
    app, root = _everywhere_app(spark, tmp_path), tmp_path / "root"
    app.run()
    tables = {table.short_name for table in app.tables()}
    assert tables == {log.parent.name for log in root.glob("*/_delta_log")} - {"ledger"}
    assert hits(root, _SUBJECT[:1]) == tables  # Else the search below would prove nothing.
    receipt = erase(app, spark.createDataFrame([(_SUBJECT[0],)], "email STRING"))
    assert {table.table for table in receipt.tables if table.rows} == tables
    assert receipt.files_gone is not None
    assert receipt.log_gone is None
    with session_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        for table in app.tables():
            spark.sql(f"VACUUM {table.sql} RETAIN 0 HOURS")
    assert hits(root, _SUBJECT) == set()
    assert hits(root, _OTHER[:1]) == tables
    assert examine(app).findings == ()


@pytest.mark.slow
def test_tables_hide_columns_in_the_one_commit_that_makes_them(spark: SparkSession, tmp_path: Path) -> None:
    _write_everywhere(tmp_path)
    with faults.armed(then("after:told", crash)), pytest.raises(StreamingQueryException):
        _everywhere_app(spark, tmp_path).run()
    made = [log.parent for log in (tmp_path / "root").glob("*/_delta_log") if log.parent.name != "ledger"]
    assert {"rejects", "people", "people_known", "waiting_waiting", "told"} <= {table.name for table in made}
    for table in made:
        (row,) = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").select("properties").collect()
        assert (set(_HIDDEN) - always_hidden(row[0]), len([*table.glob("_delta_log/*.json")])) == (set(), 1), table.name


@pytest.mark.slow
def test_tables_made_just_before_a_kill_never_have_statistics_of_hidden_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    _write_everywhere(tmp_path)
    with faults.armed(then("after:told", crash)), pytest.raises(StreamingQueryException):
        _everywhere_app(spark, tmp_path).run()
    app = _everywhere_app(spark, tmp_path)
    app.run()
    details = [spark.sql(f"DESCRIBE DETAIL {table.sql}").select("properties") for table in app.tables()]
    properties = [row[0] for row in reduce(DataFrame.unionAll, details).collect()]
    assert [sorted(set(_HIDDEN) - always_hidden(each)) for each in properties] == [[] for _ in app.tables()]


@pytest.mark.parametrize(
    ("said", "is_hidden"),
    [
        ({"customer": True}, True),
        ({"customer": True, "email": True}, True),
        ({"customer": True, "email": False}, False),
        ({"customer": False}, False),
        ({"customer": True, "phone": False}, True),
        ({"customer": True, "ADDRESS": False}, False),
    ],
    ids=[
        "the key alone",
        "from the start",
        "a value since later",
        "the key since later",
        "a column of other tables",
        "a struct since later",
    ],
)
def test_the_log_never_told_a_value_only_if_all_that_is_personal_was_hidden_from_the_start(
    said: dict[str, bool], is_hidden: bool
) -> None:
    address = StructType().add("city", StringType())
    schema = StructType().add("customer", LongType()).add("email", StringType()).add("address", address)
    state = TableState(properties={HIDDEN: json.dumps(said)})
    table = erase_module._Table(Mock(), TableRef.parse("/x"), schema, state, {"customer": ("customer",)})
    assert table._is_hidden({"customer"}) == is_hidden
