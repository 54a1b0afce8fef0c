"""Which tables a command looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.named_tables import NamedTables, name_of, tables_of, those_there
from versioned.errors import ConfigurationError


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
    assert [name_of(target) for target in tables_of(NamedTables(root=root, tables=names), work)] == told


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
        tables_of(NamedTables(root=root, tables=names), work)


def test_those_that_are_there_are_told_beside_what_is_missing(work: Path) -> None:
    found, missing = those_there(NamedTables(root="out", tables=("orders", "gone", "sales.x")), work)
    assert [name_of(target) for target in found] == ["orders", "sales.x"]
    assert missing is not None
    assert '"gone"' in missing
