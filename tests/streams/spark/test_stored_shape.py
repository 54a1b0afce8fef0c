"""What a table that is there can take of a plan that was changed."""

from __future__ import annotations

import re
from typing import Final

import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from streams.spark.stored_shape import (
    SinkKind,
    aggregate_properties,
    check_aggregate,
    check_beside,
    check_known_columns,
    check_plain,
    check_rows,
    check_sink,
    check_types,
    key_properties,
    sink_properties,
    without_versions,
)
from versioned.errors import ConfigurationError

_THERE: Final = StructType().add("k", LongType(), nullable=False).add("value", StructType().add("a", LongType()))
_INT, _LONG = IntegerType(), LongType()
_TOTALS: Final = ["city", "day", "ts", "count"]
_A, _B = StructField("a", LongType()), StructField("b", LongType())


@pytest.mark.parametrize(
    ("value", "differs"),
    [
        (StructType().add("a", LongType()).add("fee", LongType()), ["value.fee is new"]),
        (StructType().add("b", LongType()), ["value.a is gone", "value.b is new"]),
        (StructType().add("a", IntegerType()), ["value.a: bigint, now int"]),
        (LongType(), ["value: struct<a:bigint>, now bigint"]),
    ],
)
def test_state_with_other_fields_or_types_is_refused_by_name(value: DataType, differs: list[str]) -> None:
    made = StructType().add("k", LongType()).add("value", value)
    told = re.escape(f'the table "held" holds other columns than it makes now: {differs}.')
    with pytest.raises(ConfigurationError, match=told):
        check_rows("held", "held", _THERE, made)


def test_state_with_the_same_fields_is_taken_whether_or_not_they_may_be_null() -> None:
    value = StructType().add("a", LongType(), nullable=False)
    check_rows("held", "held", _THERE, StructType().add("k", LongType()).add("value", value))


def test_fields_in_another_order_are_the_same_only_where_they_are_found_by_name() -> None:
    there, made = (
        StructType().add("value", StructType().add("s", StructType([_A, _B][::step])).add("c", LongType()))
        for step in (1, -1)
    )
    check_rows("held", "held", there, made, by_name=True)
    with pytest.raises(ConfigurationError, match=r"the fields of value\.s are in another order"):
        check_rows("held", "held", there, made)
    with pytest.raises(ConfigurationError, match="value"):
        check_rows("held", "held", there, _THERE, by_name=True)


def test_a_key_field_that_is_called_as_a_column_of_the_table_is_refused_whatever_its_case() -> None:
    check_beside("held", "waiting", ["k", "value", "ts"])
    with pytest.raises(ConfigurationError, match=r"\"waiting\" of \"held\" would have \['ts'\] twice.*select_key"):
        check_beside("held", "waiting", ["k", "TS", "value", "ts"])


def test_a_table_takes_rows_that_lack_a_column_and_none_with_a_new_one() -> None:
    check_known_columns("sink", "sink", ["K", "a"], "k")
    with pytest.raises(ConfigurationError, match=r"holds other columns than it makes now: \['b'\]"):
        check_known_columns("sink", "sink", ["K", "a"], "kb")


@pytest.mark.parametrize("kind", ["max", "max of a stream"])
@pytest.mark.parametrize("before", [None, "max"], ids=["made before tables told it", "before they told of what"])
def test_an_aggregate_goes_on_from_a_table_of_its_kind(kind: str, before: str | None) -> None:
    check_aggregate("totals", "totals", {} if before is None else aggregate_properties(before), kind)
    check_aggregate("totals", "totals", aggregate_properties(kind), kind)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("max", "min"),
        ("max of a stream", "min of a stream"),
        ("max of a stream", "max of a table"),
        ("max", "min of a table"),
    ],
)
def test_an_aggregate_does_not_go_on_from_a_table_of_another_kind(before: str, now: str) -> None:
    with pytest.raises(ConfigurationError, match=f'"totals" holds results of {before}, and {now} cannot go on from'):
        check_aggregate("totals", "totals", aggregate_properties(before), now)


def test_other_columns_are_told_as_a_change_of_the_plan_or_of_a_table() -> None:
    told = r'The plan of "out" was changed, or somebody changed a table: .*widened a column'
    with pytest.raises(ConfigurationError, match=told):
        check_types("out", "out", StructType([_A]), StructType().add("a", IntegerType()))


def test_an_aggregate_of_a_table_does_not_go_on_from_what_it_has_added_by_another_expression() -> None:
    kind, made = "sum of a table", aggregate_properties("sum of a table", "a")
    check_aggregate("totals", "totals", made, kind, "a")
    check_aggregate("totals", "totals", aggregate_properties(kind), kind, "b")  # made before tables told it
    with pytest.raises(ConfigurationError, match=r"\"totals\" holds results of other expressions.*another name.*root"):
        check_aggregate("totals", "totals", made, kind, "b")


def test_a_column_of_another_type_is_refused_with_both_types_and_one_that_only_one_side_has_is_not() -> None:
    there = StructType([_A, _B]).add("s", StructType([_A]))
    check_types("table", "table", there, StructType().add("B", LongType(), nullable=False).add("c", LongType()))
    with pytest.raises(
        ConfigurationError, match=r"\['a: bigint, now int', 's: struct<a:bigint>, now struct<b:bigint>'\]"
    ):
        check_types("table", "table", there, StructType().add("a", IntegerType()).add("s", StructType([_B])))


@pytest.mark.parametrize(("stored", "given", "is_taken"), [(_LONG, _INT, True), (_INT, _LONG, False)])
def test_a_wider_number_may_be_in_the_table_where_puts_widen_them(
    stored: DataType, given: DataType, is_taken: bool
) -> None:
    there, made = StructType().add("n", stored), StructType().add("n", given)
    if is_taken:
        check_types("table", "table", there, made, or_wider=True)
    else:
        with pytest.raises(ConfigurationError, match=r"\['n: int, now bigint'\]"):
            check_types("table", "table", there, made, or_wider=True)
    with pytest.raises(ConfigurationError, match="n: "):
        check_types("table", "table", there, made)


@pytest.mark.parametrize(
    ("properties", "there"),
    [({}, _TOTALS), (key_properties(["city", "day"]), ["count", "ts", "city", "day"])],
    ids=["made before tables told their key", "its columns were put in another order"],
)
@pytest.mark.parametrize(
    ("keys", "is_taken"),
    [
        (["city", "day"], True),
        (["Day", "city"], True),
        (["city"], False),
        (["city", "day", "count"], False),
        (["city", "count"], False),
    ],
)
def test_a_table_of_latest_rows_is_taken_only_with_all_the_fields_of_its_key_and_no_others(
    keys: list[str], is_taken: bool, properties: dict[str, str], there: list[str]
) -> None:
    if is_taken:
        check_plain("totals", "totals", properties, there, keys)
        return
    told = re.escape(f"\"totals\" has the key ['city', 'day'], but the plan now gives {keys}.")
    with pytest.raises(ConfigurationError, match=told):
        check_plain("totals", "totals", properties, there, keys)


def test_tombstones_that_are_rows_are_left_to_a_plan_that_knows_them() -> None:
    there = ["k", "ts", "v", "deleted"]
    check_plain("join", "joined", {}, there, ["k"], keeps_tombstones=True)
    with pytest.raises(ConfigurationError, match='"joined" keeps deleted keys as rows'):
        check_plain("join", "joined", {}, there, ["k"])


def test_a_store_that_is_versioned_or_no_longer_is_told_as_such() -> None:
    with pytest.raises(ConfigurationError, match='"store" has versions, of which the plan keeps none now'):
        check_plain("table", "store", {"versioned.spec": "{}"}, ["k", "validFrom"], ["k"])
    assert '"store" has no versions, which the plan asks for now' in str(without_versions("table", "store"))


@pytest.mark.parametrize(("former", "now"), [("changelog", "latest"), ("latest", "changelog")])
def test_a_changelog_is_no_table_of_latest_rows_nor_the_reverse(former: SinkKind, now: SinkKind) -> None:
    columns = ["k", "v", "ts", "_batch_id", "_scope", "_seq"]
    check_sink("out", "out", sink_properties(former, ["k"]), former, columns, ["k"])
    with pytest.raises(ConfigurationError, match=f'"out" holds .*to_{former}.* of .*to_{now}'):
        check_sink("out", "out", sink_properties(former, ["k"]), now, columns, ["k"])


@pytest.mark.parametrize(
    ("made_by", "keys", "told"),
    [
        (["city", "day"], ["city"], r"has the key \['city', 'day'\], but the plan now gives \['city'\]"),
        (["city"], ["city", "day"], r"has the key \['city'\], but"),
        (None, ["day"], r"has a key that begins with \['city'\], but"),
        (["city", "day"], ["day", "city"], None),
        (None, ["day", "city"], None),
    ],
)
def test_the_latest_rows_of_one_key_are_not_overwritten_by_those_of_another(
    made_by: list[str] | None, keys: list[str], told: str | None
) -> None:
    properties = {} if made_by is None else sink_properties("latest", made_by)
    columns = [*_TOTALS[:2], "count", "ts", "_batch_id", "_scope", "_seq"]
    if told is None:
        check_sink("now", "now", properties, "latest", columns, keys)
        return
    with pytest.raises(ConfigurationError, match=told):
        check_sink("now", "now", properties, "latest", columns, keys)


def test_a_changelog_takes_records_of_another_key() -> None:
    check_sink("out", "out", sink_properties("changelog", ["k"]), "changelog", ["k", "v", "ts"], ["v"])
