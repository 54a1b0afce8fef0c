"""``python -m jobs.config_schema [FOLDER]``: JSON schemas of all settings, for editors, into ``conf/schema``.

A file of settings names its schema in its first line: ``# yaml-language-server: $schema=schema/job.schema.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from jobs.maintenance import MaintainSettings
from jobs.settings import JobSettings
from jobs.strict import validated
from jobs.validate_settings import ValidateSettings

FOLDER: Final = Path(__file__).parents[1] / "conf" / "schema"
#: What kinds of settings there are.
KINDS: Final[dict[str, type[BaseModel]]] = {
    "job": JobSettings,
    "maintain": MaintainSettings,
    "validate": ValidateSettings,
}


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of one kind of settings.

    >>> schema_of("maintain")["required"]
    ['root']
    """
    schema = KINDS[kind].model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"delta-versioned: {kind}"}


def checked(said: dict[str, Any]) -> BaseModel:
    """Settings of whichever kind: those of a job name an ``application``, those of a validation its ``docs``.

    Raises:
        ConfigurationError: every fault with its path.
    """
    is_job = bool({"application", "plan", "sources"} & set(said))
    return validated(KINDS["job" if is_job else "validate" if "docs" in said else "maintain"], said)


def write(folder: Path) -> list[Path]:
    """Write all schemas into a folder.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in KINDS:
        files.append(folder / f"{kind}.schema.json")
        files[-1].write_text(json.dumps(schema_of(kind), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return files


if __name__ == "__main__":
    print(*write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER), sep="\n")
