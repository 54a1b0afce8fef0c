"""A topology as a picture: self-contained SVG, left to right, without any dependency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from streams.describe import what_it_is
from streams.nodes import GlobalTableSource, Node, Output, StreamSource, TableSource, Topology
from streams.plan_checks import is_versioned, windowed_ancestor

_BOX: Final = 216
_GAP_X: Final = 64
_GAP_Y: Final = 26
_MARGIN: Final = 28
_LEGEND: Final = 44
_LINE: Final = 16
_TITLE: Final = 26
_CHARACTERS: Final = 33
_LONGEST: Final = 4

#: Fill and border: what a box is can be told from its colour and, without colour, from its legend and its first line.
_COLOURS: Final = {
    "source stream": ("#e8f0fe", "#3367d6"),
    "stream": ("#f6f7f9", "#70757a"),
    "table": ("#fef7e0", "#b06000"),
    "versioned table": ("#e6f4ea", "#137333"),
    "windowed table": ("#f3e8fd", "#8430ce"),
    "sink": ("#ffffff", "#202124"),
}


@dataclass(frozen=True)
class _Box:
    node: Node
    lines: tuple[str, ...]
    x: int
    y: int

    @property
    def height(self) -> int:
        return _TITLE + _LINE * len(self.lines) + 10

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


def to_svg(topology: Topology) -> str:
    """The graph as SVG text: sources on the left, sinks on the right, one box per node.

    Example:
        >>> to_svg(Topology((StreamSource("clicks", topic="clicks"),))).startswith("<svg")
        True
    """
    boxes = _layout(topology)
    width = max(max((box.x for box in boxes.values()), default=0) + _BOX + _MARGIN, 5 * 150 + 2 * _MARGIN)
    height = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN + _LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-label="Topology" font-family="system-ui, Helvetica, Arial, sans-serif">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    parts += [_edge(boxes[parent], box) for box in boxes.values() for parent in box.node.parents]
    parts += [_drawn(box) for box in boxes.values()]
    return "\n".join([*parts, *_legend(height - _MARGIN), "</svg>"]) + "\n"


def role_of(node: Node) -> str:
    """What a box stands for: one of the legend's words, such as ``versioned table``."""
    if node.output is Output.NOTHING:
        return "sink"
    if node.output is Output.TABLE:
        if is_versioned(node):
            return "versioned table"
        return "table" if windowed_ancestor(node) is None else "windowed table"
    return "source stream" if isinstance(node, StreamSource) else "stream"


def _layout(topology: Topology) -> dict[Node, _Box]:
    columns: list[list[Node]] = []
    depth = _columns(topology)
    for node in topology:
        while len(columns) <= depth[node]:
            columns.append([])
        columns[depth[node]].append(node)
    boxes: dict[Node, _Box] = {}
    for number, column in enumerate(columns):
        y = _MARGIN
        for node in sorted(column, key=lambda node: _wanted(node, boxes)):
            lines = tuple(_wrapped(what_it_is(node)))
            box = _Box(node, lines, _MARGIN + number * (_BOX + _GAP_X), y)
            y = max(y, _wanted(node, boxes) - box.height // 2)
            boxes[node] = _Box(node, lines, box.x, y)
            y += box.height + _GAP_Y
    return boxes


def _columns(topology: Topology) -> dict[Node, int]:
    """A column per node: right of its parents; a source just left of the first node that reads it."""
    depth: dict[Node, int] = {}
    for node in topology:
        depth[node] = max((depth[parent] + 1 for parent in node.parents), default=0)
    for node in topology:
        if isinstance(node, (TableSource, GlobalTableSource, StreamSource)):
            readers = [depth[child] for child in topology.children(node)]
            depth[node] = max(0, min(readers, default=1) - 1)
    return depth


def _wanted(node: Node, boxes: dict[Node, _Box]) -> int:
    """Where a box would like its middle: beside its parents."""
    placed = [boxes[parent].middle for parent in node.parents if parent in boxes]
    return sum(placed) // len(placed) if placed else 0


def _wrapped(phrases: Sequence[str]) -> list[str]:
    """The kind on a line of its own, then the options, as many to a line as fit."""
    lines: list[str] = []
    for phrase in [phrases[0], *_packed(phrases[1:])]:
        rest = phrase
        while len(rest) > _CHARACTERS:
            cut = rest.rfind(" ", 1, _CHARACTERS)
            cut = cut if cut > 0 else _CHARACTERS
            lines.append(rest[:cut])
            rest = rest[cut:].strip()
        lines.append(rest)
    return lines if len(lines) <= _LONGEST else [*lines[: _LONGEST - 1], lines[_LONGEST - 1][: _CHARACTERS - 2] + " …"]


def _packed(phrases: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for phrase in phrases:
        if lines and len(lines[-1]) + len(phrase) + 2 <= _CHARACTERS:
            lines[-1] += f", {phrase}"
        else:
            lines.append(phrase)
    return lines


def _drawn(box: _Box) -> str:
    fill, border = _COLOURS[role_of(box.node)]
    name = box.node.name if len(box.node.name) <= 28 else box.node.name[:27] + "…"
    texts = "".join(
        f'<text x="{box.x + 10}" y="{box.y + _TITLE + 12 + _LINE * number}" font-size="11.5" fill="#3c4043">'
        f"{escape(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    return (
        f"<g><title>{escape(box.node.name)}: {escape(', '.join(what_it_is(box.node)))}</title>"
        f'<rect x="{box.x}" y="{box.y}" width="{_BOX}" height="{box.height}" rx="6" fill="{fill}" stroke="{border}" '
        f'stroke-width="1.5"/><text x="{box.x + 10}" y="{box.y + 19}" font-size="13" font-weight="600" fill="#202124">'
        f"{escape(name)}</text>{texts}</g>"
    )


def _edge(parent: _Box, child: _Box) -> str:
    start, end = parent.x + _BOX, child.x
    bend = max((end - start) // 2, 24)
    return (
        f'<path d="M{start} {parent.middle} C{start + bend} {parent.middle} {end - bend} {child.middle} '
        f'{end} {child.middle}" fill="none" stroke="#5f6368" stroke-width="1.4" marker-end="url(#head)"/>'
    )


def _legend(y: int) -> list[str]:
    parts = []
    for number, (role, (fill, border)) in enumerate(_COLOURS.items()):
        x = _MARGIN + number * 128
        parts.append(
            f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="3" fill="{fill}" stroke="{border}"/>'
            f'<text x="{x + 20}" y="{y}" font-size="11.5" fill="#3c4043">{role}</text>'
        )
    return parts
