"""Where final results stand among the other changes of the record that closes their windows, as in the test driver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.functions import coalesce
from streams.ktable import KTable
from streams.nodes import Materialized, Topology
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, TimeWindows, Windows

pytestmark = pytest.mark.slow

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_GRACE: Final = timedelta(milliseconds=5)
_WINDOWS: Final[dict[str, Windows]] = {
    "tumbling": TimeWindows.of(timedelta(milliseconds=10)),
    "graceful": TimeWindows.of_size_and_grace(timedelta(milliseconds=10), _GRACE),
    "hopping": TimeWindows.of_size_and_grace(timedelta(milliseconds=10), _GRACE).advance_by(timedelta(milliseconds=5)),
    "session": SessionWindows.of_inactivity_gap_and_grace(timedelta(milliseconds=4), _GRACE),
}
#: Two that close in unlike ways, and two that close as one of those does.
_KINDS: Final = [("tumbling", "session"), ("graceful", "hopping")]
#: The key under which changes and final results of all keys meet.
_ALL: Final = {"k": "all"}
#: Which of the two takes a change of the windows first.
_FIRST: Final = ("final", "change")
_TIMES: Final = (("a", 1), ("a", 3), ("b", 4), ("a", 16), ("a", 29), ("b", 41), ("c", 48), ("c", 51))
#: The last one closes the session of another key, and first ends its own as it was.
_INPUT: Final = [Input("in", k, "x", ms) for k, ms in _TIMES]


def _last_final(counts: KTable, name: str) -> KTable:
    """Whose window was final last."""
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name=f"{name}_final")
    whose = final.to_stream(name=f"{name}_stream").map_values(lambda key, value: {"whose": key.k}, name=f"{name}_whose")
    by_key = whose.select_key(lambda key, value: _ALL, name=f"{name}_keyed")
    return by_key.to_table(Materialized.key_value(f"{name}_last"), name=f"{name}_table")


def _now(value: Any) -> Any:
    return {"now": coalesce(value.count, 0)}


def _pair(left: Any, right: Any) -> Any:
    return {"now": left.now, "last": coalesce(right.whose, "nobody")}


def _topology(kinds: Sequence[str]) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", name="in", **_SOURCE)
    for kind in kinds:
        for first in _FIRST:
            name = f"{kind}_{first}"
            counts = stream.group_by_key().windowed_by(_WINDOWS[kind]).count(name=name)
            if first == "final":
                last = _last_final(counts, name)
            # A window that is merged into another one ends, which is a change too.
            changes = counts.to_stream(name=f"{name}_changes").map_values(_now, name=f"{name}_counts")
            keyed = changes.select_key(lambda key, value: _ALL, name=f"{name}_now")
            if first == "change":
                last = _last_final(counts, name)
            keyed.left_join(last, _pair, name=f"{name}_both").to_changelog(f"{name}_out")
    return builder.build()


@pytest.fixture(scope="module", params=_KINDS, ids="-".join)
def told(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Told], dict[str, Told]]:
    """What Spark and the driver tell of each change of a window, beside the last final result of its key."""
    folder, topology = tmp_path_factory.mktemp("places"), _topology(request.param)
    app = on_spark(spark, folder, topology, _INPUT, [4, len(_INPUT)])
    return sink_rows(spark, app, topology), on_driver(topology, _INPUT)


@pytest.mark.rule("R3")
def test_a_change_meets_the_final_results_of_its_record_only_if_they_are_told_first(
    told: tuple[dict[str, Told], dict[str, Told]],
) -> None:
    got, wanted = told
    assert got == wanted
    assert all(wanted.values())
