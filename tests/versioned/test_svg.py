"""Elements of SVG: safe for any value, and words that fit."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from versioned.svg import compact, rect, shortened, text, text_width, xml_text

_ODD = [
    "<script>alert(1)</script>",
    "&amp;",
    "\"quoted\" 'text'",
    "]]>",
    "<!--",
    "Zoë 東京 🛫 مطار",
    "two\nlines\tand tabs",
]


@pytest.mark.parametrize("value", _ODD)
def test_text_reads_back_as_it_was(value: str) -> None:
    assert ElementTree.fromstring(text(0, 0, value)).text == value


@pytest.mark.parametrize("value", _ODD)
def test_a_title_reads_back_as_it_was(value: str) -> None:
    assert ElementTree.fromstring(rect(0, 0, 1, 1, "none", value)).findtext("title") == value


@pytest.mark.parametrize("value", ['"><script>', "' onload='x", "<&>"])
def test_an_attribute_reads_back_as_it_was(value: str) -> None:
    assert ElementTree.fromstring(rect(0, 0, 1, 1, "none", class_=value)).get("class") == value


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_cannot_hold_is_replaced(character: str) -> None:
    assert ElementTree.fromstring(f"<a>{xml_text(character)}</a>").text == "\ufffd"


@pytest.mark.parametrize(
    "words", ["short", "Newark Liberty International", "東京国際空港第三ターミナル", "WWWWWWWWWWWW"]
)
@pytest.mark.parametrize("width", [30, 60, 400])
def test_shortened_words_fit(words: str, width: int) -> None:
    assert text_width(shortened(words, width, 12), 12) <= width


def test_words_that_fit_are_not_shortened() -> None:
    assert shortened("Newark", 100, 12) == "Newark"


def test_a_label_has_one_line() -> None:
    assert shortened("two\nlines", 100, 12) == "two lines"


def test_no_room_gives_no_words() -> None:
    assert shortened("Newark", 5, 12) == ""


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (9_999, "9,999"), (10_000, "10 k"), (2_500_000, "2.5 M"), (10**12, "1 T")]
)
def test_round_numbers_are_told_in_short(value: int, words: str) -> None:
    assert compact(value) == words
