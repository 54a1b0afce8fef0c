"""How records of Kafka are decoded: one table of cases, one query."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from streams.spark.engine import operators_of
from streams.spark.kafka_sink import NTH, KafkaSink
from streams.spark.kafka_source import KafkaFormat, columns_decoded, decoded, kafka_source
from streams.spark.reader_options import MALFORMED
from streams.spark.sinks import send_to_kafka
from streams.topology import StreamsBuilder
from suppress.windows import TimeWindows
from versioned.ddl_columns import columns_if_known
from versioned.errors import ConfigurationError, SchemaError
from versioned.session_settings import session_settings
from versioned.sql_types import nullable

_KAFKA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP_LTZ, timestampType INT"
)
_AT_SENT = datetime(2026, 1, 2, tzinfo=timezone.utc)
_SENT = "2026-01-02 00:00:00"
_AT = "2026-01-01 12:00:00"
_ISO = '"ts":"2026-01-01T12:00:00Z"'
_VALUE = "price DOUBLE, n BIGINT, ts TIMESTAMP, at TIMESTAMP, day DATE"
_FORMAT = KafkaFormat(_VALUE, key="item STRING, lot INT", deleted="gone")
_KEY = '{"item":"tea","lot":1}'
#: (key, value) -> (item, price, n, ts, gone), or None where it is malformed.
_CASES: list[tuple[str | None, str | None, tuple[Any, ...] | None]] = [
    (_KEY, f'{{"price":1.5,"n":2,{_ISO}}}', ("tea", 1.5, 2, _AT, False)),
    (_KEY, f'{{"price":1,{_ISO},"more":[1]}}', ("tea", 1.0, None, _AT, False)),
    (_KEY, f'  {{"n":3,{_ISO},"item":"the key wins"}}', ("tea", None, 3, _AT, False)),
    (None, f'{{"n":4,{_ISO}}}', (None, None, 4, _AT, False)),
    (_KEY, '{"n":5}', ("tea", None, 5, None, False)),
    (_KEY, "{}", ("tea", None, None, None, False)),
    (_KEY, None, ("tea", None, None, _SENT, True)),
    (_KEY, "", None),
    (_KEY, "null", None),
    (_KEY, "5", None),
    (_KEY, "[]", None),
    (_KEY, f'[{{"n":1,{_ISO}}},{{"n":2,{_ISO}}}]', None),
    (_KEY, f'{{"n":1,{_ISO}', None),
    (_KEY, f'{{"n":1.5,{_ISO}}}', None),
    (_KEY, f'{{"price":"1.5",{_ISO}}}', None),
    (_KEY, '{"n":1,"ts":"yesterday"}', None),
    (_KEY, '{"n":1,"ts":20250131}', None),
    (_KEY, '{"n":1,"ts":-1.5e3}', None),
    (_KEY, '{"n":1,"ts":"09:30"}', None),
    (_KEY, '{"n":1,"ts":"T9"}', None),
    (_KEY, f'{{"n":1,{_ISO},"at":"9:30"}}', None),
    (_KEY, f'{{"n":1,{_ISO},"day":"7"}}', None),
    (_KEY, f'{{"n":1,{_ISO},"day":"20260131"}}', None),
    (_KEY, f'{{"n":1,{_ISO},"day":"2026-01"}}', None),
    (_KEY, f'{{"n":1,{_ISO},"day":"2026-01-31 10:00"}}', None),
    (_KEY, f'{{"n":1,{_ISO},"at":"2026-01-01 09:30","day":"2026-01-31"}}', ("tea", None, 1, _AT, False)),
    (_KEY, f'{{"n":1,{_ISO}}}{{"n":2,{_ISO}}}', None),
    (_KEY, f'{{"n":1,{_ISO}}},{{"n":2,{_ISO}}}', None),
    (_KEY, f'{{"n":1,{_ISO}}} more', None),
    (f"{_KEY}{_KEY}", f'{{"n":1,{_ISO}}}', None),
    ("tea", f'{{"n":1,{_ISO}}}', None),
    ('{"item":"tea","lot":"x"}', f'{{"n":1,{_ISO}}}', None),
    ("tea", None, None),
]


def _decoded(spark: SparkSession, said: KafkaFormat, records: list[tuple[str | None, str | None]]) -> list[Row]:
    rows = [
        (None if key is None else key.encode(), None if value is None else value.encode(), "t", 1, number, _AT_SENT, 0)
        for number, (key, value) in enumerate(records)
    ]
    frame = decoded(spark.createDataFrame(rows, _KAFKA), said).orderBy("offset")
    times = [field.name for field in frame.schema.fields if isinstance(field.dataType, TimestampType)]
    # As text: a collected timestamp would be in the time zone of this process.
    return frame.withColumns({name: F.col(name).cast("string") for name in times}).collect()


@pytest.mark.parametrize("kind", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_each_record_is_decoded_or_told_to_be_malformed_whatever_the_session_takes_timestamp_for(
    spark: SparkSession, kind: str
) -> None:
    with session_settings(spark, {"spark.sql.timestampType": kind}):
        rows = _decoded(spark, _FORMAT, [(key, value) for key, value, _ in _CASES])
    columns = {"item", "lot", "price", "n", "ts", "at", "day", "gone", "partition", "offset", MALFORMED}
    assert rows[0].asDict().keys() == columns
    for (key, value, wanted), row in zip(_CASES, rows, strict=True):
        got = None if row[MALFORMED] else (row["item"], row["price"], row["n"], row["ts"], row["gone"])
        assert got == wanted, (key, value)
        if wanted is None:
            assert (value or key or "").replace('"', '\\"') in row[MALFORMED]


def test_bytes_that_are_no_text_are_malformed_and_no_numbers_are_not(spark: SparkSession) -> None:
    good, value = _KEY.encode(), f'{{"price":NaN,"n":1,{_ISO}}}'.encode()
    records = [
        (good, value),
        (b'{"item":"M\xfcller","lot":1}', value),
        (good, b'{"n":1,"more":"\xfc"}'),
        (good, b'{"n":1,"more":"\xc3\xbc"}'),
    ]
    rows = [(*record, "t", 1, number, _AT_SENT, 0) for number, record in enumerate(records)]
    told = decoded(spark.createDataFrame(rows, _KAFKA), _FORMAT).orderBy("offset").collect()
    assert [row[MALFORMED] is None for row in told] == [True, False, False, True]
    assert told[0]["price"] != told[0]["price"]


def test_of_a_topic_nothing_is_taken_that_its_producer_took_back_unless_asked_for() -> None:
    level = "kafka.isolation.level"
    assert kafka_source("host:9092", "t", _FORMAT).options[level] == "read_committed"
    asked = kafka_source("host:9092", "t", _FORMAT, {level: "read_uncommitted"})
    assert asked.options[level] == "read_uncommitted"


def test_a_key_of_plain_text_is_its_one_field_and_numbers_become_times(spark: SparkSession) -> None:
    said = KafkaFormat("at BIGINT", key="id BIGINT", key_format="text", ts="at", ts_unit="ms")
    records = [
        ("7", '{"at":1767268800000}'),
        ("x", '{"at":1}'),
        (None, '{"at":1}'),
        ("8", '{"at":9223372036854775807}'),
    ]
    rows = _decoded(spark, said, records)
    assert (rows[0]["id"], rows[0]["at"]) == (7, _AT)
    assert [row[MALFORMED] is not None for row in rows] == [False, True, False, False]
    assert rows[3]["at"] is None


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("DECIMAL(9, 2)", {"1.001": False, "1.004": False, "1.5": True}),
        ("DATE", {"2026-01-01": True, "2026-01-01 10:00": False, "2026-01-01 junk": False}),
    ],
)
def test_of_a_key_of_plain_text_nothing_is_left_out(spark: SparkSession, kind: str, keys: dict[str, bool]) -> None:
    said = KafkaFormat("n INT", key=f"id {kind}", key_format="text")
    rows = _decoded(spark, said, [(key, '{"n":1}') for key in keys])
    assert dict(zip(keys, (row[MALFORMED] is None for row in rows), strict=True)) == keys


def test_without_a_field_for_it_the_time_is_kafkas_and_without_deleted_a_tombstone_is_malformed(
    spark: SparkSession,
) -> None:
    rows = _decoded(spark, KafkaFormat("n INT"), [("k", '{"n":1}'), ("k", None)])
    assert [row["ts"] for row in rows] == [_SENT, _SENT]
    assert [row[MALFORMED] for row in rows] == [None, '{"key":"k"}']


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (KafkaFormat("offset INT"), "may not be called \\['offset'\\]"),
        (KafkaFormat("n INT, gone INT", deleted="gone"), "may not be called \\['gone'\\]"),
        (KafkaFormat("n INT", key="a INT, b INT", key_format="text"), "one field"),
        (KafkaFormat("ts BIGINT"), '"ts" is bigint; write TIMESTAMP, or BIGINT with a ts_unit'),
        (KafkaFormat("ts TIMESTAMP", ts_unit="ms"), "ts_unit is for whole numbers"),
    ],
)
def test_a_format_that_cannot_work_is_refused(spark: SparkSession, said: KafkaFormat, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        _decoded(spark, said, [("k", "{}")])


def test_the_columns_of_a_topic_are_known_without_spark_as_it_gives_them(spark: SparkSession) -> None:
    for said in (
        _FORMAT,
        KafkaFormat("n INT, id STRING, at BIGINT", key="lot ARRAY<INT>, id BIGINT", ts="at", ts_unit="ms"),
        KafkaFormat("n INT", key="id DATE", key_format="text"),
        KafkaFormat("n INT"),
    ):
        value, key = columns_if_known(said.value), None if said.key is None else columns_if_known(said.key)
        assert value is not None
        read = decoded(spark.createDataFrame([], _KAFKA), said).schema
        assert columns_decoded(said, key, value) == nullable(read), said


@pytest.mark.parametrize("windowed", [True, False])
def test_a_text_is_refused_as_key_of_a_changelog_whose_key_has_more_fields(windowed: bool) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("s", key="device", value="v").group_by_key()
    counted = grouped.windowed_by(TimeWindows.of("1 hour")).count() if windowed else grouped.count()
    counted.to_changelog("alerts")
    operators = operators_of(builder.build())
    told: AbstractContextManager[object] = (
        pytest.raises(ConfigurationError, match=r"windowStart.*json") if windowed else nullcontext()
    )
    with told:
        send_to_kafka(operators, {"alerts": KafkaSink("host:1", "alerts", "text")})


def test_the_changes_of_a_key_are_told_in_the_order_in_which_a_table_takes_them_whatever_scope_they_are_of(
    spark: SparkSession,
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('k', 'new', false, TIMESTAMP '2026-01-01', 7L, 0, array(200L)), "
        "('k', 'old', false, TIMESTAMP '2026-01-01', 7L, 1, array(100L)), "
        "('k', 'newest', false, TIMESTAMP '2026-01-01', 7L, 1, array(200L)) "
        "AS t(k, v, deleted, ts, _batch_id, _scope, _seq)"
    )
    told = KafkaSink("none:1", "t", "text").records(rows, "app/out", ["k"], of_table=True)
    sent = {json.loads(row["value"])["v"]: _nth(row) for row in told.collect()}
    assert sorted(sent, key=lambda value: sent[value]) == ["old", "new", "newest"]


def _nth(row: Any) -> int:
    return next(int(bytes(header["value"])) for header in row["headers"] if header["key"] == NTH)


def test_a_null_value_of_a_stream_is_a_tombstone_and_its_own_field_called_deleted_is_a_field(
    spark: SparkSession,
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('kept', 1, true, TIMESTAMP '2026-01-01', 7L, 0, array(1L)), "
        "('gone', NULL, NULL, TIMESTAMP '2026-01-01', 7L, 0, array(2L)) "
        "AS t(k, v, deleted, ts, _batch_id, _scope, _seq)"
    )
    told = KafkaSink("none:1", "t", "text").records(rows, "app/out", ["k"], of_table=False)
    values = {row["key"]: row["value"] for row in told.collect()}
    assert values == {"kept": '{"v":1,"deleted":true,"ts":"2026-01-01T00:00:00.000000Z"}', "gone": None}
