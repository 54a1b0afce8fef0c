"""The code blocks of the documentation, and the check of each kind. A language without a check is a fault by itself.

| block | check |
|---|---|
| ``python`` | runs, after the blocks before it on its page, without Spark |
| ``text`` after a ``python`` or ``sql`` block | is exactly what that block prints |
| ``python title="on Spark"``, ``sql`` | runs in one Spark session (``test_docs_on_spark.py``) |
| ``yaml`` | is accepted by the loader of the settings; plans are built |
| ``bash`` | each command exists, takes these options, and the files that it names are there |
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import typer.main

from jobs.cli import app
from jobs.config_schema import checked
from jobs.fetch_jars import WANTED
from jobs.job_plan import plan_of
from jobs.layers import Layers
from jobs.plan import build
from jobs.plan_settings import steps_of
from jobs.session import DELTA
from jobs.settings import JobSettings, read
from jobs.yaml_file import read_yaml

PROJECT: Final = Path(__file__).parents[2]
DOCS: Final = PROJECT / "docs"
#: All of them, the decision records too.
PAGES: Final = sorted(DOCS.rglob("*.md"))
_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_SPARK_SUBMIT: Final = (
    "--master",
    "--deploy-mode",
    "--properties-file",
    "--load-spark-defaults",
    "--conf",
    "--jars",
    "--packages",
    "--py-files",
    "--driver-java-options",
)
_SETTING: Final = re.compile(r"^[A-Z_]+=")


class BrokenBlockError(Exception):
    """A block does not do what the page says."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the rest of its first line, its text, and where it stands."""

    language: str
    title: str
    text: str
    line: int

    @property
    def needs_spark(self) -> bool:
        """Whether it runs in a Spark session."""
        return self.language == "sql" or (self.language == "python" and "on Spark" in self.title)


def blocks_of(markdown: str) -> list[Block]:
    """Every fenced block, indented ones too.

    Raises:
        BrokenBlockError: a fence is not closed.
    """
    found: list[Block] = []
    lines = markdown.splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        number += 1
        if opened is None:
            continue
        start, text = number, []
        while number < len(lines) and lines[number].strip() != opened["ticks"]:
            text.append(lines[number].removeprefix(opened["indent"]))
            number += 1
        if number == len(lines):
            raise BrokenBlockError(f"line {start}: the block is not closed")
        number += 1
        language, _, title = opened["info"].strip().partition(" ")
        found.append(Block(language, title, "\n".join(text) + "\n", start))
    return found


def check_page(markdown: str) -> int:
    """Check every block of a page that needs no Spark; blocks of Python share their names, one page long.

    Returns:
        How many blocks were checked.

    Raises:
        BrokenBlockError: with the line and the reason.
    """
    names: dict[str, Any] = {"__name__": "docs"}
    blocks = blocks_of(markdown)
    for before, block in zip([None, *blocks], blocks, strict=False):
        if block.needs_spark:
            continue
        try:
            _check(block, before, names)
        except BrokenBlockError:
            raise
        except BaseException as error:
            raise BrokenBlockError(f"line {block.line}: {type(error).__name__}: {error}") from error
    return sum(not block.needs_spark for block in blocks)


def run_python(block: Block, names: dict[str, Any]) -> str:
    """Run a block and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, f"<line {block.line}>", "exec", dont_inherit=True), names)  # the page's own code
    return printed.getvalue()


def _check(block: Block, before: Block | None, names: dict[str, Any]) -> None:
    if block.language == "python":
        names["_printed"] = run_python(block, names)
    elif block.language == "text":
        _check_output(block, before, names)
    elif block.language == "yaml":
        check_yaml(block.text)
    elif block.language == "bash":
        check_shell(block.text)
    else:
        raise BrokenBlockError(f'line {block.line}: nothing checks blocks of language "{block.language}"')


def _check_output(block: Block, before: Block | None, names: dict[str, Any]) -> None:
    if before is not None and before.needs_spark:
        return  # compared where that block runs
    if before is None or before.language != "python":
        raise BrokenBlockError(f"line {block.line}: a text block shows what the Python block before it prints")
    if block.text.rstrip() != str(names["_printed"]).rstrip():
        raise BrokenBlockError(f"line {block.line}: it prints\n{names['_printed']}\nthe page says\n{block.text}")


def check_yaml(text: str) -> None:
    """Check settings of a job or of upkeep, or the steps of a plan alone (``plan:`` and nothing else).

    Raises:
        ConfigurationError: as the loader says.
        TopologyError: a plan that can never work.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        said = read_yaml(Path(file.name))
    if set(said) == {"plan"}:
        build(steps_of(said["plan"]))
        return
    settings = checked(said)
    if isinstance(settings, JobSettings):
        plan_of(settings)


def check_shell(text: str) -> None:
    """Check that every command exists and takes its options, and that the project's files that it names exist.

    Raises:
        BrokenBlockError: a command is none of those that can be checked, or names what does not exist.
    """
    joined = text.replace("\\\n", " ")
    commands = [shlex.split(line, comments=True) for line in joined.splitlines()]
    for words in filter(None, commands):
        settings = {}
        while _SETTING.match(words[0]):
            name, _, settings[name] = words.pop(0).partition("=")
        _check_files(words, settings)
        check = _COMMANDS.get(words[0])
        if check is None:
            raise BrokenBlockError(f'"{words[0]}" is no command that is checked: {", ".join(_COMMANDS)}')
        check(words)


def _check_files(words: list[str], settings: dict[str, str]) -> None:
    for word in words:
        if re.match(r"(conf|jobs|docs|tests)/", word) and not (PROJECT / word).exists():
            raise BrokenBlockError(f"{word}: there is no such file")
    configs = [PROJECT / word for word in words if word.startswith("conf/") and word.endswith(".yaml")]
    if settings and not configs:
        raise BrokenBlockError(f"{settings}: nothing reads them")
    for config in configs:
        settings_said = checked(Layers.of(read(config, {}), settings).merged())
        if isinstance(settings_said, JobSettings):
            plan_of(settings_said)


def _check_make(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for word in words[1:]:
        if word not in targets:
            raise BrokenBlockError(f"make {word}: there is no such target")


def _check_versioned(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    arguments, path = words[1:], "versioned"
    while hasattr(command, "commands"):
        if not arguments or arguments[0] not in command.commands:
            raise BrokenBlockError(f"{path}: no command {arguments[:1]}; there are {sorted(command.commands)}")
        command, arguments, path = command.commands[arguments[0]], arguments[1:], f"{path} {arguments[0]}"
    try:
        command.make_context(path, list(arguments))
    except Exception as error:
        raise BrokenBlockError(f"{path}: {type(error).__name__}: {error}") from error


def _check_program(words: list[str]) -> None:
    """Check that the program of ``python -m jobs.x`` or ``spark-submit jobs/x.py`` exists and knows the options."""
    if words[0] == "spark-submit":
        program = next((PROJECT / word for word in words[1:] if word.endswith(".py")), None)
        place = words.index(str(program.relative_to(PROJECT))) if program else len(words)
        rest = words[place + 1 :]
        for option in (word for word in words[1:place] if word.startswith("--")):
            if option not in _SPARK_SUBMIT:
                raise BrokenBlockError(f"spark-submit {option}: known are {', '.join(_SPARK_SUBMIT)}")
        _check_packages(words[1:place])
    elif words[1:2] == ["-m"]:
        program, rest = PROJECT / (words[2].replace(".", "/") + ".py"), words[3:]
    else:
        program, rest = None, []
    if program is None or not program.is_file():
        raise BrokenBlockError(f"{shlex.join(words)}: there is no such program")
    source = program.read_text(encoding="utf-8")
    for option in (word for word in rest if word.startswith("--")):
        if f'"{option}"' not in source:
            raise BrokenBlockError(f"{program.name} does not know {option}")


def _check_packages(options: list[str]) -> None:
    """Check that Delta Lake is named, which spark-submit lacks, and that all packages are those of the tests."""
    said = dict(pairwise(options))
    named = said.get("--packages", "").split(",")
    if DELTA not in named and "--jars" not in said:
        raise BrokenBlockError(f"spark-submit is not told where Delta Lake is: --packages {DELTA}, or --jars")
    known = [wanted.package for group in WANTED.values() for wanted in group]
    for package in filter(None, named):
        if package not in known:
            raise BrokenBlockError(f"{package} is none of the packages that are tested: {', '.join(known)}")


def _check_pip(words: list[str]) -> None:
    extras = re.findall(r"\[([a-z,]+)\]", " ".join(words))
    declared = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    if words[1] != "install" or "-e" not in words:
        raise BrokenBlockError(f"{shlex.join(words)}: only an installation from the project is known to work")
    for extra in ",".join(extras).split(","):
        if extra and not re.search(rf"^{extra} = \[", declared, re.MULTILINE):
            raise BrokenBlockError(f"there is no extra {extra}")


def _check_mkdocs(words: list[str]) -> None:
    if words[1] not in ("build", "serve") or not (PROJECT / "mkdocs.yml").is_file():
        raise BrokenBlockError(f"{shlex.join(words)}: mkdocs builds or serves mkdocs.yml")


_COMMANDS: Final[dict[str, Any]] = {
    "make": _check_make,
    "versioned": _check_versioned,
    "spark-submit": _check_program,
    "python": _check_program,
    "pip": _check_pip,
    "mkdocs": _check_mkdocs,
}
