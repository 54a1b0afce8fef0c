"""SVG elements as text, with every value escaped. Pure."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import Final

INK: Final = "#202124"
SOFT_INK: Final = "#5f6368"
RULE: Final = "#e3e5e8"
STRIPE: Final = "#f8f9fa"

#: What XML 1.0 cannot hold, not even escaped: control characters, halves of surrogate pairs, two non-characters.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_UNITS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_SPACES: Final = re.compile(r"\s+")
_WIDE: Final = frozenset("mwMW@%&<>=+~#")
_NARROW: Final = frozenset(" .,:;!'|()[]{}ijlftI1-·")


def xml_text(value: object) -> str:
    """Any value as text for XML content or attributes; characters that XML cannot hold become U+FFFD.

    Example:
        >>> xml_text('a<b & "c"') + xml_text(chr(0))
        'a&lt;b &amp; &quot;c&quot;\ufffd'
    """
    return escape(_NOT_XML.sub("\ufffd", str(value)))


def text_width(words: str, size: float) -> float:
    """The estimated width of words in pixels, rather too wide than too narrow.

    Example:
        >>> text_width("il", 10) < text_width("ab", 10) < text_width("\u6771\u4eac", 10)
        True
    """
    return size * sum(map(_ems, words))


def shortened(words: str, width: float, size: float) -> str:
    """Words on one line, cut to a width in pixels, with an ellipsis; empty if not even two characters fit.

    Example:
        >>> shortened("Newark Liberty International", 64, 12), shortened("Newark", 9, 12)
        ('Newark\u2026', '')
    """
    words = _SPACES.sub(" ", words).strip()
    if text_width(words, size) <= width:
        return words
    room, kept = width - size, 0
    while kept < len(words) and room >= size * _ems(words[kept]):
        room -= size * _ems(words[kept])
        kept += 1
    return f"{words[:kept].rstrip()}…" if kept > 1 else ""


def text(
    x: float, y: float, words: str, *, size: float = 11.5, fill: str = INK, title: str = "", **attributes: str
) -> str:
    """A line of text, with a tooltip; underscores in attribute names stand for hyphens."""
    sides: dict[str, object] = {"x": x, "y": y, "font-size": size, "fill": fill}
    return _element("text", {**sides, **attributes}, _title(title) + xml_text(words))


def rect(x: float, y: float, width: float, height: float, fill: str, title: str = "", **attributes: str) -> str:
    """A rectangle, with a tooltip; ``class_`` is its class."""
    sides: dict[str, object] = {"x": x, "y": y, "width": width, "height": height, "fill": fill}
    return _element("rect", {**sides, **attributes}, _title(title))


def line(start: tuple[float, float], end: tuple[float, float], stroke: str = RULE, **attributes: str) -> str:
    """A straight line."""
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    return _element("line", {**ends, "stroke": stroke, **attributes}, "")


def path(steps: str, **attributes: str) -> str:
    """A path; underscores in attribute names stand for hyphens."""
    return _element("path", {"d": steps, **attributes}, "")


def number(value: float) -> str:
    """A coordinate as text, rounded to a hundredth of a pixel.

    Example:
        >>> number(3.0), number(2.345)
        ('3', '2.35')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def compact(value: int) -> str:
    """A round number in short form, for a scale.

    Example:
        >>> compact(1_000), compact(20_000), compact(1_500_000), compact(10**15)
        ('1,000', '20 k', '1.5 M', '1,000 T')
    """
    if value < 10_000:
        return f"{value:,}"
    size, unit = next((size, unit) for size, unit in _UNITS if value >= size)
    return f"{value / size:,.1f}".removesuffix(".0") + f" {unit}"


def _element(name: str, attributes: dict[str, object], inner: str) -> str:
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{_said(value)}"' for key, value in attributes.items())
    return f"<{name}{said}>{inner}</{name}>" if inner else f"<{name}{said}/>"


def _said(value: object) -> str:
    return number(value) if isinstance(value, (int, float)) else xml_text(value)


def _title(words: str) -> str:
    return f"<title>{xml_text(words)}</title>" if words else ""


def _ems(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.36
    return 0.9 if character in _WIDE else 0.72 if character.isupper() else 0.62
