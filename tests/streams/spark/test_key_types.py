"""Keys of two sides whose types differ, and which of them the results of an outer join can have."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_spark, sink_rows
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from streams.spark.key_types import check_matched, check_outer_keys, key_as
from streams.topology import StreamsBuilder
from versioned import spark_functions as F
from versioned.errors import ConfigurationError

#: Type of keys, type of the other side's, and of some keys which they are there.
_KEYS = [
    ("STRING", "INT", ["1", "01", " 1", "1.0", "x", "99999999999"], [1, None, None, None, None, None]),
    ("DOUBLE", "INT", [1.0, 1.5, -0.0], [1, None, 0]),
    ("BIGINT", "INT", [7, 2**40], [7, None]),
    ("INT", "BIGINT", [7], [7]),
    ("INT", "STRING", [1, -1], ["1", "-1"]),
    ("DECIMAL(5,2)", "DECIMAL(5,1)", ["1.50", "1.55"], ["1.5", None]),
    ("TIMESTAMP", "DATE", ["2026-01-01 00:00:00", "2026-01-01 00:00:01"], ["2026-01-01", None]),
]


def _key(kind: DataType) -> StructType:
    return StructType().add("id", kind)


@pytest.mark.parametrize(
    ("left", "right"),
    [(LongType(), IntegerType()), (StringType(), LongType()), (LongType(), LongType())],
    ids=["wider", "text", "the same"],
)
def test_a_left_key_that_holds_every_right_one_is_taken(left: DataType, right: DataType) -> None:
    check_outer_keys("both", _key(left), _key(right))


@pytest.mark.parametrize(("left", "right"), [(IntegerType(), LongType()), (LongType(), StringType())])
def test_an_outer_join_whose_results_could_lack_a_key_is_refused(left: DataType, right: DataType) -> None:
    with pytest.raises(ConfigurationError, match=r'results of "both" have the keys of its left side.*Cast one'):
        check_outer_keys("both", _key(left), _key(right))


@pytest.mark.parametrize(("own", "kind", "keys", "there"), _KEYS, ids=[f"{own} as {kind}" for own, kind, *_ in _KEYS])
def test_no_two_keys_of_one_side_are_one_key_of_the_other(
    spark: SparkSession, own: str, kind: str, keys: list[object], there: list[object]
) -> None:
    frame = spark.createDataFrame([(str(key),) for key in keys], "k STRING").select(
        F.struct(F.col("k").cast(own).alias("id")).alias("_key")
    )
    other = spark.createDataFrame([], f"_key STRUCT<other: {kind}>").schema["_key"].dataType
    told = frame.select(key_as(frame, other).alias("_key")).select(F.col("_key.other").cast("string").alias("told"))
    assert [row["told"] for row in told.collect()] == [None if key is None else str(key) for key in there]


@pytest.mark.slow
@pytest.mark.parametrize("ends", [[3, 5], [5]])
def test_a_foreign_key_of_another_type_points_to_one_row(spark: SparkSession, tmp_path: Path, ends: list[int]) -> None:
    builder = StreamsBuilder()
    left, right = (
        builder.table(name, key="k", value="v", deleted="dead", name=f"{name}_table") for name in ("left", "right")
    )
    joined = left.join(right, lambda one, other: {"v": other.v}, foreign_key=lambda value: value.v)
    joined.to_changelog("out")
    records = [
        Input("right", "01", 10, 1),
        Input("right", "1", 20, 2),
        Input("left", "a", 1, 3),
        Input("right", "01", 30, 4),
        Input("right", "1", 40, 5),
    ]
    app = on_spark(spark, tmp_path, builder.build(), records, ends, "BIGINT")
    assert sink_rows(spark, app, builder.build())["out"] == [(("a",), (20,), 3000), (("a",), (40,), 5000)]


@pytest.mark.parametrize(("names", "others"), [(["a"], ["x", "y"]), (["a", "b"], ["b", "a"])])
def test_spark_refuses_keys_that_only_the_frames_tell(names: list[str], others: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"The key .* is looked up in"):
        check_matched(names, others)
