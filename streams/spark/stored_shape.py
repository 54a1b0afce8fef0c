"""Whether a table that is there can take what a changed plan makes: told at the start, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructType

from versioned.errors import ConfigurationError
from versioned.sql_types import nullable_columns


def check_rows(node: str, table: str, there: StructType, made: StructType) -> None:
    """Refuse rows that a state table could not give back as they were: other columns, or of other types.

    Args:
        node: Whose table it is.
        table: Its name.
        there: Its columns.
        made: Those of the rows that the plan makes now.

    Raises:
        ConfigurationError: telling which columns differ.
    """
    before, after = nullable_columns(there), nullable_columns(made)
    _refuse(node, table, [name for name in {**before, **after} if before.get(name) != after.get(name)])


def check_names(node: str, table: str, there: Iterable[str], made: Iterable[str], *, may_lack: bool) -> None:
    """Refuse rows with columns that a table lacks, or without some that it has.

    Args:
        node: Whose table it is.
        table: Its name.
        there: The names of its columns.
        made: Those of the rows that the plan makes now.
        may_lack: Whether rows may come without a column, which is null in them then.

    Raises:
        ConfigurationError: telling which columns differ.
    """
    before, after = ({name.lower() for name in names} for names in (there, made))
    _refuse(node, table, sorted(after - before if may_lack else after ^ before))


def _refuse(node: str, table: str, differing: list[str]) -> None:
    if differing:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds other columns than it makes now: '
            f"{differing}. Give the plan the former fields, or the node another name, under which it begins empty; a "
            "sink's table can be given a column by ALTER TABLE."
        )
