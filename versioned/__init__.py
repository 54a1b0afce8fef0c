"""Versioned tables on Delta Lake. The pure rules do not import Spark; the table classes are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from versioned.errors import VersionedError

if TYPE_CHECKING:
    from versioned.put_result import PutResult
    from versioned.table import VersionedTable

    __version__: str

__all__ = ["PutResult", "VersionedError", "VersionedTable"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from versioned.installed import version_of

        return version_of("delta-versioned")
    if name in __all__:
        from versioned import table

        return getattr(table, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
