"""Functions of the user that are called as they are: refused if they cannot be, told with the node if they fail."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from streams.declared import as_it_is
from streams.expressions import Expr, evaluate, operation
from streams.functions import python_function
from streams.nodes import Node
from streams.rows import Inner, Row
from streams.testing import TopologyTestDriver
from streams.topology import KGroupedStream, KGroupedTable, KStream, Materialized, StreamsBuilder
from streams.user_functions import failing_by_name
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from versioned.errors import ConfigurationError, RecordError, TopologyError


def _stream() -> KStream:
    return StreamsBuilder().stream("s", key="k", value="v")


def _grouped() -> KGroupedStream:
    return _stream().group_by_key()


def _table() -> KGroupedTable:
    return StreamsBuilder().table("t", Materialized.key_value(), key="k", value="v").group_by("v")


def _any_number(*args: Any) -> Any:
    return args[0]


def _pipe_two(driver: TopologyTestDriver) -> None:
    for ts in (1, 2):
        driver.pipe_input("s", "a", 1, ts)


def _fails(*args: Any) -> Any:
    raise ZeroDivisionError("by zero")


_ADDED: Callable[..., Any] = lambda key, value, total: total  # noqa: E731


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: _grouped().reduce(lambda value: value),
            r"its adder is called with \(aggregate, value\), and .* takes other",
        ),
        (lambda: _grouped().reduce("sum"), "and 'sum' is no function"),
        (
            lambda: _grouped().aggregate(0, _ADDED),
            r"initializer is called with \(\), and 0 is no function, such as lambda: 0",
        ),
        (lambda: _grouped().aggregate(lambda key: 0, _ADDED), r"its initializer is called with \(\)"),
        (
            lambda: _grouped().aggregate(int, lambda value, total: total),
            r"adder is called with \(key, value, aggregate\)",
        ),
        (lambda: _grouped().aggregate(int, _ADDED, merger=lambda left, right: left), r"merger .* \(key, left, right\)"),
        (lambda: _table().reduce(operator.add, lambda total: total), "its subtractor is called with"),
        (lambda: _table().aggregate(int, _ADDED, lambda total: total), "its subtractor is called with"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused_with_how_it_is_called(make: Any, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: _grouped().reduce(max),
        lambda: _grouped().reduce(operator.add),
        lambda: _grouped().aggregate(int, _any_number),
        lambda: _grouped().aggregate(dict, lambda key, value, total, more=1: total),
        lambda: _table().reduce(min, _any_number),
    ],
)
def test_functions_of_python_itself_and_of_any_number_of_arguments_are_taken(make: Any) -> None:
    assert make().node.name


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda s: s.group_by_key().aggregate(int, _fails, name="a"), "a"),
        (lambda s: s.group_by_key().aggregate(_fails, _ADDED, name="a"), "a"),
        (lambda s: s.group_by_key().reduce(_fails, name="r"), "r"),
        (lambda s: s.transform_values(lambda value: _fails(), "double", name="x"), "x"),
        (lambda s: s.to_table().transform_values(lambda value: _fails(), "double", name="y"), "y"),
        (lambda s: s.group_by_key().sum(lambda value: python_function(_fails, "double")(value.v), name="z"), "z"),
    ],
)
def test_what_fails_in_a_function_is_told_with_the_node_the_error_and_the_record(make: Any, name: str) -> None:
    builder = StreamsBuilder()
    make(builder.stream("s", key="k", value="v"))
    driver = TopologyTestDriver(builder.build())
    wanted = rf"{name}: its function failed with ZeroDivisionError \(by zero\) at a record of Row"
    with pytest.raises(RecordError, match=wanted) as told:
        _pipe_two(driver)
    assert isinstance(told.value.__cause__, ZeroDivisionError)


_MADE_OF_STREAM: list[Any] = [
    (lambda s: s.group_by_key().aggregate(int, _fails, name="a"), lambda node: node.aggregation.adder(1, 2, 3)),
    (lambda s: s.group_by_key().aggregate(_fails, _ADDED, name="a"), lambda node: node.aggregation.initializer()),
    (lambda s: s.group_by_key().reduce(_fails, name="a"), lambda node: node.aggregation.adder(1, 2)),
    (
        lambda s: s.to_table().group_by("v").aggregate(int, _ADDED, _fails, name="a"),
        lambda node: node.aggregation.subtractor(1, 2, 3),
    ),
    (lambda s: s.transform_values(_fails, "double", name="a"), lambda node: _asked(node.mapper)),
    (
        lambda s: s.filter(lambda value: (value.v == 1) | (python_function(_fails, "double")(value.v) > 1), name="a"),
        lambda node: _asked(node.predicate),
    ),
    (
        lambda s: s.group_by_key().sum(lambda value: python_function(_fails, "double")(value.v), name="a"),
        lambda node: _asked(node.aggregation.value),
    ),
]


def _named(node: Node) -> Any:
    return failing_by_name(node, lambda ddl: as_it_is)


def _asked(expr: Expr) -> Any:
    return evaluate(expr, {"key": Row(k="a"), "value": Row(v=2)})


@pytest.mark.parametrize(("make", "call"), _MADE_OF_STREAM)
def test_functions_that_are_called_far_from_their_node_tell_its_name_when_they_fail(make: Any, call: Any) -> None:
    builder = StreamsBuilder()
    make(builder.stream("s", key="k", value="v"))
    (node,) = (node for node in builder.build() if node.name == "a")
    with pytest.raises(RecordError, match=r"^a: its function failed with ZeroDivisionError \(by zero\)\.$"):
        call(_named(node))


def test_functions_that_do_not_fail_give_what_they_gave_and_nodes_without_any_stay_as_they_are() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s", key="k", value="v")
    doubled = stream.transform_values(lambda value: value.v * 2, "double", name="doubled")
    kept = doubled.filter(lambda value: value.value > 1, name="kept")
    assert _asked(_named(doubled.node).mapper)["value"] == 4
    assert _named(kept.node) is kept.node


def test_an_error_of_the_library_in_a_function_stays_as_it_is() -> None:
    def refuses(value: Any) -> Any:
        raise ConfigurationError("no such rate")

    node = _stream().transform_values(refuses, "double").node
    with pytest.raises(ConfigurationError, match=r"^no such rate$"):
        _asked(_named(node).mapper)


def test_an_assertion_in_a_function_stays_one() -> None:
    def check(key: Any, value: Any, total: Any) -> Any:
        assert value.v > 1
        return total

    builder = StreamsBuilder()
    builder.stream("s", key="k", value="v").group_by_key().aggregate(int, check)
    with pytest.raises(AssertionError):
        TopologyTestDriver(builder.build()).pipe_input("s", "a", 1, 1)


@pytest.mark.parametrize(
    ("returns", "told"),
    [
        (None, "returns takes a type as DDL.* got None"),
        (float, "returns takes a type as DDL.* got the class float"),
        ("", 'got ""'),
        ("doubel", 'returns: there is no type "doubel"; did you mean "double"'),
        ("a bigint, b strin", 'there is no type "strin"; did you mean "string"'),
        ("a: bigint, b: arrray<int>", 'no type "arrray"; did you mean "array"'),
    ],
)
def test_a_type_that_there_is_not_is_refused_with_what_was_meant(returns: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        _stream().transform_values(lambda value: value.v, returns)


def test_the_schema_of_an_aggregate_is_checked_as_well() -> None:
    with pytest.raises(ConfigurationError, match='schema: there is no type "doubel"'):
        _grouped().aggregate(int, _ADDED, schema="total doubel")


def test_a_map_alone_is_no_result_of_an_aggregate() -> None:
    for schema in ("map<string,bigint>", " MAP <string, bigint>"):
        with pytest.raises(ConfigurationError, match="is a row by its fields"):
            _grouped().aggregate(dict, _ADDED, schema=schema)
    assert _grouped().aggregate(dict, _ADDED, schema="seen map<string,bigint>")


@pytest.mark.parametrize(
    ("returns", "is_row"),
    [
        ("double", False), ("decimal(10, 2)", False), ("map<string, int>", False), ("array<struct<a: int>>", False),
        ("interval day to second", False), ("string collate UTF8_LCASE", False), ("a:int", True),
        ("a int, b int", True), ("struct<a: int>", True), ("seen map<string, int>", True), ("date date", True),
    ],
)  # fmt: skip
def test_a_type_says_whether_a_function_gives_a_row_or_a_value_whatever_its_blanks(returns: str, is_row: bool) -> None:
    mapper = _stream().transform_values(lambda value: value.v, returns).node.mapper
    assert (operation(mapper)[0] != "row") == is_row


@pytest.mark.parametrize(
    "returns",
    [
        "double", "DECIMAL(10, 2)", "array<struct<a: int, b: string>>", "struct<a: bigint>", "map<string,int>",
        "a bigint", "price double, label string", "`a b` bigint NOT NULL", "a: bigint, b: string", "timestamp_ntz",
        "d decimal(10,2), m map<string,int>", "seen MAP<STRING, INT>", "i interval day to second",
    ],
)  # fmt: skip
def test_types_that_there_are_are_taken(returns: str) -> None:
    assert _stream().transform_values(lambda value: value.v, returns).node.name


@pytest.mark.parametrize("struct", [Row, dict])
def test_a_size_function_gets_what_is_within_a_row_as_other_functions_do(struct: Callable[..., Any]) -> None:
    seen: list[Any] = []

    def weight(row: Any) -> int:
        seen.append((row.key.place.x, row.value.parts[0].n, type(row.value.parts[0])))
        return 1

    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value(), key="place", value="parts")
    wait = Suppressed.until_wall_clock_time_limit("1 hour", BufferConfig.max_bytes(9), size_of=weight)
    table.suppress(wait).to_changelog("out")
    TopologyTestDriver(builder.build()).pipe_input("t", {"place": struct(x=1)}, {"parts": [struct(n=2)]}, 0)
    assert seen == [(1, 2, Inner)]
