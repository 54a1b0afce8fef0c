"""For the page of Python names: docstrings as Markdown. Loaded by mkdocstrings, and by a test."""

from __future__ import annotations

import re
from typing import Any

try:
    from griffe import Extension
except ImportError:  # The test knows only the text.
    Extension = object

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^(?![ ]*$).*\n?)*)", re.MULTILINE)
_ROLE = re.compile(r":(?:meth|class|func|mod|data|attr):`(?:~[\w.]*?)?(\w[\w.]*)`")


class Docstrings(Extension):  # type: ignore[misc, unused-ignore]
    """Examples become blocks of code, roles of Sphinx plain code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of anything that has one."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """The docstring with its examples in fences and without roles."""
    fenced = _EXAMPLE.sub(lambda found: _fenced(found[0]), docstring)
    return _ROLE.sub(lambda found: f"`{found[1].rsplit('.', 1)[-1] if '~' in found[0] else found[1]}`", fenced)


def _fenced(example: str) -> str:
    indent = " " * (len(example) - len(example.lstrip()))
    end = "\n" if example.endswith("\n") else ""
    return f"{indent}```pycon\n{example.rstrip()}\n{indent}```{end}"
