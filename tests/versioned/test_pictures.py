"""The timeline of versions: what is drawn where."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from versioned.drawing import Picture
from versioned.errors import ConfigurationError
from versioned.pictures import version_timeline

_SVG = "{http://www.w3.org/2000/svg}"
_NEW_YEAR = datetime(2026, 1, 1)
_EVIL = "<script>alert(\"1\")</script> & 'more'"


def _row(start: float, end: float | None, value: Any = "x", key: str = "a", **others: Any) -> dict[str, Any]:
    hours = [None if at is None else _NEW_YEAR + timedelta(hours=at) for at in (start, end)]
    return {"key": key, "value": value, "validFrom": hours[0], "validTo": hours[1], **others}


def _draw(*rows: Any, **options: Any) -> Picture:
    return version_timeline(rows, keys="key", **options)


def _drawn(picture: Picture, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(picture.to_svg())
    return [element for element in root.iter() if (element.get("class") or "").split(" ")[0] == kind]


def _sides(element: ElementTree.Element) -> tuple[float, float]:
    left = float(element.get("x", element.get("x1", "nan")))
    return left, left + float(element.get("width", "nan")) if element.get("width") else float(element.get("x2", "nan"))


def _rows_of_keys(number: int) -> list[dict[str, Any]]:
    return [_row(at, at + 1, at, f"key {key}") for key in range(number) for at in range(3)]


def test_widths_of_bars_are_in_proportion_to_time() -> None:
    widths = [
        right - left for left, right in map(_sides, _drawn(_draw(_row(0, 1), _row(1, 4), _row(4, 10)), "version"))
    ]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 3, 6], rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([_row(0, 1)], "1 key · 1 version · dashed: no value · UTC"),
        ([_row(0, None)], "1 key · 1 version · fading: still valid · UTC"),
        ([_row(0, 1), _row(2, None)], "1 key · 2 versions · dashed: no value · fading: still valid · UTC"),
        ([], "no versions"),
    ],
)
def test_the_small_print_names_only_what_is_drawn(rows: list[dict[str, Any]], told: str) -> None:
    assert told in [each.text for each in ElementTree.fromstring(_draw(*rows).to_svg()).iter(f"{_SVG}text")]


def test_an_empty_text_is_told_from_no_text() -> None:
    assert [row[1] for row in _draw(_row(0, 9, ""), _row(9, 19, None)).rows] == ['""', "null"]


def test_a_bar_begins_where_the_one_before_ends() -> None:
    bars = [_sides(bar) for bar in _drawn(_draw(_row(0, 1), _row(1, 4), _row(4, None)), "version")]
    assert all(before[1] == pytest.approx(after[0], abs=0.02) for before, after in pairwise(bars))


def test_equal_instants_of_two_keys_lie_above_each_other() -> None:
    picture = _draw(_row(0, 6), _row(6, 10), _row(3, 6, key="b"), _row(6, None, key="b"))
    first, second, third, fourth = [_sides(bar)[0] for bar in _drawn(picture, "version")]
    assert [second, third] == pytest.approx([fourth, (first + second) / 2], abs=0.02)


@pytest.mark.parametrize("keys", [1, 2, 40])
def test_lanes_do_not_overlap_and_lie_within_the_picture(keys: int) -> None:
    picture = _draw(*_rows_of_keys(keys))
    tops = sorted({(float(bar.get("y", "")), float(bar.get("height", ""))) for bar in _drawn(picture, "version")})
    assert len(tops) == keys
    assert all(top + height < below for (top, height), (below, _) in pairwise(tops))
    assert tops[-1][0] + tops[-1][1] < picture.height


@pytest.mark.parametrize("key", ["a", "a very long key " * 10, "東京国際空港第三ターミナル" * 4])
def test_bars_begin_right_of_the_keys_and_end_within_the_picture(key: str) -> None:
    picture = _draw(_row(0, 1, key=key), _row(1, None, key=key))
    (first, _), (_, last) = [_sides(bar) for bar in _drawn(picture, "version")]
    assert 24 + 24 < first < 280
    assert last <= picture.width


def test_only_the_open_version_fades_and_it_goes_on_beyond_the_last_instant() -> None:
    picture = _draw(_row(0, 1), _row(1, None), _row(0, 5, key="b"))
    closed, still, last = _drawn(picture, "version")
    fades = [str(bar.get("fill")).startswith("url(#") for bar in (closed, still, last)]
    assert (fades, _sides(still)[1] > _sides(last)[1]) == ([False, True, False], True)


def test_a_fade_ends_in_nothing() -> None:
    root = ElementTree.fromstring(_draw(_row(0, None)).to_svg())
    (gradient,) = root.iter(f"{_SVG}linearGradient")
    (bar,) = _drawn(_draw(_row(0, None)), "version")
    assert bar.get("fill") == f"url(#{gradient.get('id')})"
    assert [stop.get("stop-opacity") for stop in gradient] == [None, "0"]


def test_two_pictures_of_one_page_share_no_id() -> None:
    one, other = (_draw(_row(0, end), _row(9, None)).defs[0].split('"')[1] for end in (1, 2))
    assert one != other


def test_a_tombstone_is_a_gap() -> None:
    picture = _draw(_row(0, 2), _row(2, 5, None, deleted=True), _row(5, None))
    ((left, right),) = [_sides(gap) for gap in _drawn(picture, "gap")]
    (_, before), (after, _) = [_sides(bar) for bar in _drawn(picture, "version")]
    assert [left, right] == pytest.approx([before, after], abs=0.02)


def test_a_tombstone_that_history_leaves_out_is_a_gap_too() -> None:
    with_row = _draw(_row(0, 2), _row(2, 5, None, deleted=True), _row(5, None))
    without = _draw(_row(0, 2), _row(5, None))
    assert [_sides(gap) for gap in _drawn(with_row, "gap")] == [_sides(gap) for gap in _drawn(without, "gap")]


def test_pointing_at_a_version_tells_its_exact_bounds() -> None:
    row = {"key": "a", "price": 1.5, "validFrom": 1, "validTo": 3_600_000_000}
    (bar,) = _drawn(_draw(row), "version")
    assert (bar.findtext(f"{_SVG}title") or "").splitlines() == [
        "key: a",
        "price: 1.5",
        "validFrom: 1970-01-01 00:00:00.000001 UTC",
        "validTo: 1970-01-01 01:00:00 UTC",
    ]


def test_pointing_at_a_gap_tells_whether_a_tombstone_is_stored() -> None:
    picture = _draw(_row(0, 2), _row(2, 5, None, deleted=True), _row(6, None))
    told = [(hover.findtext(f"{_SVG}title") or "").splitlines()[1] for hover in _drawn(picture, "hover")]
    assert told == ["deleted", "no version"]


def test_an_open_version_is_told_as_open() -> None:
    (bar,) = _drawn(_draw(_row(0, None)), "version")
    assert (bar.findtext(f"{_SVG}title") or "").endswith("validTo: open")


def test_values_and_keys_are_text_whatever_they_hold() -> None:
    picture = _draw(_row(0, 10, _EVIL, key=_EVIL), title=_EVIL)
    root = ElementTree.fromstring(picture.to_svg())
    said = [title.text or "" for title in root.iter(f"{_SVG}title")]
    assert not list(root.iter(f"{_SVG}script"))
    assert any(f"key: {_EVIL}\nvalue: {_EVIL}" in words for words in said)
    assert "<script" not in picture.to_html()


def test_a_label_is_as_long_as_its_bar_allows() -> None:
    picture = _draw(_row(0, 1, "a value far too long"), _row(1, 9.9, "a value"), _row(9.9, 10, "unseen"))
    labels = [label[0].tail for label in _drawn(picture, "label")]
    assert labels == ["a value fa…", "a value"]


def test_equal_values_have_equal_colours_and_others_others() -> None:
    one, two, three = (bar.get("fill") for bar in _drawn(_draw(_row(0, 1), _row(1, 2, "y"), _row(2, 3)), "version"))
    assert (one == three, one == two) == (True, False)


def test_a_version_of_a_moment_among_years_is_still_drawn() -> None:
    bars = _drawn(_draw(_row(0, 0.001), _row(0.001, 1_000_000)), "version")
    assert _sides(bars[0])[1] - _sides(bars[0])[0] >= 1


def test_start_and_end_cut_what_lies_outside() -> None:
    cut = _draw(
        _row(0, 10, "a"),
        _row(10, 20, "b"),
        _row(20, None, "c"),
        start=_row(5, 0)["validFrom"],
        end=_row(15, 0)["validFrom"],
    )
    bars = [_sides(bar) for bar in _drawn(cut, "version")]
    titles = [(bar.findtext(f"{_SVG}title") or "").splitlines()[1] for bar in _drawn(cut, "version")]
    ticks = [_sides(tick)[0] for tick in _drawn(cut, "tick")]
    assert titles == ["value: a", "value: b"]
    assert bars[0][0] <= min(ticks)
    assert all(left < right <= cut.width for left, right in bars)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [_row(0, None)],
        [_row(0, None), _row(0, None, key="b")],
        [_row(0, 0)],
        [{"key": "a", "value": 1, "validFrom": datetime(1, 1, 1), "validTo": datetime.max}],
        [_row(0, None, "\x00\ud800", key="\x0b")],
    ],
    ids=["nothing", "one version", "one instant", "a moment", "all of time", "not for XML"],
)
def test_any_rows_give_a_well_formed_picture_and_page(rows: list[Any]) -> None:
    picture = _draw(*rows)
    assert ElementTree.fromstring(picture.to_svg()).tag == f"{_SVG}svg"
    assert picture.to_html().encode().endswith(b"</html>\n")


def test_no_rows_are_told() -> None:
    assert "no versions" in _draw().to_svg()


def test_keys_that_are_not_drawn_are_told_and_stay_in_the_table() -> None:
    picture = _draw(*_rows_of_keys(5), most_keys=2)
    assert "3 more keys are not drawn" in picture.to_svg()
    assert (len(_drawn(picture, "version")), len(picture.rows)) == (6, 15)


def test_the_table_has_each_row_exactly() -> None:
    picture = _draw(_row(0, 1), _row(1, None, None, deleted=True))
    assert picture.columns == ("key", "value", "validFrom", "validTo")
    assert picture.rows == (
        ("a", "x", "2026-01-01 00:00:00 UTC", "2026-01-01 01:00:00 UTC"),
        ("a", "(deleted)", "2026-01-01 01:00:00 UTC", "open"),
    )


@pytest.mark.parametrize("options", [{"width": 100}, {"start": 10, "end": 5}])
def test_what_cannot_be_drawn_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        _draw(_row(0, None), **options)


def test_drawing_needs_no_spark() -> None:
    program = (
        "import sys, versioned.pictures, streams.lateness_picture, streams.buffer_picture, streams.ledger_readings; "
        "print([name for name in ('pyspark', 'delta', 'pandas', 'matplotlib') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_picture_of_a_time_in_which_nothing_changed_shows_what_was_valid_then() -> None:
    picture = _draw(_row(0, 1, "old"), _row(1, None, "new"), start=_NEW_YEAR + timedelta(hours=5))
    (bar,) = _drawn(picture, "version")
    left, right = _sides(bar)
    assert right - left > 500
    assert "value: new" in (bar.findtext(f"{_SVG}title") or "")


def test_a_picture_that_ends_before_all_versions_shows_none() -> None:
    assert _drawn(_draw(_row(0, None), end=_NEW_YEAR - timedelta(hours=5)), "version") == []
