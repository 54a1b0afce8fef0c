"""A picture as SVG, as a page and in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from versioned.drawing import Picture, headline
from versioned.errors import ConfigurationError

_EVIL = "<script>alert('x')</script>"
_PICTURE = Picture(_EVIL, 100, 50, headline(_EVIL, [_EVIL]), columns=(_EVIL,), rows=((_EVIL,), ("b & c",)))


class _Tags(HTMLParser):
    """The tags of a page, and which of them are left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.outside += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def test_the_svg_is_well_formed_and_as_large_as_it_says() -> None:
    root = ElementTree.fromstring(_PICTURE.to_svg())
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("100", "50", "0 0 100 50")


def test_the_ground_is_light_whatever_lies_behind() -> None:
    ground = ElementTree.fromstring(_PICTURE.to_svg())[0]
    assert (ground.get("width"), ground.get("height"), ground.get("fill")) == ("100", "50", "#ffffff")


def test_every_tag_of_the_page_is_closed_and_none_is_a_script() -> None:
    tags = _Tags(_PICTURE.to_html())
    assert (tags.open, "script" in tags.seen) == ([], False)


def test_the_page_needs_nothing_from_outside() -> None:
    page = _PICTURE.to_html().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert (_Tags(page).outside, "http" in page, "@import" in page) == ([], False, False)


def test_the_page_has_a_row_for_each_row() -> None:
    assert _Tags(_PICTURE.to_html()).seen.count("td") == 2


def test_the_page_is_light_or_dark_as_the_reader_likes() -> None:
    assert "prefers-color-scheme: dark" in _PICTURE.to_html()


def test_braces_in_values_are_no_placeholders() -> None:
    assert "{title}" in Picture("{title}", 10, 10, (), columns=("a",), rows=(("{svg}",),)).to_html()


def test_notebooks_show_the_picture() -> None:
    assert _PICTURE._repr_svg_() == _PICTURE.to_svg()
    assert _PICTURE.to_svg() in _PICTURE._repr_html_()


@pytest.mark.parametrize(("name", "begins"), [("a.svg", "<svg"), ("a.html", "<!DOCTYPE html>")])
def test_the_ending_of_a_file_says_its_form(tmp_path: Path, name: str, begins: str) -> None:
    assert _PICTURE.save(tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_any_other_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.svg or \.html"):
        _PICTURE.save(str(tmp_path / "a.png"))
