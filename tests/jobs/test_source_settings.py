"""Settings of a source: what it needs by its format, and what does not go together."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from jobs.layers import Layers
from jobs.settings import parse
from jobs.shown import shown
from versioned.errors import ConfigurationError

_GOOD: dict[str, Any] = {
    "application": "quickstart",
    "plan": "jobs.quickstart_plan:build",
    "root": "tables",
    "sources": {"flights": {"format": "parquet", "path": "in/flights", "schema": "tailnum STRING"}},
}
_FILES = {"format": "json", "path": "in", "schema": "ts TIMESTAMP"}


def _source(**changes: Any) -> dict[str, Any]:
    """A source of files, with other settings; None: without them."""
    said = {name: value for name, value in (_FILES | changes).items() if value is not None}
    return _GOOD | {"sources": {"s": said}}


@pytest.mark.parametrize("form", ["avro", "csv", "json", "JSON", "orc", "parquet", "xml"])
def test_a_source_of_files_without_a_schema_is_refused_since_it_never_starts(form: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sources.s: schema is missing: .* {form.lower()} files"):
        parse(_source(format=form, schema=None))


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_source_of_files_without_a_folder_is_refused(form: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sources.s: path is missing: a source of format {form} reads"):
        parse(_source(format=form, path=None))


@pytest.mark.parametrize("name", ["path", "Path"])
def test_a_source_with_two_paths_is_refused_instead_of_reading_one_of_them(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sources\.s: options\.path: the source has a path already"):
        parse(_source(options={name: "elsewhere"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "text", "schema": None},
        {"path": None, "options": {"path": "s3a://bucket/in"}},
        {"format": "delta", "schema": None},
        {"format": "rate", "path": None, "schema": None},
        {"format": "kafka", "path": None, "schema": None},
        {"format": "cloudFiles", "schema": None},
        {"format": "com.example.Source", "path": None, "schema": None},
    ],
)
def test_a_source_that_tells_enough_for_its_format_is_accepted(changes: dict[str, Any]) -> None:
    assert parse(_source(**changes)).sources["s"].format == changes.get("format", "json")


_TABLE = {"table": "main.sales.orders"}
_KAFKA = {"servers": "host:9092", "topic": "orders", "value": "n LONG"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"format": "delta"},
        {"options": {"skipChangeCommits": "true", "readChangeFeed": "true", "startingVersion": "3"}},
        {"transform": "jobs.run:run", "partition_by": "p", "sequence_by": "n"},
        {"contract": {"types": "n LONG"}, "quality": {"expectations": [{"expect_column_to_exist": {"column": "n"}}]}},
    ],
)
def test_a_source_may_be_a_table_of_a_catalog_with_all_that_a_format_has(more: dict[str, Any]) -> None:
    source = parse(_GOOD | {"sources": {"s": _TABLE | more}}).sources["s"]
    assert (source.table, source.form, source.is_kafka) == ("main.sales.orders", "delta", False)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (_TABLE | {"path": "in"}, "path: a table of a catalog has its own"),
        (_TABLE | {"options": {"Path": "in"}}, "path: a table of a catalog has its own"),
        (_TABLE | {"schema": "n LONG"}, "schema: a table of a catalog has its own"),
        (_TABLE | {"path": "in", "schema": "n LONG"}, "path, schema: a table of a catalog has its own"),
        (_TABLE | {"format": "parquet"}, "format: a table of a catalog is read as delta"),
        (_TABLE | {"format": "kafka"}, "format: a table of a catalog is read as delta"),
        (_TABLE | {"kafka": _KAFKA}, "give either a format, a table or kafka"),
        ({"table": "in/orders"}, "table: with a / it is a folder. Write it as path"),
        ({"table": "main..orders"}, 'table: "main..orders" is not a table name'),
        ({"table": ""}, 'table: "" is not a table name'),
        ({"format": "", "path": "in"}, 'format: name one of Spark, such as parquet; got ""'),
        ({"format": "delta"}, "path or table is missing: a source of format delta"),
        ({"format": "Delta", "options": {"readChangeFeed": "true"}}, "path or table is missing"),
        ({}, "give either a format, a table or kafka"),
    ],
)
def test_a_source_that_is_told_by_two_places_or_none_is_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^sources\.s: {re.escape(told)}"):
        parse(_GOOD | {"sources": {"s": said}})


def test_a_variable_makes_a_source_that_is_a_table() -> None:
    layers = Layers.of(_GOOD, {"VERSIONED_JOB__SOURCES__MORE__TABLE": "main.sales.orders"})
    assert parse(layers.merged()).sources["more"].table == "main.sales.orders"


def test_a_source_that_is_a_table_is_shown_as_it_is_said() -> None:
    said = _GOOD | {"sources": {"s": _TABLE}}
    told = shown(parse(said))
    assert (parse(told), told["sources"]["s"]["table"]) == (parse(said), "main.sales.orders")


def test_what_a_source_lacks_in_the_file_may_come_from_another_layer() -> None:
    layers = Layers.of(_source(path=None), {"VERSIONED_JOB__SOURCES__S__PATH": "in"})
    assert parse(layers.merged()).sources["s"].path == "in"


def test_the_offsets_of_kafka_are_a_sequence() -> None:
    topic = {"servers": "b:9092", "topic": "t", "value": "v INT"}
    for source in (
        {"format": "kafka"},
        {"format": "Kafka"},
        {"kafka": topic},
        {"format": "rate", "sequence_by": "value"},
    ):
        assert parse(_GOOD | {"order": "sequence", "sources": {"flights": source}}).order == "sequence"


_OF_KAFKA = {"kafka": {"servers": "host:9092", "topic": "prices", "value": "item STRING, price DOUBLE"}}
_OF_FILES = {"format": "delta", "path": "input/orders", "sequence_by": "n"}


@pytest.mark.parametrize("of_kafka", [_OF_KAFKA, {"format": "kafka", "options": {"subscribe": "prices"}}])
@pytest.mark.parametrize(
    ("order", "others", "is_refused"),
    [
        ("sequence", {"orders": _OF_FILES}, True),
        ("sequence", {"orders": _OF_KAFKA}, True),
        ("sequence", {}, False),
        ("arrival", {"orders": _OF_FILES}, False),
    ],
)
def test_offsets_of_kafka_are_no_sequence_that_other_sources_share(
    order: str, others: dict[str, Any], is_refused: bool, of_kafka: dict[str, Any]
) -> None:
    said = _GOOD | {"order": order, "sources": {"prices": of_kafka, **others}}
    told: AbstractContextManager[object] = (
        pytest.raises(ConfigurationError, match=r"prices goes by the offsets of its topic.*Write order: arrival")
        if is_refused
        else nullcontext()
    )
    with told:
        assert parse(said).order == order


def test_files_may_number_the_records_of_all_sources_in_a_column_called_offset() -> None:
    numbered = _OF_FILES | {"sequence_by": "offset"}
    said = _GOOD | {"order": "sequence", "sources": {"prices": numbered, "orders": numbered}}
    assert parse(said).order == "sequence"
