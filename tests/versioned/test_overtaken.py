"""Whether a put by hand must be judged anew for what others wrote meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from versioned import overtaken
from versioned.errors import OvertakenError
from versioned.identifiers import TableRef
from versioned.overtaken import JudgedBy
from versioned.spec import VersionedTableSpec

_TABLE = TableRef.parse("/t/prices")
#: What a put that was judged by version 7 finds, with a grace of ten microseconds.
_BEFORE = {0: 50, 1: 60}


def _judged(monkeypatch: pytest.MonkeyPatch, newest: int, now: Mapping[int, int], **told: Any) -> JudgedBy:
    """A put that was judged by version 7, into a table whose newest version is another one."""
    monkeypatch.setattr(overtaken, "are_newest", lambda _session, asked: asked == {_TABLE: newest})
    monkeypatch.setattr(overtaken, "commits_that_tell", lambda *_: [{"version": newest}])
    monkeypatch.setattr(overtaken, "stream_times_of", lambda *_: now)
    spec = VersionedTableSpec.of(keys="id", values=[], history_retention="10 microseconds", **told)
    return JudgedBy(Mock(), _TABLE, spec, _BEFORE, 7)


@pytest.mark.parametrize(
    ("now", "oldest"),
    [
        ({0: 60, 1: 60}, {0: 50}),
        ({0: 50, 1: 900}, {0: 50}),
        ({0: 50, 1: 60, 2: 900}, {0: 50}),
        ({0: 900, 1: 60}, {}),
    ],
)
def test_a_put_none_of_whose_records_is_too_late_by_now_is_written_as_it_was_judged(
    monkeypatch: pytest.MonkeyPatch, now: Mapping[int, int], oldest: Mapping[int, int]
) -> None:
    assert _judged(monkeypatch, 9, now).unless_moved(oldest, lambda: "written")() == "written"


@pytest.mark.parametrize(
    ("now", "oldest"),
    [({0: 61, 1: 60}, {0: 50}), ({0: 50, 1: 60, 2: 61}, {2: 50}), ({0: 40, 1: 60}, {0: 50}), ({0: 50}, {0: 50})],
)
def test_a_put_that_is_too_late_by_now_or_that_a_restore_came_before_is_overtaken(
    monkeypatch: pytest.MonkeyPatch, now: Mapping[int, int], oldest: Mapping[int, int]
) -> None:
    write = _judged(monkeypatch, 9, now).unless_moved(oldest, lambda: "written")
    with pytest.raises(OvertakenError, match="/t/prices, or purged it, while this batch was under way"):
        write()


@pytest.mark.parametrize("tells_files", [True, False])
def test_stream_times_are_not_read_again_where_nobody_wrote(monkeypatch: pytest.MonkeyPatch, tells_files: bool) -> None:
    judged, read = _judged(monkeypatch, 7, {}), Mock()
    monkeypatch.setattr(overtaken, "stream_times_of", read)
    if tells_files:
        monkeypatch.setattr(overtaken, "commits_that_tell", read)
    else:
        monkeypatch.setattr(overtaken, "are_newest", lambda *_: False)
    assert judged.unless_moved({0: 50}, lambda: "written")() == "written"
    read.assert_not_called()


def test_where_each_key_has_a_stream_time_of_its_own_nobody_looks_at_the_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = _judged(monkeypatch, 9, {0: 900}, time_scope="key")
    assert judged.unless_moved({0: 50}, lambda: "written")() == "written"


@pytest.mark.parametrize(("landed", "version"), [(8, 8), (9, 7)])
def test_a_puts_own_splice_is_no_write_of_others(monkeypatch: pytest.MonkeyPatch, landed: int, version: int) -> None:
    assert _judged(monkeypatch, 9, {}).after(landed).version == version
