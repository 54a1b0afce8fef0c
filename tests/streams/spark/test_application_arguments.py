"""What an application is made of, before any session is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.nodes import Materialized
from streams.spark import (
    InputContract,
    KafkaFormat,
    KafkaSink,
    MetricsListener,
    SparkSource,
    StreamingApplication,
    kafka_source,
)
from streams.spark.source_checks import SourceChecks
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


class _Other:
    """What no argument takes."""

    def __repr__(self) -> str:
        return "something else"


def _rate(**said: Any) -> SparkSource:
    return SparkSource(**{"format": "rate", **said})


def _kafka(**said: Any) -> SparkSource:
    return kafka_source(**{"servers": "host:1", "topic": "t", "said": KafkaFormat("n INT"), **said})


#: What is made, with its arguments that take neither this nor that.
_KINDS: list[tuple[Callable[..., object], str]] = [
    (_rate, "format options schema transform partition_by contract checks decoder"),
    (_kafka, "servers topic said options"),
    (lambda **said: KafkaSink(**{"servers": "host:1", "topic": "t", **said}), "servers topic options"),
    (lambda **said: KafkaFormat(**{"value": "n INT", **said}), "value key ts deleted"),
    (InputContract, "types on_invalid"),
    (SourceChecks, "reason look every columns patterns"),
    (_application, "sources kafka checkpoint on_batch"),
    (lambda **said: MetricsListener(**{"application": _application(), "tell": print, **said}), "application tell"),
]


@pytest.mark.parametrize(("make", "option"), [(make, option) for make, options in _KINDS for option in options.split()])
def test_an_argument_of_another_kind_is_told_by_its_name(make: Callable[..., object], option: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{option} takes .*; got something else\.$"):
        make(**{option: _Other()})


@pytest.mark.parametrize(
    ("make", "option"),
    [(_rate, "options"), (_application, "sources"), (_application, "kafka"), (SourceChecks, "patterns")],
)
def test_a_value_of_another_kind_in_a_mapping_is_told_with_its_name(make: Callable[..., object], option: str) -> None:
    with pytest.raises(ConfigurationError, match=rf'^{option}: "in" takes .*; got something else\.$'):
        make(**{option: {"in": _Other()}})


def test_a_name_in_a_mapping_is_a_text() -> None:
    with pytest.raises(ConfigurationError, match=r"^A name in options takes a text; got 1\.$"):
        _rate(options={1: "a"})


def test_options_that_spark_makes_texts_of_are_those_texts() -> None:
    said = {"header": True, "maxFilesPerTrigger": 1, "path": Path("in")}
    assert _rate(options=said).options == {"header": "true", "maxFilesPerTrigger": "1", "path": "in"}


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (_application, "checkpoint"),
        (_rate, "partition_by"),
        (_rate, "schema"),
        (lambda **said: KafkaFormat("n INT", **said), "key"),
        (lambda **said: KafkaFormat("n INT", **said), "deleted"),
        (InputContract, "types"),
    ],
)
def test_an_empty_text_stands_for_no_default(make: Callable[..., object], option: str) -> None:
    with pytest.raises(ConfigurationError, match=rf'^{option} takes .*; got ""\. Leave it out'):
        make(**{option: ""})


def test_no_batch_is_looked_at_every_no_batches() -> None:
    with pytest.raises(ConfigurationError, match=r"^every must be at least 1; got 0"):
        SourceChecks(look=print, every=0)
