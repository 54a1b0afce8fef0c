"""What a join makes of both sides as a column, where the plan tells the fields of one side or of none."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.nodes import StreamTableJoin
from streams.rows import Row
from streams.spark.columns import joined
from streams.testing import TopologyTestDriver
from streams.topology import KStream, Materialized, StreamsBuilder
from versioned.errors import TopologyError


def _joined(value: str | None) -> tuple[StreamsBuilder, KStream]:
    builder = StreamsBuilder()
    table = builder.table("prices", Materialized.key_value(), key="item", value=value)
    return builder, builder.stream("orders", key="item").left_join(table, name="priced")


def test_a_row_without_a_partner_is_the_drivers_where_the_plan_tells_the_fields_of_one_side(
    spark: SparkSession,
) -> None:
    builder, stream = _joined("price")
    stream.to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", "pen", {"amount": 3}, 0)
    node = stream.node
    assert isinstance(node, StreamTableJoin)
    sides = spark.sql("SELECT struct(3 AS amount) AS left, cast(null AS STRUCT<price: INT>) AS right")
    value = joined(node, {"left": F.col("left"), "right": F.col("right")}, {"left": ["amount"], "right": ["price"]})
    made = sides.select(value.alias("value")).collect()[0]["value"].asDict()
    assert [record.value for record in driver.read_output("out")] == [Row(made)]


def test_a_name_that_only_columns_tell_of_both_sides_is_refused_with_the_join(spark: SparkSession) -> None:
    node = _joined(None)[1].node
    assert isinstance(node, StreamTableJoin)
    fields = {"left": ["n", "price"], "right": ["Price"]}
    with pytest.raises(TopologyError, match=r"^priced: the left and the right row both have \['price'\].*value: of"):
        joined(node, {"left": F.col("left"), "right": F.col("right")}, fields)
