"""Upkeep of an application's tables: check the invariants, forget expired history, compact, remove old files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field
from pyspark.sql import SparkSession

from jobs.strict import DurationSetting, Flag, Names, Strict, nearest
from streams.spark.window_upkeep import purge_windows
from versioned import upkeep
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable


class MaintainSettings(Strict):
    """What to do with the tables below a folder; all of them if none are named."""

    root: str = Field(description="Folder of the tables, below the work folder.")
    tables: Names = ()
    verify: Flag = Field(default=True, description="Check the invariants of versioned tables.")
    purge: Flag = Field(default=True, description="Delete expired versions, and windows beyond a stated retention.")
    optimize: Flag = Field(default=True, description="Compact the closed history of versioned tables.")
    vacuum: Flag = Field(default=False, description="Remove files that no version within `retain` needs.")
    retain: DurationSetting | None = Field(default=None, description="At least 7 days, which is the default.")


@dataclass(frozen=True)
class Upkeep:
    """What was done with one table; ``broken`` counts rows per broken invariant."""

    table: str
    versioned: bool
    rows: int | None = None
    broken: Mapping[str, int] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"{self.rows:,} rows sound" if not self.broken else f"BROKEN: {self.broken}"
        return f"{self.table:<24} {', '.join(filter(None, (rows, *self.done))) or 'nothing to do'}"


def tables_below(root: Path, names: tuple[str, ...] = ()) -> list[Path]:
    """The Delta tables in a folder; those of these names.

    Raises:
        ConfigurationError: there are none, or not one of that name.
    """
    found = {log.parent.name: log.parent for log in sorted(root.glob("*/_delta_log"))}
    if not found:
        raise ConfigurationError(f"root: there are no tables below {root}. Run the job first, or name another folder.")
    for name in names:
        if name not in found:
            raise ConfigurationError(f'tables: there is no table "{name}" below {root}{nearest(name, list(found))}')
    return [found[name] for name in names or found]


def maintain(
    spark: SparkSession,
    settings: MaintainSettings,
    work: Path,
    on_table: Callable[[Upkeep], None] | None = None,
) -> list[Upkeep]:
    """Look after each table in turn. A table with broken rows is reported and otherwise left as it is.

    Args:
        spark: The session.
        settings: What to do.
        work: The folder that ``root`` lies below.
        on_table: Told after each table.

    Raises:
        ConfigurationError: there are no such tables.
        RetentionError: ``retain`` is shorter than what a replay or the table's own properties need.
    """
    kept = []
    for folder in tables_below(work / settings.root, settings.tables):
        kept.append(_look_after(spark, settings, str(folder.resolve())))
        if on_table is not None:
            on_table(kept[-1])
    return kept


def _look_after(spark: SparkSession, settings: MaintainSettings, target: str) -> Upkeep:
    started = time.monotonic()
    name, done = TableRef.parse(target).short_name, []
    try:
        table = VersionedTable.open(spark, target)
    except NotAVersionedTableError:
        table = None
    rows: int | None = None
    broken: dict[str, int] = {}
    if table is not None and settings.verify:
        report = table.verify()
        rows, broken = report.rows, {rule: count for rule, count in report.broken.items() if count}
    # What is broken is evidence: nothing of it is removed before somebody has looked.
    if not broken:
        if settings.purge and _purged(spark, target, table):
            done.append("purged")
        if table is not None and settings.optimize:
            table.optimize()
            done.append("optimized")
        if settings.vacuum:
            upkeep.vacuum(spark, TableRef.parse(target), settings.retain)
            done.append("vacuumed")
    return Upkeep(name, table is not None, rows, broken, tuple(done), round(time.monotonic() - started, 1))


def _purged(spark: SparkSession, target: str, table: VersionedTable | None) -> bool:
    done = purge_windows(spark, TableRef.parse(target)) if table is None else table.purge()
    return bool(done)
