"""The order in which a batch writes its tables: several at once, each only after the operators that still read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streams.nodes import Topology
from streams.spark.operator import Batch, Operator
from streams.spark.sinks import ChangelogSinkOperator
from versioned.side_by_side import in_turn

#: The key of the rejects among the writes; no node has this name.
_REJECTS: Final = ""


def write_all(
    topology: Topology,
    operators: dict[str, Operator[Any]],
    rejects: Callable[[], object] | None,
    batch: Batch,
) -> None:
    """Run the writes of the operators and of the rejects, several at once.

    Args:
        topology: The plan.
        operators: The operators that write, in the plan's order.
        rejects: Writes the batch's rejects; None if there are none.
        batch: The batch.
    """
    writes: dict[str, Callable[[], object]] = {} if rejects is None else {_REJECTS: rejects}
    writes |= {name: partial(operator.write, batch) for name, operator in reversed(operators.items())}
    before = {name: _before(topology, operator) & writes.keys() for name, operator in operators.items()}
    in_turn(writes, before, batch.session)


def _before(topology: Topology, operator: Operator[Any]) -> set[str]:
    """The writes that must come before an operator's: those below it in the plan, which read its table's state.

    Unless it is a changelog, the rejects are among them, since computing them may read the state too.
    """
    below = {child.name for child in topology.children(operator.node)}
    return below if isinstance(operator, ChangelogSinkOperator) else below | {_REJECTS}
