"""Commands of ``versioned`` as they are written in a shell, about the settings in a work folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from jobs.cli import app


def run(work: Path, *arguments: str, config: str = "shop.yaml") -> Any:
    """Run a command; the result has its exit code and what it printed."""
    told = [*arguments, "-c", str(work / config), "-w", str(work)]
    return CliRunner().invoke(app, told, catch_exceptions=False)
