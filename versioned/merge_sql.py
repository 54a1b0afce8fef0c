"""MERGE as SQL text, for Spark Connect.

A Connect client's ``DeltaTable`` needs a Delta plugin in the server, which not every server has; SQL does not.
Conditions and values are text here, since a Connect client cannot turn a column back into SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from versioned.identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHEN: Final = {
    "matched": "WHEN MATCHED",
    "not_matched": "WHEN NOT MATCHED",
    "not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
}


class SqlMerge:
    """The part of ``DeltaMergeBuilder`` that this library uses; ``t`` is the table and ``s`` the rows.

    Args:
        target: The table, as SQL text.
        frame: The rows; while the statement runs, they are a temporary view.
        condition: When a row of the table and a row of ``frame`` match, as SQL.
    """

    def __init__(self, target: str, frame: DataFrame, condition: str) -> None:
        self._target = target
        self._frame = frame
        self._condition = condition
        self._clauses: list[str] = []

    def whenMatchedDelete(self, condition: str | None = None) -> SqlMerge:  # noqa: N802 - Delta's name
        return self._add("matched", condition, "DELETE")

    def whenMatchedUpdate(self, *, set: Mapping[str, str]) -> SqlMerge:  # noqa: A002, N802
        pairs = ", ".join(f"{_quoted(name)} = {value}" for name, value in set.items())
        return self._add("matched", None, f"UPDATE SET {pairs}")

    def whenMatchedUpdateAll(self) -> SqlMerge:  # noqa: N802
        return self._add("matched", None, "UPDATE SET *")

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: str | None = None, *, values: Mapping[str, str]
    ) -> SqlMerge:
        columns, inserted = ", ".join(map(_quoted, values)), ", ".join(values.values())
        return self._add("not_matched", condition, f"INSERT ({columns}) VALUES ({inserted})")  # noqa: S608 - names only

    def whenNotMatchedInsertAll(self) -> SqlMerge:  # noqa: N802
        return self._add("not_matched", None, "INSERT *")

    def whenNotMatchedBySourceDelete(self, condition: str) -> SqlMerge:  # noqa: N802
        return self._add("not_matched_by_source", condition, "DELETE")

    def text(self, view: str) -> str:
        """The text of the statement, with the rows in a view.

        >>> merge = SqlMerge("`a`.`b`", None, "t.id = s.id").whenMatchedDelete("s.gone")
        >>> merge.whenNotMatchedInsert(values={"id": "s.id"}).text("v")
        'MERGE INTO `a`.`b` AS t USING `v` AS s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE \
WHEN NOT MATCHED THEN INSERT (`id`) VALUES (s.id)'
        """
        head = f"MERGE INTO {self._target} AS t USING {quote(view)} AS s ON {self._condition}"
        return " ".join([head, *self._clauses])

    def execute(self) -> None:
        """Run the statement."""
        view = f"_versioned_merge_{uuid4().hex}"
        self._frame.createTempView(view)
        try:
            self._frame.sparkSession.sql(self.text(view))
        finally:
            self._frame.sparkSession.catalog.dropTempView(view)

    def _add(self, when: str, condition: str | None, action: str) -> SqlMerge:
        also = "" if condition is None else f" AND {condition}"
        self._clauses.append(f"{_WHEN[when]}{also} THEN {action}")
        return self


def _quoted(name: str) -> str:
    return name if name.startswith("`") else quote(name)
