"""``spark-submit jobs/validate.py --config conf/validate.yaml --work FOLDER``: check every table and the sources.

Each table is checked as of one version, so a stream may continue to write. The invariants of each kind of table are in
``streams.spark.invariants``; the rules of sources come from the settings of the application that ``job`` names.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from jobs.exit_codes import BAD_DATA, DONE, EXPECTED, FAILED, OF_JAVA, exit_code, line_of, reason
from jobs.expectations import Judge, Verdict
from jobs.named_tables import check_there, names_of, tables_of
from jobs.place_setting import check_writable
from jobs.run import source_of
from jobs.settings import JobSettings, SourceSettings, load_of
from jobs.source_quality import wrong_of
from jobs.unquoted import may_quote, unquoted
from jobs.validate_settings import ValidateSettings
from streams.spark.invariants import Facts, invariants_of, with_facts
from streams.spark.reader_options import readable
from streams.spark.recovery import writer_of
from streams.spark.stored_kinds import StoredTable, stored_table
from streams.spark.window_upkeep import stream_times_told
from versioned import spark_functions as F
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.stream_times import newest_times
from versioned.table import VersionedTable
from versioned.table_details import is_missing
from versioned.table_log import history
from versioned.written import Written, look

_LEDGER: Final = "ledger"
#: The key of an error, in place of a rule, if the rows themselves could not be read.
_READ: Final = "read"


@dataclass(frozen=True)
class Judged:
    """What was found in one table or source.

    ``broken`` counts rows per rule that does not hold (None: the rule counts no rows). ``errors`` says why a rule could
    not be judged or, under ``read``, why there are no rows to judge. ``decides`` says whether broken rules are a
    failure; those of a source are only with the policy ``fail``.
    """

    name: str
    kind: str
    version: int | None
    rows: int
    rules: int
    broken: Mapping[str, int | None] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    decides: bool = True
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        told = [f"{rule}: {_rows(number)}" for rule, number in self.broken.items()]
        told += [f"{rule}: NOT JUDGED, {error}" for rule, error in self.errors.items()]
        held = self.rules - len(told)
        words = [f"{self.rows:,} rows{at}", f"{held} rules hold"] if self.rules else ["nothing is known of such tables"]
        if not self.rows and _READ in self.errors:
            words = ["not read"]
        return "\n    ".join([f"{self.name:<24} {self.kind:<9} {', '.join(words)}", *told])


def _rows(number: int | None) -> str:
    return "does not hold" if number is None else f"{number:,} rows break it"


def code_of(judged: Sequence[Judged]) -> int:
    """The exit code: 3 if data breaks a rule, else 1 if a rule could not be judged, else 0.

    >>> unsure = Judged("items", "table", 1, 0, 1, errors={"doubled": "no such column"})
    >>> code_of([unsure]), code_of([unsure, Judged("rates", "versions", 1, 9, 9, {"overlap": 2})])
    (1, 3)
    """
    if any(found.broken and found.decides for found in judged):
        return BAD_DATA
    return FAILED if any(found.errors for found in judged) else DONE


def validate(
    spark: SparkSession,
    settings: ValidateSettings,
    work: Path,
    job: JobSettings | None = None,
    on_judged: Callable[[Judged], None] | None = None,
    targets: Sequence[TableRef] | None = None,
) -> list[Judged]:
    """Judge tables and the sources of a job, and write the pages. Those that cannot be read do not stop the others.

    Args:
        spark: The session.
        settings: What to do.
        work: The work folder, which all relative paths are below.
        job: The application whose sources are judged; None = only tables.
        on_judged: Called after each table or source.
        targets: The tables that the settings name, if they have been looked for already.

    Raises:
        ConfigurationError: a table does not exist, or the pages cannot be written.
    """
    pages = pages_of(settings, work)
    judge = Judge(settings.examples)
    judged: list[Judged] = []

    def done(found: Judged) -> None:
        judged.append(found)
        if on_judged is not None:
            on_judged(found)

    targets = tables_of(settings, work, lambda: spark) if targets is None else targets
    check_there(spark, targets)
    # Read the ledgers before any table, so that the facts that a table is compared with are never newer than it is.
    times = {ledger: _facts_or_unread(spark, judge, ledger) for ledger in dict.fromkeys(map(_beside, targets))}
    for ledger, unread in times.items():
        if isinstance(unread, Judged) and ledger not in targets:
            done(unread)
    for name, target in zip(names_of(targets), targets, strict=True):
        facts = times[_beside(target)]
        done(_table_or_unread(spark, judge, target, {} if isinstance(facts, Judged) else facts, name))
    for topic, source in ({} if job is None else job.sources).items():
        if source.quality is not None:
            done(_judged_source(spark, judge, topic, source, work))
    judge.write_docs(pages)
    return judged


def _facts_or_unread(spark: SparkSession, judge: Judge, ledger: TableRef) -> Mapping[str, Facts] | Judged:
    try:
        return ledger_facts(spark, ledger)
    except Exception as error:
        return _unread(judge, str(ledger), _LEDGER, 0, error)


def _table_or_unread(
    spark: SparkSession, judge: Judge, target: TableRef, times: Mapping[str, Facts], name: str
) -> Judged:
    try:
        return judged_table(spark, judge, target, times, name)
    except Exception as error:
        return _unread(judge, name, "unknown", 0, error)


def _unread(judge: Judge, name: str, kind: str, rules: int, error: Exception) -> Judged:
    """What is found if rows are damaged or out of reach. It shows only when they are read, as an error of any kind."""
    if may_quote(error) and not judge.examples:
        why = unquoted(error)
    else:
        # Without its causes: those of a Java error may quote a row.
        in_words = isinstance(error, EXPECTED) and not isinstance(error, OF_JAVA)
        why = reason(error) if in_words else line_of(error)
    return Judged(name, kind, None, 0, rules, {}, {_READ: why})


def pages_of(settings: ValidateSettings, work: Path) -> Path:
    """The folder of the pages.

    Raises:
        ConfigurationError: the pages cannot be written there.
    """
    pages = work / settings.docs
    check_writable("docs:", pages, is_folder=True)
    return pages


def _beside(target: TableRef) -> TableRef:
    """The ledger of the application that a table may belong to."""
    if target.path is None:
        return TableRef(parts=(*target.parts[:-1], _LEDGER))
    return TableRef(path=f"{target.path.rpartition('/')[0]}/{_LEDGER}")


def judged_table(spark: SparkSession, judge: Judge, target: TableRef, times: Mapping[str, Facts], name: str) -> Judged:
    """Judge one table as of its newest version.

    Args:
        spark: The session.
        judge: Judges the rows by the rules.
        target: The table.
        times: Stream times and clock by node, as read from the ledger before.
        name: The name of the table; each only once per judge.
    """
    started = time.monotonic()
    version = int(history(spark, target, 1)[0]["version"])
    rows = read_table(spark, target, version)
    state = look(spark, target)
    table = stored_table(target.short_name, rows.columns, state.properties)
    if table.kind in ("sink", "table", "answers") and state.written is None:
        # It looks like a table of the library, but the library did not write it.
        table = StoredTable(table.name, "other", table.columns)
    rules = invariants_of(table)
    if not rules:
        return Judged(name, table.kind, version, 0, 0)
    facts = table_facts(spark, target, table, times, state.written)
    return _judged(judge, name, table.kind, version, with_facts(rows, table, facts), rules, True, started)


def ledger_facts(spark: SparkSession, target: TableRef) -> dict[str, Facts]:
    """The newest stream times per node, and the newest clock (the same for every node), from a ledger."""
    if is_missing(spark, target):
        return {}
    ledger = read_table(spark, target)
    if stored_table(_LEDGER, ledger.columns, {}).kind != _LEDGER:
        return {}  # A table of somebody else's that is called so.
    newest = F.max_by(F.struct("stream_times", F.unix_micros("clock").alias("clock")), F.struct("epoch", "batch_id"))
    by_scope = F.transform_values(
        "said.stream_times", lambda _, t: F.transform_values(t, lambda _, at: F.unix_micros(at))
    )
    told = (
        ledger.groupBy("application").agg(newest.alias("said")).select(by_scope.alias("times"), "said.clock").collect()
    )
    facts: dict[str, Facts] = {}
    for row in sorted(told, key=lambda row: row["clock"] or 0):
        facts |= {node: Facts(times, row["clock"]) for node, times in row["times"].items()}
    return facts


def table_facts(
    spark: SparkSession, target: TableRef, table: StoredTable, times: Mapping[str, Facts], written: Written | None
) -> Facts:
    """The facts that a table's rows are compared with.

    Args:
        spark: The session.
        target: The table.
        table: Its kind and columns.
        times: Stream times and clock by node, from the ledger.
        written: The newest write of a batch to the table. It names the node whose rows they are, whatever the table is
            called; for windows it also has their stream times.
    """
    if table.kind == "versions":
        return Facts(VersionedTable.open(spark, target).stream_times())
    facts = next((times[node] for node in _nodes_of(table, written) if node in times), None)
    if facts is None:
        # If the log was cleaned, go by the name: a table is called like its node, except for characters that the name
        # of a table cannot have.
        stem = table.name.removesuffix("_waiting")
        named = {_as_table(node): said for node, said in times.items()}
        names = [f"{stem}:reorder", stem] if table.kind == "waiting" else [stem]
        facts = next((named[_as_table(name)] for name in names if _as_table(name) in named), Facts())
    if table.kind == "windows" and table.node is not None:
        # Windows must not be newer than stream time, which a batch that is here but not in the ledger has advanced.
        own = stream_times_told({} if written is None else written.details, table.node)
        return replace(facts, stream_times=newest_times(facts.stream_times, own))
    return facts


def _nodes_of(table: StoredTable, written: Written | None) -> Iterator[str]:
    """The nodes whose rows a table has, by its own metadata."""
    writer = None if written is None else writer_of(written)
    if table.node is not None:
        yield table.node
    if writer is not None:
        yield writer[0]


def _as_table(node: str) -> str:
    return TableRef(parts=(node,)).short_name


def _judged_source(spark: SparkSession, judge: Judge, topic: str, source: SourceSettings, work: Path) -> Judged:
    assert source.quality is not None
    started = time.monotonic()
    name, rules = f"sources.{topic}", source.quality.rules
    try:
        rows = readable(source_of(topic, source, work).read_all(spark))
        return _judged(judge, name, "source", None, rows, rules, source.quality.policy == "fail", started)
    except Exception as error:
        return _unread(judge, name, "source", len(rules), error)


def _judged(
    judge: Judge, name: str, kind: str, version: int | None, rows: DataFrame, rules: Any, decides: bool, started: float
) -> Judged:
    # Great Expectations reads its frame dozens of times.
    kept = rows.persist()
    try:
        number = kept.count()
        verdicts: list[Verdict] = judge.judge(name, kept, rules)
    finally:
        kept.unpersist()
    errors = {found.rule: found.error for found in verdicts if found.error is not None}
    seconds = round(time.monotonic() - started, 1)
    return Judged(name, kind, version, number, len(rules), wrong_of(verdicts), errors, decides, seconds)


def settings_of(config: Path, sets: Mapping[str, str] | None = None) -> tuple[ValidateSettings, JobSettings | None]:
    """The settings of a validation, and of the job that it names; each with the variables that are for it.

    Raises:
        ConfigurationError: as :func:`jobs.settings.load_of` says.
    """
    settings = load_of(ValidateSettings, config, sets)
    return settings, None if settings.job is None else load_of(JobSettings, config.parent / settings.job)


def main() -> int:
    """Run the program. Exit codes: 0 all rules hold, 1 one could not be judged, 2 wrong settings, 3 rows break one."""
    from jobs.session import build_session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(), help="folder of the input and the tables (default: here)")
    args = parser.parse_args()
    try:
        settings, job = settings_of(args.config)
        pages = pages_of(settings, args.work)  # before Spark starts, so that errors are reported at once
        judged = validate(build_session("validate"), settings, args.work, job, lambda found: print(found, flush=True))
    except EXPECTED as error:
        print(reason(error), file=sys.stderr)
        return exit_code(error)
    print(f"  pages: {pages / 'index.html'}")
    return code_of(judged)


if __name__ == "__main__":
    sys.exit(main())
