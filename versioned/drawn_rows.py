"""Which rows of a versioned table its timeline draws."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame

from versioned import spark_functions as F
from versioned.drawing import Picture
from versioned.lookup_frames import bound_column, keys_frame, rows_between
from versioned.pictures import version_timeline
from versioned.spec import DELETED, VersionedTableSpec
from versioned.utc_texts import in_utc


def drawn_versions(
    rows: DataFrame,
    spec: VersionedTableSpec,
    keys: DataFrame | None,
    start: datetime | None,
    end: datetime | None,
    title: str,
    most_keys: int,
) -> Picture:
    """The versions of some keys as a picture, tombstones included.

    Args:
        rows: All stored rows of the table.
        spec: The table.
        keys: A frame with the key columns, one row per key; None = the first keys of the table.
        start: The first instant to draw; None = the earliest of the versions.
        end: The last one; None = the latest.
        title: The title; if not all keys are drawn, it is followed by how many are.
        most_keys: The most keys that are collected and drawn.

    Raises:
        SchemaError: ``keys`` lacks a key column, or has one that cannot be compared exactly with the table's.
    """
    names = list(spec.keys)
    rows = rows_between(rows, spec, bound_column(start), bound_column(end))
    there = rows.select(*names).distinct()
    wanted = there if keys is None else there.join(keys_frame(keys, rows, spec), names, "left_semi")
    number = wanted.count()
    part = f": {most_keys:,} of {number:,} keys" if number > most_keys else ""
    # As microseconds and texts: a collected timestamp would be in the time zone of this process.
    bounds = (F.unix_micros(name).alias(name) for name in (spec.valid_from, spec.valid_to))
    shown = (in_utc(F.col(name), rows.schema[name].dataType).alias(name) for name in (*names, *spec.values))
    seen = rows.join(wanted.orderBy(*names).limit(most_keys), names, "left_semi").orderBy(*names, spec.valid_from)
    return version_timeline(
        seen.select(*shown, *bounds, DELETED).collect(),
        keys=names,
        values=spec.values,
        valid_from=spec.valid_from,
        valid_to=spec.valid_to,
        start=start,
        end=end,
        title=f"{title}{part}",
        most_keys=most_keys,
    )
