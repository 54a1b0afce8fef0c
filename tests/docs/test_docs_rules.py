"""The rules that errors, docstrings and tests name by number are told on the page of rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from doc_blocks import DOCS, PAGES, PROJECT

_PAGE: Final = DOCS / "reference" / "rules.md"
_RULE: Final = re.compile(r"\bR(\d{1,3})\b")


def _named_in(file: Path) -> list[int]:
    return [int(number) for number in _RULE.findall(file.read_text(encoding="utf-8"))]


def _who_name_rules() -> Iterator[Path]:
    packages = ("versioned", "suppress", "streams", "jobs", "tests")
    yield from chain.from_iterable((PROJECT / package).rglob("*.py") for package in packages)
    yield from (page for page in (*PAGES, *PROJECT.glob("*.md")) if page != _PAGE)


def test_every_rule_that_code_pages_or_tests_name_is_told_on_the_page() -> None:
    told = set(_named_in(_PAGE))
    untold = {str(file.relative_to(PROJECT)): set(_named_in(file)) - told for file in _who_name_rules()}
    assert {file: rules for file, rules in untold.items() if rules} == {}


def test_the_page_tells_every_rule_once_and_in_order() -> None:
    lines = re.findall(r"^\| R(\d+) \| ", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = [int(number) for number in lines]
    assert told == list(range(1, len(told) + 1))
    assert _named_in(_PAGE) == told
