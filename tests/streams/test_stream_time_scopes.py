"""Which nodes share one stream time, and which follow the partitions of their source."""

from __future__ import annotations

from streams.expressions import Expr
from streams.nodes import StreamFilter, StreamSource, StreamStreamJoin, Topology
from streams.stream_time_scopes import follows_partitions, gathers, nodes_in_one_scope
from streams.topology import KTable, Materialized, StreamsBuilder
from suppress.windows import JoinWindows
from versioned.spec import TimeScope


def _joined() -> Topology:
    """Table ``a`` with one stream time meets ``b``, which has one per partition; ``b`` also meets a part of itself."""
    builder = StreamsBuilder()

    def table(name: str, time_scope: TimeScope) -> KTable:
        store = Materialized.versioned("1 hour", name=name, time_scope=time_scope)
        return builder.table(name, store, key="k", value=name, name=name)

    a, b = table("a", "store"), table("b", "partition")
    a.join(b, name="ab").filter(lambda value: value.a > 0, name="kept").to_changelog("out")
    half = b.filter(lambda value: value.b > 0, name="half")
    b.join(half, lambda left, right: {"b": left.b}, name="bb")
    return builder.build()


def test_what_has_one_stream_time_takes_all_behind_it_and_beside_it_to_one_scope() -> None:
    assert nodes_in_one_scope(_joined()) == {"a", "ab", "kept", "out"}


def test_only_a_join_of_equals_of_which_a_side_is_in_one_scope_takes_the_other_one_there() -> None:
    plan = _joined()
    shared = nodes_in_one_scope(plan)
    assert [node.name for node in plan if gathers(node, shared)] == ["ab"]


def test_behind_a_join_of_equals_records_do_not_follow_their_partitions() -> None:
    sides = (StreamSource("flights", topic="flights"), StreamSource("weather", topic="weather"))
    both = StreamStreamJoin("both", sides, "inner", JoinWindows.of("1 hour"), Expr("ref", "left"))
    assert not follows_partitions(StreamFilter("late", (both,), Expr("lit", True)))
