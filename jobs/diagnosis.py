"""The health of an application, given its settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.job_plan import plan_of
from jobs.run import application
from jobs.settings import JobSettings
from streams.recovery_rules import Finding
from streams.spark import StreamingApplication
from streams.spark.doctor import Diagnosis, examine
from versioned.table_details import is_missing


def diagnosed(spark: SparkSession, settings: JobSettings, work: Path) -> Diagnosis:
    """Examine the tables and the checkpoint of an application; nothing is changed."""
    app = application(spark, settings, plan_of(settings), work.resolve())
    found = examine(app)
    return replace(found, findings=(_nothing_there(app),)) if _is_empty(app, found) else found


def _is_empty(app: StreamingApplication, found: Diagnosis) -> bool:
    """Whether there is neither ledger nor table: the application has never run, or the folder is a wrong one."""
    if [told.rule for told in found.findings] != ["no-batch"]:
        return False
    return all(is_missing(app.spark, table) for table in (app.table("ledger"), *app.tables()))


def _nothing_there(app: StreamingApplication) -> Finding:
    said = f'There is no ledger and no table of "{app.name}" in {app.root} yet.'
    return Finding("no-batch", "ledger", said, "start the application; if it has run, name its folder", False)
