"""The file of a buffer that spills."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from suppress.buffer_rules import BufferedRow
from suppress.spill import SpillFile


def test_a_spill_file_is_read_from_any_thread() -> None:
    file = SpillFile()
    row = BufferedRow("k", b"k", "v", None, None, 0, 0, 0, 0)
    file.put(row)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: list(file.rows())).result() == [row]
