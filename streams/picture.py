"""A topology as a picture: self-contained SVG, drawn left to right, without dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams.describe import what_it_is
from streams.nodes import SOURCES, Node, Output, StreamSource, Topology
from streams.plan_facts import is_versioned, windowed_ancestor
from versioned.drawing import Picture
from versioned.svg import text_width, xml_text

_BOX: Final = 216
_GAP_X: Final = 64
_GAP_Y: Final = 26
_MARGIN: Final = 28
_LEGEND: Final = 44
_LINE: Final = 16
_TITLE: Final = 26
_CHARACTERS: Final = 33
_LONGEST: Final = 5
_LANE: Final = 12

#: Fill and border of a box, whose role can be seen from its colour and the legend; without colour, from its first line.
_COLOURS: Final = {
    "source stream": ("#e8f0fe", "#3367d6"),
    "stream": ("#f6f7f9", "#70757a"),
    "table": ("#fef7e0", "#b06000"),
    "versioned table": ("#e6f4ea", "#137333"),
    "windowed table": ("#f3e8fd", "#8430ce"),
    "sink": ("#ffffff", "#202124"),
}
_ARROW_HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker>'
)


@dataclass(frozen=True)
class _Lane:
    """Room in a column for an arrow that goes past it, so that no arrow runs behind a box."""

    parent: Node
    child: Node
    column: int


@dataclass(frozen=True)
class _Box:
    lines: tuple[str, ...]
    height: int
    x: int
    y: int

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


def to_svg(topology: Topology) -> str:
    """The graph as SVG text: sources on the left, sinks on the right, one box per node.

    Example:
        >>> to_svg(Topology((StreamSource("clicks", topic="clicks"),))).startswith("<svg")
        True
    """
    return topology_picture(topology).to_svg()


def topology_picture(topology: Topology) -> Picture:
    """The graph as a picture that notebooks show and that can be saved as a page; its table lists the nodes.

    Example:
        >>> topology_picture(Topology((StreamSource("clicks", topic="clicks"),))).rows[0][0]
        'clicks'
    """
    boxes = _layout(topology)
    width = max(max((box.x for box in boxes.values()), default=0) + _BOX + _MARGIN, 5 * 150 + 2 * _MARGIN)
    height = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN + _LEGEND
    parts = [
        _edge([boxes[stop] for stop in _stops(node, parent, boxes)]) for node in topology for parent in node.parents
    ]
    parts += [_drawn(node, boxes[node]) for node in topology]
    nodes = tuple((node.name, role_of(node), ", ".join(what_it_is(node))) for node in topology)
    return Picture(
        "Topology", width, height, (*parts, *_legend(height - _MARGIN)), (_ARROW_HEAD,), ("node", "role", "what"), nodes
    )


def role_of(node: Node) -> str:
    """The role of a node, in the words of the legend, such as ``versioned table``."""
    if node.output is Output.NOTHING:
        return "sink"
    if node.output is Output.TABLE:
        if is_versioned(node):
            return "versioned table"
        return "table" if windowed_ancestor(node) is None else "windowed table"
    return "source stream" if isinstance(node, StreamSource) else "stream"


def _layout(topology: Topology) -> dict[Node | _Lane, _Box]:
    depth = _columns(topology)
    columns: list[list[Node | _Lane]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in topology:
        columns[depth[node]].append(node)
        for parent in node.parents:
            for number in range(depth[parent] + 1, depth[node]):
                columns[number].append(_Lane(parent, node, number))
    boxes: dict[Node | _Lane, _Box] = {}
    for number, column in enumerate(columns):
        y = _MARGIN
        # Sources prefer no position, so they keep the order of the plan.
        for item in sorted(column, key=lambda item: _wanted(item, boxes)):
            lines = tuple(_wrapped(what_it_is(item))) if isinstance(item, Node) else ()
            height = _TITLE + _LINE * len(lines) + 10 if isinstance(item, Node) else _LANE
            y = max(y, _wanted(item, boxes) - height // 2)
            boxes[item] = _Box(lines, height, _MARGIN + number * (_BOX + _GAP_X), y)
            y += height + _GAP_Y
    return boxes


def _stops(node: Node, parent: Node, boxes: Mapping[Node | _Lane, _Box]) -> list[Node | _Lane]:
    """Where the arrow from a parent passes: the parent, its lanes from left to right, the node."""
    lanes = [item for item in boxes if isinstance(item, _Lane) and (item.parent, item.child) == (parent, node)]
    return [parent, *lanes, node]


def _columns(topology: Topology) -> dict[Node, int]:
    """A column per node: right of its parents; a source just left of the first node that reads it."""
    depth: dict[Node, int] = {}
    for node in topology:
        depth[node] = max((depth[parent] + 1 for parent in node.parents), default=0)
    for node in topology:
        if isinstance(node, SOURCES):
            readers = [depth[child] for child in topology.children(node)]
            depth[node] = max(0, min(readers, default=1) - 1)
    return depth


def _wanted(item: Node | _Lane, boxes: Mapping[Node | _Lane, _Box]) -> int:
    """The preferred height of an item's middle: level with what leads to it, 0 if nothing does."""
    ways = [(item.child, item.parent)] if isinstance(item, _Lane) else [(item, parent) for parent in item.parents]
    # Only items further left have been placed.
    before = [
        [stop for stop in _stops(node, parent, boxes) if stop in boxes and stop is not item] for node, parent in ways
    ]
    placed = [boxes[stops[-1]].middle for stops in before if stops]
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


def _drawn(node: Node, box: _Box) -> str:
    fill, border = _COLOURS[role_of(node)]
    name = node.name if len(node.name) <= 28 else node.name[:27] + "…"
    texts = "".join(
        f'<text x="{box.x + 10}" y="{box.y + _TITLE + 12 + _LINE * number}" font-size="11.5" fill="#3c4043">'
        f"{xml_text(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    return (
        f"<g><title>{xml_text(node.name)}: {xml_text(', '.join(what_it_is(node)))}</title>"
        f'<rect x="{box.x}" y="{box.y}" width="{_BOX}" height="{box.height}" rx="6" fill="{fill}" stroke="{border}" '
        f'stroke-width="1.5"/><text x="{box.x + 10}" y="{box.y + 19}" font-size="13" font-weight="600" fill="#202124">'
        f"{xml_text(name)}</text>{texts}</g>"
    )


def _edge(stops: Sequence[_Box]) -> str:
    path = f"M{stops[0].x + _BOX} {stops[0].middle}"
    for before, after in pairwise(stops):
        start, end = before.x + _BOX, after.x
        bend = max((end - start) // 2, 24)
        path += f" C{start + bend} {before.middle} {end - bend} {after.middle} {end} {after.middle}"
        if after is not stops[-1]:
            path += f" H{end + _BOX}"
    return f'<path d="{path}" fill="none" stroke="#5f6368" stroke-width="1.4" marker-end="url(#head)"/>'


def _legend(y: int) -> list[str]:
    parts, x = [], _MARGIN
    for role, (fill, border) in _COLOURS.items():
        parts.append(
            f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="3" fill="{fill}" stroke="{border}"/>'
            f'<text x="{x + 20}" y="{y}" font-size="11.5" fill="#3c4043">{role}</text>'
        )
        x += 20 + round(text_width(role, 11.5)) + 22
    return parts
