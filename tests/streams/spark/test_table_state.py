"""What a stored table refuses."""

from __future__ import annotations

import pytest

from streams.spark.table_state import check_apart
from versioned.errors import SchemaError


def test_a_field_of_both_key_and_value_is_refused_with_the_node_and_the_remedy() -> None:
    with pytest.raises(SchemaError, match=r'"latest" would hold \[\'carrier\'\] twice.*map_values'):
        check_apart("latest", ["carrier", "flight"], ["delay", "carrier"])


def test_fields_that_differ_are_taken() -> None:
    check_apart("latest", ["carrier"], ["delay"])
