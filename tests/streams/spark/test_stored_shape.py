"""What a table that is there can take of a plan that was changed."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from streams.spark.stored_shape import check_names, check_rows
from versioned.errors import ConfigurationError

_THERE: Final = StructType().add("k", LongType(), nullable=False).add("value", StructType().add("a", LongType()))


@pytest.mark.parametrize(
    ("value", "differs"),
    [
        (StructType().add("a", LongType()).add("fee", LongType()), True),
        (StructType().add("b", LongType()), True),
        (StructType().add("a", IntegerType()), True),
        (StructType().add("a", LongType(), nullable=False), False),
    ],
)
def test_state_with_other_fields_or_types_is_refused_by_name(value: StructType, differs: bool) -> None:
    made = StructType().add("k", LongType()).add("value", value)
    if not differs:
        check_rows("held", "held", _THERE, made)
        return
    with pytest.raises(
        ConfigurationError, match=r"the table \"held\" holds other columns than it makes now: \['value'\]"
    ):
        check_rows("held", "held", _THERE, made)


@pytest.mark.parametrize(("made", "may_lack", "differs"), [("k", True, False), ("k", False, True), ("kb", True, True)])
def test_a_sink_takes_no_new_column_and_may_lack_one_only_if_it_appends(
    made: str, may_lack: bool, differs: bool
) -> None:
    if not differs:
        check_names("sink", "sink", ["K", "a"], made, may_lack=may_lack)
        return
    with pytest.raises(ConfigurationError, match="holds other columns"):
        check_names("sink", "sink", ["K", "a"], made, may_lack=may_lack)
