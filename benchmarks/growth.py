"""P10: what a table comes to after very many small batches with upkeep, and how it is read then."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.measure import Contestant, Figure, alternate
from benchmarks.setting import Setting
from versioned import spark_functions as F
from versioned.commit import Append, commit
from versioned.table import VersionedTable

KEYS, RECORDS, BATCHES, UPKEEP_EVERY = 100_000, 1_000, 60, 20
_RETENTION = "5 days"


def compare(setting: Setting) -> list[Figure]:
    """P10: 100 batches cover a day of valid time; upkeep (purge, compaction of closed history) runs after every 20."""
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
    """Measures what the batches wrote: nothing is vacuumed meanwhile, so that all files are still there."""

    def __init__(self, setting: Setting, table: VersionedTable) -> None:
        self._spark = setting.spark
        self._table = table
        self._before, self._log_before = self._bytes()

    def told(self, batches: int, input_bytes: int) -> dict[str, Any]:
        """Rows, files, and bytes per batch, per day at a batch a minute, and per byte of input."""
        now, log = self._bytes()
        data_bytes, log_bytes = now - self._before, log - self._log_before
        detail = self._spark.sql(f"DESCRIBE DETAIL {self._table.target.sql}").collect()[0]
        return {
            "rows": self._table.rows().count(),
            "live files": detail["numFiles"],
            "live bytes": detail["sizeInBytes"],
            "files on disk before vacuum": len(self._files()),
            "data bytes written per batch": data_bytes // batches,
            "log bytes written per batch": log_bytes // batches,
            "bytes written per day, a batch a minute": (data_bytes + log_bytes) // batches * 1_440,
            "write amplification": round(data_bytes / input_bytes, 1),
            "write amplification with the log": round((data_bytes + log_bytes) / input_bytes, 1),
        }

    def _bytes(self) -> tuple[int, int]:
        """The bytes of data and deletion vectors, and those of the log."""
        log = (self._folder() / "_delta_log").rglob("*")
        return _size(self._files()), _size(log)

    def _files(self) -> list[Path]:
        found = self._folder().rglob("*")
        return [file for file in found if "_delta_log" not in file.parts and file.suffix in (".parquet", ".bin")]

    def _folder(self) -> Path:
        return Path(str(self._table.target.path))


def _size(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


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
        # Not Spark's noop sink: Delta cannot feed it from a table with deletion vectors.
        frame.agg(F.count_if(F.xxhash64(*frame.columns) != 0)).collect()

    return run
