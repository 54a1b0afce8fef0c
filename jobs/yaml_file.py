"""Reading a settings file: YAML of a sane size, in which no key is written twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from versioned.errors import ConfigurationError

_MAX_BYTES: Final = 1 << 20


class _Loader(yaml.SafeLoader):
    """Plain values only; a key that comes twice is refused, where YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f'the key "{name}" comes twice', key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a file holds.

    Raises:
        ConfigurationError: the file is missing, too large, no YAML, or holds something else.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file.")
    if path.stat().st_size > _MAX_BYTES:
        raise ConfigurationError(
            f"{path}: {path.stat().st_size} bytes is too large for settings (at most {_MAX_BYTES})."
        )
    try:
        # A subclass of yaml's own safe loader: plain values only.
        said = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(said, dict):
        raise ConfigurationError(f"{path}: settings are a mapping of keys, not {type(said).__name__}.")
    return said
