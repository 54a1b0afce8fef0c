"""Versions of installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str:
    """The version of an installed package; ``unknown`` in a checkout, or on a cluster that has it without pip.

    >>> version_of("no-such-package")
    'unknown'
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
