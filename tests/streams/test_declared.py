"""Functions of the user are held to the names of the fields that they declare, in the test driver as on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.declared import by_names
from streams.functions import python_function
from streams.rows import Row
from streams.spark.returned import returned_as
from streams.testing import TopologyTestDriver
from streams.topology import KStream, KTable, Materialized, StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows
from versioned.errors import RecordError

Make = Callable[[KStream], KStream | KTable]

_RETURNED: list[tuple[str, Any, Any]] = [
    ("price double, label string", {"price": 1.5}, Row(price=1.5, label=None)),
    ("price double", Row(price=1.5), Row(price=1.5)),
    ("price double", None, None),
    ("double", 1.5, 1.5),
    ("struct<price: double, label: string>", {"label": "a"}, Row(price=None, label="a")),
    ("at struct<x: double, y: double>", {"at": {"y": 1.5}}, Row(at=Row(x=None, y=1.5))),
    ("at struct<x: double>", {"at": None}, Row(at=None)),
    ("seen array<struct<x: double, y: double>>", {"seen": [{"x": 1.5}, None]}, Row(seen=[Row(x=1.5, y=None), None])),
    ("array<struct<x: double>>", ({"x": 1.5},), [Row(x=1.5)]),
    ("by map<string, struct<x: double>>", {"by": {"any": {}}}, Row(by={"any": Row(x=None)})),
    ("seen map<string, double>", {"seen": {"any": 1.5}}, Row(seen={"any": 1.5})),
    ("for_how_long interval day", {"any": 1}, {"any": 1}),
]
_REFUSED: list[tuple[str, Any, str]] = [
    ("price double", {"prize": 1.5}, r"the fields \['prize'\], and declared are \['price'\]"),
    ("price double", {"price": 1.5, "n": 1}, r"the fields \['n'\]"),
    ("price double", 1.5, r"a float, and declared are the fields \['price'\]"),
    ("price double, label string", "a", r"a str, and declared are the fields \['price', 'label'\]"),
    ("at struct<x: double>", {"at": {"z": 1.5}}, r"the fields \['z'\], and declared are \['x'\]"),
    ("at struct<x: double>", {"at": 1.5}, r"a float, and declared are the fields \['x'\]"),
    ("array<struct<x: double>>", [{"z": 1.5}], r"the fields \['z'\]"),
    ("by map<string, struct<x: double>>", {"by": {"any": {"z": 1.5}}}, r"the fields \['z'\]"),
]


@pytest.mark.parametrize("fit_of", [by_names, returned_as])
@pytest.mark.parametrize(("ddl", "value", "wanted"), _RETURNED)
def test_a_missing_field_is_null_however_deep_on_both_engines(
    ddl: str, value: Any, wanted: Any, fit_of: Callable[[str], Callable[[Any], Any]]
) -> None:
    assert fit_of(ddl)(value) == wanted


@pytest.mark.parametrize("fit_of", [by_names, returned_as])
@pytest.mark.parametrize(("ddl", "value", "told"), _REFUSED)
def test_fields_of_other_names_and_one_value_in_their_place_are_refused_in_the_same_words_on_both_engines(
    ddl: str, value: Any, told: str, fit_of: Callable[[str], Callable[[Any], Any]]
) -> None:
    with pytest.raises(RecordError, match=f"^its function gave {told}"):
        fit_of(ddl)(value)


def _folded(given: Any, schema: str) -> list[Make]:
    """Folds of each kind that give a value; the first record of a reduce is its first aggregate."""
    fold = lambda *args: given  # noqa: E731
    hourly = TimeWindows.of("1 hour")
    return [
        lambda s: s.group_by_key().aggregate(int, fold, schema=schema, name="x"),
        lambda s: s.group_by_key().windowed_by(hourly).aggregate(int, fold, schema=schema, name="x"),
        lambda s: s.group_by_key().windowed_by(SessionWindows.of("1 s")).aggregate(
            int, fold, merger=fold, schema=schema, name="x"
        ),
        lambda s: s.group_by_key().reduce(fold, schema=schema, name="x"),
        lambda s: s.to_table().group_by("v").aggregate(int, fold, fold, schema=schema, name="x"),
    ]  # fmt: skip


def _mapped(given: Any, returns: str) -> list[Make]:
    return [
        lambda s: s.transform_values(lambda value: given, returns, name="x"),
        lambda s: s.to_table().transform_values(lambda value: given, returns, name="x"),
        lambda s: s.to_table().transform_values(
            lambda value: given, returns, materialized=Materialized.key_value(), name="x"
        ),
        lambda s: s.map_values(lambda v: {"in": python_function(lambda one: given, returns)(v.v)}, name="x"),
        lambda s: s.filter(lambda v: python_function(lambda one: given, returns)(v.v).v == 1, name="x"),
    ]  # fmt: skip


def _run(make: Make, records: int = 1) -> Any:
    builder = StreamsBuilder()
    make(builder.stream("s", key="k", value="v")).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for ts in range(records):
        driver.pipe_input("s", "a", 1, ts)
    return [record.value for record in driver.read_output("out")]


@pytest.mark.parametrize("make", [*_folded({"w": 1}, "v bigint"), *_mapped({"w": 1}, "v bigint")])
def test_a_field_that_a_function_does_not_declare_ends_the_record_with_its_node(make: Make) -> None:
    with pytest.raises(RecordError, match=r"^x: its function gave the fields \['w'\], and declared are \['v'\]"):
        _run(make, records=2)


@pytest.mark.parametrize("make", _mapped({"v": 1}, "v bigint, label string")[:3])
def test_a_field_that_a_function_left_out_is_null_in_the_next_step(make: Make) -> None:
    assert _run(lambda s: make(s).map_values(lambda v: {"label": v.label})) == [Row(label=None)]


@pytest.mark.parametrize("make", _folded({"v": 1}, "v bigint, label string"))
def test_a_field_that_a_fold_left_out_is_null_in_its_result(make: Make) -> None:
    (result,) = _run(make)
    assert result == Row(v=1, label=None)


def test_a_filter_of_a_table_by_such_a_function_drops_repeated_tombstones_as_any_other() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value(), key="k", value="v")
    asked = python_function(lambda v: {"is_large": v > 5}, "is_large boolean")
    table.filter(lambda v: asked(v.v).is_large).to_changelog("out")
    driver = TopologyTestDriver(builder.build())
    for ts, value in enumerate((9, 1, 2)):
        driver.pipe_input("t", "a", value, ts)
    assert [record.value for record in driver.read_output("out")] == [Row(v=9), None]
