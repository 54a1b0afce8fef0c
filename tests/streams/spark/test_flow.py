"""What passes between operators: the stream times of records by their scopes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from streams.spark.flow import SCOPE, lookup_times


@pytest.mark.parametrize(
    "times",
    [
        {},
        {0: -(2**62)},
        # Doubles do not tell these apart from their neighbours; maps of many are looked into in another way.
        {0: 2**53 + 1, 5: -(2**53) - 1, -3: 2**62, 2**31 - 1: 0},
        {scope: 2**60 + scope for scope in range(0, 4_000, 2)},
    ],
    ids=["none", "one", "far apart", "many"],
)
def test_each_record_gets_the_instant_of_its_scope_exactly(spark: SparkSession, times: dict[int, int]) -> None:
    asked = [0, 5, -3, 2**31 - 1, 1, 3_998, None]
    rows = spark.createDataFrame([(scope,) for scope in asked], f"{SCOPE} INT").coalesce(1)
    told = rows.select(lookup_times(times).alias("us"))
    assert told.dtypes == [("us", "bigint")]
    assert [row["us"] for row in told.collect()] == [None if scope is None else times.get(scope) for scope in asked]


def test_stream_times_go_to_spark_in_as_many_messages_whatever_their_number(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send, sent = client.send_command, []

    def counted(command: str, *args: Any, **kwargs: Any) -> Any:
        # Those of "m" only forget objects of the JVM, whenever Python does.
        sent.append(command[0] != "m")
        return send(command, *args, **kwargs)

    lookup_times({0: 1})  # What Python imports of the JVM it imports once.
    monkeypatch.setattr(client, "send_command", counted)
    messages = []
    for scopes in (1, 1_000):
        sent.clear()
        lookup_times({scope: scope for scope in range(scopes)})
        messages.append(sum(sent))
    assert messages[0] == messages[1] > 0
