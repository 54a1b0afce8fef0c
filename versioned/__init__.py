"""Versioned tables on Delta Lake. Pure rules import no Spark; the table classes are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from versioned.errors import VersionedError

if TYPE_CHECKING:
    from versioned.put_result import PutResult
    from versioned.table import VersionedTable

__all__ = ["PutResult", "VersionedError", "VersionedTable"]


def __getattr__(name: str) -> Any:
    if name in ("PutResult", "VersionedTable"):
        from versioned import table

        return getattr(table, name)
    raise AttributeError(name)
