"""Records per second through the test driver: ``python benchmarks/driver.py [RECORDS]``.

One figure per operator, the median of three runs over the same seeded records, one in ten of them out of order.
"""

from __future__ import annotations

import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable

from streams.nodes import Materialized, Topology
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed

KEYS = 1_000
RUNS = 3
Record = tuple[str, str, dict[str, int], int]


def plan_filter() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda value: value.n > 10).to_changelog("out")
    return builder.build()


def plan_versioned_put() -> Topology:
    builder = StreamsBuilder()
    builder.table("in", Materialized.versioned("1 hour", name="store"))
    return builder.build()


def plan_stream_table_join() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("table", Materialized.versioned("1 hour", name="store"))
    builder.stream("in").left_join(table, lambda left, right: {"a": left.n, "b": right.n}).to_changelog("out")
    return builder.build()


def plan_suppress() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.key_value("store"))
    buffer = BufferConfig.max_records(KEYS // 2)
    table.suppress(Suppressed.until_time_limit("10 seconds", buffer)).to_changelog("out")
    return builder.build()


PLANS: dict[str, Callable[[], Topology]] = {
    "filter": plan_filter,
    "versioned put": plan_versioned_put,
    "stream-table join": plan_stream_table_join,
    "suppress": plan_suppress,
}


def records(count: int, topics: list[str]) -> list[Record]:
    """Seeded records over the topics in turn; one in ten is up to ten seconds late."""
    chance = random.Random(914)
    made: list[Record] = []
    for number in range(count):
        late = chance.randint(1, 10_000_000) if chance.random() < 0.1 else 0
        made.append(
            (topics[number % len(topics)], f"k{chance.randrange(KEYS)}", {"n": number % 100}, number * 1_000 - late)
        )
    return made


def per_second(plan: Callable[[], Topology], count: int) -> float:
    """Records per second, without the construction of the driver."""
    topology = plan()
    topics = sorted({node.topic for node in topology if hasattr(node, "topic")})
    said = records(count, topics)
    driver = TopologyTestDriver(topology)
    started = time.perf_counter()
    for topic, key, value, ts in said:
        driver.pipe_input(topic, key, value, ts)
    return count / (time.perf_counter() - started)


def main() -> None:
    """Print the medians as JSON."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    figures = {
        name: round(statistics.median(per_second(plan, count) for _ in range(RUNS))) for name, plan in PLANS.items()
    }
    machine = {"python": platform.python_version(), "machine": platform.machine(), "records": count, "runs": RUNS}
    print(json.dumps({"machine": machine, "records_per_second": figures}, indent=2))


if __name__ == "__main__":
    main()
