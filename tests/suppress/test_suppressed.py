"""What a suppression waits for, as values (KIP-328, KIP-539)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import getmembers, isfunction, signature
from pathlib import Path
from typing import Any

import pytest

from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed, UntilTimeLimit, UntilWallClockTimeLimit, UntilWindowCloses
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned.errors import ArgumentError, ConfigurationError, TopologyError

_UNBOUNDED = BufferConfig.unbounded()
_EAGER = BufferConfig.max_records(1)
_ALL = [
    Suppressed.until_window_closes(_UNBOUNDED),
    Suppressed.until_time_limit("5 s", _EAGER),
    Suppressed.until_wall_clock_time_limit("5 s", _EAGER),
]
_SPILLING = BufferConfig.max_records(3).with_max_bytes(9).spill_to_disk_when_full()
#: Every option has another value than its default, except the name.
_FULLY_SET = [
    Suppressed.until_window_closes(_SPILLING, size_of="value", close_idle=True, retention="1 day"),
    Suppressed.until_time_limit(
        "5 s", _SPILLING, timer="last", max_age="9 s", clock="window_start", size_of="value", retention="1 day"
    ),
    Suppressed.until_wall_clock_time_limit("5 s", _SPILLING, size_of="value", retention="1 day"),
]


def test_the_class_with_the_factories_is_no_suppression() -> None:
    with pytest.raises(ArgumentError, match=r"says not what to wait for\. Use Suppressed\.until_window_closes"):
        Suppressed()


@pytest.mark.rule("R51")
@pytest.mark.parametrize("make", [Suppressed.until_window_closes, UntilWindowCloses])
def test_final_results_refuse_an_eager_buffer_at_run_time(make: Any) -> None:
    with pytest.raises(TopologyError, match="strict buffer"):
        make(_EAGER)


@pytest.mark.slow
@pytest.mark.rule("R51")
def test_a_type_checker_refuses_an_eager_buffer_for_final_results(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "wrong.py"
    program.write_text(
        "from suppress.buffer_config import BufferConfig\n"
        "from suppress.suppressed import Suppressed\n"
        "Suppressed.until_window_closes(BufferConfig.unbounded())\n"
        "Suppressed.until_window_closes(BufferConfig.max_records(1))\n",
        encoding="utf-8",
    )
    told, _, _ = api.run(["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(program)])
    assert [line.split(":")[1] for line in told.splitlines() if "error:" in line] == ["4"]


@pytest.mark.rule("R57", "R58")
@pytest.mark.parametrize("suppressed", _FULLY_SET, ids=lambda value: type(value).__name__)
def test_each_kind_takes_a_name_and_keeps_everything_else(suppressed: Any) -> None:
    assert {field.name for field in fields(suppressed) if getattr(suppressed, field.name) == field.default} == {"name"}
    before, after = (
        {field.name: getattr(one, field.name) for field in fields(one)}
        for one in (suppressed, suppressed.with_name("n"))
    )
    assert after == {**before, "name": "n"}


@pytest.mark.rule("R55", "R107")
def test_the_timer_starts_with_the_first_update_unless_said_otherwise() -> None:
    assert Suppressed.until_time_limit("5 s", _EAGER) == UntilTimeLimit(5_000_000, _EAGER, "first", None, "record")


@pytest.mark.rule("R55")
@pytest.mark.parametrize("buffer", [_UNBOUNDED, _EAGER])
def test_a_time_limit_takes_either_kind_of_buffer(buffer: object) -> None:
    assert Suppressed.until_time_limit("5 s", buffer).buffer == buffer  # type: ignore[arg-type]


@pytest.mark.rule("R112")
def test_a_wall_clock_limit_holds_its_wait_in_microseconds() -> None:
    assert Suppressed.until_wall_clock_time_limit("1 ms", _EAGER) == UntilWallClockTimeLimit(1_000, _EAGER)


@pytest.mark.rule("R116", "R117")
def test_final_results_are_not_closed_by_the_wall_clock_unless_asked() -> None:
    assert Suppressed.until_window_closes(_UNBOUNDED) == UntilWindowCloses(_UNBOUNDED, None, False, None)


@pytest.mark.rule("R106")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Suppressed.until_time_limit("5 s", _EAGER, timer="last"),
        lambda: Suppressed.until_time_limit("5 s", _EAGER, max_age="1 min"),
        lambda: Suppressed.until_time_limit("5 s", _EAGER, timer="record", max_age="1 min"),
    ],
)
def test_restarting_the_timer_needs_a_greatest_age_and_nothing_else_takes_one(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        make()


def test_a_greatest_age_that_is_one_too_many_is_told_as_people_write_it() -> None:
    with pytest.raises(ConfigurationError, match=r'got timer="first" and max_age 1 hour\. Without'):
        Suppressed.until_time_limit("5 s", _EAGER, max_age="1 hour")


@pytest.mark.rule("R106")
def test_a_greatest_age_below_the_wait_could_not_be_kept_and_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"max_age 4 seconds and wait 5 seconds.*R106"):
        Suppressed.until_time_limit("5 s", _EAGER, timer="last", max_age="4 s")


@pytest.mark.rule("R106")
def test_a_greatest_age_may_be_the_wait() -> None:
    limit = Suppressed.until_time_limit("5 s", _EAGER, timer="last", max_age="5 s")
    assert limit.max_age_us == limit.wait_us


@pytest.mark.parametrize(
    ("told", "options"),
    [
        ('timer must be first, record or last; got "frist"', {"timer": "frist"}),
        ('clock must be record or window_start; got "window_end"', {"clock": "window_end"}),
        ('size_of is \'bytes\'. Use "record", "value"', {"size_of": "bytes"}),
    ],
)
def test_a_word_that_a_time_limit_does_not_take_is_refused(told: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Suppressed.until_time_limit("5 s", _EAGER, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Suppressed.until_window_closes(_UNBOUNDED, size_of="bytes"),  # type: ignore[arg-type]
        lambda: Suppressed.until_wall_clock_time_limit("5 s", _EAGER, size_of="bytes"),  # type: ignore[arg-type]
    ],
)
def test_a_size_that_is_none_is_refused_by_every_kind(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="size_of is 'bytes'"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Suppressed.until_time_limit("-1 ms", _EAGER),
        lambda: Suppressed.until_wall_clock_time_limit("-1 ms", _EAGER),
        lambda: Suppressed.until_window_closes(_UNBOUNDED, retention="-1 ms"),
        lambda: Suppressed.until_time_limit("1 ms", _EAGER, retention="-1 ms"),
        lambda: Suppressed.until_wall_clock_time_limit("1 ms", _EAGER, retention="-1 ms"),
        lambda: Suppressed.until_time_limit("1 ms", _EAGER, timer="last", max_age="-1 ms"),
    ],
)
def test_a_negative_duration_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="must not be negative; got -1 millisecond"):
        make()


@pytest.mark.rule("R60")
def test_a_wait_of_zero_is_valid() -> None:
    assert Suppressed.until_time_limit("0 s", _EAGER).wait_us == 0


@pytest.mark.rule("R105", "R108")
def test_one_operator_has_three_ways_to_wait_and_no_other_switch() -> None:
    ways = {name: set(signature(way).parameters) for name, way in getmembers(Suppressed, isfunction) if name[0] != "_"}
    assert ways == {
        "with_name": {"self", "name"},
        "until_window_closes": {"buffer", "size_of", "close_idle", "retention"},
        "until_time_limit": {"wait", "buffer", "timer", "max_age", "clock", "size_of", "retention"},
        "until_wall_clock_time_limit": {"wait", "buffer", "size_of", "retention"},
    }


@pytest.mark.rule("R108")
@pytest.mark.parametrize(
    ("windows", "said"),
    [
        (TimeWindows, {"size_us", "advance_us", "grace_us"}),
        (SlidingWindows, {"difference_us", "grace_us"}),
        (SessionWindows, {"gap_us", "grace_us"}),
        (UnlimitedWindows, {"start_us", "grace_us"}),
        (JoinWindows, {"before_us", "after_us", "grace_us"}),
    ],
)
def test_windows_say_nothing_of_when_results_are_told(windows: type[Any], said: set[str]) -> None:
    assert {field.name for field in fields(windows)} == said


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "None"),
        (1000, "1000"),
        (BufferConfig, "the class BufferConfig"),
        (BufferConfig.unbounded, "the function unbounded, which was not called"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda buffer: Suppressed.until_time_limit("5 s", buffer),
        lambda buffer: Suppressed.until_wall_clock_time_limit("5 s", buffer),
        lambda buffer: Suppressed.until_window_closes(buffer),
    ],
)
def test_what_is_no_buffer_is_refused_where_it_is_given(make: Any, given: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"buffer takes what BufferConfig gives.*got {told}"):
        make(given)


@pytest.mark.parametrize("suppressed", _ALL, ids=lambda suppressed: type(suppressed).__name__)
def test_a_suppression_is_named_by_a_text(suppressed: Any) -> None:
    with pytest.raises(ConfigurationError, match="with_name takes a text; got 5"):
        suppressed.with_name(5)
