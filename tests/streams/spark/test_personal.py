"""Columns with personal data are named as the sources or the plan have them, or the application is not started."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructType
from two_tables import application, write_batch

from streams import StreamsBuilder
from streams.functions import python_function, struct
from streams.nodes import Topology
from streams.spark.personal import check_personal
from versioned.errors import ConfigurationError

_CITY = StructType().add("City", StringType())
_ORDERS = (
    StructType()
    .add("customer", StringType())
    .add("address", _CITY)
    .add("friends", ArrayType(StructType().add("nick", StringType())))
    .add("notes", MapType(StringType(), StructType().add("text", StringType())))
    .add("amount", LongType())
)


def _plan() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key="customer", value=("address", "amount"))
    sold = orders.map_values(lambda value: {"shown": struct(inner=value.address.City), "amount": value.amount})
    by_buyer = sold.select_key(lambda key, value: {"buyer": key.customer})
    by_buyer.group_by_key().sum("amount", name="spent").to_latest("told")
    return builder.build()


@pytest.mark.parametrize(
    "name", ["customer", "CUSTOMER", "city", "nick", "text", "shown", "inner", "buyer", "sum", "amount"]
)
def test_a_column_or_field_of_a_source_or_of_the_plan_may_be_hidden(name: str) -> None:
    check_personal([name], _plan(), (), StructType().add("orders", _ORDERS))


@pytest.mark.parametrize(
    ("name", "told"),
    [("custmer", 'no column "custmer"; did you mean "customer"'), ("orders", 'no column "orders"'), ("nope", "nope")],
)
def test_a_name_that_nothing_has_is_refused_with_what_was_meant(name: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^pii_columns: .*{told}"):
        check_personal(["city", name], _plan(), (), StructType().add("orders", _ORDERS))


def test_fields_that_a_python_function_or_an_aggregate_gives_may_be_hidden(spark: SparkSession) -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key="customer", value="amount")
    greet = python_function(lambda amount: {"greeting": str(amount)}, "greeting string")
    greeted = orders.map_values(lambda value: greet(value.amount))
    counted = greeted.group_by_key().aggregate(
        list, lambda key, value, total: total, schema="heard array<struct<line: string>>"
    )
    counted.to_latest("told")
    plan = builder.build()
    check_personal(["greeting", "heard", "line"], plan, (), StructType().add("orders", _ORDERS))


@pytest.mark.slow
def test_a_start_that_is_refused_for_a_misspelt_name_makes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    write_batch(tmp_path / "input", 0)
    with pytest.raises(ConfigurationError, match='pii_columns: there is no column "itme"; did you mean "item"'):
        application(spark, tmp_path / "input", tmp_path / "out", pii_columns=["price", "itme"]).run()
    assert not (tmp_path / "out").exists()
    application(spark, tmp_path / "input", tmp_path / "out", pii_columns=["price", "ITEM"]).run()
