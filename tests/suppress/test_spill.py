"""The file of a buffer that spills."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from suppress.buffer_rules import BufferedRow
from suppress.spill import SpillFile

#: Spills 60 MB while SQLite may use 8 MB of memory, a limit that a process cannot take back.
_FILLS = """
import sqlite3
from suppress.buffer_rules import BufferedRow
from suppress.spill import SpillFile

sqlite3.connect("").execute("PRAGMA hard_heap_limit = 8000000")
file = SpillFile()
for number in range(1_000):
    file.put(BufferedRow(number, b"%d" % number, "v" * 60_000, None, None, number, number, number, 0))
print(sum(len(row.value) for row in file.rows()))
"""


@pytest.mark.rule("R34")
def test_what_is_spilled_is_in_a_file_and_not_in_memory() -> None:
    ended = subprocess.run([sys.executable, "-c", _FILLS], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("60000000\n", "")


def test_a_spill_file_is_read_from_any_thread() -> None:
    file = SpillFile()
    row = BufferedRow("k", b"k", "v", None, None, 0, 0, 0, 0)
    file.put(row)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: list(file.rows())).result() == [row]
