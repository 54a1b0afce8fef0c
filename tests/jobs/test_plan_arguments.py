"""Arguments of a plan's function: durations, numbers, flags and texts, of the kinds that it is annotated with."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.layers import Layers
from jobs.plan_arguments import arguments_of
from jobs.settings import parse
from versioned.durations import Duration
from versioned.errors import ConfigurationError

_HOUR = timedelta(hours=1)


def _said(value: Any) -> Any:
    """What settings make of one argument."""
    said = {"application": "a", "plan": "a:b", "root": "r", "sources": {"s": {"format": "rate"}}}
    return parse(said | {"plan_settings": {"x": value}}).plan_settings["x"]


def _annotated(kind: Any) -> Callable[..., None]:
    def build(x: Any = None) -> None: ...

    build.__annotations__ = {"x": kind}
    return build


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (3, 3),
        (0.5, 0.5),
        (False, False),
        ("1 hour", _HOUR),
        ("interval 1 hour", _HOUR),
        ("-60 min", -_HOUR),
        ("30 min, 30 min", _HOUR),
        ("eu-west-1", "eu-west-1"),
        ("2026-01-31", "2026-01-31"),
        ("10.0.0.1:9092", "10.0.0.1:9092"),
        ("1h30min", timedelta(minutes=90)),
        ("4e8a1f", "4e8a1f"),
        ("9fK2x", "9fK2x"),
        ("0x7f", "0x7f"),
        ("5", "5"),
        ("", ""),
    ],
)
def test_numbers_flags_and_texts_are_as_they_are_and_text_that_reads_as_a_duration_is_one(
    written: Any, expected: Any
) -> None:
    said = _said(written)
    assert (type(said), said) == (type(expected), expected)


@pytest.mark.parametrize(
    "slip",
    ["10 minuets", "6 huors", "6huors", "1.5 hours", "1 day 2 hors", "10min 3 sceonds", "2 months"],
)
def test_a_slip_in_a_duration_is_told_and_becomes_no_text(slip: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"plan_settings\.x: .*{re.escape(slip)}"):
        arguments_of(_annotated(Duration), {"x": _said(slip)})


def test_a_duration_that_is_too_long_is_told_with_the_longest() -> None:
    with pytest.raises(ConfigurationError, match=r"plan_settings\.x: .*at most 999,999,999 days"):
        arguments_of(_annotated(Duration), {"x": _said(f"{'9' * 20} ms")})


@pytest.mark.parametrize("text", ["3com", "10 minuets", "4e8a1f"])
def test_a_parameter_for_text_takes_what_is_like_a_duration(text: str) -> None:
    assert arguments_of(_annotated(str | None), {"x": _said(text)}) == {"x": text}


def test_an_argument_with_the_name_of_a_secret_is_refused_without_its_value() -> None:
    def build(api_key) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigurationError, match=r"plan_settings\.api_key: .* annotate the parameter") as refused:
        arguments_of(build, {"api_key": _said("3com")})
    assert "3com" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (timedelta, _HOUR, _HOUR),
        (int, "5", 5),
        (float, "0.5", 0.5),
        (float, 2, 2),
        (bool, "True", True),
        (int | None, "-3", -3),
        (str, "5", "5"),
        (str, _HOUR, "1 hour"),
        (int | str, "x", "x"),
        (int | str, "5", "5"),
        (Duration, "soon", "soon"),
        (list[str], "a", "a"),
        ("no such name", "a", "a"),
        (Any, 3, 3),
    ],
)
def test_an_argument_becomes_what_its_parameter_is_annotated_with(kind: Any, value: Any, expected: Any) -> None:
    got = arguments_of(_annotated(kind), {"x": value})["x"]
    assert (type(got), got) == (type(expected), expected)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (timedelta, "soon", "soon"),
        (timedelta, 6, 'a duration such as "10 minutes" should be here, and this is a number'),
        (int, "five", "a whole number should be here, and this is text"),
        (int, True, "a whole number should be here, and this is true or false"),
        (int, 0.5, "a whole number should be here, and this is a number"),
        (int, _HOUR, "a whole number should be here, and this is a duration"),
        (bool, "perhaps", "true or false should be here"),
        (str, 7, "text should be here, and this is a number"),
        (int | bool, "x", "a whole number or true or false should be here"),
        (timedelta | int, "x", 'a duration such as "10 minutes" or a whole number should be here'),
    ],
)
def test_an_argument_of_another_kind_is_refused_with_its_path(kind: Any, value: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=r"plan_settings\.x: ") as refused:
        arguments_of(_annotated(kind), {"x": value})
    assert told in str(refused.value)


def test_a_number_of_a_variable_reaches_the_function_as_one() -> None:
    layers = Layers.of({"plan_settings": {"x": 1}}, {"VERSIONED_JOB__PLAN_SETTINGS__X": "5"})
    assert arguments_of(_annotated(int), {"x": _said(layers.merged()["plan_settings"]["x"])}) == {"x": 5}


def test_a_function_without_annotations_or_with_any_argument_gets_what_is_said() -> None:
    def build(first, **more): ...  # type: ignore[no-untyped-def]

    assert arguments_of(build, {"first": 1, "other": "x"}) == {"first": 1, "other": "x"}


def test_an_argument_that_the_function_does_not_have_is_told_with_the_nearest() -> None:
    def build(limit: int = 3) -> None: ...

    with pytest.raises(ConfigurationError, match=r'plan_settings\.limti: .* did you mean "limit"'):
        arguments_of(build, {"limti": 3})
