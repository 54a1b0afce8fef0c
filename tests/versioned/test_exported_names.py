"""What `versioned` gives to those who import it, and that it is loaded when it is first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

import versioned
from versioned import installed


@pytest.mark.parametrize("name", [*versioned.__all__, "__version__"])
def test_each_exported_name_is_there_and_is_listed(name: str) -> None:
    assert getattr(versioned, name) is not None
    assert name in dir(versioned)


def test_the_version_is_that_of_the_package() -> None:
    assert versioned.__version__ == metadata.version("delta-versioned")


def test_what_was_not_installed_tells_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "version", missing)
    assert versioned.__version__ == "unknown"


def test_a_name_that_is_not_there_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match=r"^module 'versioned' has no attribute 'VersionedTabel'"):
        versioned.VersionedTabel  # noqa: B018


def test_listing_the_names_loads_no_spark() -> None:
    program = "import sys, versioned; dir(versioned); versioned.__version__; print('pyspark' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
