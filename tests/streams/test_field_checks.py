"""Fields that are not there, and keys that cannot be matched: refused as soon as the plan tells them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from streams import field_checks
from streams.field_checks import check_apart, check_read
from streams.functions import coalesce, merge, python_function, when
from streams.spark import stored_kinds
from streams.testing import TopologyTestDriver
from streams.topology import Joined, KStream, KTable, Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, TimeWindows
from versioned.errors import RecordError, TopologyError


class _Sources:
    """A stream and tables whose fields are declared, and a stream of whose values nothing is known."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("s", key="k", value=("amount", "city"))
        self.table = self.builder.table("t", Materialized.versioned("1 day"), key="k", value=("price", "place"))
        self.cities = self.builder.table("cities", Materialized.key_value(), key="city", value="name")
        self.cased = self.builder.table("cased", Materialized.versioned("1 day"), key="k", value="Price")
        self.amounts = self.builder.table("amounts", Materialized.key_value(), key="k", value="amount")
        self.named = self.builder.global_table("n", key="id", value="city")
        self.globally = self.builder.global_table("g", key="city", value="country")
        self.unknown = self.builder.stream("u", key="k")
        self.pairs = self.builder.stream("p", key=("a", "b"), value="v")
        self.paired = self.builder.table("pt", Materialized.key_value(), key=("x", "y"), value="w")
        self.swapped = self.builder.table("sw", Materialized.key_value(), key=("B", "a"), value="w")


Make = Callable[[_Sources], object]
_KEPT = Materialized.key_value("kept")
_ONLY_SPARK_READS = "struct<x: interval day>"
_FOLD: Callable[..., Any] = lambda key, value, total: total  # noqa: E731


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.stream.map_values(lambda v: {"id": v.amount, "ID": v.city}),
        lambda x: x.stream.map_values(lambda v: {"a": {"Id": v.amount, "iD": v.city}}),
        lambda x: x.stream.select_key(lambda v: when(v.amount > 1, {"k": 1, "K": 2}).otherwise(None)),
        lambda x: x.table.group_by(lambda v: {"p": v.price, "P": v.place}).count(),
    ],
)
def test_fields_that_differ_only_by_case_are_refused_as_spark_takes_them_for_one(make: Make) -> None:
    with pytest.raises(TopologyError, match=r"are one field to Spark, whatever their case. Rename one"):
        make(_Sources())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda x: x.stream.filter(lambda v: v.amont > 1),
            r'value has no field "amont"; did you mean "amount"\? It has',
        ),
        (lambda x: x.stream.filter_not(lambda key, value: key.z > 1), 'key has no field "z". It has: k'),
        (lambda x: x.stream.map_values("zzz"), 'value has no field "zzz". It has: amount, city'),
        (lambda x: x.stream.map_values(lambda v: {"a": when(v.amount > 1, v.x).otherwise(0)}), 'no field "x"'),
        (lambda x: x.stream.transform_values(lambda v: v, "bigint").map_values("amount"), "It has: value"),
        (lambda x: x.stream.select_key("k"), "which is in the key: lambda key, value: key.k"),
        (lambda x: x.stream.select_key(("city", "zz")), 'no field "zz"'),
        (lambda x: x.stream.group_by("k").count(), "which is in the key: lambda key, value: key.k"),
        (lambda x: x.stream.group_by_key().sum("zz"), 'sum-1: value has no field "zz"'),
        (
            lambda x: x.stream.group_by_key().count("hourly"),
            r'no field "hourly".*To name the table, write count\(name=',
        ),
        (lambda x: x.stream.group_by_key().windowed_by(TimeWindows.of("1 h")).max("zz"), 'no field "zz"'),
        (lambda x: x.stream.group_by_key().count().filter(lambda v: v.sum > 1), "It has: count"),
        (lambda x: x.table.filter(lambda v: v.prize > 1), 'did you mean "price"'),
        (lambda x: x.table.group_by("zz").count(), 'no field "zz"'),
        (lambda x: x.table.group_by("place", "zz").count(), 'no field "zz"'),
        (lambda x: x.table.group_by("place", "price").sum("place"), 'no field "place".* It has: price'),
        (lambda x: x.table.join(x.cities, foreign_key="zz"), 'foreign-key-join-1: value has no field "zz"'),
        (lambda x: x.stream.join(x.globally, key="zz"), 'no field "zz"'),
        (lambda x: x.stream.join(x.table, lambda left, right: {"x": left.price}), 'left has no field "price"'),
        (
            lambda x: x.stream.join(x.table, lambda left, right: {"x": right.k}),
            "in the key: lambda key, left, right: key.k",
        ),
        (lambda x: x.stream.join(x.table).map_values("zz"), "It has: amount, city, price, place"),
    ],
)
def test_a_field_that_is_not_there_is_refused_with_those_that_are(make: Make, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make(_Sources())


_ONE: Any = {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda x: x.stream.map_values(lambda v: when(v.amount > 1, {"a": 1}).otherwise({"b": 2})),
            r"a condition chooses from a row of \(a\) and one of \(b\)",
        ),
        (
            lambda x: x.stream.map_values(lambda v: when(v.amount > 1, _ONE).otherwise({"b": 2, "a": 1})),
            r"of \(a, b\) and one of \(b, a\)",
        ),
        (lambda x: x.stream.map_values(lambda v: coalesce(v, {"amount": 1})), r"coalesce .* of \(amount, city\) and"),
        (
            lambda x: x.stream.map_values(lambda v: {"in": when(v.amount > 1, {"a": 1}).otherwise(_ONE)}),
            r"of \(a\) and one of \(a, b\)",
        ),
        (
            lambda x: x.stream.join(x.table, lambda left, right: coalesce(right, left)),
            r"of \(price, place\) and one of \(amount, city\)",
        ),
        (
            lambda x: x.stream.map_values(
                lambda v: when(v.amount > 1, python_function(dict, "a bigint")(v.city)).otherwise({"b": 2})
            ),
            r"of \(a\) and one of \(b\)",
        ),
    ],
)
def test_rows_of_other_fields_to_choose_from_are_refused(make: Make, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make(_Sources())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.stream.map_values(lambda v: when(v.amount > 1, {"a": 1}).otherwise({"A": None})),
        lambda x: x.stream.map_values(lambda v: when(v.amount > 1, v).otherwise(None)),
        lambda x: x.unknown.map_values(lambda v: when(v.amount > 1, v).otherwise({"a": 1})),
        lambda x: x.stream.map_values(lambda v: coalesce(v, {"amount": 1, "city": None})),
    ],
)
def test_rows_of_the_same_fields_as_far_as_the_plan_tells_may_be_chosen_from(make: Make) -> None:
    make(_Sources())


_DECLARED: list[Callable[[_Sources, str], Any]] = [
    lambda x, ddl: x.stream.transform_values(lambda v: v, ddl),
    lambda x, ddl: x.table.transform_values(lambda v: v, ddl),
    lambda x, ddl: x.stream.group_by_key().aggregate(dict, _FOLD, schema=ddl),
    lambda x, ddl: _hourly(x.stream.group_by_key()).aggregate(dict, _FOLD, schema=ddl),
    lambda x, ddl: x.table.group_by("place").aggregate(dict, _FOLD, _FOLD, schema=ddl),
    lambda x, ddl: x.stream.group_by_key().reduce(max, schema=ddl),
    lambda x, ddl: x.table.group_by("place").reduce(max, min, schema=ddl).filter(lambda v: v.price > 1),
]


@pytest.mark.parametrize("make", _DECLARED)
@pytest.mark.parametrize(
    ("behind", "told"),
    [
        (lambda made: made.filter(lambda v: v.prize > 1), 'value has no field "prize"; did you mean "price"'),
        (lambda made: made.group_by("prise").count(), 'value has no field "prise"; did you mean "price"'),
    ],
)
def test_a_field_that_no_function_before_declares_is_refused(
    make: Callable[[_Sources, str], Any], behind: Callable[[Any], Any], told: str
) -> None:
    made = make(_Sources(), "price double, label string")
    with pytest.raises(TopologyError, match=f"{told}.? It has: price, label"):
        behind(made)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.stream.group_by_key().aggregate(int, _FOLD, schema="bigint", output="total"),
        lambda x: x.table.group_by("place").aggregate(int, _FOLD, _FOLD, schema="bigint", output="total"),
    ],
)
def test_a_single_value_of_a_fold_has_the_name_of_its_output(make: Callable[[_Sources], Any]) -> None:
    make(_Sources()).map_values("total")
    with pytest.raises(TopologyError, match=r'no field "value"\. It has: total'):
        make(_Sources()).map_values("value")


def test_a_key_that_a_function_declares_is_known_by_its_fields() -> None:
    x = _Sources()
    rekeyed = x.stream.select_key(lambda v: python_function(dict, "struct<x: bigint, y: bigint>")(v.city))
    rekeyed.join(x.paired)
    with pytest.raises(TopologyError, match=r"is keyed by \(x, y\) and t is keyed by \(k\)"):
        rekeyed.join(x.table)


@pytest.mark.parametrize("name", ["_us", "a.b", "a`b", "1st", "größe", "a b", ""])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda x, name: x.stream.select_key(lambda v: {name: v.city}).to_latest("o"), "key"),
        (lambda x, name: x.stream.select_key(lambda v: {name: v.city}).to_changelog("o"), "key"),
        (lambda x, name: x.stream.map_values(lambda v: {name: v.city}).to_changelog("o"), "value"),
        (lambda x, name: x.unknown.map_values(lambda v: {name: v.city}).to_changelog("o"), "value"),
        (lambda x, name: x.table.map_values(lambda v: {name: v.place}).to_changelog("o"), "value"),
        (lambda x, name: x.stream.join(x.table, lambda left, right: {name: 1}).to_changelog("o"), "value"),
        (lambda x, name: x.stream.group_by(lambda v: {name: v.city}).count(), "key"),
        (lambda x, name: _hourly(x.stream.group_by(lambda v: {name: v.city})).count(), "key"),
        (lambda x, name: x.table.group_by(lambda v: {name: v.place}).count(), "key"),
        (lambda x, name: x.stream.select_key(lambda v: {name: v.city}).join(x.table), "key"),
        (
            lambda x, name: x.pairs.join(
                x.stream.select_key(lambda v: {"a": 1, name: 2}), windows=JoinWindows.of("1 s")
            ),
            "key of select-key-1",
        ),
        (lambda x, name: x.stream.join(x.globally, key=lambda v: {name: v.city}), "key to look up"),
        (lambda x, name: x.table.join(x.cities, foreign_key=lambda v: {name: v.place}), "key to look up"),
        (lambda x, name: x.stream.map_values(lambda v: {name: v.city}).to_table(), "value"),
        (lambda x, name: x.table.map_values(lambda v: {name: v.place}).to_latest("o"), "value"),
        (lambda x, name: _stored(x.table, lambda v: {name: v.place}), "value"),
        (lambda x, name: x.stream.map_values(lambda v: {name: 1}).group_by_key().reduce(max), "value"),
        (lambda x, name: x.stream.group_by_key().count(output=name), "value"),
        (lambda x, name: x.stream.group_by_key().aggregate(int, lambda k, v, a: a, output=name), "result"),
    ],
)
def test_fields_that_no_column_can_be_called_are_refused_where_they_become_columns(
    make: Callable[[_Sources, str], object], what: str, name: str
) -> None:
    with pytest.raises(
        TopologyError, match=rf"its {what} would have \['{re.escape(name)}'\] as columns. Rename: a column"
    ):
        make(_Sources(), name)


def _hourly(grouped: Any) -> Any:
    return grouped.windowed_by(TimeWindows.of("1 h"))


def _stored(table: KTable, mapper: Callable[[Any], Any]) -> object:
    return table.map_values(mapper, materialized=Materialized.key_value("stored"))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.stream.select_key(lambda v: {"a.b": v.city}).map_values(lambda v: {"_b": v.city}),
        lambda x: x.builder.stream("r", key="_id", value="a.b").filter(lambda v: v["a.b"] > 1).to_changelog("o"),
        lambda x: (
            x.stream.select_key(lambda v: {"a.b": v.city}).select_key(lambda key, v: {"b": key["a.b"]}).to_table()
        ),
        lambda x: x.stream.map_values(lambda v: {"b": {"_b": v.city, "a.b": 1}}).to_changelog("o"),
        lambda x: x.table.map_values(lambda v: {"_p": v.price}).group_by(lambda v: {"p": v["_p"]}).count(),
    ],
)
def test_fields_that_become_no_columns_may_have_any_names(make: Make) -> None:
    make(_Sources())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.unknown.filter(lambda value: value.anything > 1),
        lambda x: x.stream.map_values(lambda value: value),
        lambda x: x.stream.transform_values(lambda value: value, "a bigint, b interval day").map_values("any"),
        lambda x: x.stream.group_by_key().reduce(max, schema="total interval day").filter(lambda v: v.any > 1),
        lambda x: x.stream.group_by_key().aggregate(dict, lambda k, v, a: a).filter(lambda v: v.any > 1),
        lambda x: x.stream.map_values(lambda value: {"in": {"a": value.city}}).filter(lambda v: v["in"].a > 1),
        lambda x: x.stream.group_by("city").sum(lambda key, value: key.city),
    ],
)
def test_fields_that_the_plan_does_not_tell_are_not_asked_for(make: Make) -> None:
    sources = _Sources()
    make(sources)
    sources.builder.build()


_MERGED: Callable[..., Any] = lambda left, right: merge(left, right)  # noqa: E731
_WITHIN = JoinWindows.of("1 s")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.table.join(x.table), r"table-join-1: t and t both have \['place', 'price'\]. Pass a joiner that"),
        (
            lambda x: x.table.join(x.cased),
            r"t and cased both have \['price'\] \(price and Price are one field to Spark",
        ),
        (lambda x: x.stream.outer_join(x.stream, _MERGED, windows=_WITHIN), r"stream-s and stream-s both have"),
        (
            lambda x: x.unknown.join(x.table, lambda left, right: merge(right, {"PRICE": 1})),
            r"stream-table-join-1: the first and the second row of merge both have \['price'\] \(price and PRICE are",
        ),
        (lambda x: x.stream.map_values(lambda v: merge(v, {"city": 1})), r"row of merge both have \['city'\]"),
    ],
)
def test_rows_that_are_put_together_and_share_a_field_are_refused_when_the_plan_is_made(make: Make, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make(_Sources())


_READ = {"stream-u": ("Amount", "city")}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda x: x.unknown.join(x.amounts, name="joined"),
            "joined: stream-u and amounts both have ['Amount'] (Amount and amount are one field to Spark, whatever "
            'their case). Pass a joiner that names the fields, such as lambda left, right: {"Amount": left.Amount, '
            '"right_amount": right.amount}; in YAML the value: of the join, such as {Amount: left.Amount, ',
        ),
        (
            lambda x: x.stream.outer_join(x.unknown, windows=_WITHIN),
            "stream-s and stream-u both have ['amount', 'city']",
        ),
        (lambda x: x.unknown.join(x.unknown, windows=_WITHIN), "stream-u and stream-u both have ['Amount', 'city']."),
        (lambda x: x.unknown.join(x.amounts, _MERGED), "stream-table-join-1: stream-u and amounts both have"),
        (
            lambda x: x.unknown.to_table(_KEPT).left_join(x.amounts),
            "table-join-1: kept and amounts both have ['Amount']",
        ),
        (lambda x: x.unknown.join(x.named, key="city"), "global-table-join-1: stream-u and n both have ['city']"),
        (
            lambda x: x.unknown.to_table(_KEPT).join(x.amounts, foreign_key="city"),
            "foreign-key-join-1: kept and amounts both have ['Amount']",
        ),
        (
            lambda x: x.unknown.join(x.table).filter(lambda v: v.price > 1).join(x.cased, name="again"),
            "again: stream-filter-1 and cased both have ['price']",
        ),
    ],
)
def test_sides_that_share_a_field_are_refused_with_their_join_once_the_columns_of_sources_are_known(
    make: Make, told: str
) -> None:
    sources = _Sources()
    make(sources)
    with pytest.raises(TopologyError, match=re.escape(told)):
        check_read(sources.builder.build(), _READ)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.unknown.join(x.amounts, lambda left, right: {"a": left.amount, "b": right.amount}),
        lambda x: x.unknown.map_values(lambda v: {"c": v.city}).join(x.amounts),
        lambda x: x.unknown.left_join(x.table, _MERGED),
        lambda x: x.unknown.transform_values(lambda v: v, "paid bigint").join(x.amounts),
    ],
)
def test_sides_that_share_no_field_as_far_as_their_columns_tell_are_taken(make: Make) -> None:
    sources = _Sources()
    make(sources)
    check_read(sources.builder.build(), _READ)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.unknown.filter(lambda v: v.amont > 1), 'value has no field "amont"; did you mean "Amount"'),
        (lambda x: x.unknown.filter(lambda v: v.k > 1), "which is in the key: lambda key, value: key.k"),
        (
            lambda x: x.unknown.to_table(_KEPT).filter(lambda v: v.zz > 1),
            'value has no field "zz". It has: Amount, city',
        ),
        (lambda x: x.unknown.group_by_key().sum("zz"), 'no field "zz"'),
        (lambda x: x.unknown.join(x.table, lambda left, right: {"x": left.zz}), 'left has no field "zz"'),
        (lambda x: x.unknown.join(x.table).map_values("zz"), "It has: Amount, city, price, place"),
    ],
)
def test_a_field_that_the_columns_of_a_source_do_not_have_is_refused_once_they_are_known(make: Make, told: str) -> None:
    sources = _Sources()
    make(sources)
    with pytest.raises(TopologyError, match=told):
        check_read(sources.builder.build(), _READ)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.unknown.filter(lambda v: v.AMOUNT > 1),
        lambda x: x.unknown.map_values(lambda v: {"a": v.amount}).filter(lambda v: v.a > 1),
        lambda x: x.unknown.join(x.table).filter(lambda v: (v.amount > 1) & (v.price > 1)),
        lambda x: x.unknown.join(x.globally, key="CITY").map_values("country"),
        lambda x: x.unknown.group_by("City").count().filter(lambda v: v.count > 1),
        lambda x: x.unknown.transform_values(lambda v: v, "zz bigint").filter(lambda v: v.zz > 1),
        lambda x: x.stream.filter(lambda v: v.amount > 1),
    ],
)
def test_a_field_that_the_columns_of_a_source_have_is_taken_whatever_its_case(make: Make) -> None:
    sources = _Sources()
    make(sources)
    check_read(sources.builder.build(), _READ)


def test_a_part_that_is_used_twice_at_each_step_is_looked_at_once() -> None:
    def doubled(value: Any) -> Any:
        total = value.amount
        for _ in range(40):
            total = total + total
        return {"total": total}

    # 2^40 looks would take days.
    sources = _Sources()
    sources.stream.map_values(doubled)
    sources.builder.build()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.stream.join(x.paired), r"s is keyed by \(k\) and pt is keyed by \(x, y\). .*as many: 1 and 2"),
        (lambda x: x.pairs.left_join(x.table), r"p is keyed by \(a, b\) and t is keyed by \(k\)"),
        (lambda x: x.table.join(x.paired), r"t is keyed by \(k\) and pt is keyed by \(x, y\)"),
        (lambda x: x.stream.outer_join(x.pairs, windows=JoinWindows.of("1 s")), r"\(k\) and stream-p .* \(a, b\)"),
        (
            lambda x: x.table.join(x.paired, foreign_key="place"),
            r"foreign_key= gives \(place\) and pt is keyed by \(x, y",
        ),
        (lambda x: x.stream.join(x.globally, key=("city", "amount")), r"key= gives \(city, amount\) and g .* \(city\)"),
        (lambda x: x.pairs.join(x.swapped), r"by \(a, b\) and sw .* \(B, a\). .*Give both in one order: \(B, a\)"),
        (
            lambda x: x.table.join(x.swapped, foreign_key=lambda v: {"a": 1, "b": 2}),
            r"Give both in one order: \(B, a\)",
        ),
        (
            lambda x: x.stream.group_by_key().windowed_by(TimeWindows.of("1 h")).count().join(x.table),
            r"windowed-count-1 is keyed by \(k, windowStart, windowEnd\) and t is keyed by \(k\)",
        ),
    ],
)
def test_keys_that_cannot_be_matched_are_refused_with_both(make: Make, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make(_Sources())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.pairs.join(x.paired),
        lambda x: x.paired.join(x.swapped, lambda left, right: left),
        lambda x: x.stream.join(x.globally, key="city"),
        lambda x: x.stream.join(x.globally, key=lambda value: python_function(str, "string")(value.city)),
        lambda x: x.table.join(x.cities, foreign_key="place"),
    ],
)
def test_keys_of_other_names_are_matched_by_position(make: Callable[[_Sources], KStream | KTable]) -> None:
    sources = _Sources()
    make(sources)
    sources.builder.build()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ({"x": 1}, r"joined: the key Row\(x=1\) cannot be looked up: pt is keyed by \(x, y\).* as many: 1 and 2"),
        ({"y": 1, "x": 2}, r"joined: the key .* Give both in one order: \(x, y\)"),
    ],
)
def test_a_key_that_only_a_record_tells_is_refused_with_the_join_and_both_keys(key: Any, told: str) -> None:
    builder = StreamsBuilder()
    paired = builder.table("pt", Materialized.key_value(), key=("x", "y"), value="w")
    stream = builder.stream("s", key="k", value="v")
    rekeyed = stream.select_key(lambda value: python_function(lambda v: key, _ONLY_SPARK_READS)(value.v))
    rekeyed.join(paired, name="joined").to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(RecordError, match=told):
        driver.pipe_input("s", "a", "b", 0)


def test_windows_of_final_results_have_the_fields_of_their_aggregate() -> None:
    counts = _Sources().stream.group_by_key().windowed_by(TimeWindows.of("1 h")).count()
    finals = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    with pytest.raises(TopologyError, match='key has no field "window"; did you mean'):
        finals.filter(lambda key, value: key.window > 1)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.stream.group_by_key().count(output="k"), r"\['k'\] twice.*output=\"number_of_k\""),
        (lambda x: x.stream.group_by_key().count(output="K"), r"\['K'\] twice"),
        (lambda x: _hourly(x.stream.group_by_key()).count(output="k"), r"\['k'\] twice"),
        (lambda x: _hourly(x.stream.group_by_key()).count(output="windowStart"), r"\['windowStart'\] twice"),
        (lambda x: _hourly(x.stream.group_by_key()).count(output="maxTs"), r"\['maxTs'\] twice"),
        (lambda x: _hourly(x.stream.group_by_key()).aggregate(int, _FOLD, output="maxts"), r"\['maxts'\] twice"),
        (lambda x: x.stream.group_by_key().aggregate(int, _FOLD, schema="bigint", output="k"), r"output=\"number_of_k"),
        (lambda x: x.stream.group_by_key().count(output="ts"), r"\['ts'\] twice.*output="),
        (lambda x: x.stream.group_by(lambda v: {"ts": v.city}).count(), r"\['ts'\] twice"),
        (lambda x: _hourly(x.stream.group_by(lambda v: {"maxTs": v.city})).count(), r"\['maxTs'\] twice"),
        (lambda x: x.builder.table("w", Materialized.versioned("1 day"), value="validTo"), r"\['validTo'\] twice"),
        (lambda x: x.builder.table("i", key="id", value=("id", "x")), r"\['id'\] twice.*map_values"),
        (lambda x: x.stream.select_key("city").to_table(), r"\['city'\] twice.*map_values"),
        (lambda x: x.table.group_by("place").reduce(lambda a, v: a, lambda a, v: a), r"\['place'\] twice"),
        (lambda x: x.table.map_values(lambda v: {"k": 1}, materialized=_KEPT), r"\['k'\] twice"),
    ],
)
def test_a_field_that_a_table_would_hold_twice_is_refused_by_spark_and_left_to_the_driver(
    make: Make, told: str
) -> None:
    node = cast("Any", make(_Sources())).node  # the plan itself is one, and the test driver runs it
    with pytest.raises(TopologyError, match=told):
        check_apart(node)


_WAIT = Suppressed.until_time_limit("1 s", BufferConfig.unbounded())
_WAITING: list[tuple[Callable[[StreamsBuilder, str], Any], tuple[str, ...]]] = [
    (
        lambda b, key: b.table("t", Materialized.key_value(), key=key, value="v").suppress(_WAIT),
        ("value", "ts", "deadline", "bufferTime", "arrivedAt", "size"),
    ),
    (
        lambda b, key: b.table("t", Materialized.versioned("1 day"), key=key, value="v", reorder="1 s"),
        ("value", "Deadline"),
    ),
    (lambda b, key: b.stream("s", key=key, value="v").to_table(reorder="1 s"), ("value", "deadline")),
    (
        lambda b, key: b.stream("s", key=key, value="v").join(_history(b), joined=Joined.with_grace_period("1 s")),
        ("value", "ts", "deadline"),
    ),
    (
        lambda b, key: b.stream("s", key=key, value="v").join(
            b.stream("o", key="k", value="w"), windows=JoinWindows.of("1 s")
        ),
        ("side", "left", "right", "ts", "matched", "padded"),
    ),
    (
        lambda b, key: (
            b.stream("s", key=key, value="v")
            .join(_history(b), joined=Joined().with_corrections("1 hour"))
            .corrections()
        ),
        ("value", "ts", "found", "revision"),
    ),
]


def _history(builder: StreamsBuilder) -> KTable:
    return builder.table("h", Materialized.versioned("1 day"), key="k", value="w")


@pytest.mark.parametrize(("make", "key"), [(make, key) for make, keys in _WAITING for key in keys])
def test_a_key_that_is_called_as_a_column_where_its_records_wait_is_refused(
    make: Callable[[StreamsBuilder, str], Any], key: str
) -> None:
    with pytest.raises(TopologyError, match=rf"\['{key}'\] twice"):
        check_apart(make(StreamsBuilder(), key).node)


@pytest.mark.parametrize("make", [make for make, _ in _WAITING])
def test_any_other_key_may_wait(make: Callable[[StreamsBuilder, str], Any]) -> None:
    check_apart(make(StreamsBuilder(), "id").node)


def test_windows_by_a_key_called_value_may_have_final_results() -> None:
    windows = _hourly(_Sources().stream.select_key(lambda v: {"value": v.city}).group_by_key()).count()
    check_apart(windows.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).node)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.stream.group_by_key().count(output="maxTs"),
        lambda x: _hourly(x.stream.group_by_key()).count(output="ts"),
        lambda x: _hourly(x.stream.select_key(lambda v: {"avg": v.city}).group_by_key()).avg("amount"),
        lambda x: x.unknown.select_key(lambda v: {"value": v.a}).group_by_key().reduce(lambda a, v: a),
        lambda x: x.stream.group_by_key().aggregate(dict, _FOLD, schema="total int", output="k"),
        lambda x: x.stream.select_key("city"),
        lambda x: x.stream.map_values(lambda v: {"k": 1}).group_by_key().count(),
        lambda x: x.table.map_values(lambda v: {"k": 1}),
    ],
)
def test_a_field_that_no_table_holds_twice_is_taken(make: Make) -> None:
    check_apart(cast("Any", make(_Sources())).node)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("buffer", field_checks.SUPPRESSED),
        ("waiting", field_checks.HELD),
        ("join", field_checks.PAIRED),
        ("answers", field_checks.ANSWERED),
    ],
)
def test_a_key_may_be_called_like_no_column_that_the_tables_on_spark_have_beside_it(
    kind: stored_kinds.TableKind, refused: tuple[str, ...]
) -> None:
    # No column of a user begins with an underscore.
    assert set(refused) == {name for name in stored_kinds._SIGNS[kind] if not name.startswith("_")}
