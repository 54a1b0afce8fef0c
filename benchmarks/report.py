"""The result of a run: JSON with every timing, and a chart of the ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Figure
from versioned.drawing import Picture, headline
from versioned.svg import INK, RULE, SOFT_INK, line, rect, shortened, text

_LEFT, _WIDTH, _ROW, _TOP = 430, 420, 34, 84
_MET, _MISSED, _AIM = "#1a73e8", "#d93025", "#202124"
#: The longest bar, as a multiple of the aim: longer ones are cut, and show the ratio as a number.
_LONGEST: Final = 3.0


def write(figures: Sequence[Figure], about: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``benchmarks.json`` and ``benchmarks.svg``.

    Args:
        figures: What was measured.
        about: Machine and settings.
        folder: Where to write them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = {"about": about, "figures": [figure.to_json() for figure in figures]}
    json_file = folder / "benchmarks.json"
    json_file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return [json_file, chart(figures, about).save(folder / "benchmarks.svg")]


def chart(figures: Sequence[Figure], about: dict[str, Any]) -> Picture:
    """A chart with one bar per figure: its ratio as a multiple of its aim, which is the vertical line.

    For a figure of the sense ``slower``, the bar shows aim over ratio.
    """
    said = (str(about.get("date", "")), f"{about.get('cores')} cores", f"{about.get('memory_gib')} GiB")
    parts = [*headline("Ratios to peers, each against its aim", said)]
    bottom = _TOP + _ROW * len(figures)
    unit = _WIDTH / _LONGEST
    for tick in range(int(_LONGEST) + 1):
        x = _LEFT + tick * unit
        parts.append(line((x, _TOP - 6), (x, bottom), _AIM if tick == 1 else RULE))
        words = "aim" if tick == 1 else f"{tick} x aim" if tick else "0"
        parts.append(text(x, _TOP - 12, words, fill=SOFT_INK, text_anchor="middle"))
    for row, figure in enumerate(figures):
        parts += _bar(figure, _TOP + row * _ROW, unit)
    rows = tuple((f.point, f.what, f.ours, f.peer, f"{f.ratio:.2f}", _aim(f), str(f.is_met)) for f in figures)
    columns = ("point", "work", "ours", "peer", "ratio", "aim", "met")
    return Picture("Benchmarks", _LEFT + _WIDTH + 130, bottom + 24, tuple(parts), (), columns, rows)


def _bar(figure: Figure, y: float, unit: float) -> list[str]:
    share = figure.ratio / figure.aim if figure.sense == "faster" else figure.aim / figure.ratio
    width = min(share, _LONGEST) * unit
    words = f"{figure.ratio:.2f} (aim {_aim(figure)})"
    name = shortened(f"{figure.point} {figure.ours} / {figure.peer}", _LEFT - 40, 12)
    return [
        text(24, y + 13, name, size=12, fill=INK, title=str(figure)),
        text(24, y + 26, shortened(figure.what, _LEFT - 40, 9.5), size=9.5, fill=SOFT_INK),
        rect(_LEFT, y + 5, width, _ROW - 14, _MET if figure.is_met else _MISSED, title=str(figure)),
        text(_LEFT + width + 6, y + 19, words, fill=INK),
    ]


def _aim(figure: Figure) -> str:
    return f"{'>=' if figure.sense == 'faster' else '<='} {figure.aim:g}"
