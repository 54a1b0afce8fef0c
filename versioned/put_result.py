"""``PutResult``: the outcome of a batch of puts, as its caller sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame

from versioned import spark_functions as F
from versioned.put import LandedSplice, PutBatch, PutCounts
from versioned.put_frames import PUT_RESULT, replaced_since
from versioned.spec import VersionedTableSpec


@dataclass(frozen=True)
class PutResult:
    """The outcome of a batch of puts: counts, and the outcome of each row.

    ``rejected``: keys and ``ts`` of the input rows that are not valid records, with ``reason``. ``counts.accepted +
    counts.refused + rejected_count`` = number of input rows.

    ``outcomes`` and ``changes`` are computed when first asked for, from the table version before the put; so they are
    available only as long as VACUUM keeps the files of that version.
    """

    rejected: DataFrame
    rejected_count: int
    _batch: PutBatch = field(repr=False)
    _spec: VersionedTableSpec = field(repr=False)
    #: The same batch against the table as it was before the put.
    _before: Callable[[], PutBatch] = field(repr=False)
    #: What earlier tries have put; it is in neither of the two batches.
    _landed: Sequence[LandedSplice] = field(repr=False)

    @property
    def counts(self) -> PutCounts:
        """How many records were accepted, refused, out of order and spliced."""
        return self._batch.counts

    @cached_property
    def _judged(self) -> DataFrame:
        # For records that an earlier try has put, the outcomes of that try.
        landed = (splice.among(_outcomes_before(splice.before), self._spec) for splice in self._landed)
        return reduce(DataFrame.unionByName, landed, _outcomes_before(self._before))

    @property
    def outcomes(self) -> DataFrame:
        """One row per valid record: key columns, ``ts``, ``sequence``, ``put_result``, ``outcome``, ``is_latest``.

        ``put_result`` is validTo as an integer in the table's resolution; -1 = latest; -2^63 = refused (R172-R174).
        ``outcome`` says the same in words, and distinguishes an end at -1 from the latest version. A column with the
        name of a key is prefixed with ``put_``.
        """
        return outcome_rows(self._judged, self._spec)

    @property
    def changes(self) -> DataFrame:
        """One row per accepted record: key columns, ``ts``, ``sequence``, ``old`` and ``new`` structs, ``is_latest``.

        ``old`` is null if there was no version or a tombstone. ``old_valid_from`` is its start, and null with it.
        """
        return _change_rows(self._judged, self._spec)


def _outcomes_before(put: Callable[[], PutBatch]) -> DataFrame:
    batch = put()
    try:
        return batch.outcomes().localCheckpoint(eager=True)
    finally:
        batch.release()


def outcome_rows(outcomes: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Judged records in the form of :attr:`PutResult.outcomes`."""
    # Not derived from ``put_result``, in which an end at -1 looks like the latest.
    words = F.when(F.col("_refused"), "refused").when(F.col("_is_latest"), "latest")
    told = {
        "ts": F.timestamp_micros("_us"),
        "sequence": F.col("_place").getField("sequence"),
        "put_result": F.col(PUT_RESULT),
        "outcome": words.otherwise("out_of_order"),
        "is_latest": F.col("_is_latest"),
    }
    return _beside_keys(outcomes, spec, told)


def _change_rows(outcomes: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    told = {
        "ts": F.timestamp_micros("_us"),
        "sequence": F.col("_place").getField("sequence"),
        "old_valid_from": replaced_since(),
        "old": F.col("_old").getField("value"),
        "new": F.col("_value"),
        "is_latest": F.col("_is_latest"),
    }
    return _beside_keys(outcomes.where(~F.col("_refused")), spec, told)


def _beside_keys(rows: DataFrame, spec: VersionedTableSpec, told: Mapping[str, Column]) -> DataFrame:
    return rows.select(*spec.keys, *(column.alias(spec.beside_keys(name)) for name, column in told.items()))
