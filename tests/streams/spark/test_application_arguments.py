"""What an application is made of, before any session is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.nodes import Materialized
from streams.spark import InputContract, SparkSource, StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from versioned.errors import ConfigurationError


def _builder() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table("in", Materialized.key_value("latest"), name="table")
    return builder


def _application(**options: Any) -> StreamingApplication:
    said: dict[str, Any] = {
        "name": "shop",
        "topology": _builder().build(),
        "root": "/shop",
        "sources": {"in": SparkSource("rate")},
    }
    nobody: Any = None
    return StreamingApplication(nobody, **{**said, **options})


_FLAGS: dict[str, Callable[[Any], object]] = {
    "new_epoch": lambda given: _application(new_epoch=given),
    "add_columns": lambda given: _application(add_columns=given),
    "keys_cross_partitions": lambda given: _application(keys_cross_partitions=given),
    "unique": lambda given: InputContract(unique=given),
    "allow_float_keys": lambda given: InputContract(allow_float_keys=given),
    "system_history": lambda given: Materialized(system_history=given),
    "fixed_retention": lambda given: Materialized(fixed_retention=given),
    "close_idle": lambda given: Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=given),
}


@pytest.mark.parametrize("given", ["false", 0, None])
@pytest.mark.parametrize("option", _FLAGS)
def test_what_is_neither_true_nor_false_is_no_flag(option: str, given: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option} takes True or False; got"):
        _FLAGS[option](given)


def test_a_flag_of_the_test_driver_is_true_or_false() -> None:
    given: Any = "false"
    with pytest.raises(ConfigurationError, match=r'^keys_cross_partitions takes True or False; got "false"'):
        TopologyTestDriver(_builder().build(), keys_cross_partitions=given)


def test_a_plan_that_was_not_built_is_told_how() -> None:
    with pytest.raises(ConfigurationError, match=r"^topology takes the plan that .* gives; call \.build\(\)"):
        _application(topology=_builder())


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^name takes a text; got 7"):
        _application(name=7)
