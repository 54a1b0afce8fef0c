"""The data of all benchmarks: pure functions of key and version, written once as Parquet and, for Kafka, as longs.

Version ``v`` of a key begins on day ``v``, at an instant that depends only on the key and ``v``; so the start of the
next version is known without looking it up. Instants are whole milliseconds, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BASE_MS = 1_704_067_200_000  # 2024-01-01
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
_SEED = 889

Longs = Any  # numpy arrays of int64


@dataclass(frozen=True)
class Records:
    """Columns of records, in order of arrival: ``ts`` is in milliseconds, and the values are made from ``n``."""

    key: Longs
    ts: Longs
    n: Longs

    def __len__(self) -> int:
        return len(self.key)

    def to_table(self, **more: Longs) -> pa.Table:
        """The records as a table with the columns ``key ts a name seq``, and further ones."""
        return pa.table(
            {
                "key": pa.array(self.key),
                "ts": _instants(self.ts),
                "a": pa.array(self.n / 4.0),
                "name": names(self.n),
                "seq": pa.array(np.arange(len(self), dtype=np.int64)),
                **{name: pa.array(column) for name, column in more.items()},
            }
        )

    def write(self, path: Path) -> Path:
        """Write the records as one Parquet file of several row groups, so that two cores can read it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self.to_table(), path, row_group_size=max(len(self) // 8, 1))
        return path

    def write_longs(self, path: Path) -> Path:
        """Write the records one by one as big-endian longs ``key ts n``, which Java reads without conversion."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.stack([self.key, self.ts, self.n], axis=1).astype(">i8").tofile(path)
        return path


def starts(keys: Longs, version: int | Longs) -> Longs:
    """The instants at which a version of each key begins, in milliseconds."""
    day = np.asarray(version, dtype=np.int64)
    return BASE_MS + day * DAY_MS + (_mixed(keys, day) % np.uint64(DAY_MS)).astype(np.int64)


def version(keys: Longs, number: int) -> Records:
    """The same version of many keys, as records to put."""
    return Records(keys, starts(keys, number), _values(keys, number))


def write_versions(folder: Path, keys: int, versions: int) -> Path:
    """Write the stored rows of a table with ``versions`` versions of each key, one Parquet file per version.

    Columns: ``key validFrom validTo a name``; validTo is null in the newest version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(_SEED).permutation(keys).astype(np.int64)
    for number in range(versions):
        rows = version(order, number)
        newest = number == versions - 1
        ends = pa.nulls(keys, pa.timestamp("us", "UTC")) if newest else _instants(starts(order, number + 1))
        stored = pa.table(
            {
                "key": pa.array(rows.key),
                "validFrom": _instants(rows.ts),
                "validTo": ends,
                "a": pa.array(rows.n / 4.0),
                "name": names(rows.n),
            }
        )
        pq.write_table(stored, folder / f"version-{number:03}.parquet", row_group_size=max(keys // 8, 1))
    return folder


def batch(
    keys: int, size: int, day: int, *, late: float = 0.0, stored: int = 1, repeated: bool = False, seed: int = 0
) -> Records:
    """A batch of records to put, for the day after the stored versions, in order of time.

    Args:
        keys: Number of keys.
        size: Number of records.
        day: Number of stored versions of each key, counting each batch before this one as one.
        late: The share of records that are out of order: up to an hour older than the newest version of their key
            before the first batch, that of day ``stored - 1``.
        stored: Number of versions of each key before the first batch.
        repeated: Whether a key may occur several times; otherwise at most once.
        seed: Makes another batch.
    """
    chance = np.random.default_rng(_SEED + 1 + seed + day)
    chosen = chance.integers(0, keys, size) if repeated else chance.permutation(keys)[:size]
    ts = BASE_MS + day * DAY_MS + np.sort(chance.integers(0, DAY_MS, size))
    if late:
        is_late = chance.random(size) < late
        ts = np.where(is_late, starts(chosen, stored - 1) - chance.integers(1, HOUR_MS, size), ts)
    return Records(chosen.astype(np.int64), ts.astype(np.int64), _values(chosen, day + seed))


def asked(keys: int, size: int, first_day: float, last_day: float, seed: int = 0) -> Records:
    """Records that look versions up, with random keys and instants."""
    chance = np.random.default_rng(_SEED + 7 + seed)
    ts = BASE_MS + chance.integers(int(first_day * DAY_MS), int(last_day * DAY_MS), size)
    return Records(chance.integers(0, keys, size), ts, chance.integers(0, 1_000, size))


def names(n: Longs) -> pa.Array:
    """Texts of twelve characters."""
    digits = pc.utf8_lpad(pc.cast(pa.array(n), pa.string()), 7, "0")
    return pc.binary_join_element_wise(pa.scalar("name-"), digits, pa.scalar(""))


def _values(keys: Longs, number: int) -> Longs:
    return (np.asarray(keys, dtype=np.int64) * 31 + number * 7) % 10_000_000


def _instants(ms: Longs) -> pa.Array:
    return pa.array(np.asarray(ms, dtype=np.int64) * 1_000).cast(pa.timestamp("us", "UTC"))


def _mixed(keys: Longs, number: Longs) -> Longs:
    """Splitmix64 hashes, which are well spread and the same everywhere."""
    with np.errstate(over="ignore"):
        x = np.asarray(keys).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(number).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
