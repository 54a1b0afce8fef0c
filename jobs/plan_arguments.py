"""Arguments of a function that builds a plan: converts ``plan_settings`` to what the function takes.

Text that reads as a duration is one. Variables and ``--set`` provide only text, so a parameter's annotation decides
whether such a text is a number, or true or false.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BeforeValidator, WithJsonSchema

from jobs.shown import is_secret, shown
from jobs.strict import at, nearest
from jobs.yaml_file import kind_in_words
from versioned.durations import duration
from versioned.errors import ConfigurationError

#: A duration, or a misspelt one such as "10 minuets": if it were passed on as text, a plan would fail late, or never.
_LIKE_A_DURATION: Final = re.compile(r"\s*(?:interval)?\s*(?:[+-]?\d+(?:\.\d+)?\s*[^\W\d]+[\s,]*)+", re.IGNORECASE)
#: Several numbers and words without a space, such as "4e8a1f": if it is no duration, it is no misspelt one either.
_LIKE_A_CODE: Final = re.compile(r"\S*?[^\W\d][,+-]*\d\S*")
#: Annotations for which wrong values are refused, and what they are called in messages.
_WORDS: Final[dict[Any, str]] = {
    timedelta: 'a duration such as "10 minutes"',
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}
_FROM_TEXT: Final[dict[Any, Callable[[str], Any]]] = {
    timedelta: duration,
    bool: lambda text: {"true": True, "false": False}[text.strip().lower()],
    int: int,
    float: float,
}


def _to_argument(said: Any) -> Any:
    """
    >>> _to_argument("90 minutes"), _to_argument(0.5), _to_argument("eu-west-1")
    (datetime.timedelta(seconds=5400), 0.5, 'eu-west-1')
    """
    if not isinstance(said, (timedelta, bool, int, float, str)):
        raise ValueError(
            f"a duration, a number, true or false, or text should be here, and this is {kind_in_words(said)}"
        )
    if not (isinstance(said, str) and _LIKE_A_DURATION.fullmatch(said)):
        return said
    try:
        return duration(said)
    except ConfigurationError:
        return said  # What its parameter takes decides whether this is a slip.


_SCHEMA: Final = {
    "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}],
    "examples": ["10 minutes", 3, True, "eu-west-1"],
}
PlanArgument = Annotated[timedelta | bool | int | float | str, BeforeValidator(_to_argument), WithJsonSchema(_SCHEMA)]


def arguments_of(function: Callable[..., Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, converted as the function's annotations want them; without an annotation, as they are.

    Raises:
        ConfigurationError: an argument is unknown, missing or of the wrong kind; the message names the path.

    >>> def build(size: timedelta, limit: int = 3, topic: str = "s"): ...
    >>> arguments_of(build, {"size": timedelta(hours=1), "limit": "5"})
    {'size': datetime.timedelta(seconds=3600), 'limit': 5}
    >>> arguments_of(build, {"size": 6})
    Traceback (most recent call last):
    jobs.strict.PlacedError: plan_settings.size: a duration such as "10 minutes" should be here, and this is a number
    """
    _check_names(function, said)
    wanted, fitting = _annotations(function), {}
    for name, value in said.items():
        with at(f"plan_settings.{name}"):
            kinds = _kinds(wanted.get(name))
            _refuse_slip(name, value, kinds)
            fitting[name] = _fitting(value, kinds)
    return fitting


def _check_names(function: Callable[..., Any], said: Mapping[str, Any]) -> None:
    signature = inspect.signature(function)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for name in said:
        if name not in signature.parameters and not takes_any:
            hint = nearest(name, list(signature.parameters))
            raise ConfigurationError(f"plan_settings.{name}: the plan's function has no such argument{hint}")
    try:
        signature.bind(**said)
    except TypeError as error:
        allowed = ", ".join(signature.parameters)
        raise ConfigurationError(f"plan_settings: {error}. The plan's function takes: {allowed}") from error


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # An annotation may be any code; if one cannot be evaluated, ignore them all.
        return {}
    return {name: parameter.annotation for name, parameter in signature.parameters.items()}


def _kinds(annotation: Any) -> list[Any]:
    is_union = get_origin(annotation) in (Union, UnionType)
    return [kind for kind in (get_args(annotation) if is_union else (annotation,)) if kind is not NoneType]


def _refuse_slip(name: str, value: Any, kinds: list[Any]) -> None:
    """Refuse a misspelt duration, unless text is wanted; the message has no value that may be a secret."""
    if not isinstance(value, str) or kinds == [str]:
        return
    if not _LIKE_A_DURATION.fullmatch(value) or _LIKE_A_CODE.fullmatch(value):
        return
    try:
        duration(value)
    except ConfigurationError as error:
        told = "this is like a duration, but is none." if is_secret(name) else str(error)
        raise ConfigurationError(f"{told} If it is meant as text, annotate the parameter with str") from None


def _fitting(value: Any, kinds: list[Any]) -> Any:
    if type(value) in kinds or not all(kind in _WORDS for kind in kinds):
        return value
    if isinstance(value, str):
        return _from_text(value, kinds)
    if isinstance(value, timedelta) and str in kinds:
        return shown(value)
    if type(value) is int and float in kinds:
        return value
    raise _wrong(value, kinds)


def _from_text(text: str, kinds: list[Any]) -> Any:
    for kind in kinds:
        try:
            return _FROM_TEXT[kind](text)
        except ConfigurationError:
            if len(kinds) == 1:  # The error explains durations, and nothing else is wanted.
                raise
        except (LookupError, ValueError):
            continue
    raise _wrong(text, kinds)


def _wrong(value: Any, kinds: list[Any]) -> ConfigurationError:
    wanted = " or ".join(_WORDS[kind] for kind in kinds)
    found = "a duration" if isinstance(value, timedelta) else kind_in_words(value)
    return ConfigurationError(f"{wanted} should be here, and this is {found}")
