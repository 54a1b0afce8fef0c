"""Checks the columns that sources declare against the plan and their contracts, as a start does, but without Spark.

The rules are those of the start (``streams.spark.input_checks``). Columns are known here only if the settings
declare them: the ``schema`` of files without a ``transform``, and the fields of a topic of ``kafka``. The start itself
checks other sources, and DDL that only Spark understands.
"""

from __future__ import annotations

import os
from dataclasses import replace
from glob import glob
from pathlib import Path

from pyspark.sql.types import StructType, VarcharType

from jobs.kafka_settings import KafkaSourceSettings
from jobs.place_setting import below, has_scheme
from jobs.plan_words import as_declared
from jobs.run import source_of
from jobs.settings import JobSettings, SourceSettings
from jobs.strict import PlacedError
from streams.ddl import check_ddl
from streams.nodes import SourceNode, Topology, sources_of
from streams.spark.input_checks import check_input, lacking, shape_read, types_read
from streams.spark.intake import IntakeRule
from streams.spark.kafka_source import columns_decoded
from streams.spark.made_keys import check_made_keys
from streams.spark.reader_options import FILES, columns_read
from streams.spark.row_rules import check_values
from streams.struct_checks import Shape, check_known
from versioned.ddl_columns import columns_if_known
from versioned.errors import ConfigurationError, SchemaError
from versioned.sql_types import kinds_in


def check_sources(settings: JobSettings, plan: Topology, work: Path) -> None:
    """Refuse columns of sources with which a start would fail, as far as the settings declare them.

    Args:
        settings: The job.
        plan: Its plan.
        work: The work folder, which relative paths are below: folders such as ``day=2026-01-31`` are columns too.

    Raises:
        ConfigurationError: in the words of the start, with the path of the source.
        TopologyError: an expression names a field that no row has, or a key cannot be one.
    """
    for topic, source in settings.sources.items():
        _check_types(f"sources.{topic}", source)
    shapes: dict[str, Shape] = {}
    read: dict[str, StructType] = {}
    for node in sources_of(plan):
        try:
            found = _found(node, settings, work)
        except (ConfigurationError, SchemaError) as error:
            raise PlacedError(f"sources.{node.topic}", str(error)) from None
        if found is not None:
            columns, rule, is_open = found
            read[node.name] = types_read(columns, rule)
            if not is_open:
                shapes[node.name] = shape_read(columns, rule)
    with as_declared(settings.plan):
        check_known(list(plan), shapes)
        check_made_keys(plan, read)


def _check_types(path: str, source: SourceSettings) -> None:
    """Refuse misspelt types in the DDL of a source."""
    told = {"schema": source.schema_ddl, "contract.types": source.contract.types}
    if source.kafka is not None:
        told |= {"kafka.key": source.kafka.key, "kafka.value": source.kafka.value}
    for option, ddl in told.items():
        if ddl is not None:
            check_ddl(f"{path}.{option}", ddl)


def _found(node: SourceNode, settings: JobSettings, work: Path) -> tuple[StructType, IntakeRule, bool] | None:
    """The checked columns of a source, how its node reads them, and whether there may be more values.

    None where the columns are not known.
    """
    said = settings.sources[node.topic]
    columns, source = _columns_of(said), source_of(node.topic, said, work)
    types = None if said.contract.types is None else columns_if_known(said.contract.types)
    if columns is None or (types is None and said.contract.types is not None):
        return None
    source = replace(source, contract=replace(source.contract, types=types))
    rule = IntakeRule(node, source, 0, settings.order, 0, source.contract.declared())
    missing = {name.lower() for names in lacking(rule, columns.names) for name in names}
    # Only if needed: walking through very many folders takes long.
    looks = said.kafka is None and (missing or node.value is None)
    folders = _folders(said, work) if looks else set[str]()
    if missing and (folders is None or not missing.isdisjoint(folders)):
        return None
    check_input(columns, rule)
    if said.quality is not None and said.quality.policy == "reject":
        for each in said.quality.rules:
            check_values(each.expectation, each.arguments, columns)
    # A node that names no values takes all columns, those of folders too.
    return columns, rule, node.value is None and folders != set()


def _columns_of(said: SourceSettings) -> StructType | None:
    """The columns of a source's rows; None where the settings do not declare them."""
    if said.kafka is not None:
        return _of_kafka(said.kafka)
    if said.transform is not None or said.schema_ddl is None or said.form.lower() not in FILES:
        return None
    columns = _read(said.schema_ddl)
    return None if columns is None else columns_read(said.form, said.options, columns)


def _of_kafka(said: KafkaSourceSettings) -> StructType | None:
    value, key = _read(said.value), None if said.key is None else _read(said.key)
    if value is None or (key is None and said.key is not None):
        return None
    return columns_decoded(said.records(), key, value)


def _read(ddl: str) -> StructType | None:
    """The columns of a DDL; None where they are not known, or include texts of bounded length, left to Spark itself."""
    columns = columns_if_known(ddl)
    is_bounded = columns is not None and any(isinstance(kind, VarcharType) for kind in kinds_in(columns))
    return None if is_bounded else columns


def _folders(said: SourceSettings, work: Path) -> set[str] | None:
    """Columns that a source has from folders (``day=2026-01-31``), in lower case; None where nobody can look."""
    place = _place(said, work)
    if place is None:
        return None
    base = next((value for name, value in said.options.items() if name.lower() == "basepath"), None)
    roots = _there(place if base is None else below(work, base))
    if not roots:
        return None
    folders = (folder for root in roots for _, folders, _ in os.walk(root) for folder in folders)
    return {folder.partition("=")[0].lower() for folder in folders if "=" in folder}


def missing_places(settings: JobSettings, work: Path) -> dict[str, str]:
    """The places of sources whose files should be on this machine and are not, by topic.

    A path among the options is not checked: Spark takes it as it is, and a relative one is relative to its process.

    Args:
        settings: The job.
        work: The work folder, which relative paths are below.
    """
    places = {topic: _place(said, work) for topic, said in settings.sources.items() if said.path}
    return {topic: place for topic, place in places.items() if place is not None and not _there(place)}


def _place(said: SourceSettings, work: Path) -> str | None:
    """Where a source's files should be on this machine, as a path or a pattern; None where nobody can look."""
    place = said.path or next((value for name, value in said.options.items() if name.lower() == "path"), None)
    return None if place is None or has_scheme(place) else below(work, place)


def _there(place: str) -> list[str]:
    return [place] if Path(place).exists() else glob(place)
