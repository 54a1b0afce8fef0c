"""Settings as people read them: effective values with where each comes from, durations in words, no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import yaml
from pydantic import BaseModel

from jobs.layers import Layers, Origin
from streams.describe import span

HIDDEN: Final = "***"
#: Origins stand in one column behind lines that are no longer.
_COLUMN: Final = 64
Path = tuple[str, ...]
#: Parts of names whose values nobody is to see.
_WORDS: Final = "password|passwd|pwd|passphrase|secret|token|credential|signature|(?:access|account|api|private).?key"
_SECRET: Final = re.compile(rf"{_WORDS}|keystore.key|connection.?string|user.?info|jaas|\b(?:sas|sig)\b|sas.?key", re.I)
#: ``user:password@`` in an address.
_LOGIN: Final = re.compile(r"(?<=://)[^/\s:@]*:[^/\s]+(?=@)")
#: ``password=...`` in an address or a connection string; an expression of a plan compares with ``==``.
_PAIR: Final = re.compile(
    rf"((?:{_WORDS}|\bsas|\bsig)s?\s*=(?!=)\s*)(?:\"[^\"]*\"|'[^']*'|\{{[^}}]*\}}|[^&;\s]+)", re.I
)


def shown(settings: Any) -> Any:
    """Plain values for YAML or JSON; what is not set is left out, and secrets of a source's options are hidden.

    >>> from jobs.settings import SourceSettings
    >>> kafka = SourceSettings(format="kafka", options={"kafka.sasl.password": "tiger", "subscribe": "clicks"})
    >>> shown(kafka)["options"]
    {'kafka.sasl.password': '***', 'subscribe': 'clicks'}
    >>> shown({"wait": timedelta(minutes=90), "url": "jdbc://scott:tiger@db/x"})
    {'wait': '1 hour 30 minutes', 'url': 'jdbc://***@db/x'}
    >>> shown("jdbc:postgresql://db/x?user=scott&password=tiger&ssl=true")
    'jdbc:postgresql://db/x?user=scott&password=***&ssl=true'
    """
    if isinstance(settings, BaseModel):
        fields = type(settings).model_fields.items()
        said = {
            info.alias or field: value
            for field, info in fields
            if (value := getattr(settings, field)) is not None or info.default is not None
        }
        return {field: shown(_without_secrets(field, value)) for field, value in said.items()}
    if isinstance(settings, dict):
        return {str(key): shown(value) for key, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [shown(value) for value in settings]
    if isinstance(settings, timedelta):
        return span(settings) if settings else "0 seconds"
    if isinstance(settings, datetime):
        return settings.isoformat()
    return _plain(settings) if isinstance(settings, str) else settings


def _plain(text: str) -> str:
    return _PAIR.sub(rf"\g<1>{HIDDEN}", _LOGIN.sub(HIDDEN, text))


def _without_secrets(field: str, value: Any) -> Any:
    if field != "options":
        return value
    return {key: HIDDEN if _SECRET.search(key) else option for key, option in value.items()}


def origins(said: dict[str, Any], layers: Layers) -> dict[str, Origin]:
    """Which layer each shown value comes from, by its path.

    >>> origins({"trigger": "10 s", "order": "arrival"}, Layers.of({"trigger": "10 s"}))
    {'trigger': 'file', 'order': 'default'}
    """
    return {".".join(path): layers.origin(path) for path, _ in _values(_composed(_dumped(said)), ())}


def annotated(said: dict[str, Any], layers: Layers) -> str:
    """Shown settings as YAML; a comment behind each value says where it comes from.

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


def _dumped(said: dict[str, Any]) -> str:
    # Of one line each, as far as possible: long lines are for people to wrap.
    return yaml.safe_dump(said, sort_keys=False, width=2**30, allow_unicode=True)


def _composed(text: str) -> yaml.Node:
    # The safe loader composes plain nodes; nothing is constructed.
    node = yaml.compose(text, yaml.SafeLoader)
    assert node is not None
    return node


def _values(node: yaml.Node, above: Path) -> Iterator[tuple[Path, int]]:
    """The path of each value, and the line behind which there is room for a comment."""
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
