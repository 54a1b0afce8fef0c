"""Who is told that tables of Spark's own catalog end with the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from jobs.cli import app
from jobs.forgotten import warn_if_forgotten
from versioned.identifiers import TableRef

_OURS = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class _Session:
    """As much of a session as tells where its tables are: settings, and catalogs of which one is in use."""

    def __init__(self, settings: dict[str, str], current: str) -> None:
        self.conf, self.catalog, self._settings, self._current = self, self, settings, current

    def get(self, name: str, *otherwise: str | None) -> str | None:
        return self._settings.get(name, *otherwise)

    def listCatalogs(self) -> list[Any]:
        return []

    def currentCatalog(self) -> str:
        return self._current

    def currentDatabase(self) -> str:
        return "default"


def _is_told(caplog: pytest.LogCaptureFixture, target: str, settings: dict[str, str], current: str) -> bool:
    session: Any = _Session(settings, current)
    warn_if_forgotten(session, TableRef.parse(target), "./prices")
    return "when the process ends the table is forgotten" in caplog.text


@pytest.mark.parametrize(
    ("target", "current", "told"),
    [
        ("prices", "spark_catalog", True),
        ("sales.prices", "spark_catalog", True),
        ("Spark_Catalog.sales.prices", "main", True),
        ("prices", "main", False),
        ("main.prices", "spark_catalog", False),
        ("main.sales.prices", "spark_catalog", False),
        ("./prices", "spark_catalog", False),
        ("s3a://bucket/prices", "spark_catalog", False),
    ],
)
def test_a_table_of_a_catalog_in_memory_is_told_to_be_forgotten(
    target: str, current: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**_OURS, "spark.sql.catalog.main": "com.example.Catalog"}
    assert _is_told(caplog, target, settings, current) is told


@pytest.mark.parametrize(
    "lasting",
    [
        {"spark.sql.catalogImplementation": "hive"},
        {"spark.sql.catalog.spark_catalog": "io.unitycatalog.spark.UCSingleCatalog"},
    ],
)
def test_a_catalog_that_lasts_is_not_warned_of(lasting: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert not _is_told(caplog, "prices", _OURS | lasting, "spark_catalog")


def test_whoever_makes_a_table_by_its_name_alone_is_told_to_write_a_folder(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ["--schema", "k STRING, v INT", "--keys", "k", "--history-retention", "1 day"]
    for target, times in ((f"{tmp_path}/fleeting", 0), ("fleeting", 1)):
        made = CliRunner().invoke(app, ["table", "create", target, *asked], catch_exceptions=False)
        assert (made.exit_code, caplog.text.count("For a folder write ./fleeting")) == (0, times)
    spark.sql("DROP TABLE fleeting")
