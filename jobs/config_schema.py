"""``python -m jobs.config_schema [FOLDER]``: write JSON schemas of all settings, for editors, to ``conf/schema``.

A settings file names its schema in its first line: ``# yaml-language-server: $schema=schema/job.schema.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import TaggedUnionSchema

from jobs.maintain_settings import MaintainSettings
from jobs.settings import JobSettings
from jobs.strict import validated
from jobs.validate_settings import ValidateSettings
from versioned.durations import in_words
from versioned.errors import ConfigurationError
from versioned.given import close

#: Relative to the current folder: users of the installed library want the schemas in their own project.
FOLDER: Final = Path("conf", "schema")
#: The kinds of settings, and their models.
KINDS: Final[dict[str, type[BaseModel]]] = {
    "job": JobSettings,
    "maintain": MaintainSettings,
    "validate": ValidateSettings,
}


class _InWords(GenerateJsonSchema):
    """Generates schemas with default durations in words, as users write them: settings accept no ISO 8601.

    Alternatives that a function tells apart become ``anyOf``, since a value may match two of them: a text may be a
    field, or stand for a list of one.
    """

    def encode_default(self, dft: Any) -> Any:
        return in_words(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        made = super().tagged_union_schema(schema)
        return made if "discriminator" in made else {"anyOf" if key == "oneOf" else key: made[key] for key in made}


def json_schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of one kind of settings.

    >>> json_schema_of("validate")["required"]
    ['docs']
    """
    schema = KINDS[kind].model_json_schema(by_alias=True, schema_generator=_InWords)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"delta-versioned: {kind}"}


def kind_of(said: Mapping[str, Any]) -> str:
    """The kind of settings in a file: those of a job name an ``application``, those of a validation its ``docs``.

    Misspelt keys count as well, so that they are reported by the kind of settings they were meant for.

    >>> kind_of({"root": "tables", "purge": True}), kind_of({"root": "tables", "dcos": "pages"})
    ('maintain', 'validate')
    """
    if not said or {"application", "plan", "sources"} & set(said):
        return "job"
    is_validation = "docs" in said or _fit("validate", said) > _fit("maintain", said)
    return "validate" if is_validation else "maintain"


def _fit(kind: str, said: Mapping[str, Any]) -> int:
    """How many keys equal, or resemble, keys of a kind of settings."""
    return sum(close(str(key), KINDS[kind].model_fields) is not None for key in said)


def checked(said: dict[str, Any]) -> BaseModel:
    """Validated settings, of whichever kind they are.

    Raises:
        ConfigurationError: lists every fault with its path.
    """
    return validated(KINDS[kind_of(said)], said)


def write(folder: Path, kinds: Sequence[str] = tuple(KINDS)) -> list[Path]:
    """Write schemas into a folder, which is created if it does not exist.

    Args:
        folder: The folder.
        kinds: The kinds of settings.

    Returns:
        The files written.

    Raises:
        ConfigurationError: the folder cannot be created, or a file cannot be written.
    """
    files = [folder / f"{kind}.schema.json" for kind in kinds]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, file in zip(kinds, files, strict=True):
            file.write_text(json.dumps(json_schema_of(kind), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{folder}: {error.strerror}. Name a folder that can be written.") from None
    return files


def main(arguments: list[str]) -> None:
    """Write all schemas into the folder given as an argument."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help=f"default: {FOLDER}")
    print(*write(parser.parse_args(arguments).folder), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
