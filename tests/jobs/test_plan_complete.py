"""Nothing of the DSL is forgotten in YAML: every method, every parameter, every word, and every option of a run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from test_plan import _SAME, _SOURCES

from jobs import option_settings, plan_settings
from jobs.settings import JobSettings, SourceSettings
from streams import options
from streams.grouped import KGroupedStream, KGroupedTable, WindowedKStream
from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import Emit, History
from streams.options import Joined, Materialized
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from suppress import suppressed
from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned.durations import Resolution

_DSL = (StreamsBuilder, KStream, KTable, KGroupedStream, WindowedKStream, KGroupedTable)
#: Groups and windows are options of aggregates; the others ask or end.
_NO_STEPS = {"group_by", "group_by_key", "windowed_by", "build", "is_versioned"}
#: What a parameter of a method is called in YAML; several, if one value of the DSL is spread out.
_KEYS: dict[str, tuple[str, ...]] = {
    "topic": ("topic",), "key": ("key",), "timestamp": ("timestamp",), "value": ("value",), "deleted": ("deleted",),
    "reorder": ("reorder",), "materialized": ("store",), "predicate": ("where",), "mapper": ("value",),
    "joiner": ("value",), "other": ("with",), "function": ("function",), "returns": ("returns",), "emit": ("emit",),
    "foreign_key": ("foreign_key",), "history": ("history",), "windows": ("within",), "suppressed": ("until",),
    "joined": ("grace", "retention", "on_expired", "too_late", "correction_retention"), "output": ("output",),
    "schema": ("result",), "initializer": ("initializer",), "adder": ("adder",), "subtractor": ("subtractor",),
    "reducer": ("adder",), "merger": ("merger",),
}  # fmt: skip
#: Those of grouping, which aggregates have.
_GROUP_KEYS = {
    "group_by.key": "group_by", "group_by.value": "group_value", "windowed_by.windows": "windowed_by",
    "windowed_by.late_policy": "windowed_by",
}  # fmt: skip
_STORES = (option_settings.VersionedStore, option_settings.KeyValueStore, option_settings.WindowStore)
_JOIN, _LIMIT = plan_settings.JoinStep, plan_settings.TimeLimitStep
#: What a parameter of a value of the DSL is in YAML: a model and its key. Words that only choose a kind are its keys.
_VALUES: dict[str, tuple[type[BaseModel], str]] = {
    "Materialized.key_value.name": (_STORES[1], "name"),
    **{f"Materialized.window_store.{name}": (_STORES[2], name) for name in ("name", "retention", "segment_interval")},
    "Materialized.with_name.name": (_STORES[1], "name"),
    "Materialized.with_retention.retention": (_STORES[2], "retention"),
    "Materialized.with_grace.grace": (_STORES[0], "grace"),
    "Materialized.with_time_scope.time_scope": (_STORES[1], "time_scope"),
    "Materialized.with_time_resolution.time_resolution": (_STORES[2], "time_resolution"),
    "Materialized.with_late_policy.late_policy": (_STORES[0], "late_policy"),
    "Joined.with_corrections.retention": (_JOIN, "correction_retention"),
    "Joined.with_grace_period.grace": (_JOIN, "grace"),
    "Joined.with_on_expired.on_expired": (_JOIN, "on_expired"),
    "Joined.with_retention.retention": (_JOIN, "retention"),
    "Joined.with_too_late.too_late": (_JOIN, "too_late"),
    **{
        f"Suppressed.until_time_limit.{name}": (_LIMIT, name)
        for name in ("wait", "buffer", "timer", "max_age", "clock", "size_of", "retention")
    },
    **{
        f"Suppressed.until_wall_clock_time_limit.{name}": (plan_settings.WallClockStep, name)
        for name in ("wait", "buffer", "size_of", "retention")
    },
    **{
        f"Suppressed.until_window_closes.{name}": (plan_settings.WindowClosesStep, name)
        for name in ("buffer", "size_of", "close_idle", "retention")
    },
    **{
        f"{kind}.{method}": (option_settings.Buffer, method.rsplit(".", 1)[1])
        for kind, methods in (
            ("BufferConfig", ("max_bytes.max_bytes", "max_records.max_records")),
            ("StrictBufferConfig", ("with_max_bytes.max_bytes", "with_max_records.max_records")),
            ("EagerBufferConfig", ("with_max_bytes.max_bytes", "with_max_records.max_records")),
        )
        for method in methods
    },
    "TimeWindows.of.size": (option_settings.Tumbling, "size"),
    "TimeWindows.of_size_and_grace.size": (option_settings.Tumbling, "size"),
    "TimeWindows.of_size_with_no_grace.size": (option_settings.Tumbling, "size"),
    "TimeWindows.advance_by.advance": (option_settings.Hopping, "advance"),
    "SlidingWindows.of.difference": (option_settings.Sliding, "difference"),
    "SlidingWindows.of_time_difference_and_grace.difference": (option_settings.Sliding, "difference"),
    "SlidingWindows.of_time_difference_with_no_grace.difference": (option_settings.Sliding, "difference"),
    "SessionWindows.of.gap": (option_settings.Session, "gap"),
    "SessionWindows.of_inactivity_gap_and_grace.gap": (option_settings.Session, "gap"),
    "SessionWindows.of_inactivity_gap_with_no_grace.gap": (option_settings.Session, "gap"),
    "UnlimitedWindows.start_on.start": (option_settings.Unlimited, "start"),
    "JoinWindows.of.difference": (option_settings.Within, "difference"),
    "JoinWindows.of_time_difference_and_grace.difference": (option_settings.Within, "difference"),
    "JoinWindows.of_time_difference_with_no_grace.difference": (option_settings.Within, "difference"),
    "JoinWindows.before.before": (option_settings.Within, "before"),
    "JoinWindows.after.after": (option_settings.Within, "after"),
    **{
        f"{kind}.{method}.grace": (model, "grace")
        for kind, method, model in (
            ("TimeWindows", "grace", option_settings.Hopping),
            ("TimeWindows", "of_size_and_grace", option_settings.Tumbling),
            ("SlidingWindows", "grace", option_settings.Sliding),
            ("SlidingWindows", "of_time_difference_and_grace", option_settings.Sliding),
            ("SessionWindows", "grace", option_settings.Session),
            ("SessionWindows", "of_inactivity_gap_and_grace", option_settings.Session),
            ("UnlimitedWindows", "grace", option_settings.Unlimited),
            ("JoinWindows", "grace", option_settings.Within),
            ("JoinWindows", "of_time_difference_and_grace", option_settings.Within),
        )
    },
}
#: The name of a node is the name of its step.
_STEP_NAMES = {"Joined.with_name.name", "Joined.with_grace_period.name", "Suppressed.with_name.name"}
_VALUE_CLASSES = (
    Materialized, Joined, Suppressed, BufferConfig, StrictBufferConfig, EagerBufferConfig, TimeWindows, SlidingWindows,
    SessionWindows, UnlimitedWindows, JoinWindows,
)  # fmt: skip


def _parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        if not name.startswith("_") and inspect.isroutine(inspect.getattr_static(kind, name)):
            yield name, getattr(kind, name)


def _of_method(kind: type, name: str) -> Iterator[str]:
    """The parameters of a method, those of the joins of streams by what stands on the other side."""
    named = _parameters(getattr(kind, name))
    if "options" not in named:
        yield from named
        return
    yield from (parameter for parameter in named if parameter != "options")
    for inner in ("_join_table", "_join_global", "_join_stream"):
        yield from (parameter for parameter in _parameters(getattr(kind, inner)) if parameter != "kind")


def _models() -> dict[str, list[type[BaseModel]]]:
    """The models of each operation."""
    found: dict[str, list[type[BaseModel]]] = {}
    for model in _leaves(plan_settings.Step):
        for op in get_args(model.model_fields["op"].annotation):
            found.setdefault(op, []).append(model)
    return found


def _leaves(kind: Any) -> Iterator[type[BaseModel]]:
    """The models of which a type of settings is made, at the top of it."""
    if get_origin(kind) is Annotated:
        yield from _leaves(get_args(kind)[0])
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    else:
        for member in get_args(kind):
            yield from _leaves(member)


def _keys(model: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items()}


_STEPS = sorted(
    {(kind, name, said) for kind in _DSL for name, _ in _methods(kind) for said in _of_method(kind, name)}
    - {(kind, name, "name") for kind in _DSL for name, _ in _methods(kind)},
    key=str,
)


@pytest.mark.parametrize(("kind", "method", "parameter"), _STEPS, ids=[f"{k.__name__}.{m}.{p}" for k, m, p in _STEPS])
def test_every_parameter_of_every_method_has_its_key(kind: type, method: str, parameter: str) -> None:
    if method in _NO_STEPS:
        keys = (_GROUP_KEYS[f"{method}.{parameter}"],)
        models: list[type[BaseModel]] = [plan_settings.BuiltInStep, plan_settings.ReduceStep]
    else:
        keys, models = _KEYS[parameter], _models()[method]
    assert [key for model in models for key in keys if key not in _keys(model)] == []


_OF_VALUES = sorted(
    f"{kind.__name__}.{name}.{parameter}"
    for kind in _VALUE_CLASSES
    for name, method in _methods(kind)
    for parameter in _parameters(method)
)


@pytest.mark.parametrize("parameter", [name for name in _OF_VALUES if name not in _STEP_NAMES])
def test_every_parameter_of_every_option_has_its_key(parameter: str) -> None:
    of, name = parameter.rsplit(".", 1)
    model, key = (_STORES[0], name) if of == "Materialized.versioned" else _VALUES[parameter]
    assert key in _keys(model)


def _allowed(model: type[BaseModel], key: str) -> set[Any]:
    return set(_words(model.model_fields[key].annotation))


def _words(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for member in get_args(kind):
            yield from _words(member)


@pytest.mark.parametrize(
    ("model", "key", "dsl"),
    [
        (option_settings.VersionedStore, "time_scope", get_args(options.TimeScope)),
        (option_settings.KeyValueStore, "time_scope", get_args(options.TimeScope)),
        (option_settings.VersionedStore, "late_policy", get_args(options.LatePolicy)),
        (option_settings.Session, "late_policy", get_args(options.LatePolicy)),
        (option_settings.VersionedStore, "time_resolution", [each.name.lower() for each in Resolution]),
        (option_settings.WindowStore, "time_resolution", [each.name.lower() for each in Resolution]),
        (_JOIN, "on_expired", get_args(options.OnExpired)),
        (_JOIN, "too_late", get_args(options.TooLate)),
        (_JOIN, "history", get_args(History)),
        (_LIMIT, "timer", get_args(suppressed.Timer)),
        (_LIMIT, "clock", get_args(suppressed.Clock)),
        (plan_settings.ChangelogStep, "emit", get_args(Emit)),
        (option_settings.Buffer, "when_full", ["emit_early", "shut_down", "spill"]),
    ],
)
def test_every_word_of_an_option_can_be_written(model: type[BaseModel], key: str, dsl: Any) -> None:
    assert _allowed(model, key) == set(dsl)


def _used(said: Any) -> Iterator[tuple[str, str]]:
    """The keys that were written, by model."""
    if isinstance(said, BaseModel):
        for name in said.model_fields_set:
            yield type(said).__name__, name
            yield from _used(getattr(said, name))


def _all_keys(kind: Any) -> Iterator[tuple[str, str]]:
    for model in _leaves(kind):
        for name, info in model.model_fields.items():
            yield model.__name__, name
            yield from _all_keys(info.annotation)


def test_every_key_of_every_step_was_compared_with_the_dsl() -> None:
    written = {
        key
        for text, _ in _SAME
        for step in plan_settings.steps_of(yaml.safe_load(_SOURCES + text)).values()
        for key in _used(step)
    }
    # The same key of another step of the same kind is the same code.
    inherited = _keys(plan_settings._Group) | _keys(plan_settings._Step) | {"source"}
    inherited |= {"grace", "late_policy", "topic", "timestamp", "deleted", "value", "key", "store"}
    missing = {(model, key) for model, key in set(_all_keys(plan_settings.Step)) - written if key not in inherited}
    assert missing == set()


@pytest.mark.parametrize(
    ("option", "key"),
    [
        (option, {"name": "application", "topology": "plan", "metrics_level": "metrics"}.get(option, option))
        for option in _parameters(StreamingApplication.__init__)
        # The session and listeners are no settings; what is asked for once is so on the command line.
        if option not in ("spark", "on_batch", "new_epoch", "add_columns")
    ],
)
def test_every_option_of_an_application_is_a_setting(option: str, key: str) -> None:
    assert key in JobSettings.model_fields


@pytest.mark.parametrize("option", [each.name for each in fields(SparkSource)])
def test_every_option_of_a_source_is_a_setting(option: str) -> None:
    assert {"checks": "quality", "decoder": "kafka"}.get(option, option) in _keys(SourceSettings)


def test_a_new_parameter_without_a_key_would_be_found() -> None:
    with pytest.raises(KeyError):
        test_every_parameter_of_every_method_has_its_key(KTable, "filter", "no_such_parameter")
    with pytest.raises(KeyError):
        test_every_parameter_of_every_option_has_its_key("JoinWindows.no_such_method.before")
