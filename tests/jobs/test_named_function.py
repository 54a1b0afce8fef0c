"""Functions that settings name, in modules beside their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import named_function as module
from jobs.named_function import look_beside, named_function
from versioned.errors import ConfigurationError

_PROGRAMS = Path(module.__file__).parent
_OURS = sorted(file.stem for file in _PROGRAMS.glob("[a-z]*.py"))


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's path and the folders of settings as they are without these tests."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for kept in ("_BESIDE", "_ADDED"):
        monkeypatch.setattr(module, kept, [])


def _job(folder: Path, said: str, **others: str) -> Path:
    """Settings beside a module whose function tells the name of its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{said}.py").write_text(f"def told():\n    return {folder.name!r}\n", encoding="utf-8")
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder / "job.yaml"


def test_each_job_gets_the_module_beside_its_own_settings_whichever_was_read_before(tmp_path: Path) -> None:
    jobs = [_job(tmp_path / name, "plans_of_two_jobs") for name in ("a", "b")]
    told = []
    for job in (*jobs, jobs[0]):
        look_beside(job)
        told.append(named_function("plans_of_two_jobs:told")())
    assert told == ["a", "b", "a"]


def test_what_a_module_imports_is_that_beside_it_too(tmp_path: Path) -> None:
    uses = "from helpers_of_two_jobs import told\n"
    told = []
    for name in ("a", "b"):
        look_beside(_job(tmp_path / name, "helpers_of_two_jobs", users_of_two_jobs=uses))
        told.append(named_function("users_of_two_jobs:told")())
    assert told == ["a", "b"]


def test_a_module_that_only_the_former_settings_have_stays_as_it_is(tmp_path: Path) -> None:
    look_beside(_job(tmp_path / "a", "plans_of_one_job"))
    before = named_function("plans_of_one_job:told")
    look_beside(_job(tmp_path / "b", "plans_of_another_job"))
    assert named_function("plans_of_one_job:told") is before


def test_a_module_that_python_finds_elsewhere_comes_before_one_beside_the_settings(tmp_path: Path) -> None:
    sys.path.insert(0, str(_job(tmp_path / "first", "plans_found_elsewhere").parent))
    look_beside(_job(tmp_path / "first", "plans_found_elsewhere"))
    look_beside(_job(tmp_path / "b", "plans_found_elsewhere"))
    assert named_function("plans_found_elsewhere:told")() == "first"


def test_settings_in_a_folder_that_python_looks_into_anyway_get_their_own_module(tmp_path: Path) -> None:
    look_beside(_job(tmp_path / "a", "plans_of_a_path"))
    assert named_function("plans_of_a_path:told")() == "a"
    job = _job(tmp_path / "b", "plans_of_a_path")
    sys.path.insert(0, str(job.parent))
    look_beside(job)
    assert named_function("plans_of_a_path:told")() == "b"


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("jobs.mine:told", "No module named 'jobs.mine'."), ("jobs.plan:told", "jobs.plan has no told.")],
)
def test_a_package_that_another_of_its_name_hides_is_told_with_both(name: str, lacks: str, tmp_path: Path) -> None:
    look_beside(_job(tmp_path / "jobs", "mine").parents[1] / "job.yaml")
    with pytest.raises(ConfigurationError) as refused:
        named_function(name)
    hidden = (
        f"Python found jobs in {_PROGRAMS / '__init__.py'}, which hides {tmp_path / 'jobs'}. Give yours another name."
    )
    assert str(refused.value) == f"{name} is not there: {lacks} {hidden}"


def test_only_modules_that_share_a_name_with_the_folder_s_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    look_beside(_job(tmp_path / "a", "plans_of_many_jobs"))
    named_function("plans_of_many_jobs:told")
    monkeypatch.setattr(module, "_is_of", lambda module, name, folder: looked_at.append(name))
    look_beside(_job(tmp_path / "b", "plans_of_many_jobs"))
    assert looked_at == ["plans_of_many_jobs"]


@pytest.mark.parametrize("program", ["run.py", "cli.py run --dry-run"])
def test_a_program_that_is_started_as_a_file_takes_the_users_module_whatever_it_is_called(
    program: str, tmp_path: Path
) -> None:
    # Each is the user's own, wherever it is imported: the plan imports all others.
    for name in _OURS:
        (tmp_path / f"{name}.py").write_text("is_mine = True\n", encoding="utf-8")
    imported = "".join(f"import {name}; assert {name}.is_mine\n" for name in _OURS if name != "plan")
    (tmp_path / "plan.py").write_text(f"{imported}def build():\n    return 'mine'\n", encoding="utf-8")
    said = "application: a\nroot: r\nplan: plan:build\nsources: {s: {format: rate}}\n"
    (tmp_path / "job.yaml").write_text(said, encoding="utf-8")
    file, *arguments = program.split()
    command = [sys.executable, str(_PROGRAMS / file), *arguments, "--config", "job.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(_PROGRAMS.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "plan: plan:build gives str, not a topology" in done.stderr
    assert done.returncode == 2
