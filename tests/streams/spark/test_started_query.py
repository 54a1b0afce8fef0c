"""What a started query takes along to where its batches run; its batches are in ``test_application.py`` and others."""

from __future__ import annotations

from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from streams import StreamsBuilder
from streams.recovery_rules import CheckpointFacts, LedgerFacts
from streams.spark.engine import operators_of
from streams.spark.interpreted import Interpretation
from streams.spark.ledger import Ledger, LedgerState
from streams.spark.recovery import RecoverySurvey
from streams.spark.started_query import Assembly, Setup, StartedQuery
from versioned.identifiers import TableRef


class _Session:
    """A client's session, which exists in its own process only."""

    def __reduce__(self) -> Any:
        raise AssertionError("a session travels")


def _started(session: SparkSession) -> StartedQuery:
    builder = StreamsBuilder()
    builder.stream("clicks", key="user", value="page")
    topology, root = builder.build(), TableRef.parse("/data/tables")
    setup = Setup("shop", topology, root, "/data/checkpoint", {}, "arrival", "info", "none", frozenset(), False, None)
    found = RecoverySurvey(LedgerFacts("shop", 1, 3), CheckpointFacts("/data/checkpoint", "query"), {})
    return StartedQuery(
        session,
        setup,
        Assembly(setup, operators_of(topology)),
        Ledger(session, setup.ledger, "shop"),
        found,
        LedgerState(1, 3),
        topics=("clicks",),
        rules=(),
        interpretation=Interpretation([]),
        drains=(),
    )


def test_the_batches_of_a_client_travel_to_the_server_without_its_session() -> None:
    run_batch = _started(cast("SparkSession", _Session())).run_batch
    query = cloudpickle.loads(cloudpickle.dumps(run_batch)).__self__
    assert isinstance(query, StartedQuery)
    assert not hasattr(query, "_spark")
    assert query._state == LedgerState(1, 3)
