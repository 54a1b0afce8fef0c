"""Pictures as SVG text and as a single HTML page, without dependencies. Pure.

A picture has a light background of its own: notebooks have themes that no style sheet of an SVG can detect, and dark
text would be unreadable on half of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from versioned.errors import ConfigurationError
from versioned.svg import SOFT_INK, text, xml_text

FONT: Final = "system-ui, Helvetica, Arial, sans-serif"
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ground: #f1f3f4; --ink: #202124; --rule: #dadce0 }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #202124; --ink: #e8eaed; --rule: #5f6368 }} }}
body {{ margin: 24px; background: var(--ground); color: var(--ink); font: 14px/1.5 {font} }}
figure {{ margin: 0 0 16px; overflow-x: auto }}
svg {{ display: block; border-radius: 8px }}
table {{ border-collapse: collapse; margin-top: 8px; font-variant-numeric: tabular-nums }}
th, td {{ text-align: left; vertical-align: top; padding: 3px 16px 3px 0; border-bottom: 1px solid var(--rule) }}
td {{ white-space: pre-wrap; overflow-wrap: anywhere; max-width: 32em }}
</style></head><body>
<figure>{svg}</figure>
<details><summary>The same as a table: {number} rows</summary><table>
<thead>{head}</thead>
<tbody>
{body}
</tbody></table></details>
</body></html>
"""


@dataclass(frozen=True)
class Picture:
    """A drawing, and what it shows as a table. Notebooks display it as it is.

    Args:
        title: What it shows.
        width: In pixels.
        height: In pixels.
        parts: SVG elements, from back to front.
        defs: SVG elements that parts refer to.
        columns: Names of the table's columns.
        rows: The table: what the picture shows, exactly.

    Example:
        >>> picture = Picture("Nothing", 80, 40, (text(8, 24, "<nothing>"),))
        >>> "&lt;nothing&gt;" in picture.to_svg()
        True
    """

    title: str
    width: int
    height: int
    parts: tuple[str, ...]
    defs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def to_svg(self) -> str:
        """The picture as self-contained SVG text."""
        size = f'width="{self.width}" height="{self.height}"'
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} {self.height}" '
            f'role="img" aria-label="{xml_text(self.title)}" font-family="{FONT}">'
        )
        defs = [f"<defs>{''.join(self.defs)}</defs>"] if self.defs else []
        return "\n".join([opening, *defs, f'<rect {size} fill="#ffffff"/>', *self.parts, "</svg>"]) + "\n"

    def to_html(self) -> str:
        """The picture as a self-contained HTML page without scripts, with its table to unfold."""
        head = "".join(f"<th>{xml_text(name)}</th>" for name in self.columns)
        rows = ["".join(f"<td>{xml_text(cell)}</td>" for cell in row) for row in self.rows]
        return _PAGE.format(
            title=xml_text(self.title), font=FONT, svg=self.to_svg(), number=len(rows), head=f"<tr>{head}</tr>",
            body="\n".join(f"<tr>{row}</tr>" for row in rows),
        )  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file ending in ``.svg`` or ``.html``.

        Returns:
            The path.

        Raises:
            ConfigurationError: the file has another ending.
        """
        path = Path(path)
        forms = {".svg": self.to_svg, ".html": self.to_html}
        if path.suffix not in forms:
            raise ConfigurationError(f'A picture is saved as .svg or .html; got "{path.name}". Change the ending.')
        path.write_text(forms[path.suffix](), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'


def headline(title: str, said: Sequence[str] = ()) -> tuple[str, ...]:
    """The title of a picture, and a line of small print below it."""
    small = [text(24, 48, " · ".join(said), fill=SOFT_INK)] if said else []
    return (text(24, 30, title, size=15, font_weight="600"), *small)


def quantity(count: int, word: str) -> str:
    """A count with its noun, in the plural where needed.

    >>> quantity(1, "key"), quantity(1_200, "key")
    ('1 key', '1,200 keys')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"
