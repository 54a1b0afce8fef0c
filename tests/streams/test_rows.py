"""Rows: named fields that cannot change."""

from __future__ import annotations

import pickle
import re
from collections import deque
from collections.abc import Callable
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest

from streams.rows import Inner, Row, own


@pytest.mark.parametrize(
    "make", [lambda: Row(a=1, b="x"), lambda: Row({"a": 1, "b": "x"}), lambda: Row([("a", 1)], b="x")]
)
def test_a_row_is_made_of_a_mapping_or_of_names(make: Callable[[], Row]) -> None:
    assert (make().a, make()["b"]) == (1, "x")


def _raise_by_name(row: Any) -> None:
    row["n"] += 1


def _raise_by_attribute(row: Any) -> None:
    row.n += 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_raise_by_name, "n"),
        (_raise_by_attribute, "n"),
        (lambda row: row.update(n=2), "field"),
        (lambda row: row.setdefault("n", 2), "field"),
        (lambda row: row.pop("n"), "field"),
    ],
)
def test_a_row_cannot_be_changed_and_says_how_another_is_made(change: Callable[[Any], Any], name: str) -> None:
    wanted = re.escape(f'a Row cannot be changed; make a new one with {{**row, "{name}": ...}}')
    with pytest.raises((AttributeError, TypeError), match=f"^{wanted}$"):
        change(Row(n=1))


def test_fields_named_like_what_changes_dictionaries_are_read() -> None:
    assert Row(update=1, pop=2).update == 1


def test_the_hash_of_a_row_follows_what_may_change_in_it() -> None:
    seen = [1]
    row = Row(n=1, within=Row(seen=seen))
    assert hash(row) == hash(Row(n=1, within=Row(seen=[1])))
    seen.append(2)
    assert hash(row) == hash(Row(n=1, within=Row(seen=[1, 2])))


def test_equal_rows_have_equal_hashes_whatever_the_order_of_their_fields() -> None:
    assert len({Row(a=1, b=2), Row(b=2, a=1)}) == 1


def test_a_row_keeps_the_order_of_its_fields() -> None:
    assert list(Row(b=2, a=1)) == ["b", "a"]


def test_an_unknown_field_is_an_error_that_lists_the_fields() -> None:
    with pytest.raises(AttributeError, match=r'no field "z"; there are \[\'a\'\]'):
        _ = Row(a=1).z


@pytest.mark.parametrize("other", [{"a": 2}, {"a": 1, "b": None}, [("a", 1)], None, Row(a=2), Row(a=1, b=None)])
def test_a_row_equals_nothing_of_other_fields_and_values(other: object) -> None:
    assert Row(a=1) != other
    assert other != Row(a=1)


@pytest.mark.parametrize(
    "other",
    [
        {"b": {"c": [1]}, "a": 1},
        Row(a=1, b={"c": [1]}),
        Inner(a=1, b=Row(c=[1])),
        MappingProxyType({"a": 1, "b": Row(c=[1])}),
    ],
)
def test_a_row_equals_any_mapping_of_the_same_fields_and_values(other: object) -> None:
    row = Row(a=1, b=Row(c=[1]))
    assert row == other
    assert other == row


def test_a_row_survives_pickling() -> None:
    row = Row(a=1, nested=Row(b=None))
    assert pickle.loads(pickle.dumps(row)) == row


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", b"x", date(2024, 1, 1), Row(a=1, b=None), (1, "x")])
def test_what_nobody_can_change_needs_no_copy(value: Any) -> None:
    assert own(value) is value


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1], lambda own: own.append(2)),
        ([[1]], lambda own: own[0].append(2)),
        ({"a": 1}, lambda own: own.update(a=2)),
        ({"a": [1]}, lambda own: own["a"].append(2)),
        ({1}, lambda own: own.add(2)),
        (bytearray(b"x"), lambda own: own.append(2)),
        (([1],), lambda own: own[0].append(2)),
        (Row(a=[1]), lambda own: own.a.append(2)),
        (Row(a=Row(b={"c": 1})), lambda own: own.a.b.clear()),
        (Row(a=[Row(b=1)]), lambda own: own.a[0].update(b=2)),
        (deque([1]), lambda own: own.append(2)),
        ([deque([1])], lambda own: own[0].append(2)),
    ],
    ids=lambda given: "" if callable(given) else repr(given),
)
def test_an_own_value_is_equal_and_changes_alone(value: Any, change: Callable[[Any], Any]) -> None:
    before, copy = repr(value), own(value)
    assert copy == value
    change(copy)
    assert (repr(value), copy == value) == (before, False)


def test_a_class_is_handed_on_as_it_is() -> None:
    assert own(Row(a=object)).a is object


@pytest.mark.parametrize("given", [Row(x=1, y=Row(z=[2])), {"x": 1, "y": {"z": [2]}}, Inner(x=1, y=Row(z=[2]))])
def test_a_struct_and_a_dictionary_within_a_row_are_handed_to_functions_as_one_thing(given: Any) -> None:
    handed = own(Row(a=given, b=[given], c={"d": given}))
    for inner in (handed.a, handed.b[0], handed.c.d):
        assert (inner, inner) == ({"x": 1, "y": {"z": [2]}}, Row(x=1, y=Row(z=[2])))
        assert (inner.y.z, inner["y"]["z"], type(inner), type(inner.y)) == ([2], [2], Inner, Inner)


def test_a_field_that_what_is_within_a_row_lacks_is_an_error_that_lists_the_fields() -> None:
    with pytest.raises(AttributeError, match=r'no field "z"; there are \[\'x\'\]'):
        _ = Inner(x=1).z


def test_a_field_within_a_row_is_not_set_by_attribute_which_its_dictionary_would_not_hold() -> None:
    with pytest.raises(AttributeError, match=r'by its name: \["x"\] = ...'):
        Inner(x=1).x = 2


def test_what_is_within_a_row_survives_pickling() -> None:
    inner = Inner(x=1, y=Inner(z=2))
    assert pickle.loads(pickle.dumps(inner)) == inner
    assert type(pickle.loads(pickle.dumps(inner)).y) is Inner
