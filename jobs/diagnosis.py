"""The health of an application that its settings describe."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from jobs.job_plan import plan_of
from jobs.run import application
from jobs.settings import JobSettings
from streams.spark.doctor import Diagnosis, examine


def diagnosed(spark: SparkSession, settings: JobSettings, work: Path) -> Diagnosis:
    """Look at the application's tables and checkpoint below the work folder; nothing is changed."""
    return examine(application(spark, settings, plan_of(settings), work.resolve()))
