"""The place of each record among all records of its scope: an array of longs, sorted as docs/decisions/0003 says.

* ``order="arrival"``: (running maximum of ts in its source and scope, tables before streams, declared position,
  sequence, number of the batch, row number in the source and scope, scope). Sequence and scope are left out if the
  source has none. The running maxima are carried across batches. Row numbers are not, and several records may have the
  same sequence, so it is the batch number that gives a record of a later batch another place. The scope distinguishes
  records of two partitions, which may have the same offset and time: everything that follows from the one, down all
  branches of the plan, comes before what follows from the other.
* ``order="sequence"``: (the given sequence, tables before streams, declared position, stable hash, row number). Rows
  that are equal in every column are counted from one in each batch; all others have number one, and so the same place
  however the input is cut into batches.

The sequence of a record without one is its time, in microseconds.

A running maximum needs an order. A large batch of one scope is ordered in pieces, in parallel: each piece is a part of
the range of the sequence (or of the times, without one), and the maximum and the row count of the pieces before it are
added once the batch was surveyed. The places are the same as with a single piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, Row, Window

from streams.spark.flow import PLACE, SCOPE, US, lookup_times
from suppress.window_rules import NEVER_US
from versioned import spark_functions as F

Order = Literal["arrival", "sequence"]
#: Columns: the sequence, if the source has one; what orders records of the same sequence; and what breaks ties.
SEQUENCE, WITHIN, TIE = "_sequence", "_within", "_tie"
#: Column: the number of a record's piece.
PIECE: Final = "_piece"
_REACHED, _ROW = "_reached", "_row"
_PIECES: Final = 64
#: Fewer records are ordered by one task before others would have started.
_MANY: Final = 100_000


@dataclass(frozen=True)
class Pieces:
    """A range of what orders the records, divided into parts of equal width."""

    low: int
    high: int

    def number(self, value: Column) -> Column:
        """The number of the part with a value; a value outside the range is in the nearest part, null in the first."""
        width = (self.high - self.low) // _PIECES + 1
        inside = F.least(F.greatest(value, F.lit(self.low)), F.lit(self.high))
        return F.least(F.floor((inside - F.lit(self.low)) / F.lit(width)), F.lit(_PIECES - 1)).cast("int")


@dataclass(frozen=True)
class Ordering:
    """How a source's records are ordered: what makes up their places.

    Args:
        order: How several sources are merged.
        kind: 0 = a table, 1 = a stream.
        position: The position of the node in the plan.
        has_sequence: Whether the source has a sequence.
        has_ties: Whether it has columns that order records of the same sequence; otherwise their times do.
        has_scopes: Whether it has partitions.
    """

    order: Order
    kind: int
    position: int
    has_sequence: bool
    has_ties: bool = False
    has_scopes: bool = False


def pieces_of(records: DataFrame, ordering: Ordering, count: int) -> Pieces | None:
    """The pieces in which the records of one scope are ordered; None = a single one. Runs a job for many records.

    Args:
        records: ``_sequence _us``; without outliers, which would put all others into one piece.
        ordering: How they are ordered.
        count: How many there are.
    """
    if ordering.order == "sequence" or count < _MANY:
        return None
    at = _orders()
    row = records.agg(F.min(at).alias("low"), F.max(at).alias("high")).collect()[0]
    # The width of a wider range might overflow a long.
    return None if row["low"] is None or row["high"] - row["low"] >= 2**62 else Pieces(row["low"], row["high"])


def put_in_order(records: DataFrame, ordering: Ordering, is_valid: Column, pieces: Pieces | None) -> DataFrame:
    """Add the parts of each record's place, as far as they follow from its own piece.

    Args:
        records: ``_us _scope _sequence _tie``, ``_within`` if the ordering has ties, and others.
        ordering: How they are ordered.
        is_valid: Which records are valid; only these advance the running maximum.
        pieces: The pieces, if records of one scope are ordered in several.
    """
    piece = F.lit(0) if pieces is None else pieces.number(_orders())
    if ordering.order == "sequence":
        # Independent of pieces: it does not matter which of several equal rows gets which number.
        equal = Window.partitionBy(SCOPE, SEQUENCE, TIE).orderBy(TIE)
        return records.withColumns({PIECE: piece, _ROW: F.row_number().over(equal).cast("long")})
    of_piece = (SCOPE,) if pieces is None else (SCOPE, PIECE)
    within = [WITHIN] if ordering.has_ties else []
    ordered = Window.partitionBy(*of_piece).orderBy(_orders(), *within, US, TIE)
    reached = F.max(F.when(is_valid, F.col(US))).over(ordered.rowsBetween(Window.unboundedPreceding, 0))
    in_pieces = records.withColumn(PIECE, piece)
    return in_pieces.withColumns({_REACHED: reached, _ROW: F.row_number().over(ordered).cast("long")})


def placed(
    records: DataFrame, ordering: Ordering, surveyed: Iterable[Row], maxima: Mapping[int, int], number: int
) -> DataFrame:
    """The records with their places, in place of the columns from which these are made.

    Args:
        records: The result of :func:`put_in_order`.
        ordering: How they are ordered.
        surveyed: Per scope and piece: ``rows``, the number of records, and ``newest``, the newest ts of valid ones.
        maxima: Running maximum of ts per scope before the batch.
        number: The number of the batch.
    """
    kind, position = F.lit(ordering.kind), F.lit(ordering.position)
    # No part of a place may be null, since Python compares places record by record.
    told = F.coalesce(SEQUENCE, US, F.lit(0))
    if ordering.order == "sequence":
        place = F.array(told, kind, position, F.col(TIE), F.col(_ROW))
    else:
        pieces = {row[PIECE]: row for row in surveyed}
        newest = _before_each(pieces, lambda row: NEVER_US if row["newest"] is None else row["newest"], max, NEVER_US)
        rows = _before_each(pieces, lambda row: int(row["rows"]), int.__add__, 0)
        reached = F.greatest(_REACHED, lookup_times(maxima), newest)
        sequence, scope = [told] if ordering.has_sequence else [], [F.col(SCOPE)] if ordering.has_scopes else []
        place = F.array(reached, kind, position, *sequence, F.lit(number), F.col(_ROW) + rows, *scope)
    return records.withColumn(PLACE, place.cast("array<bigint>")).drop(SEQUENCE, WITHIN, TIE, PIECE, _REACHED, _ROW)


def _before_each(
    pieces: Mapping[int, Row], of: Callable[[Row], int], add: Callable[[int, int], int], nothing: int
) -> Column:
    """The total over all pieces before each record's own; ``nothing`` for a batch in one piece."""
    if not any(pieces):
        return F.lit(nothing).cast("long")
    each = [of(pieces[piece]) if piece in pieces else nothing for piece in range(_PIECES - 1)]
    before = accumulate(each, add, initial=nothing)
    return F.element_at(F.array(*(F.lit(n).cast("long") for n in before)), F.col(PIECE) + 1)


def _orders() -> Column:
    return F.coalesce(SEQUENCE, US)
