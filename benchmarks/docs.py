"""``python -m benchmarks.docs FILE ...``: put measured figures into ``docs/benchmarks.md``, between its marks.

Several files, from runs on one machine, may each hold some of the points; if several hold a point, the last one counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"
_HEAD: Final = (
    "| point | work | ours, s | peer, s | ratio | aim | |",
    "|---|---|---|---|---|---|---|",
)


def table(runs: Iterable[Mapping[str, Any]]) -> str:
    """The figures of runs as a Markdown table, followed by what they were measured on."""
    said: dict[str, list[Mapping[str, Any]]] = {}
    machines: dict[str, None] = {}
    for run in runs:
        points: dict[str, list[Mapping[str, Any]]] = {}
        for figure in run["figures"]:
            points.setdefault(_point(figure), []).append(figure)
        said |= points
        machines[_machine(run["about"])] = None
    ordered = sorted(said.items(), key=lambda item: (int("".join(filter(str.isdigit, item[0]))), item[0]))
    rows = [_row(figure) for _, figures in ordered for figure in figures]
    return "\n".join([*_HEAD, *rows, "", *machines])


def replaced(page: str, told: str) -> str:
    """The page with another table between the marks.

    Example:
        >>> replaced("a <!-- figures -->old<!-- end of figures --> b", "new").split()
        ['a', '<!--', 'figures', '-->', 'new', '<!--', 'end', 'of', 'figures', '-->', 'b']
    """
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n{told}\n{_END}{rest.split(_END)[1]}"


def _point(figure: Mapping[str, Any]) -> str:
    """The unit that a later run replaces as a whole: P5 is measured by two commands."""
    return f"{figure['point']} Kafka" if "Kafka's test driver" in figure["peer"] else str(figure["point"])


def _row(figure: Mapping[str, Any]) -> str:
    bound = ">=" if figure["sense"] == "faster" else "<="
    loads = [run["load"] for runs in figure["runs"].values() for run in runs]
    names = f"{figure['ours']} / {figure['peer']}: {figure['what']}"
    return (
        f"| {figure['point']} | {names} (load {min(loads):.1f} to {max(loads):.1f}) | {figure['ours_seconds']:.2f} "
        f"| {figure['peer_seconds']:.2f} | **{figure['ratio']:.2f}** | {bound} {figure['aim']:g} "
        f"| {'met' if figure['met'] else 'missed'} |"
    )


def _machine(about: Mapping[str, Any]) -> str:
    return (
        f"{about['date']}: {about['cores']} cores ({about['cpu']}), {about['memory_gib']} GiB, {about['system']}, "
        f"scale {about['scale']:g}, Spark {about['pyspark']}, delta-spark {about['delta-spark']}, "
        f"Python {about['python']}.\n"
    )


def main(files: list[str]) -> None:
    """Rewrite the page with the figures of these files."""
    runs = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), table(runs)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
