"""Numbers that pages say in words, not in tables that are made from the code, are those of the code."""

from __future__ import annotations

from typing import Any

import pytest
from doc_blocks import DOCS

from jobs import following, maintenance
from jobs.contract_settings import ContractSettings
from streams.spark import lookup_pairs, of_keys, places, typed_input
from versioned import put, sent_rows, side_by_side, touched, upkeep

_WORDS = {4: "four", 10: "ten", 0.25: "a quarter"}
_SAID: list[tuple[str, str, Any]] = [
    ("operations.md", "a batch of up to {:,} records with at least", touched.MOST_NAMED),
    ("operations.md", "at least {:,} current rows for each replaces", touched.ROWS_PER_NAMED),
    ("operations.md", "with {:,} rows for each, a MERGE", touched.ROWS_PER_MERGED),
    ("operations.md", "one such batch for each {:,} current rows", touched.ROWS_PER_PUT),
    ("operations.md", "current rows (at most {:,}), or", touched.MOST_IN_A_ROW),
    ("operations.md", "once they have {:,} files", maintenance._MANY_FILES),
    ("operations.md", "less than {} MB on average", upkeep._SMALL_BYTES >> 20),
    ("operations.md", "into files of up to {} MB", upkeep._PACKED_BYTES >> 20),
    ("operations.md", "keep files less than {} days", upkeep.LEAST_FILE_RETENTION.days),
    ("operations.md", "more content than its source allows ({} MiB", ContractSettings().max_bytes >> 20),  # type: ignore[operator]
    ("architecture.md", "a flow of at most {:,} records looks up", of_keys.MOST_SENT),
    ("decisions/0014-many-records-are-paired.md", "{} records", lookup_pairs.MOST_PAIRED),
    ("decisions/0014-many-records-are-paired.md", "instants of up to {:,} records", sent_rows.MOST_SENT),
    ("decisions/0014-many-records-are-paired.md", "table is large ({} MiB)", sent_rows.LARGE_BYTES >> 20),
    ("how-to/join-at-event-time.md", "of a table of at least {} MiB", sent_rows.LARGE_BYTES >> 20),
    ("scaling.md", "known and at most {:,}, the batch's keys", put.FEW_RECORDS),
    ("scaling.md", "At most {:,} rows for each late record", put.ROWS_PER_SPLICE),
    ("scaling.md", "late record, or {:,} in all", put.ROWS_FOR_ANY_SPLICE),
    ("scaling.md", "at least {:,} current rows for each record", touched.ROWS_PER_NAMED),
    ("scaling.md", "of more than {:,} records uses a MERGE", touched.MOST_NAMED),
    ("scaling.md", "in up to {:,} tasks", places._PIECES),
    ("architecture.md", "up to {} tables are written at the same time", _WORDS.get(side_by_side._AT_ONCE)),
    ("how-to/notebooks.md", "every {} seconds and at the end", _WORDS.get(following._SECONDS)),
    ("operations.md", "come to {} of the rows, a batch replaces all", _WORDS.get(touched.MOST_TOUCHED)),
    ("how-to/bad-input.md", "cut to its first {:,} characters", typed_input.KEPT),
    ("how-to/kafka.md", "its text as it came, cut to {:,} characters", typed_input.KEPT),
]


def _text(page: str) -> str:
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("page", "words", "number"), _SAID)
def test_a_number_that_a_page_says_is_that_of_the_code(page: str, words: str, number: Any) -> None:
    assert words.format(number) in _text(page)
