"""Options that take one of a few words."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest

from versioned.choices import check_choice
from versioned.errors import ConfigurationError

_Word = Literal["first", "last"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("frist", '"frist"'),
        (np.array(["first", "last"]), "array(['first', 'last']"),
        (["first"], "['first']"),
        (None, "None"),
        (list, "the class list"),
    ],
)
def test_what_is_none_of_the_words_is_told_as_it_is(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"timer must be first or last; got {told}")):
        check_choice("timer", given, _Word)
