"""Which keys the results of an outer join can have."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from streams.spark.key_types import check_outer_keys
from versioned.errors import SchemaError


def _key(kind: DataType) -> StructType:
    return StructType().add("id", kind)


@pytest.mark.parametrize(
    ("left", "right"),
    [(LongType(), IntegerType()), (StringType(), LongType()), (LongType(), LongType())],
    ids=["wider", "text", "the same"],
)
def test_a_left_key_that_holds_every_right_one_is_taken(left: DataType, right: DataType) -> None:
    check_outer_keys("both", _key(left), _key(right))


@pytest.mark.parametrize(("left", "right"), [(IntegerType(), LongType()), (LongType(), StringType())])
def test_an_outer_join_whose_results_could_lack_a_key_is_refused(left: DataType, right: DataType) -> None:
    with pytest.raises(SchemaError, match=r'results of "both" have the keys of its left side.*Cast one'):
        check_outer_keys("both", _key(left), _key(right))
