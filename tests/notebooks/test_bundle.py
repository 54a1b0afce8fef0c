"""The wheel holds the library and runs without the project; the bundle's tasks call what the wheel has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import jobs.cli
from jobs.exit_codes import WRONG_SETTINGS
from jobs.maintenance import MaintainSettings
from jobs.settings import load
from jobs.strict import validated
from jobs.yaml_file import read_yaml

_PROJECT = Path(__file__).parents[2]
_NOTEBOOKS = sorted((_PROJECT / "notebooks").glob("*.py"))
#: What the wheel depends on beside Spark and what Spark's Python needs.
_NOT_IN_RUNTIME = ("great_expectations", "pydantic", "pydantic_settings", "yaml", "typer", "rich")
_PACKAGES = ("versioned", "suppress", "streams", "jobs")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as the bundle builds it, but for the folder."""
    dist = tmp_path_factory.mktemp("dist")
    build = _bundle()["artifacts"]["library"]["build"].split()
    subprocess.run([sys.executable, *build[1:], "-d", str(dist)], cwd=_PROJECT, check=True, capture_output=True)
    (found,) = dist.glob("*.whl")
    return found


def _bundle() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((_PROJECT / "databricks.yml").read_text(encoding="utf-8"))
    return found


def _tasks() -> Iterator[dict[str, Any]]:
    for job in _bundle()["resources"]["jobs"].values():
        yield from job["tasks"]


def test_the_wheel_holds_every_module_of_the_four_packages_conf_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    conf = _PROJECT / "conf"
    wanted = {
        str(file.relative_to(_PROJECT))
        for package in _PACKAGES
        for file in (_PROJECT / package).rglob("*")
        if file.suffix == ".py" or file.name == "py.typed"
    }
    assert held == wanted | {f"jobs/conf/{file.relative_to(conf)}" for file in conf.rglob("*") if file.is_file()}


def test_the_installed_wheel_runs_without_the_project(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), str(wheel)]
    subprocess.run(pip, check=True)
    code = (
        "import jobs.cli, jobs.session; print(jobs.__file__); print(jobs.session.project_settings({})); jobs.cli.main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "VERSIONED_JARS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, settings = ran.stdout.splitlines()[:2]
    assert where == str(tmp_path / "jobs" / "__init__.py")
    assert "DeltaSparkSessionExtension" in settings
    assert "UseParallelGC" in settings  # out of conf/, which went along
    assert f"-Dlog4j2.configurationFile={(tmp_path / 'jobs' / 'conf' / 'log4j2.properties').as_uri()}" in settings
    assert "maintain" in ran.stdout


def test_the_notebooks_install_this_wheel_and_no_other_pyspark_than_that_of_the_runtime(wheel: Path) -> None:
    # The wheel depends on PySpark: with its dependencies it would replace the runtime's.
    for notebook in _NOTEBOOKS:
        assert f"# MAGIC %pip install -q --no-deps ../dist/{wheel.name}\n" in notebook.read_text(encoding="utf-8")


@pytest.mark.parametrize("notebook", _NOTEBOOKS, ids=[notebook.stem for notebook in _NOTEBOOKS])
def test_a_notebook_imports_nothing_that_a_runtime_with_spark_lacks(notebook: Path) -> None:
    imports = [
        ast.unparse(node)
        for node in ast.parse(notebook.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert imports
    missing = [f"sys.modules[{name!r}] = None" for name in _NOT_IN_RUNTIME]
    code = "; ".join(["import sys", *missing, *imports])
    subprocess.run([sys.executable, "-c", code], cwd=_PROJECT, check=True)


@pytest.mark.parametrize("task", list(_tasks()), ids=lambda task: task["task_key"])
def test_a_task_calls_a_command_that_the_wheel_has(wheel: Path, task: dict[str, Any], tmp_path: Path) -> None:
    called = task["python_wheel_task"]
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith("entry_points.txt"))
        points = ConfigParser()
        points.read_string(files.read(name).decode())
    assert wheel.name.startswith(f"{called['package_name']}-")
    assert points["console_scripts"][called["entry_point"]] == "jobs.cli:main"
    assert task["libraries"] == [{"whl": "./dist/*.whl"}]
    variables = _bundle()["variables"]
    known = {
        "${workspace.file_path}": str(_PROJECT),
        "${var.config}": variables["config"]["default"],
        "${var.work}": str(tmp_path),
    }
    words = list(called["parameters"])
    for variable, value in known.items():
        words = [word.replace(variable, value) for word in words]
    assert not [word for word in words if "${" in word]
    # The command's own parser reads them; it refuses what it does not know.
    command = typer.main.get_command(jobs.cli.app).commands[words[0]]
    config = command.make_context(words[0], words[1:]).params["config"]
    if words[0] == "run":
        assert load(config).application
    else:
        assert validated(MaintainSettings, read_yaml(config)).root


def test_every_variable_without_a_default_is_explained_and_every_one_is_used() -> None:
    text = (_PROJECT / "databricks.yml").read_text(encoding="utf-8")
    for name, said in _bundle()["variables"].items():
        assert said["description"]
        assert f"${{var.{name}}}" in text


def test_a_production_target_says_where_its_only_copy_lies() -> None:
    # Databricks' command refuses to deploy one without it.
    targets = _bundle()["targets"].values()
    roots = [target["workspace"]["root_path"] for target in targets if target["mode"] == "production"]
    assert roots
    assert all("${bundle.name}" in root and "${bundle.target}" in root for root in roots)


def test_every_cluster_may_read_the_volumes_of_a_catalog() -> None:
    clusters = [one["new_cluster"] for job in _bundle()["resources"]["jobs"].values() for one in job["job_clusters"]]
    assert {cluster["data_security_mode"] for cluster in clusters} == {"SINGLE_USER"}


def test_one_application_never_has_two_drivers_at_a_time() -> None:
    assert {job["max_concurrent_runs"] for job in _bundle()["resources"]["jobs"].values()} == {1}


def test_the_command_returns_where_all_went_well_and_exits_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["versioned", "--help"])
    jobs.cli.main()
    monkeypatch.setattr(sys, "argv", ["versioned", "run", "--confg", "x"])
    with pytest.raises(SystemExit) as ended:
        jobs.cli.main()
    assert ended.value.code == WRONG_SETTINGS
