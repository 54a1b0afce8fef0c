"""Looking for words in every byte below a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq


def hits(root: Path, words: tuple[str, ...]) -> set[str]:
    """Below which folders some file has one of the words, as bytes or in what a Parquet file unpacks to."""
    found = set()
    for file in root.rglob("*"):
        if not file.is_file():
            continue
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += str(pq.read_table(file).to_pylist()).encode()
        if any(word.encode() in content for word in words):
            found.add(file.relative_to(root).parts[0])
    return found
