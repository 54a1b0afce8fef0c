"""What a text of DDL says, whatever the session takes its types for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, TimestampNTZType, TimestampType

from versioned.schema import from_ddl
from versioned.session_settings import session_settings

_INSTANT, _LOCAL = TimestampType(), TimestampNTZType()
_NESTED = StructType().add("a", ArrayType(_INSTANT)).add("b", MapType(StringType(), _LOCAL))
_TEXTS: dict[str, DataType] = {
    "TIMESTAMP": _INSTANT,
    "at timestamp, `by` TIMESTAMP_LTZ": StructType().add("at", _INSTANT).add("by", _INSTANT),
    "at TIMESTAMP, local timestamp_ntz": StructType().add("at", _INSTANT).add("local", _LOCAL),
    "local TIMESTAMP WITHOUT TIME ZONE": StructType().add("local", _LOCAL),
    "timestamp_ntz TIMESTAMP": StructType().add("timestamp_ntz", _INSTANT),
    "x STRUCT<a: ARRAY<TIMESTAMP>, b: MAP<STRING, TIMESTAMP_NTZ>>": StructType().add("x", _NESTED),
    "at TIMESTAMP NOT NULL COMMENT 'c'": StructType().add("at", _INSTANT, nullable=False, metadata={"comment": "c"}),
}


@pytest.mark.parametrize("kind", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_timestamp_is_an_instant_whatever_the_session_takes_it_for(spark: SparkSession, kind: str) -> None:
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    with session_settings(spark, {"spark.sql.timestampType": kind}):
        assert DataType.fromDDL("TIMESTAMP") == (_LOCAL if kind == "TIMESTAMP_NTZ" else _INSTANT)
        assert {text: from_ddl(text) for text in _TEXTS} == _TEXTS
