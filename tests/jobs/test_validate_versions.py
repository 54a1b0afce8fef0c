"""``versioned validate`` over one table and one source: the small form of ``test_validate.py``."""

from __future__ import annotations

import json
import shutil
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
from jobs.validate import Judged, code_of, validate
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


def test_what_cannot_be_read_is_told_by_its_name_and_hides_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def judged(*asked: Any) -> Judged:
        if asked[-1] == "broken":
            raise OSError("an error of Java's\nand its stack")
        return Judged(asked[-1], "table", 1, 2, 3)

    def source(*_: Any) -> Any:
        raise RuntimeError("no broker at kafka:9092")

    pages, told = list[Path](), list[Judged]()
    targets = [TableRef.parse(f"/tables/{name}") for name in ("broken", "sound")]
    monkeypatch.setattr(validate_job, "tables_of", lambda *_: targets)
    monkeypatch.setattr(validate_job, "Judge", lambda _: SimpleNamespace(write_docs=pages.append))
    monkeypatch.setattr(validate_job, "ledger_facts", source)
    monkeypatch.setattr(validate_job, "judged_table", judged)
    monkeypatch.setattr(validate_job, "source_of", source)
    rules = SimpleNamespace(rules=[1, 2], policy="warn")
    job: Any = SimpleNamespace(sources={"orders": SimpleNamespace(quality=rules)})
    found = validate(_NOWHERE, ValidateSettings(root="tables", docs="pages"), tmp_path, job, told.append)
    assert (found, pages, code_of(found)) == (told, [tmp_path / "pages"], FAILED)
    assert [(one.name, dict(one.errors)) for one in found] == [
        ("/tables/ledger", {"read": "RuntimeError: no broker at kafka:9092"}),
        ("broken", {"read": "OSError: an error of Java's"}),
        ("sound", {}),
        ("sources.orders", {"read": "RuntimeError: no broker at kafka:9092"}),
    ]
    assert " ".join(str(found[1]).split()) == "broken unknown not read read: NOT JUDGED, OSError: an error of Java's"
    assert "hold" not in str(found[3])


def test_what_tells_of_a_table_is_no_part_of_judging_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken_pipe(_: Judged) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(validate_job, "tables_of", lambda *_: [TableRef.parse("/tables/a")])
    monkeypatch.setattr(validate_job, "Judge", lambda _: SimpleNamespace(write_docs=lambda _: None))
    monkeypatch.setattr(validate_job, "ledger_facts", lambda *_: {})
    monkeypatch.setattr(validate_job, "judged_table", lambda *asked: Judged(asked[-1], "table", 1, 2, 3))
    with pytest.raises(BrokenPipeError):
        validate(_NOWHERE, ValidateSettings(root="tables", docs="pages"), tmp_path, None, broken_pipe)


@pytest.mark.slow
def test_damaged_files_of_a_table_and_of_a_source_are_an_error_of_each_and_the_pages_are_written(
    spark: SparkSession, work: Path, tmp_path: Path
) -> None:
    spark.sql("SELECT 'tea' AS item").coalesce(1).write.format("delta").save(f"{tmp_path}/tables/items_now")
    spark.sql("SELECT 1D AS price").coalesce(1).write.parquet(f"{tmp_path}/input")
    prices = shutil.copytree(work / "tables" / "prices", tmp_path / "tables" / "prices")
    for data in (*prices.rglob("part-*.parquet"), *(tmp_path / "input").glob("part-*.parquet")):
        if "_delta_log" not in data.parts:
            data.write_bytes(b"PAR1 no such thing PAR1")
    said = yaml.safe_load((work / "job.yaml").read_text(encoding="utf-8"))
    said["sources"]["prices"] |= {"format": "parquet", "path": "input"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    code, told = _validated(tmp_path, job="job.yaml")
    assert code == FAILED
    assert {name: list(found["errors"]) for name, found in told.items()} == {
        "items_now": [],
        "prices": ["read"],
        "sources.prices": ["read"],
    }
    assert "part-" in told["sources.prices"]["errors"]["read"]
    assert (tmp_path / "pages" / "index.html").is_file()


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
