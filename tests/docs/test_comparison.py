"""The comparison with other systems says nothing that nobody backs: no test, no measurement, no documentation."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from doc_blocks import DOCS, PROJECT

_PAGE = (DOCS / "comparison.md").read_text(encoding="utf-8")
_SYSTEMS = ("here", "Kafka Streams", "Flink", "Spark 4.2", "AUTO CDC")
_WORDS = {"yes", "partly", "no", "own code", "not documented", "as Spark"}
_NO_CLAIM = {"not documented"}
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_LINK = re.compile(r"\]\((https://[^)\s]+)\)")
_SCENARIOS = re.compile(r"`(tests/traces/\w+\.json)`")


@dataclass(frozen=True)
class Claim:
    """One row of a feature's table: what a system does, and what that rests on."""

    feature: str
    system: str
    says: str
    rests_on: str

    @property
    def word(self) -> str:
        """The verdict, which is in bold."""
        found = re.match(r"\*\*(.+?)\*\*", self.says)
        return found[1] if found else ""


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _rows(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    lines = text.splitlines()
    heads = {number - 1 for number, line in enumerate(lines) if re.match(r"\|[-|]+\|$", line)}
    rules = {number + 1 for number in heads}
    return [_cells(line) for number, line in enumerate(lines) if line.startswith("|") and number not in heads | rules]


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", _PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


_BETTER = "What the others do better"
_CLAIMS = [Claim(feature, *row) for feature, text in _sections().items() if feature != _BETTER for row in _rows(text)]
_HERE = [claim for claim in _CLAIMS if claim.system == "here"]
_OTHERS = [claim for claim in _CLAIMS if claim.system != "here"]


def _name(claim: Claim) -> str:
    return f"{claim.feature}, {claim.system}"


def names_of_tests(file: Path) -> set[str]:
    """The names of the tests of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def missing_tests(text: str) -> list[str]:
    """The tests that a text names and that are not there."""
    return [
        f"{file}::{test}"
        for file, test in _TEST.findall(text)
        if not (PROJECT / file).is_file() or test not in names_of_tests(PROJECT / file)
    ]


@pytest.mark.parametrize("claim", _HERE, ids=_name)
def test_what_is_said_of_this_library_is_shown_by_tests_that_are_there(claim: Claim) -> None:
    assert _TEST.search(claim.rests_on)
    assert missing_tests(claim.rests_on) == []


@pytest.mark.parametrize(
    "text", ["`tests/docs/test_comparison.py::test_that_nobody_wrote`", "`tests/docs/test_nothing.py::test_a`"]
)
def test_a_test_that_is_not_there_is_found(text: str) -> None:
    assert missing_tests(text) == [text.strip("`")]


@pytest.mark.parametrize("claim", _OTHERS, ids=_name)
def test_what_is_said_of_another_system_rests_on_its_documentation_or_on_a_measurement(claim: Claim) -> None:
    assert claim.word in _NO_CLAIM or _LINK.search(claim.rests_on) or _SCENARIOS.search(claim.rests_on)


@pytest.mark.parametrize("row", _rows(_sections()[_BETTER]), ids=lambda row: row[0])
def test_what_the_others_do_better_rests_on_something_too(row: list[str]) -> None:
    assert _LINK.search(row[2]) or (PROJECT / row[2].strip("`")).is_file()


@pytest.mark.parametrize("claim", [claim for claim in _CLAIMS if "measured:" in claim.says], ids=_name)
def test_what_was_measured_of_kafka_streams_is_in_the_scenarios(claim: Claim) -> None:
    (mark,) = re.findall(r"\(`([\w-]+)`\)", claim.says)
    marks: set[str] = set()
    for file in _SCENARIOS.findall(claim.rests_on):
        for scenario in json.loads((PROJECT / file).read_text(encoding="utf-8")):
            said = scenario.get("kafka", [])
            for part in [said] if isinstance(said, dict) else said:
                because = part["because"]
                marks |= {because} if isinstance(because, str) else set(because)
    assert mark in marks


def test_each_feature_speaks_of_every_system_with_a_known_word() -> None:
    assert {feature: [c.system for c in _CLAIMS if c.feature == feature] for feature in _sections()} == {
        feature: [] if feature == _BETTER else list(_SYSTEMS) for feature in _sections()
    }
    assert {claim.word for claim in _CLAIMS} <= _WORDS


def test_the_table_at_the_top_says_what_the_sections_say() -> None:
    top = {re.sub(r"^\[(.+)\]\(.*\)$", r"\1", row[0]): row[1:] for row in _rows(_PAGE.split("\n## ")[0])}
    below = {
        feature: [c.word for c in _CLAIMS if c.feature == feature] for feature in _sections() if feature != _BETTER
    }
    assert top == below


def test_the_page_has_a_date() -> None:
    assert re.search(r"^As of \d{1,2} [A-Z][a-z]+ 20\d\d\.", _PAGE, re.MULTILINE)


def test_the_spark_that_is_installed_keeps_no_history_by_itself() -> None:
    """The page says so of Spark 4.2; with another Spark it has to be read again."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    said = (Path(spec.origin).parent / "pipelines" / "api.py").read_text(encoding="utf-8")
    assert 'Only 1 (or "1") is supported.' in said
