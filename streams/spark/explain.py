"""What a batch does per operator: the tables it reads, with columns and predicates, its own jobs, and its commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams.nodes import SOURCES, Node, sources_of
from streams.spark.complete_join import CompleteJoinOperator
from streams.spark.correction_feed import CorrectionFeedOperator
from streams.spark.folded_windows import FoldedWindowsOperator
from streams.spark.foreign_key_join import ForeignKeyJoinOperator
from streams.spark.global_table_join import StreamGlobalTableJoinOperator
from streams.spark.history_store import HistoryStore
from streams.spark.interpreted import FEW_RECORDS, SMALL_TABLES
from streams.spark.keyed_aggregate import KeyedAggregateOperator
from streams.spark.lookup_pairs import MOST_PAIRED
from streams.spark.of_keys import MOST_SENT
from streams.spark.operator import Operator
from streams.spark.sinks import ChangelogSinkOperator, TableSinkOperator
from streams.spark.sources import SparkSource
from streams.spark.store import StoringOperator, table_name
from streams.spark.stream_stream_join import StreamStreamJoinOperator
from streams.spark.stream_table_join import StreamTableJoinOperator
from streams.spark.suppress import FinalResultsOperator, SuppressOperator
from streams.spark.table_source import TableOperator
from streams.spark.table_table_join import TableTableJoinOperator
from streams.spark.table_views import TableViewOperator
from streams.spark.time_windows import TimeWindowsOperator
from versioned import sent_rows
from versioned.identifiers import TableRef
from versioned.put import ROWS_FOR_ANY_SPLICE, ROWS_PER_SPLICE
from versioned.touched import MOST_NAMED, ROWS_PER_MERGED, ROWS_PER_NAMED


@dataclass(frozen=True)
class Work:
    """What one operator does in a batch that has input for it.

    ``reads`` are lines of "table: columns where predicate", ``commits`` lines of "table: how". ``jobs`` counts its own
    Spark jobs, without commits and without the jobs that count for all operators together.
    """

    reads: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    jobs: int = 0
    how: str = ""


def explain(
    operators: Mapping[str, Operator[Any]], root: TableRef, sources: Mapping[str, SparkSource] | None = None
) -> str:
    """A text that describes the work of all operators, in plan order.

    Args:
        operators: The operators by node name.
        root: Where the application's tables lie.
        sources: The sources by topic; Kafka topics and tables of a catalog are named.
    """
    tables = {topic: source.table for topic, source in (sources or {}).items()}
    nodes = [operator.node for operator in operators.values()]
    outside = kafka_topics(operators, sources or {}) | catalog_tables(nodes, tables)
    lines = list[str]()
    for name, operator in operators.items():
        work = _work_of(operator, root)
        lines.append(f"{name}: {work.how}" if work.how else name)
        lines += [f"    {outside[name]}"] if name in outside else []
        lines += [f"    reads {line}" for line in work.reads]
        lines += [f"    commits {line}" for line in work.commits]
        lines.append(f"    Spark jobs of its own: {work.jobs}")
    lines.append(
        "every batch: one look at the ledger's newest commits, one job per topic survey, one or two that count for all "
        "operators, rejects if any, the ledger row"
    )
    lines.append(
        f"up to {FEW_RECORDS:,} records on tables of up to {SMALL_TABLES >> 20} MiB together: interpreted, not compiled"
    )
    lines.append(
        f"in larger batches: look-ups known to be of up to {MOST_SENT:,} records send keys and do not move tables; of "
        f"more, a stream-table join pairs records with versions where a key has at most {MOST_PAIRED} records, and of "
        f"up to {sent_rows.MOST_SENT:,} moves only versions that one of them finds, if the table is large"
    )
    return "\n".join(lines)


def kafka_topics(operators: Mapping[str, Operator[Any]], sources: Mapping[str, SparkSource]) -> dict[str, str]:
    """What sources read from Kafka and what sinks send there, in words, by node name.

    Args:
        operators: The operators by node name.
        sources: The sources by topic of the plan.
    """
    told: dict[str, str] = {}
    for name, operator in operators.items():
        node = operator.node
        if isinstance(node, SOURCES) and node.topic in sources:
            topic = sources[node.topic].kafka_topic
            told |= {} if topic is None else {name: f"reads {topic}"}
        if isinstance(operator, ChangelogSinkOperator) and operator.kafka is not None:
            told[name] = f"sends what has landed to {operator.kafka.place}, at least once"
    return told


def catalog_tables(nodes: Iterable[Node], tables: Mapping[str, str | None]) -> dict[str, str]:
    """What sources read from tables of a catalog, in words, by node name.

    Args:
        nodes: The nodes of the plan.
        tables: Topic of the plan -> the table that it reads; None = it reads none.

    >>> from streams.nodes import StreamSource
    >>> catalog_tables([StreamSource("sold", topic="orders")], {"orders": "main.sales.orders"})
    {'sold': 'reads table main.sales.orders of the catalog'}
    """
    read = {node.name: tables.get(node.topic) for node in sources_of(nodes)}
    return {name: f"reads table {table} of the catalog" for name, table in read.items() if table is not None}


def _work_of(operator: Operator[Any], root: TableRef) -> Work:
    for kind, work in _WORK:
        if isinstance(operator, kind):
            return work(operator, [table.short_name for table in operator.tables(root)])
    return Work(how="no state, part of its consumers' jobs")


def _stored(operator: StoringOperator[Any], tables: list[str]) -> Work:
    if operator.store is None:
        return Work(how="a view, part of its consumers' jobs")
    (name,) = tables[:1]
    if isinstance(operator.store, HistoryStore):
        return Work(
            (
                f"{name}: key, validFrom and values where _current = true",
                f"{name}: the same where _current = false and validTo > the oldest out-of-order record, if any",
            ),
            (
                f"{name}: replace where _current = true; with late records also where validTo > the oldest of them "
                "(step main)",
                f"{name}: instead, if more than {ROWS_PER_SPLICE:,} closed rows for each late record end after that, "
                f"and {ROWS_FOR_ANY_SPLICE:,} in all: MERGE of late records into closed history, before (step splice)",
                f"{name}: instead, with deletion vectors and {ROWS_PER_NAMED} current rows for each record: replace "
                f"rows of the batch's keys only; of more than {MOST_NAMED:,} records, with {ROWS_PER_MERGED} for each: "
                "MERGE of what changes (step main)",
            ),
            1,
            "puts into a versioned table",
        )
    return Work(
        (f"{name}: key, ts and values, joined with the batch's keys",),
        (f"{name}: MERGE of the batch's keys",),
        0,
        "changes of a plain table",
    )


def _source(operator: TableOperator, tables: list[str]) -> Work:
    own, held = _stored(operator, tables), tables[1:]
    reads = tuple(f"{name}: every record that waits" for name in held)
    commits = tuple(f"{name}: replace what waits" for name in held)
    return Work((*reads, *own.reads), (*commits, *own.commits), own.jobs + len(held), own.how)


def _looks_up(operator: Any, tables: list[str]) -> Work:
    table = operator.node.parents[1]
    reads = [
        f"{table_name(table)}: the versions of the batch's keys; closed ones only where validTo > the oldest record"
    ]
    held = [f"{name}: every record that waits" for name in tables]
    commits = tuple(f"{name}: replace what waits" for name in tables)
    return Work((*reads, *held), commits, 1 if tables else 0, "look-ups at each record's place")


def _windows(how: str) -> Callable[[Any, list[str]], Work]:
    def work(operator: Any, tables: list[str]) -> Work:
        name = tables[0]
        reads = (f"{name}: key, window and parts where _open = true",)
        return Work(reads, (f"{name}: replace where _open = true",), 1, how)

    return work


def _buffer(operator: SuppressOperator, tables: list[str]) -> Work:
    name, *others = tables
    commits = [f"{other}: the rows that left or were closed, if any" for other in others]
    return Work((f"{name}: every buffered row",), (*commits, f"{name}: replace all"), 1, "folded per stream-time scope")


def _final(operator: FinalResultsOperator, tables: list[str]) -> Work:
    return Work(how="final results straight from the window store, no copy of the state", jobs=1)


def _joins(operator: TableTableJoinOperator, tables: list[str]) -> Work:
    sides = [f"{table_name(parent)}: latest rows of the batch's keys" for parent in operator.node.parents]
    own = _stored(operator, tables)
    return Work((*sides, *own.reads), own.commits, own.jobs, "each change looks into the other side at its place")


def _complete(operator: CompleteJoinOperator, tables: list[str]) -> Work:
    sides = [
        f"{table_name(parent)}: versions of the batch's keys where validTo > the oldest change"
        for parent in operator.node.parents
    ]
    own = _stored(operator, tables)
    return Work((*sides, *own.reads), own.commits, own.jobs, "folded key by key over both histories")


def _foreign(operator: ForeignKeyJoinOperator, tables: list[str]) -> Work:
    left, right = (table_name(parent) for parent in operator.node.parents)
    own = _stored(operator, tables)
    reads = (f"{left}: latest rows, joined with the batch's keys and foreign keys", f"{right}: latest rows pointed to")
    return Work((*reads, *own.reads), own.commits, own.jobs, "right changes meet the left rows that point to them")


def _aggregate(operator: KeyedAggregateOperator, tables: list[str]) -> Work:
    state = tables[-1]
    how = "folded group by group" if operator.is_sequential else "running sums of contributions, one window by group"
    return Work(
        (f"{state}: the batch's groups",), tuple(f"{name}: MERGE of the batch's groups" for name in tables), 0, how
    )


def _stream_stream(operator: StreamStreamJoinOperator, tables: list[str]) -> Work:
    name = tables[0]
    return Work(
        (f"{name}: every record of both sides that can still meet one",),
        (f"{name}: replace all",),
        1,
        "folded per stream-time scope",
    )


def _corrections(operator: CorrectionFeedOperator, tables: list[str]) -> Work:
    name = tables[0]
    reads = (f"{name}: every remembered answer", f"{table_name(operator.node.parents[1])}: as its own puts")
    return Work(
        reads, (f"{name}: MERGE of new and corrected answers",), 0, "answers joined with the spans of late changes"
    )


def _changelog(operator: ChangelogSinkOperator, tables: list[str]) -> Work:
    return Work((), (f"{tables[0]}: append",), 0, "changelog")


def _latest(operator: TableSinkOperator, tables: list[str]) -> Work:
    return Work((), (f"{tables[0]}: MERGE of the batch's keys",), 0, "latest state per key")


#: The first matching class counts.
_WORK: Final[Iterable[tuple[type[Operator[Any]], Callable[[Any, list[str]], Work]]]] = (
    (CompleteJoinOperator, _complete),
    (TableTableJoinOperator, _joins),
    (ForeignKeyJoinOperator, _foreign),
    (KeyedAggregateOperator, _aggregate),
    (TableOperator, _source),
    (TableViewOperator, _stored),
    (StreamTableJoinOperator, _looks_up),
    (StreamGlobalTableJoinOperator, _looks_up),
    (TimeWindowsOperator, _windows("set-wise, one window by key and start")),
    (FoldedWindowsOperator, _windows("folded key by key")),
    (FinalResultsOperator, _final),
    (SuppressOperator, _buffer),
    (StreamStreamJoinOperator, _stream_stream),
    (CorrectionFeedOperator, _corrections),
    (ChangelogSinkOperator, _changelog),
    (TableSinkOperator, _latest),
)
