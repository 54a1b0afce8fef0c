"""Which rejected records, kept as JSON, have the value of a subject's key."""

from __future__ import annotations

import json
from typing import Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from streams.spark.erase_record import as_field, in_record
from streams.spark.typed_input import cut_row

#: Of each case: what is looked for, the record, and whether it is of the subject. Fields may be called "id" or "buyer".
_CASES: Final = {
    "a number in the key": ("17", '{"key":{"id":17},"value":{}}', True),
    "a number deep in the value": ("17", '{"value":{"order":{"buyer":17,"n":1}}}', True),
    "a number that ends the value": ("17", '{"value":{"n":1,"buyer":17}}', True),
    "under a name in other letters": ("17", '{"value":{"ID":17}}', True),
    "written with leading zeros": ("017", '{"key":{"id":17}}', True),
    "a decimal with the zeros of its type": ("17.5", '{"value":{"id":17.50}}', True),
    "the first of an array": ("17", '{"value":{"id":[17,4]}}', True),
    "the last of an array": ("17", '{"value":{"id":[4,17]}}', True),
    "in a record that is itself a text": ("17", '{"value":"{\\"id\\":17}"}', True),
    "an instant": ("2026-01-01T00:00:00Z", '{"value":{"id":"2026-01-01T00:00:00.000Z"}}', True),
    "an instant within a text": ("2026-01-01T00:00:00Z", '{"value":"{\\"id\\":\\"2026-01-01T00:00:00.000Z\\"}"}', True),
    "bytes": ("tea", '{"value":{"id":"dGVh"}}', True),
    "a text of another field": ("17", '{"value":{"note":"17"}}', True),
    "a text with marks of patterns": ("a.\\E(b", '{"key":{"id":"a.\\\\E(b"}}', True),
    "a longer number": ("17", '{"key":{"id":170}}', False),
    "a number that ends alike": ("17", '{"key":{"id":117}}', False),
    "a fraction": ("17", '{"key":{"id":17.5}}', False),
    "a whole number with a fraction of zeros": ("17", '{"value":"{\\"id\\":17.0, \\"n\\":1}"}', True),
    "a fraction that begins with zeros": ("17", '{"key":{"id":17.05}}', False),
    "the last of an array in an array": ("17", '{"value":{"id":[[4,17]]}}', True),
    "behind a hundred thousand backslashes": ("17", json.dumps({"note": "\\" * 100_000, "id": 17}), True),
    "behind arrays that do not end": ("17", '{"id":[1,2,' * 30_000 + '{"id":17}', True),
    "escaped, behind as many": ("zo\u00eb", json.dumps({"note": "\\" * 100_000, "id": "zo\u00eb"}), True),
    "a number of another field": ("17", '{"value":{"amount":17}}', False),
    "a field whose name ends alike": ("17", '{"value":{"paid":17}}', False),
    "an element after the array": ("17", '{"value":{"id":[4],"amount":17}}', False),
    "a text in other letters": ("tea", '{"key":{"id":"TEA"}}', False),
    "a text that a pattern would take": ("a.c", '{"key":{"id":"abc"}}', False),
    "a record that was dropped to nothing": ("17", None, False),
}
_KINDS: Final = (LongType(), StringType(), DecimalType(10, 2), TimestampType(), BinaryType())


def test_a_value_is_found_in_whatever_form_a_field_of_the_name_has_it_and_nowhere_else(spark: SparkSession) -> None:
    rows = [(name, wanted, record) for name, (wanted, record, _) in _CASES.items()]
    frame = spark.createDataFrame(rows, "name STRING, wanted STRING, record STRING")
    found = in_record(F.col("record"), F.col("wanted"), ("id", "buyer"), _KINDS)
    told = {
        row["name"]: row["found"]
        for row in frame.select("name", F.coalesce(found, F.lit(False)).alias("found")).collect()
    }
    assert told == {name: is_of for name, (_, _, is_of) in _CASES.items()}


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("side", ["key", "value"])
def test_an_instant_is_found_as_the_rejects_write_it(spark: SparkSession, kind: str, side: str) -> None:
    rows = spark.sql(f"SELECT {kind} '2026-01-01 00:00:00.5' AS id, named_struct('at', 1) AS rest")
    record = cut_row(rows.schema, ["id"] if side == "key" else [])
    wanted = F.lit("2026-01-01T00:00:00.500Z" if kind == "TIMESTAMP" else "2026-01-01 00:00:00.5")
    other = F.lit("2026-01-01T00:00:00.501Z" if kind == "TIMESTAMP" else "2026-01-01 00:00:00.501")
    found = [in_record(record, text, ("id",), [rows.schema["id"].dataType]) for text in (wanted, other)]
    assert [bool(told) for told in rows.select(*found).collect()[0]] == [True, False]


@pytest.mark.parametrize("text", ["mallory@x", 'a "quoted" name', "C:\\new", "\\E zo\u00eb"])
def test_a_text_is_found_in_what_kafka_gave_and_could_not_be_decoded(spark: SparkSession, text: str) -> None:
    value = json.dumps({"email": text, "n": 1}, ensure_ascii=False)[:-4]  # cut off
    raw = spark.createDataFrame([(json.dumps({"key": "1", "value": value}, ensure_ascii=False),)], "_malformed STRING")
    record = cut_row(raw.schema, [])
    found = [in_record(record, F.lit(wanted), ("email",), [StringType()]) for wanted in (text, text[:-1])]
    assert [bool(told) for told in raw.select(*found).collect()[0]] == [True, False]


#: Of each case: what is looked for, what was read as its writer spelt it, and whether it is of the subject.
_SPELT: Final = {
    "a letter": ("zo\u00eb", r'{"id": "zo\u00eb", "n": 1', True),
    "in upper case": ("zo\u00eb", r'{"id": "zo\u00EB", "n": 1', True),
    "a letter that needs no escape": ("ann", r'{"id": "\u0061nn", "n": 1', True),
    "two halves": ("\U0001f600 hi", r'{"id": "\ud83d\uDE00 hi", "n": 1', True),
    "a slash": ("a/b", r'{"id": "a\/b", "n": 1', True),
    "a slash by number": ("a/b", r'{"id": "a\u002Fb", "n": 1', True),
    "a quote": ('a "b"', r'{"id": "a \"b\"", "n": 1', True),
    "a quote by number": ('a "b" \u00eb', r'{"id": "a \u0022b\u0022 \u00eb", "n": 1', True),
    "a backslash by number": ("C:\\zo\u00eb", r'{"id": "C:\u005Czo\u00eb", "n": 1', True),
    "a new line by number": ("a\nb", r'{"id": "a\u000Ab", "n": 1', True),
    "one escaped and one not": ("zo\u00ebzo\u00eb", '{"id": "zo\\u00ebzo\u00eb", "n": 1', True),
    "a number under a name that is escaped": ("17", r'{"i\u0064": 17, "n": 1}', True),
    "beside halves that are alone": ("zo\u00eb", r'{"x": "\ud83d \ude00", "id": "zo\u00eb"', True),
    "beside what is no escape": ("zo\u00eb", r'{"x": "\u12 \x", "id": "zo\u00eb"', True),
    "another letter": ("zo\u00eb", r'{"id": "zo\u00ea", "n": 1', False),
    "a part": ("zo\u00eb", r'{"id": "zo\u00eb\u00eb", "n": 1', False),
}


@pytest.mark.parametrize("within", [0, 1], ids=["a text", "a text in a text"])
def test_a_text_is_found_however_json_spelt_it_in_what_could_not_be_read(spark: SparkSession, within: int) -> None:
    rows = [(name, wanted, json.dumps(raw) if within else raw) for name, (wanted, raw, _) in _SPELT.items()]
    frame = spark.createDataFrame(rows, "name STRING, wanted STRING, _malformed STRING")
    record = cut_row(StructType().add("_malformed", "string"), [])
    found = F.coalesce(in_record(record, F.col("wanted"), ("id",), _KINDS), F.lit(False))
    told = {row["name"]: row["found"] for row in frame.select("name", found.alias("found")).collect()}
    assert told == {name: is_of for name, (_, _, is_of) in _SPELT.items()}


#: Of each case: what is looked for, the text that could not be read, and whether it is of the subject.
_NO_JSON: Final = {
    "between commas": ("zoe@x.de", "Smith, Zoe,zoe@x.de,5", True),
    "after a quote that does not end": ("zoe@x.de", '"Zoe,zoe@x.de,5', True),
    "at the beginning": ("zoe@x.de", "zoe@x.de,5", True),
    "at the end": ("zoe@x.de", "5,zoe@x.de", True),
    "between tabs": ("zoe@x.de", "5\tzoe@x.de\t6", True),
    "of several words": ("Zoe Smith", "5,Zoe Smith,6", True),
    "with quotes": ('Zoe "Z" Smith', '5,Zoe "Z" Smith,6', True),
    "with a backslash": ("C:\\zo\u00eb", "5,C:\\zo\u00eb,6", True),
    "with marks of patterns": ("a.\\E(b", "5,a.\\E(b,6", True),
    "behind a hundred thousand backslashes": ("zoe@x.de", "\\" * 100_000 + ",zoe@x.de", True),
    "the end of a longer word": ("zoe", "5,chlo\u00ebzoe,6", False),
    "the beginning of a longer word": ("zo", "5,zo\u00eb,6", False),
    "in other letters": ("zoe", "5,ZOE,6", False),
    "what a pattern would take": ("z.e", "5,zoe,6", False),
    "nothing at all": ("", "5,,6", False),
    "no word": ("-", "5,-,6", False),
}
_NO_JSON_NUMBERS: Final = {
    "between commas": ("17", "Smith, Zoe,17,5", True),
    "with a fraction of zeros": ("17", "Smith, Zoe,17.0,5", True),
    "a part of a longer number": ("17", "Smith, Zoe,170,5", False),
    "before a fraction": ("17", "Smith, Zoe,17.5,5", False),
    "a fraction": ("17", "Smith, Zoe,5.17,5", False),
    "of another field, if it is JSON": ("17", '{"amount": 17, "n"', False),
    "of another field and negative, if it is JSON": ("17", '{"amount": -17, "n"', False),
}


@pytest.mark.parametrize("by", ["a file", "Kafka"])
@pytest.mark.parametrize(
    ("cases", "kind"), [(_NO_JSON, StringType()), (_NO_JSON_NUMBERS, LongType())], ids=["texts", "numbers"]
)
def test_whole_words_are_found_in_what_could_not_be_read_and_is_no_json(
    spark: SparkSession, cases: dict[str, tuple[str, str, bool]], kind: DataType, by: str
) -> None:
    def kept(raw: str) -> str:
        return json.dumps({"key": "1", "value": raw}, ensure_ascii=False) if by == "Kafka" else raw

    rows = [(name, wanted, kept(raw)) for name, (wanted, raw, _) in cases.items()]
    frame = spark.createDataFrame(rows, "name STRING, wanted STRING, _malformed STRING")
    # Not cut, unlike records that are too large.
    record = F.to_json(F.struct(F.struct().alias("key"), F.struct("_malformed").alias("value")))
    found = F.coalesce(in_record(record, F.col("wanted"), ("id",), [kind]), F.lit(False))
    told = {row["name"]: row["found"] for row in frame.select("name", found.alias("found")).collect()}
    assert told == {name: is_of for name, (_, _, is_of) in cases.items()}


def test_a_word_within_the_text_of_a_record_that_was_read_is_not_of_the_subject(spark: SparkSession) -> None:
    record = F.lit('{"key":{"id":"ann"},"value":{"note":"call zoe today"}}')
    (row,) = spark.range(1).select(in_record(record, F.lit("zoe"), ("id",), [StringType()])).collect()
    assert not row[0]


def test_a_fraction_is_no_whole_number_whatever_its_type(spark: SparkSession) -> None:
    wanted = spark.createDataFrame([(17.5, "17.5"), (17.0, "17"), (-0.5, "x")], "fraction DOUBLE, written STRING")
    columns = [as_field(F.col(name), LongType()) for name in wanted.columns]
    columns += [as_field(F.col("fraction").cast("decimal(5,2)"), LongType())]
    assert [tuple(row) for row in wanted.select(*columns).collect()] == [(None,) * 3, (17,) * 3, (None,) * 3]
    assert wanted.where(F.col("fraction") == as_field(F.col("fraction"), DecimalType(5, 2))).count() == 3


def test_nothing_is_rounded_or_cut_to_the_value_of_another_subject(spark: SparkSession) -> None:
    said = ["1.5", "1.50", "1.004", "2026-01-01", "2026-01-01 10:00:00", "2026-01-01 and more"]
    wanted = spark.createDataFrame([(text,) for text in said], "text STRING")
    kinds = (DecimalType(9, 2), DateType())
    told = wanted.select(*(as_field(F.col("text"), kind).cast("string") for kind in kinds)).collect()
    assert [row[0] for row in told] == ["1.50", "1.50", None, None, None, None]
    assert [row[1] for row in told] == [None, None, None, "2026-01-01", None, None]
