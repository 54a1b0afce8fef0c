"""The histogram of lateness: columns, and the grace that is marked."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from streams.lateness import BOUNDS_US, Histogram, suggested_grace
from streams.lateness_picture import lateness_histogram
from versioned.drawing import Picture
from versioned.errors import ConfigurationError

_SVG = "{http://www.w3.org/2000/svg}"
_SECONDS = {0: 9_000, 1_000_000: 900, 2_000_000: 95, 8_000_000: 5}


def _drawn(picture: Picture, kind: str) -> list[dict[str, float | str]]:
    root = ElementTree.fromstring(picture.to_svg())
    found = [element for element in root.iter() if element.get("class") == kind]
    return [
        {**{side: float(element.get(side, "nan")) for side in ("x", "y", "x1", "width", "height")}}
        | {"title": element.findtext(f"{_SVG}title") or "", "fill": element.get("fill", "")}
        for element in found
    ]


def _numbers(picture: Picture, kind: str, side: str) -> list[float]:
    return [float(element[side]) for element in _drawn(picture, kind)]


@pytest.mark.parametrize(("share", "bound_us"), [(0.5, 0), (0.99, 1_000_000), (0.999, 2_000_000), (1.0, 8_000_000)])
def test_the_grace_is_marked_at_the_end_of_its_class(share: float, bound_us: int) -> None:
    picture = lateness_histogram(_SECONDS, share)
    ends = [column["x"] + column["width"] for column in _drawn(picture, "class")]  # type: ignore[operator]
    (mark,) = _numbers(picture, "grace", "x1")
    assert mark == pytest.approx(ends[list(_SECONDS).index(bound_us)], abs=1.5)


@pytest.mark.parametrize("share", [0.5, 0.99, 0.999, 1.0])
def test_the_picture_says_the_grace_that_is_suggested(share: float) -> None:
    assert suggested_grace(_SECONDS, share).text in lateness_histogram(_SECONDS, share).to_svg()


def test_what_comes_later_than_the_grace_has_another_colour() -> None:
    fills = [column["fill"] for column in _drawn(lateness_histogram(_SECONDS), "class")]
    assert [fill == fills[0] for fill in fills] == [True, True, True, False]


def test_the_picture_counts_what_comes_later() -> None:
    assert "within 2 s, 5 later" in lateness_histogram(_SECONDS).to_svg()


def test_heights_are_in_proportion_to_powers_of_ten() -> None:
    heights = _numbers(lateness_histogram({0: 1_000, 1_000: 100, 1_250: 10, 1_600: 1}, 1.0), "class", "height")
    steps = [before - after for before, after in pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.02)
    assert heights[-1] > 0


def test_classes_without_records_keep_their_place() -> None:
    one, two = (_numbers(lateness_histogram({0: 1, 1_000: 1, bound: 1}), "class", "x") for bound in (1_600, 2_000))
    assert [one[2] - one[1], two[2] - two[1]] == pytest.approx([2 * 76, 3 * 76])


def test_columns_do_not_overlap_and_lie_within_the_picture() -> None:
    picture = lateness_histogram(dict.fromkeys(BOUNDS_US, 10))
    columns = [(float(c["x"]), float(c["x"]) + float(c["width"])) for c in _drawn(picture, "class")]
    assert all(before[1] <= after[0] for before, after in pairwise(columns))
    assert (len(columns), columns[-1][1] <= picture.width) == (len(BOUNDS_US), True)


def test_pointing_at_a_class_tells_its_number_and_the_share_within_it() -> None:
    titles = [str(column["title"]) for column in _drawn(lateness_histogram(_SECONDS), "class")]
    assert titles[1].splitlines() == ["1 second: 900 records", "99 % within"]


def test_not_all_records_are_never_told_as_all() -> None:
    picture = lateness_histogram({0: 10**9, 1_000: 1})
    assert [row[2] for row in picture.rows] == ["99.9999 %", "100 %"]


@pytest.mark.parametrize("histogram", [{}, {0: 0}])
def test_no_records_are_told(histogram: Histogram) -> None:
    assert "no records" in lateness_histogram(histogram).to_svg()


@pytest.mark.parametrize(
    "histogram", [{0: 1}, {1_000: 1}, {0: 10**12, BOUNDS_US[-1]: 1}, {5: 1, 1_001: 2}, {math.factorial(12): 7}]
)
def test_any_histogram_gives_a_well_formed_picture(histogram: Histogram) -> None:
    assert len(_drawn(lateness_histogram(histogram, title="<&>"), "class")) == len(histogram)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="share"):
        lateness_histogram({}, 2.0)
