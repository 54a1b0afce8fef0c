"""Bad input that its columns tell: refused when the application starts, before any record is read."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from streams.expressions import Expr
from streams.nodes import Materialized, SourceNode, StreamSource, StreamStreamJoin, TableSource
from streams.reasons import INVALID
from streams.spark.contract import InputContract, action_at
from streams.spark.input_checks import check_input, checked_rules
from streams.spark.intake import IntakeRule
from streams.spark.places import Order
from streams.spark.sources import SparkSource
from streams.topology import StreamsBuilder
from suppress.windows import JoinWindows
from versioned.errors import ConfigurationError, SchemaError, TopologyError, VersionedError

_TEXT, _LONG, _DOUBLE, _TIME = StringType(), LongType(), DoubleType(), TimestampType()
_MAP = MapType(StringType(), StringType())
_GOOD = {"id": _TEXT, "v": _LONG, "ts": _TIME, "seq": _LONG}
_VERSIONED = TableSource("t", topic="t", key=("id",), materialized=Materialized.versioned("1 day"))


def _schema(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def _check(
    columns: dict[str, DataType],
    types: dict[str, DataType] | None = None,
    node: SourceNode | None = None,
    sequence_by: str | tuple[str, ...] | None = "seq",
    partition_by: str | None = None,
    order: Order = "sequence",
    **contract: Any,
) -> None:
    node = node or TableSource("t", topic="t", key=("id",))
    source = SparkSource(
        "parquet", partition_by=partition_by, sequence_by=sequence_by, contract=InputContract(**contract)
    )
    declared = None if types is None else _schema(types)
    check_input(_schema(columns), IntakeRule(node, source, 0, order, 0, declared))


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"id": _TEXT, "ts": _TIME, "seq": _LONG}, {"types": _GOOD}, r"lacks the declared columns \['v'\]"),
        ({"v": _LONG, "ts": _TIME, "seq": _LONG}, {}, r"lacks the columns \['id'\] of node \"t\""),
        ({"id": _TEXT, "v": _LONG, "ts": _TIME}, {}, r"lacks the columns \['seq'\]"),
        (_GOOD, {"sequence_by": None}, 'order="sequence" needs sequence_by'),
        (_GOOD | {"x": _TEXT}, {"types": _GOOD, "extra_columns": "fail"}, r"has the columns \['x'\]"),
        (_GOOD | {"v": _MAP}, {"types": _GOOD}, '"v" is map<string,string>, and its rows cannot be made bigint'),
        (_GOOD | {"v": _TIME}, {"types": _GOOD}, "cannot be made bigint"),
        (_GOOD | {"V": _LONG}, {}, r"differ only by case: \['V', 'v'\]"),
        (_GOOD | {"id": _DOUBLE}, {}, 'Key column "id" of topic "t" is double'),
        (
            _GOOD | {"id": _DOUBLE},
            {"allow_float_keys": True, "node": _VERSIONED},
            'Key column "id" of topic "t" of a table with versions is double',
        ),
        (_GOOD | {"id": _MAP}, {}, "no order or no exact equality"),
        (_GOOD | {"id": ArrayType(_schema({"x": _DOUBLE}))}, {}, "no exact equality"),
        (_GOOD | {"id": NullType()}, {}, "or only nulls"),
        (_GOOD | {"v": VariantType()}, {"types": _GOOD}, '"v" is variant, and its rows cannot be made bigint'),
        (_GOOD | {"ts": VariantType()}, {}, 'event time "ts" of topic "t" is variant'),
        (_GOOD | {"ts": _LONG}, {}, "ts_unit=s or ms or us"),
        (_GOOD | {"ts": _DOUBLE}, {"ts_unit": "ms"}, 'event time "ts" of topic "t" is double'),
        (_GOOD | {"seq": _TEXT}, {}, 'sequence_by "seq" is string'),
        (_GOOD | {"seq": _DOUBLE}, {}, 'sequence_by "seq" is double'),
        (_GOOD | {"seq": DecimalType(10, 2)}, {}, 'sequence_by "seq" is decimal'),
        (_GOOD, {"sequence_by": ("seq", "n")}, r"lacks the columns \['n'\]"),
        (_GOOD, {"sequence_by": ("seq", "v")}, r'order="sequence" goes by one number .* "t" names 2 columns'),
        (_GOOD, {"sequence_by": ("seq", "v"), "order": "arrival", "unique": True}, "unique goes by one number"),
        (_GOOD | {"m": _MAP}, {"sequence_by": ("seq", "m"), "order": "arrival"}, '"m" is map.* has no order'),
        (_GOOD, {"partition_by": "id"}, 'partition_by "id" .* is string'),
        (_GOOD | {"p": _DOUBLE}, {"partition_by": "p"}, 'partition_by "p" .* is double'),
        (_GOOD, {"node": TableSource("t", topic="t", key=("id",), deleted="v")}, "it is no boolean"),
        (_GOOD | {"a b": _LONG}, {}, 'Column name "a b" is not allowed'),
        (_GOOD | {"a,b;{c}": _LONG}, {}, "is not allowed"),
        (_GOOD | {"a.b": _LONG}, {}, "is not allowed"),
        (_GOOD | {"a`b": _LONG}, {}, "is not allowed"),
        (_GOOD | {"": _LONG}, {}, "is not allowed"),
        (_GOOD | {"a" * 129: _LONG}, {}, "is not allowed"),
        (_GOOD | {"_metadata": _LONG}, {}, "is not allowed"),
        (_GOOD | {"_change_type": _LONG}, {}, "is not allowed"),
        (_GOOD | {"_v_x": _LONG}, {}, "is not allowed"),
        (_GOOD | {"deleted": BooleanType()}, {}, '"deleted" is reserved'),
        (_GOOD | {"w": ArrayType(_schema({"x": _TEXT, "p q": _TEXT}))}, {}, r"\"w\" has the fields \['p q'\]"),
    ],
)
def test_columns_that_can_never_do_are_refused_with_their_name(
    columns: dict[str, DataType], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(VersionedError, match=told) as refused:
        _check(columns, **options)
    assert isinstance(refused.value, (SchemaError, ConfigurationError))


@pytest.mark.parametrize(
    ("key", "node", "told"),
    [(_DOUBLE, None, True), (_MAP, None, False), (NullType(), None, False), (_DOUBLE, _VERSIONED, False)],
    ids=["a float", "a map", "nulls", "a table with versions"],
)
def test_what_allows_floats_as_keys_is_told_where_it_would(key: DataType, node: SourceNode | None, told: bool) -> None:
    with pytest.raises(SchemaError) as refused:
        _check(_GOOD | {"id": key}, node=node)
    assert ("allow_float_keys" in str(refused.value)) is told


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (_GOOD, {}),
        ({"ID": _TEXT, "V": _LONG, "Ts": _TIME, "SEQ": _LONG}, {}),
        ({"ID": _TEXT, "V": _TEXT, "TS": _TEXT, "SEQ": _LONG}, {"types": _GOOD}),
        (_GOOD | {"id": _DOUBLE}, {"allow_float_keys": True}),
        (_GOOD | {"id": _DOUBLE}, {"types": _GOOD}),
        (_GOOD | {"ts": _LONG}, {"ts_unit": "ms"}),
        (_GOOD | {"seq": DecimalType(20, 0)}, {"partition_by": "v"}),
        (_GOOD | {"seq": TimestampNTZType()}, {}),
        (_GOOD | {"ts": _LONG}, {"ts_unit": "s", "types": _GOOD}),
        (_GOOD | {"ts": _TEXT}, {}),
        (_GOOD | {"w": _schema({"p.q`r": _TEXT})}, {}),
        (_GOOD | {"id": ArrayType(_schema({"x": _TEXT}))}, {}),
        (_GOOD | {"deleted": BooleanType()}, {"node": StreamSource("s", topic="t", key=("id",))}),
        (_GOOD | {"a b": _LONG}, {"node": TableSource("t", topic="t", key=("id",), value=("v",))}),
        (_GOOD | {"a b": _LONG}, {"types": _GOOD}),
    ],
)
def test_columns_that_do_are_taken_whatever_their_case(columns: dict[str, DataType], options: dict[str, Any]) -> None:
    _check(columns, **options)


def test_columns_that_are_left_out_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _check(_GOOD | {"x": _TEXT}, types=_GOOD)
    assert [record.getMessage() for record in caplog.records] == [
        "Topic t has columns that are not declared and are left out: ['x']"
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_invalid": {"NULL_KEYS": "drop"}}, 'on_invalid.NULL_KEYS: .* did you mean "NULL_KEY"'),
        ({"on_invalid": {"NULL_KEY": "ignore"}}, 'on_invalid.NULL_KEY must be reject, drop or fail; got "ignore"'),
        ({"extra_columns": "evolve"}, "ignore or fail"),
        ({"ts_unit": "ns"}, "s, ms or us"),
        ({"max_bytes": 0}, "max_bytes must be at least 1; got 0"),
        ({"max_bytes": "1 KiB"}, "a whole number of bytes"),
    ],
)
def test_a_contract_that_says_something_else_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        InputContract(**options)


def test_a_declared_text_of_a_bounded_length_is_refused_since_nothing_keeps_to_it() -> None:
    bounded = StructType([StructField("code", VarcharType(3))])
    with pytest.raises(ConfigurationError, match=r'"code" is varchar\(3\), but texts have no bounded length.*STRING'):
        InputContract(types=bounded).declared()


def test_a_node_further_down_follows_the_strictest_of_its_sources() -> None:
    left, right = StreamSource("l", topic="left"), StreamSource("r", topic="right")
    join = StreamStreamJoin("join", (left, right), "inner", JoinWindows(1, 1, 0), Expr("ref", "left"))
    dropping = InputContract(on_invalid={"NULL_KEY": "drop", "NULL_VALUE": "drop", "NULL_TS": "fail"})
    contracts = {"left": dropping, "right": InputContract(on_invalid={"NULL_VALUE": "drop"})}
    told = {reason: action_at(join, reason, contracts) for reason in INVALID}
    assert {reason: action for reason, action in told.items() if action != "reject"} == {
        "NULL_TS": "fail", "NULL_VALUE": "drop",
    }  # fmt: skip
    assert action_at(left, "NULL_KEY", contracts) == "drop"


@pytest.mark.parametrize(("named", "expected"), [(None, ("v", "seq")), ((), ()), (("v",), ("v",))])
def test_a_source_without_value_columns_has_none_and_one_that_says_nothing_has_all(
    named: tuple[str, ...] | None, expected: tuple[str, ...]
) -> None:
    node = StreamSource("s", topic="s", key=("id",), value=named)
    assert IntakeRule(node, SparkSource("parquet"), 0, "arrival", 0).values(list(_GOOD)) == expected


def test_what_a_node_or_its_source_names_for_something_else_is_no_value_of_it() -> None:
    node = StreamSource("s", topic="s", key=("id",), timestamp="at", deleted="gone")
    source = SparkSource("parquet", partition_by="part", sequence_by=("batch", "seq"))
    columns = ["ID", "at", "gone", "part", "batch", "seq", "_malformed", "v", "ts"]
    assert IntakeRule(node, source, 0, "arrival", 0).values(columns) == ("v", "ts")


def test_how_far_ahead_a_record_may_be_is_for_its_source_to_say_and_else_for_the_application() -> None:
    nodes = [StreamSource(topic, topic=topic, key=("id",)) for topic in ("prices", "orders")]
    sources = {"prices": SparkSource("parquet", max_future_skew="90 days"), "orders": SparkSource("parquet")}
    united = StructType([StructField(topic, _schema(_GOOD)) for topic in sources])
    rules = checked_rules(nodes, sources, "arrival", 7, united)
    assert [rule.max_future_us for rule in rules] == [90 * 86_400_000_000, 7]


def test_a_field_that_a_source_does_not_have_is_refused_at_the_start_and_not_by_the_first_batch() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key="id").filter(lambda value: value.w > 1, name="large").to_changelog("out")
    united = StructType([StructField("orders", _schema(_GOOD))])
    with pytest.raises(TopologyError, match=r'large: value has no field "w".* It has: v, seq'):
        checked_rules(builder.build(), {"orders": SparkSource("parquet")}, "arrival", 7, united)


def test_a_key_that_the_plan_makes_of_a_map_is_refused_at_the_start_and_not_by_the_first_batch() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key="id").select_key("tags", name="by-tags").to_changelog("out")
    united = StructType([StructField("orders", _schema(_GOOD | {"tags": _MAP}))])
    with pytest.raises(TopologyError, match=r"^by-tags: A key .* maps and variants have no exact equality"):
        checked_rules(builder.build(), {"orders": SparkSource("parquet")}, "arrival", 7, united)


def test_a_source_that_lets_no_record_of_the_present_in_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_future_skew must not be negative"):
        SparkSource("parquet", max_future_skew="-1 day")
