"""Where settings come from: a file, overridden by the environment, and both by ``--set``; the origin of each value.

The layers are sources of pydantic-settings, which puts them over each other. The parts of a path are separated by
``__`` in a variable and by dots in ``--set``; what looks like a list or a mapping is read as YAML. The options of a
source or of Kafka are Spark's: their names have dots, and their values stay text, JSON too.

>>> file = {"trigger": "available_now", "plan": {"calm": {"wait": "1 hour"}}}
>>> layers = Layers.of(file, {"VERSIONED_JOB__TRIGGER": "10 seconds"}, {"plan.calm.wait": "5 min"})
>>> layers.merged()
{'trigger': '10 seconds', 'plan': {'calm': {'wait': '5 min'}}}
>>> layers.origin(("trigger",)), layers.origin(("plan", "calm", "wait")), layers.origin(("order",))
('environment', '--set', 'default')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from jobs.strict import nearest
from jobs.yaml_file import told_of_key, value_in
from streams.reasons import INVALID
from versioned.errors import ConfigurationError

PREFIX: Final = "VERSIONED_JOB__"
#: The key from KIP-539, which has dots in its name.
RECORD_RETENTION: Final = "suppressed.record.retention.ms"
_DOTTED: Final = (RECORD_RETENTION,)
#: Below these keys, names are the user's own.
_NAMED: Final = ("plan", "plan_settings", "sources", "kafka")
#: What a named entry below these keys is called, and the keys of which each entry has one.
_MADE_BY: Final = {"plan": ("step", ("op",)), "sources": ("source", ("format", "table", "kafka"))}
#: Paths of mappings of options; None stands for a user's own name.
_OPTIONS: Final = (("sources", None, "options"), ("sources", None, "kafka", "options"), ("kafka", None, "options"))
#: The path of a mapping whose keys are reasons, which are upper case.
_REASONS: Final = ("sources", None, "contract", "on_invalid")
Origin = Literal["--set", "environment", "file", "default"]


def of_fields(environment: Mapping[str, str], fields: Collection[str]) -> dict[str, str]:
    """The variables for these fields, without those for other settings: a job's may be set where upkeep runs, too.

    >>> of_fields({"VERSIONED_JOB__ROOT": "tables", "VERSIONED_JOB__SOURCES__CLICKS__FORMAT": "kafka"}, ["root"])
    {'VERSIONED_JOB__ROOT': 'tables'}
    """
    known = set(map(_plain, fields))
    first = {name: name.removeprefix(PREFIX).split("__")[0] for name in environment if name.startswith(PREFIX)}
    return {name: environment[name] for name, field in first.items() if _plain(field) in known}


@dataclass(frozen=True)
class Layers:
    """The layers of settings, the strongest first."""

    layers: tuple[tuple[Origin, Mapping[str, Any]], ...]

    @classmethod
    def of(
        cls,
        file: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        sets: Mapping[str, str] | None = None,
    ) -> Layers:
        """The layers of a file, of the variables that begin with ``VERSIONED_JOB__``, and of ``--set``.

        Raises:
            ConfigurationError: a variable or a path goes below a key that holds a plain value, or into a step or source
                that does not exist; or a key is not text.
        """
        for key in file:
            if not isinstance(key, str):
                raise ConfigurationError(f"{key!r}: {told_of_key(key)}")
        variables = {
            name: name.removeprefix(PREFIX).split("__") for name in sorted(environment or {}) if name.startswith(PREFIX)
        }
        said = _said(variables, environment or {}, file)
        paths = {name: parts_of(name) for name in sets or {}}
        path_said = _said(paths, sets or {}, merged([said, file]))
        together = merged([path_said, said])
        for name, parts in (*variables.items(), *paths.items()):
            _check_is_there(together, file, parts, name)
        return cls((("--set", path_said), ("environment", said), ("file", file)))

    def merged(self) -> dict[str, Any]:
        """All layers as one mapping."""
        return merged([said for _, said in self.layers])

    def origin(self, path: Sequence[str]) -> Origin:
        """The layer that sets the value in effect at a path, or one above it; ``default`` if none does."""
        return next((origin for origin, said in self.layers if _says(said, path)), "default")


def merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge nested mappings; the strongest comes first.

    >>> merged([{"a": {"b": 1}}, {"a": {"b": 0, "c": 2}, "d": 3}])
    {'a': {'b': 1, 'c': 2}, 'd': 3}
    """

    class Said(BaseSettings):
        # No protected names: these are a user's keys.
        model_config = SettingsConfigDict(extra="allow", protected_namespaces=())

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(_Layer(settings_cls, said) for said in layers)

    got = Said().model_extra or {}
    # Keep the order of the file, the weakest layer: it is the one that people know.
    order = [key for said in reversed(layers) for key in said]
    return {key: got[key] for key in dict.fromkeys(order)}


class _Layer(PydanticBaseSettingsSource):
    """One layer as a pydantic-settings source. Its paths are resolved before, since names of steps are the user's."""

    def __init__(self, settings_cls: type[BaseSettings], said: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._said = said

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._said.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(self._said)


def parts_of(path: str) -> list[str]:
    """Split a dotted path into its keys; names that have dots themselves stay whole.

    >>> parts_of("plan.calm.wait"), parts_of("suppressed.record.retention.ms")
    (['plan', 'calm', 'wait'], ['suppressed.record.retention.ms'])
    >>> parts_of("sources.s.options.kafka.sasl.mechanism")
    ['sources', 's', 'options', 'kafka.sasl.mechanism']
    >>> parts_of("kafka.changes.options.kafka.linger.ms")
    ['kafka', 'changes', 'options', 'kafka.linger.ms']
    """
    if path in _DOTTED:
        return [path]
    parts = path.split(".")
    options = _options_at(parts)
    return parts if options is None else [*parts[:options], ".".join(parts[options:])]


def _options_at(parts: Sequence[str]) -> int | None:
    """How many parts of a path lead to a mapping of options; None if the path does not go below one.

    >>> _options_at(["sources", "s", "kafka", "options", "x"]), _options_at(["sources", "s", "options"])
    (4, None)
    """
    return next((len(above) for above in _OPTIONS if len(parts) > len(above) and _is_below(parts, above)), None)


def _is_below(parts: Sequence[str], above: Sequence[str | None]) -> bool:
    return len(parts) >= len(above) and all(key in (None, part) for key, part in zip(above, parts, strict=False))


def _said(paths: Mapping[str, Sequence[str]], values: Mapping[str, str], below: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that variables, or dotted paths, make together; ``below`` is the layer under them."""
    said: dict[str, Any] = {}
    for name, parts in paths.items():
        said = _with(said, below, parts, values[name], name)
    return said


def _check_is_there(said: Mapping[str, Any], below: Mapping[str, Any], path: Sequence[str], variable: str) -> None:
    """Refuse a path into a step or source that neither exists in the file nor is made by these variables or paths.

    >>> _check_is_there({"plan": {"clam": {"wait": "1 h"}}}, {"plan": {"calm": {}}}, ["plan", "clam", "wait"], "x")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: x: there is no step "clam"; did you mean "calm"? Allowed here: calm
    """
    field = path[0].lower()
    here, known = said.get(field), below.get(field)
    if field not in _MADE_BY or len(path) < 3 or not isinstance(here, Mapping) or not isinstance(known, Mapping):
        return
    what, makes = _MADE_BY[field]
    name = _key(path[1], [*here, *known], is_small=False)
    is_made = name not in here or (isinstance(here[name], Mapping) and {*makes} & {*here[name]})
    if known and name not in known and not is_made:
        raise ConfigurationError(f'{variable}: there is no {what} "{name}"{nearest(name, list(map(str, known)))}')


def _with(
    said: Any, below: Any, path: Sequence[str], value: str, variable: str, above: tuple[str, ...] = ()
) -> dict[str, Any]:
    """``said`` with one more value; ``below`` shows how keys are spelled, and which of them hold plain values."""
    for layer in (said, below):
        if not isinstance(layer, Mapping):
            # Do not quote the value: it may be a secret.
            raise ConfigurationError(f"{variable}: goes below a key that holds a value, not a mapping.")
    # Our own keys are lower case. A user's name may have upper case, which an all upper-case variable does not show.
    is_ours = not (above and above[0] in _NAMED)
    is_small = variable.startswith(PREFIX) and (is_ours or path[0].isupper())
    known = [*said, *below, *(INVALID if _is_below(above, _REASONS) else ())]
    key = _key(path[0], known, is_small)
    here = (*above, key)
    if len(path) > 1:
        return {**said, key: _with(said.get(key, {}), below.get(key, {}), path[1:], value, variable, here)}
    return {**said, key: value if _options_at(here) else _value(value, variable)}


def _key(part: str, known: Sequence[Any], is_small: bool) -> str:
    """The known key that a part of a path means: variables are upper case by custom, without dots and dashes.

    An unknown key stays as it is written, or becomes lower case if ``is_small``.
    """
    if part in known:
        return part
    same = (str(key) for key in (*known, *_DOTTED) if _plain(str(key)) == _plain(part))
    return next(same, part.lower() if is_small else part)


def _plain(name: str) -> str:
    return name.lower().replace(".", "_").replace("-", "_")


def _value(text: str, variable: str) -> Any:
    return value_in(text, variable) if text.lstrip().startswith(("{", "[")) else text


def _says(said: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(said, Mapping):
            return True
        if key not in said:
            return False
        said = said[key]
    return True
