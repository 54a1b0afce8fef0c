"""Reads settings as YAML, limited in size, without duplicate keys, and without aliases that multiply."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from versioned.errors import ConfigurationError

_MAX_BYTES: Final = 1 << 20
#: The most values in a file, each counted as often as aliases repeat it.
_MAX_VALUES: Final = 100_000
#: Errors that YAML's own constructors raise for ``!!int x``, the 99th of a month and the like.
_NOT_WHAT_IT_SAYS: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
#: What YAML's own messages quote of an alias or a tag: an unquoted password may begin like one.
_QUOTED: Final = re.compile(r"(alias|tag|tag handle) (?:'.*'|\".*\")", re.DOTALL)
_OTHER_BASE: Final = re.compile(r"[+-]?(0[0-9_]|[0-9_]+:)")
_KINDS: Final[dict[type, str]] = {
    type(None): "nothing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    date: "a date",
    datetime: "an instant",
}


class _Refused(yaml.MarkedYAMLError):
    """Raised for what YAML itself would accept, with a meaning that nobody intends in settings."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a file holds.

    Raises:
        ConfigurationError: the file is missing, cannot be read, is too large, is not YAML, or holds something else. The
            message says where, but has no values: one of them may be a secret.
    """
    held = _bytes(path)
    try:
        said = _read(held.decode("utf-8"))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not readable as YAML: {_told(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not readable as YAML: no UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: not readable as YAML: nested too deeply") from None
    except _NOT_WHAT_IT_SAYS as error:
        kind = type(error).__name__
        raise ConfigurationError(
            f"{path}: not readable as YAML: a value does not fit its tag or form ({kind})"
        ) from None
    if not isinstance(said, dict):
        raise ConfigurationError(f"{path}: settings are a mapping of keys, and this is {kind_in_words(said)}.")
    return said


def value_in(text: str, name: str) -> Any:
    """The value of one setting that looks like a list or a mapping; its text if it is not YAML after all.

    Raises:
        ConfigurationError: it is YAML that a settings file may not hold; the message names the setting.

    >>> value_in("{size: 1 h}", "windowed_by"), value_in("[a-z", "regex")
    ({'size': '1 h'}, '[a-z')
    >>> value_in("{size: 1 h, size: 2 h}", "windowed_by")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: windowed_by: the key "size" comes twice, line 1, column 13
    """
    try:
        return _read(text)
    except _Refused as error:
        raise ConfigurationError(f"{name}: {_told(error)}") from None
    except (yaml.YAMLError, RecursionError, *_NOT_WHAT_IT_SAYS):
        return text


def kind_in_words(value: Any) -> str:
    """The kind of a value from YAML, in words, without the value.

    >>> kind_in_words(None), kind_in_words(True), kind_in_words([1])
    ('nothing', 'true or false', 'a list')
    """
    return _KINDS.get(type(value), "a value of another kind")


def told_of_key(key: object) -> str:
    """The message for a key that is not text, since YAML made something else of it.

    >>> told_of_key(True)
    'a key is text, and this one is true or false: YAML reads on, yes, true as that. Write it in quotes, such as "on".'
    >>> told_of_key(1)
    'a key is text, and this one is a number. Write it in quotes, if it is meant so.'
    """
    told = f"a key is text, and this one is {kind_in_words(key)}"
    if isinstance(key, bool):
        return f"{told}: {told_of_flag(key)}"
    return f"{told}. Write it in quotes, if it is meant so."


def told_of_flag(flag: bool) -> str:
    """The advice for true or false where a text may be meant.

    >>> told_of_flag(False)
    'YAML reads off, no, false as that. Write it in quotes, such as "off".'
    """
    words = ("on", "yes", "true") if flag else ("off", "no", "false")
    return f'YAML reads {", ".join(words)} as that. Write it in quotes, such as "{words[0]}".'


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir() or not path.exists():
            what = "this is a folder; name a file" if path.is_dir() else "there is no such file"
            raise ConfigurationError(f"{path}: {what}.")
        with path.open("rb") as file:  # or a pipe, whose size shows only on reading
            read = file.read(_MAX_BYTES + 1)
        if len(read) > _MAX_BYTES:
            raise ConfigurationError(f"{path}: this is too large for settings (at most {_MAX_BYTES} bytes).")
        return read
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}.") from None


def _read(text: str) -> Any:
    # Plain values only.
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is not None and _values(node, {}, set()) > _MAX_VALUES:
            raise _Refused(None, None, f"aliases make more than {_MAX_VALUES} values", node.start_mark)
        if node is None:
            return None
        # Check mappings as they are written: merged ones have the keys of both.
        for inner in _all(node):
            _refuse_doubles(inner)
            _refuse_other_number(inner)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """How many values a node has once all aliases are expanded; each node is visited once."""
    if id(node) in above:
        raise _Refused(None, None, "an alias stands within what it means", node.start_mark)
    if id(node) not in known:
        known[id(node)] = 1 + sum(_values(child, known, above | {id(node)}) for child in _children(node))
    return known[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _all(root: yaml.Node) -> Iterator[yaml.Node]:
    """A node and all nodes below it, each once."""
    waiting, visited = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        yield node
        new = [child for child in _children(node) if id(child) not in visited]
        visited.update(map(id, new))
        waiting += new


def _refuse_doubles(node: yaml.Node) -> None:
    """Refuse a key that occurs twice in one mapping, of which YAML would silently keep the last."""
    seen: set[str] = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        name = str(key.value)
        if name in seen and key.tag != "tag:yaml.org,2002:merge":
            raise _Refused(None, None, f'the key "{name}" comes twice', key.start_mark)
        seen.add(name)


def _refuse_other_number(node: yaml.Node) -> None:
    """Refuse what YAML reads as a number to the base 60 or 8: whoever writes a time or a code does not mean that."""
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and _OTHER_BASE.match(node.value):
        told = "a number with a colon or a 0 before it is one to the base 60 or 8; write it in quotes, or without"
        raise _Refused(None, None, told, node.start_mark)


def _told(error: yaml.YAMLError) -> str:
    """What is wrong and where, without quoting the line or a value in it.

    >>> _told(yaml.MarkedYAMLError(problem="found undefined alias 'tiger'"))
    'found undefined alias; write a text that begins with * or ! in quotes'
    """
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not one document"
    if isinstance(error, _Refused):
        return f"{problem}{where}"
    said = _QUOTED.sub(r"\1", problem)
    advice = "" if said == problem else "; write a text that begins with * or ! in quotes"
    return f"{said}{where}{advice}"
