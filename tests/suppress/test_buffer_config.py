"""Buffer configurations: which kind each builder gives, and what it keeps (KIP-328)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from versioned.errors import ConfigurationError

Buffer = StrictBufferConfig | EagerBufferConfig
_BOTH = [BufferConfig.unbounded(), BufferConfig.max_records(3), BufferConfig.max_bytes(9).shut_down_when_full()]


@pytest.mark.parametrize(
    ("made", "same"),
    [
        pytest.param(BufferConfig.max_records(3), EagerBufferConfig(3), marks=pytest.mark.rule("R40", "R41")),
        pytest.param(BufferConfig.max_bytes(9), EagerBufferConfig(None, 9), marks=pytest.mark.rule("R43")),
        pytest.param(BufferConfig.unbounded(), StrictBufferConfig(), marks=pytest.mark.rule("R39", "R45")),
        pytest.param(
            BufferConfig.max_records(3).shut_down_when_full(),
            StrictBufferConfig(3, None, "shut_down"),
            marks=pytest.mark.rule("R47"),
        ),
        pytest.param(
            BufferConfig.max_bytes(9).spill_to_disk_when_full(),
            StrictBufferConfig(None, 9, "spill"),
            marks=pytest.mark.rule("R48"),
        ),
        pytest.param(
            BufferConfig.max_records(3).with_max_bytes(9).spill_to_disk_when_full().emit_early_when_full(),
            EagerBufferConfig(3, 9),
            marks=pytest.mark.rule("R49"),
        ),
        pytest.param(
            BufferConfig.max_records(3).with_max_bytes(9), EagerBufferConfig(3, 9), marks=pytest.mark.rule("R44")
        ),
    ],
)
def test_each_builder_gives_its_kind_and_keeps_the_bounds(made: Buffer, same: Buffer) -> None:
    assert made == same


@pytest.mark.rule("R46")
@pytest.mark.parametrize("buffer", _BOTH)
def test_no_bound_clears_both_bounds_and_is_strict(buffer: Buffer) -> None:
    assert buffer.with_no_bound() == StrictBufferConfig(None, None, "shut_down")


@pytest.mark.rule("R42", "R44")
@pytest.mark.parametrize("buffer", _BOTH)
@pytest.mark.parametrize("bound", [lambda b: b.with_max_records(5), lambda b: b.with_max_bytes(5)])
def test_another_bound_keeps_the_kind(buffer: Buffer, bound: Callable[[Buffer], Buffer]) -> None:
    assert type(bound(buffer)) is type(buffer)


@pytest.mark.parametrize(
    ("made", "when_full"),
    [
        pytest.param(BufferConfig.unbounded().with_max_records(2), "shut_down", marks=pytest.mark.rule("R42", "R85")),
        pytest.param(BufferConfig.unbounded().with_max_bytes(2), "shut_down", marks=pytest.mark.rule("R44", "R86")),
        pytest.param(StrictBufferConfig(max_records=2), "shut_down", marks=pytest.mark.rule("R85")),
        pytest.param(
            BufferConfig.max_bytes(9).spill_to_disk_when_full().with_max_records(2), "spill",
            marks=pytest.mark.rule("R42", "R48"),
        ),
        pytest.param(
            BufferConfig.max_records(3).spill_to_disk_when_full().with_max_bytes(9), "spill",
            marks=pytest.mark.rule("R44", "R48"),
        ),
    ],
)  # fmt: skip
def test_a_bound_on_a_strict_buffer_shuts_it_down_unless_it_spills(made: StrictBufferConfig, when_full: str) -> None:
    assert made.when_full == when_full


@pytest.mark.rule("R50")
@pytest.mark.parametrize("buffer", _BOTH)
def test_a_configuration_cannot_be_changed(buffer: Buffer) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        buffer.max_records = 1  # type: ignore[misc]


@pytest.mark.rule("R50")
def test_builders_leave_the_original_as_it_was() -> None:
    buffer = BufferConfig.max_records(3)
    buffer.with_max_bytes(9).shut_down_when_full()
    assert buffer == EagerBufferConfig(3)


@pytest.mark.parametrize("make", [BufferConfig.max_records, BufferConfig.max_bytes])
def test_a_negative_bound_is_refused(make: Callable[[int], Buffer]) -> None:
    with pytest.raises(ConfigurationError, match="must not be negative; got -1"):
        make(-1)


def test_a_bound_of_zero_is_valid() -> None:
    assert BufferConfig.max_records(0).max_records == 0


def test_a_word_for_a_full_buffer_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='when_full must be shut_down or spill; got "stop"'):
        StrictBufferConfig(when_full="stop")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["5 MB", "10", 1.5, True, None])
@pytest.mark.parametrize(
    ("bound", "option"),
    [
        (BufferConfig.max_bytes, "max_bytes"),
        (BufferConfig.max_records, "max_records"),
        (BufferConfig.unbounded().with_max_bytes, "max_bytes"),
        (BufferConfig.max_bytes(9).with_max_records, "max_records"),
    ],
)
def test_a_bound_is_a_whole_number(bound: Any, option: str, given: object) -> None:
    told = f'"{given}"' if isinstance(given, str) else str(given)
    with pytest.raises(ConfigurationError, match=f"{option} takes a whole number of {option[4:]}, .* got {told}"):
        bound(given)
