"""What the quickstart's picture shows."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from jobs.quickstart_picture import _busiest, _span


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in another zone than UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.slow
def test_the_picture_has_the_same_days_whatever_zone_the_process_is_in(spark: SparkSession, in_tokyo: None) -> None:
    departures = spark.sql("SELECT TIMESTAMP '2026-01-02 12:00:00Z' AS windowStart")
    first, last = _span(departures)
    aircraft = spark.sql(
        """SELECT * FROM VALUES ('before', 'JFK', TIMESTAMP '2025-12-01 00:00:00Z', TIMESTAMP '2026-01-02 00:00:00Z'),
        ('first', 'JFK', TIMESTAMP '2026-01-01 00:00:00Z', TIMESTAMP '2026-01-02 00:00:01Z'),
        ('last', 'JFK', TIMESTAMP '2026-01-05 23:59:59Z', CAST(NULL AS TIMESTAMP)),
        ('behind', 'JFK', TIMESTAMP '2026-01-06 00:00:00Z', CAST(NULL AS TIMESTAMP))
        AS t(tailnum, origin, validFrom, validTo)"""
    )
    assert (first, last) == (pd.Timestamp("2026-01-02", tz="UTC"), pd.Timestamp("2026-01-06", tz="UTC"))
    assert list(_busiest(aircraft, first, last)["tailnum"]) == ["first", "last"]
