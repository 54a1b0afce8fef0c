"""What folds and user code get to see of keys and values on Spark is what they see in the test driver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.functions import cast
from streams.nodes import Topology
from streams.rows import Row
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows

pytestmark = pytest.mark.slow

_RECORDS = [Input("s", "a", text, ms) for ms, text in enumerate(["nan", "1.5", "NaN", "nan", "1.5", "NaN"])]


def _seen(key: Row, value: Row, state: Row) -> dict[str, Any]:
    # In place, as users of Kafka Streams write it.
    state["seen"][value.v] = state["seen"].get(value.v, 0) + 1
    return state


def _listed(key: Row, value: Row, state: list[str]) -> list[str]:
    state.append(value.v)
    return state


def _plan() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("s", key="k", value="v").group_by(lambda value: {"number": cast(value.v, "double")})
    of_maps = grouped.aggregate(lambda: {"seen": {}}, _seen, schema="seen MAP<STRING, INT>", name="maps")
    of_maps.to_changelog("seen")
    grouped.windowed_by(SessionWindows.of("1 hour")).count(name="sessions").to_changelog("counts")
    sliding = grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace("2 milliseconds"))
    sliding.aggregate(list, _listed, schema="ARRAY<STRING>", name="lists").to_changelog("listed")
    wait = Suppressed.until_time_limit(timedelta(milliseconds=3), BufferConfig.unbounded().spill_to_disk_when_full())
    grouped.count(name="numbers").suppress(wait, name="held").to_changelog("limited")
    return builder.build()


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Told]]:
    """What the test driver told, and what Spark told."""
    folder: Path = tmp_path_factory.mktemp("folded")
    app = on_spark(spark, folder, _plan(), _RECORDS, [3, 6])
    return on_driver(_plan(), _RECORDS), sink_rows(spark, app, _plan())


@pytest.mark.parametrize("sink", ["counts", "limited"])
def test_a_computed_key_that_is_not_a_number_is_one_key(told: Sequence[dict[str, Told]], sink: str) -> None:
    driver, spark = told
    # As text, for no NaN is equal to another one.
    assert repr(spark[sink]) == repr(driver[sink])
    assert any("nan" in repr(key) for key, *_ in driver[sink])


def test_user_code_gets_a_map_as_a_mapping_in_values_and_in_its_own_state(told: Sequence[dict[str, Told]]) -> None:
    driver, spark = told
    assert repr(spark["seen"]) == repr(driver["seen"])
    assert driver["seen"][-1][1] == ({"nan": 2, "NaN": 2},)


def test_windows_whose_aggregate_is_changed_in_place_are_the_driver_s(told: Sequence[dict[str, Told]]) -> None:
    driver, spark = told
    assert repr(spark["listed"]) == repr(driver["listed"])
    assert any(len(listed) > 1 for _, (listed,), _ in driver["listed"])
