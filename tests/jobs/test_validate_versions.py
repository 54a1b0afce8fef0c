"""``versioned validate`` over one table and one source: the small form of ``test_validate.py``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import stored_tables
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from jobs import validate as validate_job
from jobs.cli import app
from jobs.exit_codes import BAD_DATA, FAILED
from jobs.validate import validate
from jobs.validate_settings import ValidateSettings
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable

#: For what asks Spark nothing.
_NOWHERE = cast(SparkSession, None)


def _validated(work: Path, **settings: Any) -> Any:
    config = work / "validate.yaml"
    config.write_text(yaml.safe_dump({"root": "tables", "docs": "pages", **settings}), encoding="utf-8")
    ended = CliRunner().invoke(app, ["validate", "-c", str(config), "-w", str(work), "--json"])
    return ended.exit_code, {said["name"]: said for said in map(json.loads, ended.stdout.splitlines())}


@pytest.fixture(scope="module")
def work(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of prices, and the input of prices with rules about it."""
    folder = tmp_path_factory.mktemp("validate_versions")
    stored_tables.written(folder / "input")
    source = {
        "format": "json",
        "path": "input/prices",
        "schema": "seq BIGINT, ts TIMESTAMP, item STRING, price DOUBLE",
        "quality": stored_tables.PRICES,
    }
    job = {
        "application": "shop",
        "root": "tables",
        "plan": {"prices": {"op": "stream", "key": "item"}},
        "sources": {"prices": source},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    path = f"{folder}/tables/prices"
    prices = VersionedTable.create(spark, path, "item STRING, price DOUBLE", keys="item", history_retention="1 day")
    prices.put(spark.sql("SELECT 'tea' AS item, 1D AS price, TIMESTAMP '2020-01-01 00:01:00' AS ts"))
    return folder


def test_a_sound_table_and_a_rule_that_cannot_be_judged_end_with_code_1(work: Path) -> None:
    code, told = _validated(work, job="job.yaml")
    assert (code, told["prices"]["broken"], told["prices"]["errors"]) == (FAILED, {}, {})
    assert told["sources.prices"]["broken"] == {"cheap": 2, "letters": 2}
    assert list(told["sources.prices"]["errors"]) == ["no_such_column_to_not_be_null"]


def test_a_table_of_a_catalog_is_judged_as_one_below_a_root_is(spark: SparkSession, work: Path) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS validated")
    name = "validated.prices"
    prices = VersionedTable.create(spark, name, "item STRING, price DOUBLE", keys="item", history_retention="1 day")
    prices.put(spark.sql("SELECT 'tea' AS item, 1D AS price, TIMESTAMP '2020-01-01 00:01:00' AS ts"))
    # Somebody else's: nothing of it is taken for stream times.
    spark.sql("CREATE TABLE validated.ledger (account STRING) USING DELTA")
    spark.sql(f"UPDATE {name} SET deleted = true")
    code, told = _validated(work, root=None, tables=[name])
    assert (code, told[name]["kind"], told[name]["broken"]) == (BAD_DATA, "versions", {"value_of_deleted": 1})


def test_the_ledger_beside_many_tables_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    targets = [TableRef.parse(f"/tables/{name}") for name in ("a-b", "a_b", "c")]
    ledgers: list[TableRef] = []
    judged: list[str] = []
    monkeypatch.setattr(validate_job, "tables_of", lambda *_: targets)
    monkeypatch.setattr(validate_job, "Judge", lambda _: SimpleNamespace(write_docs=lambda _: None))
    monkeypatch.setattr(validate_job, "ledger_facts", lambda _, ledger: ledgers.append(ledger) or {})
    monkeypatch.setattr(validate_job, "judged_table", lambda *asked: judged.append(asked[-1]))
    validate(_NOWHERE, ValidateSettings(root="tables", docs="pages"), tmp_path)
    assert (ledgers, judged) == ([TableRef.parse("/tables/ledger")], ["a-b", "a_b", "c"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"root": None}, "root: give the folder of the tables, or tables of a catalog"),
        ({"root": None, "tables": ["prices"]}, "root: give the folder"),
        ({"tables": ["prces"]}, 'no table "prces"'),
        ({"root": None, "tables": ["validated.prces"]}, "not in the catalog: validated.prces"),
    ],
)
def test_tables_that_are_not_there_are_told_before_any_is_judged(
    spark: SparkSession, work: Path, settings: dict[str, Any], told: str
) -> None:
    said = ValidateSettings(**{"root": "tables", "docs": "pages", **settings})
    with pytest.raises(ConfigurationError, match=told):
        validate(spark, said, work)


def test_every_fault_in_a_versioned_table_is_found_and_ends_with_code_3(spark: SparkSession, work: Path) -> None:
    path = f"{work}/tables/prices"
    stored_tables.unguard(spark, path)
    stored_tables.inject(spark, path, "prices")
    code, told = _validated(work)
    assert (code, told["prices"]["broken"]) == (BAD_DATA, stored_tables.expected("prices"))
    assert "prices" in (work / "pages" / "index.html").read_text(encoding="utf-8")
