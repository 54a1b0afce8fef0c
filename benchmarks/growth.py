"""P10: what a table comes to after very many small batches with upkeep, and how it is read then."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.measure import Contestant, Figure, alternate
from benchmarks.setting import Setting
from versioned.commit import Append, commit
from versioned.table import VersionedTable

KEYS, RECORDS, BATCHES, UPKEEP_EVERY = 100_000, 1_000, 60, 20
_RETENTION = "5 days"


def compare(setting: Setting) -> list[Figure]:
    """A day of valid time per 100 batches; upkeep (purge, compaction of closed history) after every 20."""
    batches = setting.batches or (UPKEEP_EVERY if setting.quick else BATCHES)
    keys, size = setting.size(KEYS), RECORDS
    table = setting.versioned_table("P10-ours", keys, 3, _RETENTION)
    written = _Written(setting, table)
    input_bytes = 0
    started = time.monotonic()
    for number in range(batches):
        path, frame = setting.records(_batch(keys, size, number), f"P10-{number}")
        input_bytes += path.stat().st_size
        table.put(frame, timestamp="ts", sequence="seq")
        path.unlink()
        if number % UPKEEP_EVERY == UPKEEP_EVERY - 1:
            table.purge()
            table.optimize()
    seconds = time.monotonic() - started
    table.optimize(current=True)
    fresh = _fresh(setting, table)
    notes = {"batches": batches, "seconds per batch": round(seconds / batches, 2), "input bytes": input_bytes}
    notes |= written.told(batches, input_bytes) | {"sound": table.verify().is_sound}
    reads = _reads(table, fresh, setting)
    what = f"after {batches} batches of {size:,} records with upkeep, {keys:,} keys"
    return [
        Figure("P10", f"{kind} {what}", f"{kind}, grown", f"{kind}, fresh", reads, 1, 1.3, "slower", notes=notes)
        for kind in ("current", "as_of")
    ]


def _batch(keys: int, size: int, number: int) -> data.Records:
    late = data.batch(keys, size, 3, late=0.02, stored=3, seed=number)
    return data.Records(late.key, late.ts + number * data.DAY_MS // 100, late.n)


class _Written:
    """What the commits of a table wrote, as its own history tells."""

    def __init__(self, setting: Setting, table: VersionedTable) -> None:
        self._spark = setting.spark
        self._table = table
        self._before = self._commits()[0]["version"]

    def told(self, batches: int, input_bytes: int) -> dict[str, Any]:
        """Rows, files, and bytes per batch, per day of a batch a minute, and per byte of input."""
        rows = [row for row in self._commits() if row["version"] > self._before]
        data_bytes = sum(_bytes(row["operationMetrics"]) for row in rows)
        path = Path(str(self._table.target.path))
        log_bytes = sum(file.stat().st_size for file in (path / "_delta_log").rglob("*") if file.is_file())
        detail = self._spark.sql(f"DESCRIBE DETAIL {self._table.target.sql}").collect()[0]
        on_disk = [file for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
        return {
            "commits": len(rows),
            "rows": self._table.rows().count(),
            "live files": detail["numFiles"],
            "live bytes": detail["sizeInBytes"],
            "files on disk before vacuum": len(on_disk),
            "bytes on disk before vacuum": sum(file.stat().st_size for file in on_disk),
            "log bytes": log_bytes,
            "bytes written per batch": data_bytes // batches,
            "bytes written per day, a batch a minute": data_bytes // batches * 1_440,
            "write amplification": round(data_bytes / input_bytes, 1),
        }

    def _commits(self) -> list[Any]:
        told = self._spark.sql(f"DESCRIBE HISTORY {self._table.target.sql}")
        return told.select("version", "operation", "operationMetrics").collect()


def _bytes(metrics: dict[str, str]) -> int:
    names = ("numOutputBytes", "numTargetBytesAdded", "numAddedBytes")
    return sum(int(metrics.get(name) or 0) for name in names)


def _fresh(setting: Setting, grown: VersionedTable) -> VersionedTable:
    path = setting.folder("P10-fresh")
    table = VersionedTable.create(
        setting.spark, str(path), "key BIGINT, a DOUBLE, name STRING", keys="key", history_retention=_RETENTION
    )
    times = {str(scope): us for scope, us in grown.stream_times().items()}
    commit(table.target, lambda: Append(grown.rows()), None, {"streamTimes": times})
    return table


def _reads(grown: VersionedTable, fresh: VersionedTable, setting: Setting) -> Any:
    at = datetime.fromtimestamp(max(grown.stream_times().values()) / 1e6, timezone.utc) - timedelta(days=1)
    contestants = []
    for name, table in (("grown", grown), ("fresh", fresh)):
        contestants.append(Contestant(f"current, {name}", _read_all(table, None)))
        contestants.append(Contestant(f"as_of, {name}", _read_all(table, at)))
    return alternate(contestants, max(setting.runs, 5), warm_ups=2)


def _read_all(table: VersionedTable, at: datetime | None) -> Any:
    def run(_: int) -> None:
        frame = table.current() if at is None else table.as_of(at)
        frame.write.format("noop").mode("overwrite").save()

    return run
