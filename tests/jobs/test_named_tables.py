"""Which tables a command looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.named_tables import NamedTables, name_of, names_of, tables_of, those_there
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

_BUCKET = "s3a://bucket/tables"


def _no_session() -> Any:
    raise RuntimeError("No FileSystem for scheme s3a\n\tat java")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder ``out`` with tables, one of which has a dot in its name."""
    for name in ("prices", "orders", "a.b"):
        (tmp_path / "out" / name / "_delta_log").mkdir(parents=True)
    (tmp_path / "out" / "no_table").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("root", "names", "told"),
    [
        ("out", (), ["a_b", "orders", "prices"]),
        ("out", ("prices", "orders"), ["prices", "orders"]),
        ("out", ("sales.orders", "prices"), ["sales.orders", "prices"]),
        ("out", ("a.b", "sales.a"), ["a_b", "sales.a"]),
        ("out", ("prices", "sales.a", "prices", "sales.a"), ["prices", "sales.a"]),
        (None, ("sales.a", "sales.a"), ["sales.a"]),
        (None, ("main.sales.orders",), ["main.sales.orders"]),
    ],
)
def test_tables_are_those_of_a_folder_and_of_a_catalog_in_the_order_of_their_names(
    work: Path, root: str | None, names: tuple[str, ...], told: list[str]
) -> None:
    assert [name_of(target) for target in tables_of(NamedTables(root=root, tables=names), work, _no_session)] == told


@pytest.mark.parametrize(
    ("root", "names", "told"),
    [
        ("dbfs:/", ("prices",), ["dbfs:/prices"]),
        ("hdfs:///", ("prices",), ["hdfs:/prices"]),
        (f"{_BUCKET}/", ("prices", f"{_BUCKET}/prices", "prices/"), [f"{_BUCKET}/prices"]),
    ],
)
def test_below_an_address_a_table_is_taken_once_also_at_the_top_of_a_file_system(
    work: Path, root: str, names: tuple[str, ...], told: list[str]
) -> None:
    targets = tables_of(NamedTables(root=root, tables=names), work, _no_session)
    assert [target.path for target in targets] == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("prices", "ledger"), ["main.shop.prices", "main.shop.ledger"]),
        (("prices-eu", "prices_eu"), ["main.shop.prices_eu"]),
        (
            ("main.crm.prices", "prices", f"{_BUCKET}/prices"),
            ["main.crm.prices", "main.shop.prices", f"{_BUCKET}/prices"],
        ),
    ],
)
def test_below_a_schema_of_a_catalog_tables_are_named_as_the_application_does(
    work: Path, names: tuple[str, ...], told: list[str]
) -> None:
    named = NamedTables(root="catalog:main.shop", tables=names)
    assert [str(target) for target in tables_of(named, work, _no_session)] == told


@pytest.mark.parametrize("name", ["/abs/prices", "delta.`/abs/prices`"])
def test_a_path_is_no_name_below_an_address(work: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: name them below {_BUCKET}, or by their address"):
        tables_of(NamedTables(root=_BUCKET, tables=(name,)), work, _no_session)


@pytest.mark.parametrize(
    ("root", "names", "told"),
    [
        ("out", ("prces", "no_table"), 'no table "prces" .* did you mean "prices".*no table "no_table"'),
        ("elsewhere", (), "there are no tables below"),
        (None, (), "root: give the folder of the tables, or tables of a catalog"),
        (None, ("prices", "sales.orders"), "root: give the folder"),
        ("out", ("sales.or ders",), "is not a table name"),
    ],
)
def test_tables_that_are_not_there_are_refused(work: Path, root: str | None, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        tables_of(NamedTables(root=root, tables=names), work, _no_session)


def test_those_that_are_there_are_told_beside_what_is_missing(work: Path) -> None:
    found, missing = those_there(NamedTables(root="out", tables=("orders", "gone", "sales.x")), work, _no_session)
    assert [name_of(target) for target in found] == ["orders", "sales.x"]
    assert missing is not None
    assert '"gone"' in missing


@pytest.mark.parametrize(
    ("root", "names", "told"),
    [
        (_BUCKET, ("prices", "orders"), [f"{_BUCKET}/prices", f"{_BUCKET}/orders"]),
        (f"{_BUCKET}/", ("prices/", "sales.x"), [f"{_BUCKET}/prices", "sales.x"]),
        (None, (f"{_BUCKET}/prices", "sales.x"), [f"{_BUCKET}/prices", "sales.x"]),
        (None, (f"delta.`{_BUCKET}/prices/`",), [f"{_BUCKET}/prices"]),
        (_BUCKET, ("dbfs:/mnt/prices", "orders"), ["dbfs:/mnt/prices", f"{_BUCKET}/orders"]),
    ],
)
def test_tables_with_an_address_are_taken_by_it_without_a_session(
    tmp_path: Path, root: str | None, names: tuple[str, ...], told: list[str]
) -> None:
    found = tables_of(NamedTables(root=root, tables=names), tmp_path, _no_session)
    assert [str(target) for target in found] == told


def test_beside_tables_with_an_address_those_of_a_folder_are_found(work: Path) -> None:
    found = tables_of(NamedTables(root="out", tables=("prices", f"{_BUCKET}/prices")), work, _no_session)
    assert [str(target) for target in found] == [f"{work.resolve()}/out/prices", f"{_BUCKET}/prices"]


def test_where_an_address_cannot_be_listed_it_is_said_why_and_that_names_would_do(tmp_path: Path) -> None:
    found, missing = those_there(NamedTables(root=_BUCKET), tmp_path, _no_session)
    assert (found, missing) == (
        [],
        f"root: the tables below {_BUCKET} cannot be listed (RuntimeError: No FileSystem for scheme s3a). Mend that; "
        "or name them: tables: [prices, orders].",
    )


def test_tables_of_one_name_in_two_places_are_called_by_their_places() -> None:
    targets = [TableRef.parse(f"{root}/{name}") for root in ("/data", _BUCKET) for name in ("prices", "orders")]
    assert names_of(targets[:3]) == ["/data/prices", "orders", f"{_BUCKET}/prices"]
