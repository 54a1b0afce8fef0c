"""Rolls all tables of an application back to the state after one of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from streams.rollback_rules import others_undone
from streams.spark.application import StreamingApplication
from streams.spark.takeover import HeldApplication, check_takeover, taken_over


@dataclass(frozen=True)
class RolledBack:
    """What :func:`rollback` did or, after a ``dry_run``, would do.

    * ``batch_id``: the batch that is the newest now; ``epoch``: the epoch that goes on after it.
    * ``undone``: the batches whose rows the ledger lost.
    * ``restored``: the version to which each table was taken back; other tables had nothing of a later batch.
    * ``erased_again``: tables in which rows that were erased since came back; erase them again.
    * ``by_others``: tables in which changes that somebody else made since, also by hand, were undone.
    * ``lost_input``: missing files that the undone batches have read; their content is not read again. Files in object
      stores are not looked for.
    * ``lost_backfills``: tables that lost old history which was put into them since (``versioned backfill``); put it
      again.
    * ``advice``: what is left to do by hand.
    """

    application: str
    batch_id: int
    epoch: int
    undone: tuple[int, ...]
    restored: Mapping[str, int]
    erased_again: tuple[str, ...] = ()
    by_others: tuple[str, ...] = ()
    lost_input: tuple[str, ...] = ()
    lost_backfills: tuple[str, ...] = ()
    advice: str | None = None
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """The result as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """
        >>> lost = ("file:///in/7.json",)
        >>> of = ("orders",)
        >>> print(RolledBack("sales", 41, 3, (42,), {"orders": 87}, of, of, lost, of, dry_run=True))
        sales would stand after batch 41, in epoch 3; nothing was changed
          undone batches: 42
          orders                   version 87
          ERASED ROWS WOULD COME BACK in orders: erase them again
          CHANGES BY OTHERS in orders would be undone: DESCRIBE HISTORY names them
          LOST INPUT: file:///in/7.json, read by an undone batch, is gone; put it back before the next start
          LOST BACKFILL: what was put into orders would be undone: put it again
        """
        done, tried = ("stands", "", "CAME"), ("would stand", "; nothing was changed", "WOULD COME")
        stands, end, came = tried if self.dry_run else done
        lines = [f"{self.application} {stands} after batch {self.batch_id}, in epoch {self.epoch}{end}"]
        lines.append(f"  undone batches: {', '.join(map(str, self.undone)) or 'none'}")
        lines += [f"  {table:<24} version {version}" for table, version in self.restored.items()]
        lines += [f"  ERASED ROWS {came} BACK in {table}: erase them again" for table in self.erased_again]
        lines += others_undone(self.by_others, dry_run=self.dry_run)
        lines += [
            f"  LOST INPUT: {file}, read by an undone batch, is gone; put it back before the next start"
            for file in self.lost_input
        ]
        verb = "would be" if self.dry_run else "is"
        lines += [f"  LOST BACKFILL: what was put into {it} {verb} undone: put it again" for it in self.lost_backfills]
        return "\n".join([*lines, *([] if self.advice is None else [f"  to do: {self.advice}"])])


def rollback(application: StreamingApplication, batch_id: int, *, dry_run: bool = False) -> RolledBack:
    """Take every table back to the state after a batch, so that the next start runs all later batches again.

    The tables are restored by Delta's RESTORE, so their history stays. Changes that somebody else made since are undone
    too; puts by hand in the application's name stay if no later batch had written to the table before them. The ledger
    forgets the later batches, and a new epoch goes on with a copy of the checkpoint that ends at that batch. A driver
    that is still running is shut out. What others have read from the sinks meanwhile cannot be taken back.

    Args:
        application: The application that owns the tables; it must not run in this session.
        batch_id: The last batch that stays; a batch that wrote nothing counts as the one before.
        dry_run: Only check whether it can be done.

    Raises:
        ConfigurationError: there is no such batch, the application runs in this session, the plan lacks a table in
            which rows could wait after that batch, or its ledger is append-only.
        CheckpointMismatchError: the checkpoint does not reach back to that batch (Spark keeps the last 100).
        RetentionError: files of that time are gone.

    >>> print(rollback(app, 41))                                         # doctest: +SKIP
    sales stands after batch 41, in epoch 3
      undone batches: 42, 43
      orders                   version 87
    """
    if dry_run:
        return replace(_told(check_takeover(application, batch_id)), dry_run=True)
    with taken_over(application, batch_id) as held:
        pass
    return _told(held)


def _told(held: HeldApplication) -> RolledBack:
    return RolledBack(
        held.application.name,
        held.row[1],
        held.epoch,
        held.undone,
        held.restored,
        held.erased_again,
        held.by_others,
        held.lost_input,
        held.lost_backfills,
        held.advice,
    )
