"""Keys that a plan makes of its sources' columns are refused before the first batch, as far as these tell types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.spark.made_keys import check_made_keys
from streams.topology import Materialized, StreamsBuilder
from suppress.windows import JoinWindows, TimeWindows
from versioned.ddl_columns import columns_if_known
from versioned.errors import TopologyError

_TAGS = "tags MAP<STRING, INT>"
_COLUMNS = f"id STRING, n INT, big BIGINT, f DOUBLE, {_TAGS}, st STRUCT<{_TAGS}, name STRING>"
_VALUES = ("n", "big", "f", "tags", "st")
_DAY = Materialized.versioned("1 day")
_NEAR = JoinWindows.of("1 minute")
_Plan = Callable[["_Sources"], object]


class _Sources:
    """A builder with sources that have all columns but the key as values."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("s", key="id", value=_VALUES, name="s")
        self.other = self.builder.stream("o", key="id", value=_VALUES, name="o")
        self.table = self.builder.table("t", key="id", value=_VALUES, name="t")
        self.global_table = self.builder.global_table("g", key="id", value=_VALUES, name="g")


def _check(plan: _Plan, *known: str) -> None:
    sources = _Sources()
    plan(sources)
    columns = columns_if_known(_COLUMNS)
    assert columns is not None
    check_made_keys(sources.builder.build(), dict.fromkeys(known, columns))


_OF_MAPS: dict[str, _Plan] = {
    "select_key": lambda x: x.stream.select_key("tags", name="made"),
    "one of several": lambda x: x.stream.select_key(("n", "tags"), name="made"),
    "a group": lambda x: x.stream.group_by("tags").count(name="made"),
    "a group in windows": lambda x: x.stream.group_by("tags").windowed_by(TimeWindows.of("1 h")).count(name="made"),
    "a group of a table": lambda x: x.table.group_by("tags").count(name="made"),
    "a foreign key": lambda x: x.table.join(
        x.builder.table("u", key="k", value="w"), lambda left, right: {"w": right.w}, foreign_key="tags", name="made"
    ),
    "a key of a global table": lambda x: x.stream.join(
        x.global_table, lambda left, right: {"n": right.n}, key="tags", name="made"
    ),
    "a field of a struct": lambda x: x.stream.select_key(lambda value: {"tags": value.st.tags}, name="made"),
    "a struct": lambda x: x.stream.select_key("st", name="made"),
    "behind a filter": lambda x: x.stream.filter(lambda value: value.n > 1).select_key("tags", name="made"),
    "under another name": lambda x: x.stream.map_values(lambda value: {"all": value.tags}).select_key(
        "all", name="made"
    ),
    "within another name": lambda x: x.stream.map_values(lambda value: {"a": value.st}).select_key(
        lambda value: {"k": value.a.tags}, name="made"
    ),
    "of a former key": lambda x: x.builder.stream("w", key="st", value="n", name="w").select_key(
        lambda key, value: {"k": key.st.tags}, name="made"
    ),
}


@pytest.mark.parametrize("name", _OF_MAPS)
def test_a_map_in_a_key_is_refused_with_the_step(name: str) -> None:
    with pytest.raises(
        TopologyError, match=r"^made: A key .* would be (map|struct)<.*maps and variants.*\[key-types\]"
    ):
        _check(_OF_MAPS[name], "s", "t", "w")


_WITH_VERSIONS: dict[str, _Plan] = {
    "to_table": lambda x: x.stream.select_key("f").to_table(_DAY, name="made"),
    "a group": lambda x: x.stream.group_by("f").count(materialized=_DAY, name="made"),
    "a group of a table": lambda x: x.table.group_by("f").count(materialized=_DAY, name="made"),
    "a filter behind": lambda x: (
        x.stream.group_by("f").count().filter(lambda value: value.count > 1, materialized=_DAY, name="made")
    ),
}


@pytest.mark.parametrize("name", _WITH_VERSIONS)
def test_a_float_in_the_key_of_a_table_with_versions_is_refused_with_the_step(name: str) -> None:
    with pytest.raises(TopologyError, match=r'^made: "f" of its key is double, which has no exact equality'):
        _check(_WITH_VERSIONS[name], "s", "t")


def test_an_outer_join_of_streams_that_could_lack_keys_of_its_right_side_is_refused_with_the_step() -> None:
    def plan(x: Any) -> object:
        left, right = x.stream.select_key("n"), x.other.select_key("big")
        return left.outer_join(right, lambda left, right: {"a": left.n, "b": right.n}, windows=_NEAR, name="made")

    with pytest.raises(TopologyError, match=r'^made: The results of "made" have the keys of its left side'):
        _check(plan, "s", "o")


_TAKEN: dict[str, _Plan] = {
    "a value of a map": lambda x: x.stream.select_key(lambda value: {"size": value.st.name}),
    "a float without versions": lambda x: x.stream.group_by("f").count(),
    "a whole number with versions": lambda x: x.stream.group_by("n").count(materialized=_DAY),
    "an outer join whose left side is wider": lambda x: x.stream.select_key("big").outer_join(
        x.other.select_key("n"), lambda left, right: {"a": left.n, "b": right.n}, windows=_NEAR
    ),
    "an inner join whose right side is wider": lambda x: x.stream.select_key("n").join(
        x.other.select_key("big"), lambda left, right: {"a": left.n, "b": right.n}, windows=_NEAR
    ),
    "a value that was made anew": lambda x: x.stream.map_values(lambda value: {"tags": value.n + 1}).select_key("tags"),
    "a value of a function": lambda x: x.stream.transform_values(lambda value: 1, "tags int").select_key("tags"),
    "a constant": lambda x: x.stream.group_by(lambda value: "all").count(materialized=_DAY),
}


@pytest.mark.parametrize("name", _TAKEN)
def test_a_key_that_may_be_one_is_taken(name: str) -> None:
    _check(_TAKEN[name], "s", "o", "t")


@pytest.mark.parametrize("name", _OF_MAPS)
def test_of_a_source_that_is_not_known_nothing_is_told(name: str) -> None:
    _check(_OF_MAPS[name])
