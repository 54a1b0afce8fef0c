"""The tree of errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest

from versioned import errors


def _tree(kind: type[errors.VersionedError] = errors.VersionedError) -> Iterator[errors.VersionedError]:
    yield errors.TopologyError("R165", "table", "mend it") if kind is errors.TopologyError else kind("mend it")
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _tree(below)


def test_a_wrong_call_is_caught_as_an_error_of_the_library_and_as_one_of_python() -> None:
    assert issubclass(errors.ArgumentError, errors.ConfigurationError)
    assert issubclass(errors.ArgumentError, TypeError)


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_an_error_comes_out_of_another_process_as_it_was_raised(again: Callable[[Exception], Exception]) -> None:
    for error in _tree():
        made = again(error)
        assert (type(made), str(made), vars(made)) == (type(error), str(error), vars(error))
