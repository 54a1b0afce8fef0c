"""What `streams` gives to those who write plans."""

from __future__ import annotations

import subprocess
import sys

import pytest

import streams


@pytest.mark.parametrize("name", streams.__all__)
def test_each_exported_name_is_there(name: str) -> None:
    assert getattr(streams, name) is not None


def test_writing_a_plan_and_running_it_in_the_driver_needs_no_spark() -> None:
    program = (
        "import sys, streams, streams.testing; "
        "builder = streams.StreamsBuilder(); builder.stream('s').to_changelog('out'); "
        "streams.testing.TopologyTestDriver(builder.build()); "
        "print([name for name in ('pyspark', 'delta', 'pandas') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
