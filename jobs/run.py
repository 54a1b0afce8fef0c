"""``spark-submit jobs/run.py --config conf/quickstart.yaml --work FOLDER``: run one application from its settings."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.cli_shared import sets_of
from jobs.contract_settings import ContractSettings
from jobs.exit_codes import EXPECTED, exit_code, reason
from jobs.following import in_process, run_followed
from jobs.job_plan import picture_of, plan_of
from jobs.named_function import fault_of, named_function
from jobs.place_setting import below, root_of, to_read, work_folder
from jobs.progress import HEADER, Progress, application_frames, batch_line, summary
from jobs.session import build_session
from jobs.settings import JobSettings, SourceSettings, load
from jobs.source_quality import checks_of
from jobs.strict import at
from streams.nodes import Topology
from streams.spark import BatchReport, SparkSource, StreamingApplication
from streams.spark.contract import InputContract
from versioned.identifiers import TableRef

__all__ = ["application", "main", "plan_of", "print_summary", "run"]


def application(
    spark: SparkSession,
    settings: JobSettings,
    plan: Topology,
    work: Path,
    on_batch: Callable[[BatchReport], None] | None = None,
    *,
    new_epoch: bool = False,
    add_columns: bool = False,
) -> StreamingApplication:
    """The application that the settings describe; relative paths are below the work folder.

    The application calls ``on_batch`` itself, except with Spark Connect, where ``jobs.following`` does so.
    """
    sources = {topic: source_of(topic, source, work) for topic, source in settings.sources.items()}
    with at("root"):
        root = str(TableRef.parse(root_of(work, settings.root)))
    with at("checkpoint"):
        checkpoint = None if settings.checkpoint is None else str(TableRef.parse(below(work, settings.checkpoint)))
    return StreamingApplication(
        spark,
        settings.application,
        plan,
        root,
        sources,
        order=settings.order,
        max_future_skew=settings.max_future_skew,
        suppressed_record_retention=settings.suppressed_record_retention,
        keys_cross_partitions=settings.keys_cross_partitions,
        metrics_level=settings.metrics.level,
        checkpoint=checkpoint,
        pii_columns=settings.pii_columns,
        new_epoch=new_epoch,
        add_columns=add_columns,
        guards=settings.guards,
        kafka={name: said.sink() for name, said in settings.kafka.items()},
        on_batch=in_process(settings, work, on_batch),
    )


def run(
    config: Path,
    work: Path,
    *,
    new_epoch: bool = False,
    add_columns: bool = False,
    sets: dict[str, str] | None = None,
) -> None:
    """Run an application; print a line per batch and a summary, and draw a picture if the plan's module has one."""
    settings, work = load(config, None, sets), work_folder(work)
    plan = plan_of(settings)  # before Spark starts, so that errors are reported at once
    started = time.monotonic()
    done = Progress()

    def show(report: BatchReport) -> None:
        done.add(report)
        print(batch_line(report), flush=True)

    spark, once = build_session(settings.application), {"new_epoch": new_epoch, "add_columns": add_columns}
    app = application(spark, settings, plan, work.resolve(), show, **once)
    print(HEADER, flush=True)
    run_followed(app, settings, work.resolve(), show)
    print_summary(app, settings, work, done)
    print(f"  {time.monotonic() - started:.0f} seconds")


def print_summary(app: StreamingApplication, settings: JobSettings, work: Path, done: Progress) -> None:
    """Print what a finished run did, and draw its picture."""
    frames = application_frames(app)
    print(summary(app, done, frames))
    draw = picture_of(settings)
    # A function that draws expects every table to exist.
    if draw is not None and len(frames) == len(app.tables()):
        try:
            print(f"  picture: {draw(app, work)}")
        except (Exception, SystemExit) as error:  # the run is done, whatever becomes of its picture
            print(f"  no picture: draw of {settings.plan} fails: {fault_of(error)}", file=sys.stderr)


def source_of(topic: str, settings: SourceSettings, work: Path) -> SparkSource:
    """The source of a topic; a relative path is below the work folder."""
    contract, checks, ahead = _contract(settings.contract), checks_of(settings.quality), settings.max_future_skew
    if settings.kafka is not None:
        return replace(settings.kafka.source(), contract=contract, checks=checks, max_future_skew=ahead)
    options = dict(settings.options)
    if settings.path is not None:
        options["path"] = to_read(work, settings.path, settings.form)
    with at(f"sources.{topic}.transform"):
        transform = None if settings.transform is None else named_function(settings.transform)
    with at(f"sources.{topic}"):
        return SparkSource(
            settings.form,
            options,
            settings.schema_ddl,
            transform,
            partition_by=settings.partition_by,
            sequence_by=settings.sequence_by,
            contract=contract,
            checks=checks,
            table=settings.table,
            max_future_skew=ahead,
        )


def _contract(settings: ContractSettings) -> InputContract:
    said = {field: getattr(settings, field) for field in type(settings).model_fields}
    return InputContract(**said)


def main() -> int:
    """Run the program. Exit codes as on the command line: 0 done, 1 failed, 2 wrong settings, 3 bad data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(), help="folder of the input and the tables (default: here)")
    parser.add_argument("--set", action="append", dest="sets", metavar="PATH=VALUE", help="as versioned run --set")
    parser.add_argument("--new-epoch", action="store_true", help="as versioned run --new-epoch")
    parser.add_argument("--add-columns", action="store_true", help="as versioned run --add-columns")
    args = parser.parse_args()
    try:
        once = {"new_epoch": args.new_epoch, "add_columns": args.add_columns}
        run(args.config, args.work, **once, sets=sets_of(args.sets))
    except EXPECTED as error:
        print(reason(error), file=sys.stderr)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
