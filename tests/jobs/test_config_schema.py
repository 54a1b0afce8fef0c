"""The published JSON schemas say what the settings accept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from typer.testing import CliRunner

from jobs.cli import app
from jobs.config_schema import FOLDER, KINDS, json_schema_of, kind_of, write
from jobs.strict import Strict
from versioned.errors import ConfigurationError

_CONF = Path(__file__).parents[2] / "conf"
_SCHEMAS = _CONF / "schema"
_FILES = sorted(_CONF.glob("*.yaml"))


def _validator(kind: str) -> Any:
    return jsonschema.Draft202012Validator(json_schema_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_schema_is_that_of_the_code(kind: str) -> None:
    published = json.loads((_SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(json_schema_of(kind))), "run: python -m jobs.config_schema"


def _models(kind: type[BaseModel] = Strict) -> Iterator[type[BaseModel]]:
    for model in kind.__subclasses__():
        yield model
        yield from _models(model)


@pytest.mark.parametrize("kind", KINDS)
def test_every_default_of_a_schema_can_be_written(kind: str) -> None:
    schema = json_schema_of(kind)
    models = {model.__name__: model for model in _models()} | {"": KINDS[kind]}
    wrong = {}
    for name, part in {"": schema, **schema.get("$defs", {})}.items():
        fields = {said.alias or field: said for field, said in models[name].model_fields.items() if name in models}
        for key, told in part.get("properties", {}).items():
            if told.get("default") is not None:
                adapter: TypeAdapter[Any] = TypeAdapter(Annotated[(fields[key].annotation, fields[key])])  # type: ignore[valid-type]
                try:
                    adapter.validate_python(told["default"], strict=True)
                except ValidationError as error:
                    wrong[f"{name}.{key}"] = str(error)
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
def test_one_schema_is_written_into_the_folder_that_is_named(kind: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["conf", "schema", kind, "--out", str(tmp_path / "schemas")])
    file = tmp_path / "schemas" / f"{kind}.schema.json"
    assert (ended.exit_code, ended.stdout.split()) == (0, [str(file)])
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(json_schema_of(kind)))
    assert [file] == list(file.parent.iterdir())


def test_all_kinds_are_written(tmp_path: Path) -> None:
    assert [file.name for file in write(tmp_path)] == [f"{kind}.schema.json" for kind in KINDS]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({}, "job"),
        ({"aplication": "a", "plan": {}}, "job"),
        ({"root": "t"}, "maintain"),
        ({"root": "t", "vacum": True}, "maintain"),
        ({"root": "t", "docs": "d", "vacuum": True, "purge": True}, "validate"),
        ({"root": "t", "dosc": "d"}, "validate"),
        ({"root": "t", "job": "job.yaml"}, "validate"),
        ({"root": "t", "exampels": 3, True: 1}, "validate"),
    ],
)
def test_settings_are_judged_as_those_that_their_keys_are_nearest_to(said: dict[Any, Any], kind: str) -> None:
    assert kind_of(said) == kind


def test_schemas_are_written_below_the_current_folder_and_not_beside_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(FOLDER)
    assert len(list((tmp_path / "conf" / "schema").iterdir())) == len(KINDS)


def test_a_folder_that_cannot_be_made_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file/schema: .*Name a folder that can be written"):
        write(tmp_path / "file" / "schema")


@pytest.mark.parametrize("file", _FILES, ids=[file.name for file in _FILES])
def test_every_file_of_conf_is_accepted_by_the_schema_that_it_names(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    named = re.fullmatch(r"# yaml-language-server: \$schema=schema/(\w+)\.schema\.json", text.splitlines()[0])
    assert named is not None
    kind = named[1]
    assert [error.message for error in _validator(kind).iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_job_has_its_file_in_conf(kind: str) -> None:
    first_lines = [file.read_text(encoding="utf-8").splitlines()[0] for file in _FILES]
    assert any(line.endswith(f"schema/{kind}.schema.json") for line in first_lines)


@pytest.mark.parametrize(
    "change",
    [
        {"tigger": "10 seconds"},
        {"order": "random"},
        {"metrics": {"levle": "debug"}},
        {"plan": {"a": {"op": "strem"}}},
        {"plan": {"a": {"op": "stream", "keys": "k"}}},
        {"plan": {"a": {"op": "filter", "from": "b"}}},
        {"plan": {"a": {"op": "suppress", "from": "b", "until": "time_limit"}}},
        {"plan": {"a": {"op": "count", "from": "b", "windowed_by": {"kind": "tumbling"}}}},
    ],
)
def test_an_editor_sees_the_same_faults(change: dict[str, Any]) -> None:
    said = yaml.safe_load((_CONF / "alert_few_events.yaml").read_text(encoding="utf-8"))
    assert not _validator("job").is_valid(said | change)
