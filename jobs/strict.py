"""The base of all settings models: unknown keys are refused, and each error names the path of its setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from jobs.yaml_file import kind_in_words, told_of_key
from streams.time_texts import as_instant
from versioned.durations import duration
from versioned.errors import ConfigurationError
from versioned.given import close

_M = TypeVar("_M", bound=BaseModel)
_BYTES: Final = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_WANTED: Final = {
    "string_type": "text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "bool_type": "true or false",
}
_UNQUOTED: Final = frozenset({"a number", "true or false", "a date", "an instant"})
_SIZE: Final = re.compile(r"(\d+)\s*([a-z]*)")


class Strict(BaseModel):
    """A part of the settings: frozen, typed, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True)
class Spelled:
    """How a text must be spelled: a pattern, and the words that describe it to people and editors."""

    pattern: str
    words: str

    def check(self, value: str) -> str:
        """Return a text if it is spelled so; otherwise raise a ValueError.

        >>> Spelled(r"[a-z]+", "small letters").check("A")
        Traceback (most recent call last):
        ValueError: should be small letters
        """
        if re.fullmatch(self.pattern, value) is None:
            raise ValueError(f"should be {self.words}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^{self.pattern}$", "patternErrorMessage": self.words}


def _to_duration(value: Any) -> timedelta:
    if not isinstance(value, (str, timedelta)):
        raise ValueError('a duration is text such as "10 minutes"')
    return duration(value)


def _to_millis(value: Any) -> timedelta:
    """
    >>> str(_to_millis(1_500)), str(_to_millis("1500")), str(_to_millis("2 s"))
    ('0:00:01.500000', '0:00:01.500000', '0:00:02')
    """
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    is_number = isinstance(number, int) and not isinstance(number, bool)
    found = _to_duration(f"{number} ms" if is_number else value)
    if found <= timedelta(0):
        raise ValueError("give more than 0 milliseconds, or leave it out")
    return found


def _to_names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _to_number(value: Any) -> Any:
    # Environment variables and --set provide only text.
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _to_bytes(value: Any) -> Any:
    """
    >>> _to_bytes("10 MB"), _to_bytes("1 KiB"), _to_bytes(7)
    (10000000, 1024, 7)
    """
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip().lower())
    if found is None or found[2] not in _BYTES:
        raise ValueError('a size is a number of bytes, or text such as "10 MB"')
    return int(found[1]) * _BYTES[found[2]]


def instant_in(text: str) -> datetime:
    """Parse an instant in ISO form, with its own zone; a ValueError if it is none."""
    # Python 3.10 does not parse a Z.
    return datetime.fromisoformat(text.strip().replace("Z", "+00:00"))


def _to_instant(value: Any) -> Any:
    """
    >>> _to_instant("2013-01-01T06:00:00Z").isoformat()
    '2013-01-01T06:00:00+00:00'
    >>> _to_instant(date(2013, 1, 1)).isoformat()
    '2013-01-01T00:00:00+00:00'
    """
    if isinstance(value, str):
        value = instant_in(value)
    # YAML turns what looks like a date or a datetime into one; without a zone it is UTC, as everywhere in the library.
    return as_instant(value) if isinstance(value, date) else value


def in_utc(value: Any) -> Any:
    """An instant, in UTC if it has no offset; anything else as it is."""
    return as_instant(value) if isinstance(value, datetime) else value


def to_flag(value: Any) -> Any:
    """A boolean for a text that says true or false, as variables and --set provide it; anything else as it is.

    >>> to_flag("False"), to_flag("no")
    (False, 'no')
    """
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


_DURATION_SCHEMA: Final = {
    "type": "string",
    "description": 'A number and a unit: "10 minutes", "1 day 2 hours".',
    "examples": ["10 minutes", "1 day 2 hours"],
}
_MILLIS_SCHEMA: Final = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "examples": ["10 minutes"]}
_NAMES_SCHEMA: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_BYTES_SCHEMA: Final = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "examples": ["10 MB"]}

#: A duration as people write it.
DurationSetting = Annotated[timedelta, BeforeValidator(_to_duration), WithJsonSchema(_DURATION_SCHEMA)]
#: A number of milliseconds, as in the KIPs; or a duration.
Millis = Annotated[timedelta, BeforeValidator(_to_millis), WithJsonSchema(_MILLIS_SCHEMA)]
#: One name, or a list of them.
Names = Annotated[tuple[str, ...], BeforeValidator(_to_names), WithJsonSchema(_NAMES_SCHEMA)]
Number = Annotated[int, BeforeValidator(_to_number)]
#: A size: a number of bytes, or text such as "10 MB".
Bytes = Annotated[int, BeforeValidator(_to_bytes), WithJsonSchema(_BYTES_SCHEMA)]
#: An instant in ISO form; without a zone it is UTC.
Instant = Annotated[datetime, BeforeValidator(_to_instant)]
Flag = Annotated[bool, BeforeValidator(to_flag)]


def validated(model: type[_M], said: Any) -> _M:
    """Validate plain values as settings.

    Raises:
        ConfigurationError: lists every fault with its path, and for unknown keys the nearest one and all that are
            allowed.
    """
    try:
        return model.model_validate(said)
    except ValidationError as error:
        raise ConfigurationError("; ".join(_told(model, detail) for detail in error.errors())) from None
    except RecursionError:
        raise ConfigurationError("The settings are nested too deeply.") from None


def said_otherwise(settings: BaseModel) -> set[str]:
    """The fields that were given a value other than their default.

    Shown settings include defaults, so it must make no difference whether a default was given.

    >>> class Some(Strict):
    ...     size: int = 1
    >>> said_otherwise(Some(size=1)), said_otherwise(Some(size=2))
    (set(), {'size'})
    """
    fields = type(settings).model_fields
    given = settings.model_fields_set
    return {name for name in given if getattr(settings, name) != fields[name].get_default(call_default_factory=True)}


class PlacedError(ConfigurationError):
    """A fault and the path of the setting that has it."""

    def __init__(self, path: str, said: str) -> None:
        super().__init__(f"{path}: {said}")
        self.path = path
        self.said = said

    def __reduce__(self) -> tuple[type[PlacedError], tuple[str, str]]:
        return type(self), (self.path, self.said)  # So that it can be pickled, as TopologyError.


@contextmanager
def at(path: str) -> Iterator[None]:
    """Put the path of a setting into errors about it; inner paths follow outer ones.

    >>> with at("plan.hourly"), at("windowed_by"):
    ...     raise ConfigurationError("Grace must not be negative.")
    Traceback (most recent call last):
    jobs.strict.PlacedError: plan.hourly.windowed_by: Grace must not be negative.
    """
    try:
        yield
    except PlacedError as error:
        raise PlacedError(f"{path}.{error.path}", error.said) from None
    except ConfigurationError as error:
        raise PlacedError(path, str(error)) from None


def nearest(word: object, allowed: list[str]) -> str:
    """A hint for a message: the name that ``word`` (None: none was given) probably means, and all that are allowed.

    >>> nearest("tigger", ["root", "trigger"])
    '; did you mean "trigger"? Allowed here: root, trigger'
    """
    begun = next((name for name in allowed if name.startswith(f"{word}_")), None)
    meant = begun or (None if word is None else close(str(word), allowed, 0.5))
    hint = "." if meant is None else f'; did you mean "{meant}"?'
    return f"{hint} Allowed here: {', '.join(dict.fromkeys(allowed))}"


def _told(model: type[BaseModel], detail: Any) -> str:
    # For a key of a mapping, pydantic reports the key and its fault; for a key of a model, only the key.
    is_key = detail["loc"][-1:] == ("[key]",)
    if (is_key or detail["type"] == "invalid_key") and not isinstance(detail["input"], str):
        above = ".".join(_located(model, detail["loc"][: -2 if is_key else -1])[0])
        return f"{above}: {told_of_key(detail['input'])}"
    path, holder, at = _located(model, detail["loc"])
    where = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key{nearest(path[-1], _keys(holder))}"
    if detail["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tag = detail["ctx"].get("tag")
        said = "is missing" if tag is None else f'"{tag}" is unknown'
        key = detail["ctx"]["discriminator"].strip("'")
        return f"{where}.{key}: {said}{nearest(tag, list(_choices(at, key)))}"
    said = _wanted(detail)
    return f"{where}: {said}" if where else said


def _wanted(detail: Any) -> str:
    """What should be there, without the value that is, which may be a secret."""
    if detail["type"] == "missing":
        return "is missing"
    wanted = _WANTED.get(detail["type"])
    if wanted is None:
        return str(detail["msg"].removeprefix("Value error, "))
    return wanted_here(wanted, detail["input"])


def wanted_here(wanted: str, given: Any) -> str:
    """The message for a value of the wrong kind, without the value.

    >>> wanted_here("text", True)
    'text should be here, and this is true or false; write it in quotes'
    """
    found = kind_in_words(given)
    quotes = "; write it in quotes" if wanted == "text" and found in _UNQUOTED else ""
    return f"{wanted} should be here, and this is {found}{quotes}"


def _located(model: Any, place: tuple[Any, ...]) -> tuple[list[str], Any, Any]:
    """The path as the user wrote it, the type that holds its last key, and the type at the path."""
    path: list[str] = []
    at = holder = model
    for part in place:
        members = _members(at)
        if members:  # Pydantic names the chosen member of a union; the file does not.
            at = next((member for member in members if part in _tags(member)), None)
            continue
        path.append(str(part))
        holder, at = at, _below(at, part)
    return path, holder, at


def _below(kind: Any, part: Any) -> Any:
    kind = _plain(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = (field for name, field in kind.model_fields.items() if part in (name, field.alias))
        return next((field.annotation for field in fields), None)
    return get_args(kind)[-1] if get_origin(kind) is dict else None


def _plain(kind: Any) -> Any:
    """A type without annotations, and without None as an alternative."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, UnionType) and len(others := _others(kind)) == 1:
            kind = others[0]
        else:
            return kind


def _members(kind: Any) -> list[Any]:
    kind = _plain(kind)
    return _others(kind) if get_origin(kind) in (Union, UnionType) else []


def _others(kind: Any) -> list[Any]:
    return [member for member in get_args(kind) if member is not NoneType]


def _tags(kind: Any) -> set[str]:
    """The values by which a member of a union is chosen."""
    if get_origin(kind) is Annotated:
        tags = {str(said.tag) for said in get_args(kind)[1:] if isinstance(said, Tag)}
        return tags or _tags(get_args(kind)[0])
    return set(_choices(kind))


def _choices(kind: Any, key: str | None = None) -> Iterator[str]:
    """The values by which a model is chosen; only those of one key, if it is given."""
    for member in _members(kind):
        yield from dict.fromkeys(_choices(member, key))
    kind = _plain(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if key in (None, name) and field.is_required() and get_origin(field.annotation) is Literal:
                yield from get_args(field.annotation)


def _keys(kind: Any) -> list[str]:
    kind = _plain(kind)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return []
    return [field.alias or name for name, field in kind.model_fields.items()]
