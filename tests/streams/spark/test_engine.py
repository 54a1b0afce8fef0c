"""Which plans the Spark engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import Joined, Materialized
from streams.spark.engine import operators_of, writers_of
from streams.testing import TopologyTestDriver
from streams.testing.trace_packing import pack
from streams.testing.trace_spark import PLANNERS
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, TimeWindows
from versioned.errors import TopologyError
from versioned.identifiers import TableRef

_TRACES: Final = Path(__file__).parents[2] / "traces"


@pytest.mark.parametrize("operation", PLANNERS)
def test_the_plan_of_every_trace_is_one_that_the_engine_runs(operation: str) -> None:
    scenarios = json.loads((_TRACES / f"{operation}.json").read_text(encoding="utf-8"))
    branches, _ = pack(PLANNERS[operation], scenarios, {})
    for branch in branches:
        assert list(operators_of(branch.plan.topology)) == [node.name for node in branch.plan.topology]


@pytest.mark.parametrize("made", ["table", "global_table"])
def test_the_table_of_a_topic_is_stored_under_the_name_of_its_store(made: str) -> None:
    builder = StreamsBuilder()
    getattr(builder, made)("topic", Materialized.key_value("held"), name="named")
    tables = operators_of(builder.build())["named"].tables(TableRef.parse("/root"))
    assert [table.short_name for table in tables] == ["held"]


_BY_KEY: Final = Materialized(time_scope="key")


def _added(key: Any, value: Any, total: int) -> int:
    return total + value.v


def _first(value: Any) -> dict[str, Any]:
    return {"v": value.v}


@pytest.mark.rule("R111")
@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.group_by_key().windowed_by(TimeWindows.of("1 hour")).count(materialized=_BY_KEY, name="x"),
        lambda s: s.group_by_key().windowed_by(SessionWindows.of("1 hour")).count(materialized=_BY_KEY, name="x"),
        lambda s: s.to_table(Materialized.versioned("1 day", time_scope="key"), reorder="1 minute", name="x"),
    ],
)
def test_a_stream_time_per_key_that_spark_cannot_keep_is_refused_by_the_engine_and_left_to_the_driver(
    make: Callable[[KStream], KTable],
) -> None:
    builder = StreamsBuilder()
    make(builder.stream("s", value="v"))
    plan = builder.build()
    TopologyTestDriver(plan).pipe_input("s", "k", 1, 0)
    with pytest.raises(TopologyError, match=r'^x: .* per partition or "store"'):
        operators_of(plan)


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.group_by_key().aggregate(lambda: 0, _added, name="x"),
        lambda s: s.group_by_key().windowed_by(TimeWindows.of("1 hour")).aggregate(lambda: 0, _added, name="x"),
        lambda s: s.to_table().group_by(_first).aggregate(lambda: 0, _added, _added, name="x"),
    ],
    ids=["stream", "windows", "table"],
)
def test_an_aggregate_of_the_user_without_a_schema_is_refused_before_a_batch_is_there(
    make: Callable[[KStream], KTable],
) -> None:
    builder = StreamsBuilder()
    make(builder.stream("s", value="v"))
    with pytest.raises(TopologyError, match=r"^x: .* needs its schema"):
        operators_of(builder.build())


def test_what_waits_for_the_grace_of_a_join_is_written_by_the_join_whatever_its_joined_is_called() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour", name="history"), name="prices")
    joined = Joined.with_grace_period("1 minute", name="held")
    builder.stream("orders", name="orders").left_join(prices, _left, joined=joined, name="priced")
    written = writers_of(operators_of(builder.build()), TableRef.parse("/root"))
    assert {table.short_name: node for table, node in written.items()} == {
        "history": "prices",
        "held_waiting": "priced",
    }


_UNBOUNDED: Final = BufferConfig.unbounded()
_BOUNDED: Final = BufferConfig.max_records(9).shut_down_when_full()
_SUPPRESSED: Final = (
    Suppressed.until_window_closes(_UNBOUNDED),
    Suppressed.until_window_closes(_BOUNDED),
    Suppressed.until_window_closes(_UNBOUNDED, retention="1 hour"),
    Suppressed.until_time_limit("1 second", _UNBOUNDED),
)
_WINDOWED: Final = ("key", "windowStart", "windowEnd")
_LOOK_UPS: Final[list[Callable[[StreamsBuilder, KTable], Any]]] = [
    lambda builder, table: builder.stream("s", key=_WINDOWED).left_join(table, _left),
    lambda builder, table: table.outer_join(builder.table("t", key=_WINDOWED), _left),
    lambda builder, table: builder.table("t", key=_WINDOWED).join(table, _left, foreign_key=lambda key, value: key),
    lambda builder, table: table.join(builder.table("t"), _left, foreign_key=lambda key, value: key.key),
    lambda _, table: table.join(table, _left),
    lambda builder, table: builder.stream("s", key=_WINDOWED).join(table.filter(lambda value: value.count > 1), _left),
]


def _left(left: Any, right: Any) -> Any:
    return left


@pytest.mark.parametrize("suppressed", _SUPPRESSED, ids=["final", "bounded", "idle", "limit"])
@pytest.mark.parametrize("look_up", _LOOK_UPS, ids=["stream", "table", "foreign", "own", "self", "view"])
def test_every_join_may_look_into_a_suppressed_table(
    look_up: Callable[[StreamsBuilder, KTable], Any], suppressed: Suppressed
) -> None:
    builder = StreamsBuilder()
    counts = builder.stream("s", name="clicks").group_by_key().windowed_by(TimeWindows.of("1 hour")).count()
    look_up(builder, counts.suppress(suppressed, name="held"))
    tables = operators_of(builder.build())["held"].tables(TableRef.parse("/root"))
    assert "held_emitted" in [table.short_name for table in tables]
