"""A suppression buffer over the batches: what is drawn where."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import pytest

from streams.buffer_picture import buffer_sizes
from streams.ledger_readings import BufferReading
from versioned.drawing import Picture

_SVG = "{http://www.w3.org/2000/svg}"
_THREE = (BufferReading(0, 0, 0), BufferReading(1, 5, 100), BufferReading(4, 10, 50))


def _drawn(picture: Picture, kind: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(picture.to_svg()).iter() if element.get("class") == kind]


def _middles(picture: Picture, panel: int = 0) -> list[tuple[float, float]]:
    """The middle of each mark of one panel: records are drawn first, then bytes."""
    marks = [{side: float(mark.get(side, "")) for side in ("x", "y", "width")} for mark in _drawn(picture, "reading")]
    half = len(marks) // 2
    return [(m["x"] + m["width"] / 2, m["y"] + m["width"] / 2) for m in marks[panel * half : (panel + 1) * half]]


def test_batches_lie_in_proportion_to_their_numbers() -> None:
    (first, _), (second, _), (last, _) = _middles(buffer_sizes(_THREE))
    assert (last - first) / (second - first) == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (7, 7, ["7"]),
        (0, 5, ["0", "1", "2", "3", "4", "5"]),
        (101, 140, ["104", "108", "112", "116", "120", "124", "128", "132", "136", "140"]),
        (0, 999, ["0", "100", "200", "300", "400", "500", "600", "700", "800", "900"]),
    ],
)
def test_round_numbers_of_batches_stand_below(first: int, last: int, told: list[str]) -> None:
    picture = buffer_sizes([BufferReading(batch, 1, 1) for batch in sorted({first, last})])
    texts = ElementTree.fromstring(picture.to_svg()).iter(f"{_SVG}text")
    assert [each.text for each in texts if each.get("text-anchor") == "middle"] == told


@pytest.mark.parametrize(("panel", "values"), [(0, [0, 5, 10]), (1, [0, 100, 50])])
def test_heights_are_in_proportion_to_numbers(panel: int, values: list[int]) -> None:
    heights = [y for _, y in _middles(buffer_sizes(_THREE), panel)]
    rises = [heights[0] - y for y in heights]
    assert [rise / max(rises) for rise in rises] == pytest.approx([n / max(values) for n in values], abs=1e-3)


def test_the_two_panels_do_not_overlap() -> None:
    picture = buffer_sizes(_THREE)
    assert max(y for _, y in _middles(picture, 0)) < min(y for _, y in _middles(picture, 1))


def test_the_order_of_readings_does_not_matter() -> None:
    assert buffer_sizes(_THREE) == buffer_sizes(_THREE[::-1])


def test_a_number_lasts_until_the_next_batch_that_touches_the_buffer() -> None:
    picture = buffer_sizes(_THREE)
    (left, _), (middle, low), (right, high) = _middles(picture)
    steps = [path.get("d") or "" for path in ElementTree.fromstring(picture.to_svg()).iter(f"{_SVG}path")][1]
    numbers = [float(word.lstrip("MHV")) for word in steps.split()]
    assert numbers == pytest.approx([left, numbers[1], middle, low, right, high], abs=0.02)


@pytest.mark.parametrize("limit", [10, 20, 1_000])
def test_a_bound_is_drawn_at_its_height(limit: int) -> None:
    picture = buffer_sizes(_THREE, max_records=limit)
    (line,) = _drawn(picture, "limit")
    (_, zero), _, (_, ten) = _middles(picture)
    assert (zero - float(line.get("y1", ""))) / (zero - ten) == pytest.approx(limit / 10, rel=0.02)


def test_how_full_it_was_within_a_batch_is_drawn_above() -> None:
    picture = buffer_sizes([BufferReading(0, 0, 0, 10, 80), BufferReading(1, 10, 80)])
    most, _ = _drawn(picture, "most")
    (_, zero), (_, ten) = _middles(picture)
    assert float(most.get("y", "")) == pytest.approx(ten, abs=0.02)
    assert float(most.get("y", "")) + float(most.get("height", "")) == pytest.approx(zero, abs=0.02)


def test_pointing_at_a_batch_tells_its_numbers_and_clock() -> None:
    (hover, _) = _drawn(buffer_sizes([BufferReading(7, 1_500, 9, 2_000, 12, 0)]), "hover")
    assert (hover.findtext(f"{_SVG}title") or "").splitlines() == [
        "batch 7",
        "1,500 records after it",
        "at most 2,000 within it",
        "1970-01-01 00:00:00 UTC",
    ]


@pytest.mark.parametrize(
    "readings",
    [
        [],
        [BufferReading(7, 3, 120)],
        [BufferReading(7, 0, 0), BufferReading(8, 0, 0)],
        [BufferReading(10**9 + at, at, 10**14 * at) for at in range(500)],
    ],
    ids=["none", "one", "empty", "many and large"],
)
def test_any_readings_give_a_well_formed_picture_that_holds_them(readings: Sequence[BufferReading]) -> None:
    picture = buffer_sizes(readings, title="<b>&")
    assert all(0 < x < picture.width and 0 < y < picture.height for x, y in _middles(picture))
    assert (len(_drawn(picture, "reading")), len(picture.rows)) == (2 * len(readings), len(readings))


def test_no_batches_are_told() -> None:
    assert "no batches" in buffer_sizes([]).to_svg()
