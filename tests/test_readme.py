"""Every block of code in the README runs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[1]
_TEXT = (_PROJECT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", _TEXT, re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_the_python_blocks_run_as_they_stand_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, object] = {}
    for block in _blocks("python"):
        exec(block, names)  # the README's own code
    printed = capsys.readouterr().out
    promised = re.findall(r"^# (PutCounts.*)$", _TEXT, re.MULTILINE)
    assert promised
    assert all(line in printed for line in promised)


def test_every_shell_command_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (_PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [line.split("#")[0].split() for block in _blocks("bash") for line in block.splitlines()]
    assert commands
    assert all(command[0] == "make" and command[1] in targets for command in commands)


def test_every_link_and_picture_is_a_file_of_the_project() -> None:
    targets = re.findall(r"\]\(([^)#]+)", _TEXT) + re.findall(r'<img src="([^"]+)"', _TEXT)
    assert targets
    assert [target for target in targets if not (_PROJECT / target).exists()] == []


def test_the_first_screen_says_what_it_is_and_has_the_two_commands_and_a_picture() -> None:
    screen = "\n".join(_TEXT.splitlines()[:20])
    assert "Versioned tables for Spark on Delta Lake" in screen
    assert "make quickstart" in screen
    assert "make test" in screen
    assert "<img src=" in screen
