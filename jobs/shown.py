"""Settings for people to read: effective values with the origin of each, durations in words, no secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import yaml
from pydantic import BaseModel

from jobs.layers import Layers, Origin
from versioned.durations import in_words

HIDDEN: Final = "***"
#: Origins are aligned in one column after lines of at most this length.
_COLUMN: Final = 64
Path = tuple[str, ...]
#: Parts of names whose values are secret.
_WORDS: Final = (
    "password|passwd|pwd|passphrase|passcode|secret|token|credential|signature|(?:access|account|api|private).?key"
)
_NAMES: Final = rf"{_WORDS}|auth.?params|ticket|connection.?string|user.?info|jaas|authorization|cookie"
_SECRET: Final = re.compile(rf"{_NAMES}|\b(?:sas|sig|pw)\b|\bauth$|(?:key|pass|json)$", re.I)
#: ``user:password@`` in an address, and ``token@`` in a web address; ``abfss://container@account`` has neither.
_LOGIN: Final = re.compile(r"(?<=://)[^/\s:@]*:[^/\s]+(?=@)|(?:(?<=http://)|(?<=https://))[^/\s@]+(?=@)")
#: ``password=...`` in an address or a connection string, or ``"password": ...`` in text that is partly JSON.
_PAIR: Final = re.compile(
    rf"((?:{_WORDS}|\b(?:sas|sig|pass)|(?<=[?&;])[\w.-]*key)s?(?:\s*=|\"\s*:)\s*)"
    r"(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|[^&;\s]+)",
    re.I,
)
#: ``Bearer ...`` in a header, and other forms of authorization.
_HEADER: Final = re.compile(r"(\bAuthorization\s*:\s*(?:\w+\s+)?|\b(?:Bearer|Basic)\s+)\S+", re.I)
#: Names of a plan's arguments are a user's own: there, ``key`` is mostly a column.
_SECRET_ARGUMENT: Final = re.compile(rf"{_NAMES}|(?:^|[_.-])pass$", re.I)
#: Characters that end a line in YAML, besides the usual ones.
_SEPARATOR: Final = re.compile("[\x85\u2028\u2029]")
#: Settings whose text may hold a secret. In others, such as a plan, nothing is replaced: the text is part of what they
#: mean.
_MAY_HOLD: Final = frozenset(
    {"options", "path", "root", "tables", "checkpoint", "servers", "prometheus", "docs", "job"}
)
_ARGUMENTS: Final = "plan_settings"


def is_secret(argument: str) -> bool:
    """Whether an argument of a plan has the name of a secret.

    >>> is_secret("api_key"), is_secret("key")
    (True, False)
    """
    return _SECRET_ARGUMENT.search(argument) is not None


def shown(settings: Any) -> Any:
    """Settings as plain values for YAML or JSON; what has neither a value nor a default is left out.

    Secrets in options, paths, addresses and arguments of a plan are hidden.

    >>> from jobs.settings import SourceSettings
    >>> kafka = SourceSettings(format="kafka", options={"kafka.sasl.password": "tiger", "subscribe": "clicks"})
    >>> shown(kafka)["options"]
    {'kafka.sasl.password': '***', 'subscribe': 'clicks'}
    >>> shown(SourceSettings(format="x", options={"url": "jdbc:h2:mem?password=tiger&ssl=true"}))["options"]
    {'url': 'jdbc:h2:mem?password=***&ssl=true'}
    >>> from jobs.named_tables import NamedTables
    >>> shown(NamedTables(tables=["s3a://scott:tiger@shop/prices"]))
    {'tables': ['s3a://***@shop/prices']}
    >>> shown({"wait": timedelta(minutes=90)})
    {'wait': '1 hour 30 minutes'}
    """
    if isinstance(settings, BaseModel):
        fields = type(settings).model_fields.items()
        said = {
            info.alias or field: value
            for field, info in fields
            if (value := getattr(settings, field)) is not None or info.default is not None
        }
        return {field: _shown_field(field, value) for field, value in said.items()}
    if isinstance(settings, dict):
        return {str(key): shown(value) for key, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [shown(value) for value in settings]
    if isinstance(settings, timedelta):
        # In words, 0 is "0", which is not a duration.
        return in_words(settings) if settings else "0 seconds"
    return settings.isoformat() if isinstance(settings, datetime) else settings


def _shown_field(field: str, value: Any) -> Any:
    if field == _ARGUMENTS:
        return _hidden(shown(value), _SECRET_ARGUMENT)
    return _hidden(value) if field in _MAY_HOLD else shown(value)


def _hidden(said: Any, secret: re.Pattern[str] = _SECRET) -> Any:
    """Plain values without secrets, which are recognized by their names or, within a text, by their form.

    >>> _hidden({"api.key": "tiger", "conf": '{"user": {"name": "scott", "password": "tiger"}}'})
    {'api.key': '***', 'conf': '{"user": {"name": "scott", "password": "***"}}'}
    """
    if isinstance(said, dict):
        return {key: HIDDEN if secret.search(key) else _hidden(value, secret) for key, value in said.items()}
    if isinstance(said, (list, tuple)):
        return [_hidden(value, secret) for value in said]
    return _without_secrets(said) if isinstance(said, str) else said


def _without_secrets(text: str) -> str:
    if text.lstrip().startswith(("{", "[")):
        try:
            told = json.loads(text)
            hidden = _hidden(told)
        except (ValueError, RecursionError):
            pass
        else:
            return text if hidden == told else json.dumps(hidden, ensure_ascii=False)
    return _HEADER.sub(rf"\g<1>{HIDDEN}", _PAIR.sub(rf"\g<1>{HIDDEN}", _LOGIN.sub(HIDDEN, text)))


def origins(said: dict[str, Any], layers: Layers) -> dict[str, Origin]:
    """Which layer each shown value comes from, by its path.

    >>> origins({"trigger": "10 s", "order": "arrival"}, Layers.of({"trigger": "10 s"}))
    {'trigger': 'file', 'order': 'default'}
    """
    return {".".join(path): layers.origin(path) for path, _ in _values(_composed(_dumped(said)), ())}


def annotated(said: dict[str, Any], layers: Layers) -> str:
    """Shown settings as YAML; a comment after each value says where it comes from.

    >>> print(annotated({"trigger": "10 s", "order": "arrival"}, Layers.of({"trigger": "10 s"})))
    trigger: 10 s   # file
    order: arrival  # default
    """
    text = _dumped(said)
    lines = text.rstrip("\n").split("\n")
    ends = {line: layers.origin(path) for path, line in _values(_composed(text), ())}
    column = max((len(lines[line]) for line in ends if len(lines[line]) <= _COLUMN), default=0)
    for line, origin in ends.items():
        lines[line] = f"{lines[line]:<{column}}  # {origin}"
    return "\n".join(lines)


class _Dumper(yaml.SafeDumper):
    """Writes texts with unusual line separators in double quotes, where they are escaped: elsewhere YAML folds them."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _SEPARATOR.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _dumped(said: dict[str, Any]) -> str:
    # One line per value, as far as possible: wrapping long lines is left to the reader.
    return yaml.dump(said, Dumper=_Dumper, sort_keys=False, width=2**30, allow_unicode=True)


def _composed(text: str) -> yaml.Node:
    # The safe loader composes plain nodes; nothing is constructed.
    node = yaml.compose(text, yaml.SafeLoader)
    assert node is not None
    return node


def _values(node: yaml.Node, above: Path) -> Iterator[tuple[Path, int]]:
    """The path of each value, and the line at whose end its comment goes."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        path = (*above, str(key.value))
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _values(value, path)
        elif isinstance(value, yaml.SequenceNode) and value.value:
            yield path, key.end_mark.line
        else:
            yield path, value.end_mark.line
