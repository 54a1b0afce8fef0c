"""Two runs of one application, table by table: rows that are lost, there twice, changed, or invented."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streams.spark import StreamingApplication
from versioned.identifiers import quote

#: What tells a row, and the whole row, as text.
Row = tuple[str, str]
Tables = Mapping[str, Counter[Row]]

#: Which batch wrote a row, and when it came by the wall clock: another in every run.
_EXEMPT: Final[tuple[str, ...]] = ("_batch_id", "arrivedAt")
#: Of the ledger: clocks, durations, what they are made into, and the checkpoint's own name.
_EXEMPT_OF_LEDGER: Final[tuple[str, ...]] = ("batch_id", "clock", "seconds")
_EXEMPT_OF_STATE: Final = ("clock_us", "checkpoint", "alarms")
#: Beside the first column, what tells a row of a table: the first of these that it has.
_IDENTITIES: Final[tuple[tuple[str, ...], ...]] = (("_scope", "_seq"), ("validFrom",), ("windowStart", "windowEnd"))
_EXAMPLES: Final = 3


@dataclass(frozen=True)
class Differences:
    """How a run differs from the one that it should equal, in rows."""

    lost: int = 0
    duplicated: int = 0
    changed: int = 0
    invented: int = 0
    examples: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __add__(self, other: Differences) -> Differences:
        return Differences(
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.changed + other.changed,
            self.invented + other.invented,
            (*self.examples, *other.examples),
        )


def differences(got: Tables, wanted: Tables) -> Differences:
    """Every difference of all tables.

    A row that is there more often than it should is *duplicated*. Of the rows that have no equal, those that share
    what tells a row are *changed*; the rest is *lost* on one side, *invented* on the other.
    """
    parts = [_of_table(name, got.get(name, Counter()), wanted.get(name, Counter())) for name in {*got, *wanted}]
    return reduce(Differences.__add__, parts, Differences())


def _of_table(name: str, got: Counter[Row], wanted: Counter[Row]) -> Differences:
    duplicated, missing, extra = 0, defaultdict[str, int](int), defaultdict[str, int](int)
    for row, count in (wanted - got).items():
        missing[row[0]] += count
    for row, count in (got - wanted).items():
        if row in wanted:
            duplicated += count
        else:
            extra[row[0]] += count
    changed = {identity: min(count, extra[identity]) for identity, count in missing.items()}
    lost = sum(missing.values()) - sum(changed.values())
    invented = sum(extra.values()) - sum(changed.values())
    shown = (
        *_examples(name, wanted - got, got - wanted, "missing"),
        *_examples(name, got - wanted, wanted - got, "more"),
    )
    return Differences(lost, duplicated, sum(changed.values()), invented, shown)


def _examples(name: str, rows: Counter[Row], others: Counter[Row], what: str) -> Iterator[str]:
    """Some rows that have no equal; where the other run has one in its place, what differs."""
    for identity, text in list(rows)[:_EXAMPLES]:
        row, other = json.loads(text), next((json.loads(said) for told, said in others if told == identity), None)
        shown = row if other is None else {key: said for key, said in row.items() if other.get(key) != said}
        yield f"{name}: {what} at {identity}: {shown}"


def tables_of(spark: SparkSession, app: StreamingApplication, *, versions: bool = True) -> Tables:
    """Every row of every table of an application, its ledger too: one job.

    Args:
        spark: The session.
        app: The application.
        versions: Whether the ledger's table versions count: a table whose making was cut off begins with other ones.
    """
    ledger = app.root.child("ledger")
    frames = [_rows(spark, table.short_name, str(table)) for table in (*app.tables(), ledger)]
    told: dict[str, Counter[Row]] = {table.short_name: Counter() for table in (*app.tables(), ledger)}
    for name, identity, row in reduce(DataFrame.unionAll, frames).collect():
        told[name][identity, _of_ledger(row, versions) if name == "ledger" else row] += 1
    return told


@dataclass(frozen=True)
class StepCommit:
    """A commit of a batch: what it says of itself, and the transaction id under which Delta knows it."""

    table: str
    step: str
    epoch: int
    batch: int
    txn: tuple[str, int] | None
    #: Of the table; upkeep and the making of a table count too, so that it differs from run to run.
    version: int = field(compare=False)


def step_commits(out: Path) -> list[StepCommit]:
    """Every commit that a batch made in the tables below a folder, from Delta's own logs."""
    found = []
    for log in sorted(out.glob("*/_delta_log/*.json")):
        actions = {
            name: said for line in log.read_text("utf-8").splitlines() for name, said in json.loads(line).items()
        }
        told = json.loads(actions["commitInfo"].get("userMetadata") or "{}").get("versioned", {})
        if "txn" in told:
            txn = actions.get("txn")
            known = None if txn is None else (txn["appId"], txn["version"])
            found.append(StepCommit(log.parts[-3], told["txn"], told["epoch"], told["batch"], known, int(log.stem)))
    return found


def _rows(spark: SparkSession, name: str, path: str) -> DataFrame:
    frame = spark.read.format("delta").load(path)
    # A batch of the ledger is told by its number among those that had work.
    identity, exempt = "CAST(row_number() OVER (ORDER BY epoch, batch_id) AS STRING)", _EXEMPT_OF_LEDGER
    if name != "ledger":
        present = set(frame.columns)
        beside = next((names for names in _IDENTITIES if present >= set(names)), ())
        told = ", ".join(map(quote, dict.fromkeys((frame.columns[0], *beside))))
        identity, exempt = f"to_json(struct({told}))", _EXEMPT
    kept = frame.drop(*exempt).columns
    return frame.select(F.lit(name), F.expr(identity), F.to_json(F.struct(*map(quote, kept))))


def _of_ledger(text: str, versions: bool) -> str:
    row: dict[str, Any] = json.loads(text)
    # Rates are counts by seconds of the wall clock.
    row["metrics"] = [metric for metric in row.get("metrics", []) if not metric["name"].endswith("-rate")]
    row["state"] = {name: said for name, said in json.loads(row["state"]).items() if name not in _EXEMPT_OF_STATE}
    if not versions:
        row.pop("versions", None)
        row["state"].pop("tables", None)
    return json.dumps(row, sort_keys=True)
