"""What a file of text has that is no record is put aside with its text; nothing of it is taken as nulls."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from streams.spark import SparkSource, StreamingApplication
from streams.spark.reader_options import MALFORMED, readable
from streams.spark.sources import unite
from streams.topology import StreamsBuilder
from versioned.session_settings import TIME_TEXTS

_SCHEMA = "k STRING, v INT, ts TIMESTAMP"
_TS, _US = "2026-01-01T00:00:00.123456Z", 1_767_225_600_123_456
_OPTIONS = {"xml": {"rowTag": "r"}}
_AROUND = {"xml": ("<rows>", "</rows>")}
_TAKEN = {("a", 1), ("b", None)}
#: Format -> records that can be read, those of ``_TAKEN``, and records that cannot.
_FILES = {
    "json": (
        [f'{{"k": "a", "v": 1, "ts": "{_TS}"}}', f'{{"k": "b", "ts": "{_TS}"}}'],
        [f'{{"k": "c", "v": "seven", "ts": "{_TS}"}}', f'{{"k": "d", "v": 7.5, "ts": "{_TS}"}}', '{"k": "e", "v', "5"],
    ),
    "csv": ([f"a,1,{_TS}", f"b,,{_TS}"], [f"c,seven,{_TS}", f"d,7,{_TS},more", "e,7"]),
    "xml": (
        [f"<r><k>a</k><v>1</v><ts>{_TS}</ts></r>", f"<r><k>b</k><ts>{_TS}</ts></r>"],
        ["<a record of XML that does not fit>"],
    ),
}
#: Where what is told of them is not their text.
_WRITTEN = {"xml": [f"<r><k>c</k><v>seven</v><ts>{_TS}</ts></r>"]}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SparkSource]:
    """A source of each format, with what can be read and what cannot."""
    folder, made = tmp_path_factory.mktemp("texts"), {}
    for form, (good, bad) in _FILES.items():
        (folder / form).mkdir()
        before, behind = _AROUND.get(form, ("", ""))
        text = "\n".join([*good, *_WRITTEN.get(form, bad)])
        (folder / form / "0").write_text(f"{before}{text}{behind}\n", encoding="utf-8")
        made[form] = SparkSource(form, {"path": str(folder / form), **_OPTIONS.get(form, {})}, _SCHEMA)
    return made


def test_what_cannot_be_read_is_told_with_its_text_and_a_field_that_is_missing_is_null(
    spark: SparkSession, sources: dict[str, SparkSource]
) -> None:
    united = unite(spark, sources).writeStream.format("memory").queryName("texts").outputMode("append")
    united.trigger(availableNow=True).start().awaitTermination()
    for form, (_, bad) in _FILES.items():
        rows = spark.table("texts").where(f"_source = '{form}'").select(f"{form}.*").collect()
        assert {(row["k"], row["v"]) for row in rows if row[MALFORMED] is None} == _TAKEN
        assert sorted(row[MALFORMED] for row in rows if row[MALFORMED] is not None) == sorted(bad)


@pytest.mark.parametrize("form", _FILES)
def test_all_that_a_source_has_is_read_in_one_batch_as_by_its_stream(
    spark: SparkSession, sources: dict[str, SparkSource], form: str
) -> None:
    kept = readable(sources[form].read_all(spark)).persist()
    assert ({(row["k"], row["v"]) for row in kept.collect()}, kept.columns) == (_TAKEN, ["k", "v", "ts"])
    kept.unpersist()


@pytest.mark.slow
def test_it_is_put_aside_and_the_others_are_taken(
    spark: SparkSession, sources: dict[str, SparkSource], tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    for form in sources:
        builder.stream(form, key="k", value="v").to_changelog(f"{form}_out")
    app = StreamingApplication(spark, "texts", builder.build(), str(tmp_path / "out"), sources)
    app.run()
    rejects = spark.read.format("delta").load(str(app.table("rejects"))).collect()
    told = [(row["node"], row["reason"], json.loads(row["record"])["value"][MALFORMED]) for row in rejects]
    expected = [(f"stream-{form}", "BAD_TYPE", text) for form, (_, bad) in _FILES.items() for text in bad]
    assert sorted(told) == sorted(expected)
    for form in sources:
        taken = spark.read.format("delta").load(str(app.table(f"{form}_out"))).select("k", "v").collect()
        assert {tuple(row) for row in taken} == _TAKEN


_FORMER_RULES = {f"spark.sql.legacy.{form}.enableDateTimeParsingFallback": "true" for form in ("csv", "json")}
#: Texts, and whether each is a day.
_DAYS = {
    "2026-01-31": True, "2026-1-5": True, "0999-12-31": True, "2026": False, "2026-03": False, "7": False,
    "20260131": False, "2026-01-31 18:00": False, "2026-01-31T18:00:00Z": False, "2026-01-31 junk": False,
    "2026-02-30": False,
}  # fmt: skip


@pytest.mark.parametrize("said", [{}, {TIME_TEXTS: "LEGACY"}, {TIME_TEXTS: "EXCEPTION"}, _FORMER_RULES])
@pytest.mark.parametrize("form", ["csv", "json", "xml"])
def test_only_a_whole_day_and_nothing_behind_it_is_a_date_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path, form: str, said: dict[str, str]
) -> None:
    session = _session(spark, said)
    line = {"csv": "{0},{0}", "json": '{{"k": "{0}", "day": "{0}"}}', "xml": "<r><k>{0}</k><day>{0}</day></r>"}[form]
    lines = [line.format(day) for day in _DAYS]
    lines = ["<rows>", *lines, "</rows>"] if form == "xml" else lines
    (tmp_path / "0").write_text("\n".join(lines), encoding="utf-8")
    options = {"path": str(tmp_path)} | ({"rowTag": "r"} if form == "xml" else {})
    read = SparkSource(form, options, "k STRING, day DATE").read_all(session)
    assert {row["k"]: row[MALFORMED] is None for row in read.collect()} == _DAYS


@pytest.mark.parametrize(
    "said", [{TIME_TEXTS: "LEGACY"}, {TIME_TEXTS: "EXCEPTION"}, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}]
)
def test_a_stream_reads_instants_as_they_are_written_whatever_the_session_says(
    spark: SparkSession, sources: dict[str, SparkSource], said: dict[str, str]
) -> None:
    session = _session(spark, said)
    united = unite(session, sources).writeStream.format("memory").queryName("instants").outputMode("append")
    united.trigger(availableNow=True).start().awaitTermination()
    for form in _FILES:
        rows = session.table("instants").where(f"_source = '{form}'").select(f"{form}.*").where(f"{MALFORMED} IS NULL")
        assert [row["us"] for row in rows.selectExpr("unix_micros(ts) AS us").collect()] == [_US, _US]


def _session(spark: SparkSession, said: dict[str, str]) -> SparkSession:
    """A session of its own, since a source changes some of its settings for good."""
    session = spark.newSession()
    for name, value in said.items():
        session.conf.set(name, value)
    return session


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        (SparkSource("csv", schema=_SCHEMA), "CORRECTED"),
        (SparkSource("JSON", schema=_SCHEMA), "CORRECTED"),
        (SparkSource("rate", decoder=lambda rows: rows), "CORRECTED"),
        (SparkSource("rate"), "LEGACY"),
        (SparkSource("parquet", schema=_SCHEMA), "LEGACY"),
    ],
    ids=["CSV", "JSON", "decoded", "numbers", "Parquet"],
)
def test_the_sessions_rules_for_texts_change_only_where_a_source_is_text(
    spark: SparkSession, tmp_path: Path, source: SparkSource, rules: str
) -> None:
    session = _session(spark, {TIME_TEXTS: "LEGACY"})
    options = {"path": str(tmp_path)} if source.schema else {}
    replace(source, options=options).read(session)
    assert session.conf.get(TIME_TEXTS) == rules


def test_csv_is_read_as_spreadsheets_write_it(spark: SparkSession, tmp_path: Path) -> None:
    told = ['a "b" c', "C:\\", "x,y", " padded "]
    with (tmp_path / "0.csv").open("w", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([[each, 1, _TS] for each in told])
    read = SparkSource("csv", {"path": str(tmp_path)}, _SCHEMA).read_all(spark)
    assert [row["k"] for row in readable(read).collect()] == told


def test_a_header_that_is_not_as_the_schema_ends_the_reading_and_changes_no_columns_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, header in (("swapped", "v,k,ts"), ("right", "K,v,ts")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.csv").write_text(f"{header}\n1,2,{_TS}\n", encoding="utf-8")
    read = {
        name: SparkSource("csv", {"path": str(tmp_path / name), "header": "true"}, "k STRING, v STRING, ts TIMESTAMP")
        for name in ("swapped", "right")
    }
    assert [tuple(row)[:2] for row in readable(read["right"].read_all(spark)).collect()] == [("1", "2")]
    with pytest.raises(Exception, match=r"(?s)CSV header does not conform to the schema.*v, k, ts"):
        read["swapped"].read_all(spark).collect()


def test_a_folder_is_read_by_its_escaped_name_and_a_file_of_any_age_that_comes_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in [1]"
    folder.mkdir()
    (tmp_path / "in 1").mkdir()
    lines = {name: f'{{"k": "{name}", "v": 1, "ts": "{_TS}"}}' for name in ("new", "old", "other")}
    (tmp_path / "in 1" / "other").write_text(lines["other"], encoding="utf-8")
    path = str(folder).replace("[", r"\[").replace("]", r"\]")
    stream = SparkSource("json", {"path": path}, _SCHEMA).read(spark)
    for name, time in (("new", 1_800_000_000), ("old", 1_500_000_000)):
        (folder / name).write_text(lines[name], encoding="utf-8")
        os.utime(folder / name, (time, time))
        written = stream.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/checkpoint")
        written.trigger(availableNow=True).start(f"{tmp_path}/out").awaitTermination()
    assert sorted(row["k"] for row in spark.read.parquet(f"{tmp_path}/out").collect()) == ["new", "old"]


@pytest.mark.parametrize(
    ("form", "options", "schema", "added"),
    [
        ("json", {}, _SCHEMA, [MALFORMED]),
        ("JSON", {}, StructType().add("k", LongType()), [MALFORMED]),
        ("json", {}, f"{MALFORMED} STRING, {_SCHEMA}", []),
        ("json", {"MODE": "FAILFAST"}, _SCHEMA, []),
        ("csv", {"mode": "DROPMALFORMED"}, _SCHEMA, []),
        ("csv", {"columnNameOfCorruptRecord": "bad"}, f"{_SCHEMA}, bad STRING", []),
        ("json", {}, f"{_SCHEMA}, _corrupt_record STRING", []),
        ("parquet", {}, _SCHEMA, []),
    ],
)
def test_a_source_of_text_has_a_column_for_it_unless_its_user_has_a_way_of_his_own(
    spark: SparkSession, tmp_path: Path, form: str, options: dict[str, str], schema: str | StructType, added: list[str]
) -> None:
    before = StructType.fromDDL(schema) if isinstance(schema, str) else StructType(list(schema.fields))
    read = SparkSource(form, {"path": str(tmp_path), **options}, schema).read(spark)
    assert isinstance(before, StructType)
    assert sorted(read.columns) == sorted([*before.names, *added])
    assert isinstance(schema, str) or schema == before
