"""The place of each record among all records of its scope: an array of longs, sorted as docs/decisions/0003 says.

* ``order="arrival"``: (running maximum of ts in its source and scope, tables before streams, declared position,
  sequence, number of the batch, row number in the source and scope, scope); without a sequence or partitions these
  are left out. The running maxima are carried across batches. Row numbers are not, and a sequence may tell several
  records the same number: it is the batch's number that keeps a record of a later batch from having the same place. The
  scope keeps records of two partitions apart, which may have an offset and a time in common: what comes of the one,
  down all branches of the plan, comes before what comes of the other.
* ``order="sequence"``: (the given sequence, tables before streams, declared position, stable hash, row number). Rows
  that are equal in every column are counted from one in each batch; all others have number one, and so the same place
  however the input is cut.

The sequence of a record that has none is its time, in microseconds.

A running maximum needs an order. A large batch of one scope is put in order in pieces, side by side: each piece is a
part of the span of what orders the records, and what the pieces before it came to is added once the batch was surveyed.
The places are the same as of one piece.
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
#: What numbers the records of a scope, if the source has it, what orders those of one number, and what breaks ties.
SEQUENCE, WITHIN, TIE = "_sequence", "_within", "_tie"
#: The piece that a record is in.
PIECE: Final = "_piece"
_REACHED, _ROW = "_reached", "_row"
_PIECES: Final = 64
#: Fewer records are put in order by one task before others have started.
_MANY: Final = 100_000


@dataclass(frozen=True)
class Pieces:
    """A span of what orders records, in parts of equal width."""

    low: int
    high: int

    def number(self, value: Column) -> Column:
        """The part that a value is in; what lies outside the span is in the nearest, and null in the first."""
        width = (self.high - self.low) // _PIECES + 1
        inside = F.least(F.greatest(value, F.lit(self.low)), F.lit(self.high))
        return F.least(F.floor((inside - F.lit(self.low)) / F.lit(width)), F.lit(_PIECES - 1)).cast("int")


@dataclass(frozen=True)
class Ordering:
    """What the places of a source's records have in common.

    Args:
        order: How several sources are merged.
        kind: 0 = a table, 1 = a stream.
        position: The node's, in the plan.
        has_sequence: Whether the source has a sequence.
        has_ties: Whether it says what orders the records of one number; else their times do.
        has_scopes: Whether it has partitions.
    """

    order: Order
    kind: int
    position: int
    has_sequence: bool
    has_ties: bool = False
    has_scopes: bool = False


def pieces_of(records: DataFrame, ordering: Ordering, count: int) -> Pieces | None:
    """The pieces in which the records of one scope are put in order; None = in one. A job, if there are many.

    Args:
        records: ``_sequence _us``, without those far off that would make all others one piece.
        ordering: What their places have in common.
        count: How many they are.
    """
    if ordering.order == "sequence" or count < _MANY:
        return None
    at = _orders()
    row = records.agg(F.min(at).alias("low"), F.max(at).alias("high")).collect()[0]
    # The width of a wider span may be more than a long can tell.
    return None if row["low"] is None or row["high"] - row["low"] >= 2**62 else Pieces(row["low"], row["high"])


def put_in_order(records: DataFrame, ordering: Ordering, is_valid: Column, pieces: Pieces | None) -> DataFrame:
    """Add what the place of each record is made of, as far as its piece tells it.

    Args:
        records: ``_us _scope _sequence _tie``, ``_within`` if it has ties, and others.
        ordering: What their places have in common.
        is_valid: Only valid records move the running maximum.
        pieces: In which the records, of one scope, are put in order.
    """
    piece = F.lit(0) if pieces is None else pieces.number(_orders())
    if ordering.order == "sequence":
        # In no order that a piece would tell: which of equal rows is which is no matter, but each is one.
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
    """The records with their places, instead of what these are made of.

    Args:
        records: What :func:`put_in_order` made.
        ordering: What their places have in common.
        surveyed: Per scope and piece: ``rows``, how many records, and ``newest``, of the valid ones.
        maxima: Running maximum of ts per scope before the batch.
        number: The number of the batch.
    """
    kind, position = F.lit(ordering.kind), F.lit(ordering.position)
    # Rules that go record by record compare places, so that nothing in them may be null.
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
    """What the pieces before each record's come to; of a batch in one piece, nothing."""
    if not any(pieces):
        return F.lit(nothing).cast("long")
    each = [of(pieces[piece]) if piece in pieces else nothing for piece in range(_PIECES - 1)]
    before = accumulate(each, add, initial=nothing)
    return F.element_at(F.array(*(F.lit(n).cast("long") for n in before)), F.col(PIECE) + 1)


def _orders() -> Column:
    return F.coalesce(SEQUENCE, US)
