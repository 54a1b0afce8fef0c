"""Names that two rows share: Spark takes them for one whatever their case."""

from __future__ import annotations

import pytest

from streams.shared_names import Shared, both_have, shared_names


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        ((), ("a",), []),
        (("a", "b"), ("c",), []),
        (("b", "a"), ("a", "c", "b"), [("a", "a"), ("b", "b")]),
        (("Price",), ("pRICE",), [("Price", "pRICE")]),
    ],
)
def test_names_are_shared_whatever_their_case(left: tuple[str, ...], right: tuple[str, ...], shared: Shared) -> None:
    assert shared_names(left, right) == shared


def test_what_is_told_names_the_rows_the_fields_and_what_to_write_in_python_and_in_settings() -> None:
    assert both_have("orders", "prices", [("price", "price"), ("Unit", "unit")]) == (
        "orders and prices both have ['price', 'Unit'] (Unit and unit are one field to Spark, whatever their case). "
        'Pass a joiner that names the fields, such as lambda left, right: {"price": left.price, "right_price": '
        "right.price}; in YAML the value: of the join, such as {price: left.price, right_price: right.price}."
    )
