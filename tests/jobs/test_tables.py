"""Where a table lies that is named at a console. No Spark here."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.tables import place_of
from versioned.identifiers import TableRef


@pytest.mark.parametrize(
    "target", ["sales.rates", "/data/rates", "out/rates", "delta.`/data/rates`", "Delta.`out/rates`", "s3://b/rates"]
)
def test_a_table_is_looked_for_where_the_library_itself_looks_for_it(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TableRef.parse(place_of(target)) == TableRef.parse(target)
