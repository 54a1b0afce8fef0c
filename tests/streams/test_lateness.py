"""The grace that a histogram of lateness suggests."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streams.lateness import added, suggested_grace
from versioned.errors import ConfigurationError

_MINUTE = 63_000_000


@pytest.mark.parametrize(
    ("histogram", "share", "micros"),
    [
        ({0: 10}, 0.999, 0),
        ({0: 999, _MINUTE: 1}, 0.999, 0),
        ({0: 998, _MINUTE: 2}, 0.999, _MINUTE),
        ({0: 998, _MINUTE: 2}, 1.0, _MINUTE),
        ({_MINUTE: 5, 0: 5}, 0.5, 0),
    ],
)
def test_it_is_the_least_bound_that_reaches_the_share(histogram: dict[int, int], share: float, micros: int) -> None:
    assert suggested_grace(histogram, share).grace == timedelta(microseconds=micros)


@pytest.mark.parametrize(("histogram", "share"), [({}, 0.9), ({0: 0}, 0.9), ({0: 1}, 0.0), ({0: 1}, 1.1)])
def test_nothing_is_suggested_of_nothing(histogram: dict[int, int], share: float) -> None:
    with pytest.raises(ConfigurationError):
        suggested_grace(histogram, share)


def test_histograms_add_up() -> None:
    assert added([{0: 3, 1_000: 1}, {1_000: 2}, {}]) == {0: 3, 1_000: 3}
