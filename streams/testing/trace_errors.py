"""The plans of the traces' ``topology_errors``: which are refused and which accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from streams.nodes import Joined, Materialized, Topology
from streams.topology import KStream, KTable, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.errors import ConfigurationError, TopologyError

_Case = Callable[[StreamsBuilder], object]
_LIMIT: Final = Suppressed.until_time_limit("5 ms", BufferConfig.unbounded())
_FINAL: Final = Suppressed.until_window_closes(BufferConfig.unbounded())
_RETENTION_MS: Final = 300


def build_case(case: str) -> Topology:
    """Build the plan of a case.

    Args:
        case: ``params.case`` of a scenario of ``topology_errors.json``.

    Raises:
        TopologyError: the plan is refused.
        ConfigurationError: a window, limit or bound is refused.
        KeyError: there is no such case.

    >>> len(build_case("to_table_versioned").nodes)
    2
    """
    builder = StreamsBuilder()
    CASES[case](builder)
    return builder.build()


def _versioned(builder: StreamsBuilder, retention_ms: int = _RETENTION_MS) -> KTable:
    return builder.table("table", _history(retention_ms))


def _history(retention_ms: int = _RETENTION_MS) -> Materialized:
    return Materialized.versioned(_ms(retention_ms))


def _plain(builder: StreamsBuilder) -> KTable:
    return builder.table("table", Materialized.key_value("plain"))


def _kept(table: KTable, materialized: Materialized | None = None) -> KTable:
    return table.filter(lambda value: value.value == "x", materialized=materialized)


def _stream(builder: StreamsBuilder) -> KStream:
    return builder.stream("stream")


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def _windowed(builder: StreamsBuilder, windows: Windows, materialized: Materialized | None = None) -> KTable:
    return _stream(builder).group_by_key().windowed_by(windows).count(materialized=materialized)


def _tumbling() -> TimeWindows:
    return TimeWindows.of_size_and_grace("5 ms", "5 ms")


def _join_with_grace(builder: StreamsBuilder, table: KTable, grace_ms: int) -> KStream:
    return _stream(builder).join(table, joined=Joined.with_grace_period(_ms(grace_ms)))


def _table_join(builder: StreamsBuilder, materialized: Materialized | None = None) -> KTable:
    return _versioned(builder).join(builder.table("other", _history()), materialized=materialized)


def _aggregate(builder: StreamsBuilder, materialized: Materialized | None = None) -> KTable:
    return _versioned(builder).group_by("value").count(materialized=materialized)


def _stored_nine(windows: Windows) -> _Case:
    return lambda builder: _windowed(builder, windows, Materialized.window_store("w", _ms(9)))


def _suppressed_twice(builder: StreamsBuilder) -> object:
    return _plain(builder).suppress(_LIMIT.with_name("sup")).suppress(_LIMIT.with_name("sup"))


def _back_and_forth(builder: StreamsBuilder) -> KTable:
    return _versioned(builder).to_stream().to_table()


def _mapped(builder: StreamsBuilder) -> KTable:
    return _versioned(builder).map_values(lambda value: value)


#: What each case builds, beyond calling ``build()``.
CASES: Final[dict[str, Callable[[StreamsBuilder], Any]]] = {
    "suppress_on_versioned_table": lambda b: _versioned(b).suppress(_LIMIT),
    "suppress_on_filtered_versioned_table": lambda b: _kept(_versioned(b)).suppress(_LIMIT),
    "suppress_on_mapvalues_versioned_table": lambda b: _mapped(b).suppress(_LIMIT),
    "suppress_on_filtered_versioned_table_materialized_kv": lambda b: _kept(
        _versioned(b), Materialized.key_value("kv")
    ).suppress(_LIMIT),
    "suppress_on_versioned_to_stream_to_table": lambda b: _back_and_forth(b).suppress(_LIMIT),
    "suppress_on_unversioned_table": lambda b: _plain(b).suppress(_LIMIT),
    "suppress_on_table_join_versioned": lambda b: _table_join(b).suppress(_LIMIT),
    "suppress_on_aggregate_of_versioned": lambda b: _aggregate(b).suppress(_LIMIT),
    "global_table_versioned": lambda b: b.global_table("global", _history()),
    "global_table_unversioned": lambda b: b.global_table("global", Materialized.key_value()),
    "until_window_closes_on_unwindowed_table": lambda b: _plain(b).suppress(_FINAL),
    "until_window_closes_on_unwindowed_aggregate": lambda b: _stream(b).group_by_key().count().suppress(_FINAL),
    "until_window_closes_on_windowed_table": lambda b: _windowed(b, _tumbling()).suppress(_FINAL),
    "until_window_closes_on_filtered_windowed_table": lambda b: (
        _windowed(b, _tumbling()).filter(lambda value: value.count > 1).suppress(_FINAL)
    ),
    "until_window_closes_on_unlimited_windows": lambda b: _windowed(b, UnlimitedWindows.of()).suppress(_FINAL),
    "stream_table_join_grace_unversioned_table": lambda b: _join_with_grace(b, _plain(b), 5),
    "stream_table_join_grace_exceeds_retention": lambda b: _join_with_grace(b, _versioned(b), _RETENTION_MS + 1),
    "stream_table_join_grace_equals_retention": lambda b: _join_with_grace(b, _versioned(b), _RETENTION_MS),
    "stream_table_join_grace_zero": lambda b: _join_with_grace(b, _versioned(b), 0),
    "stream_table_join_grace_negative": lambda b: _join_with_grace(b, _versioned(b), -1),
    "stream_table_join_grace_filtered_versioned_table": lambda b: _join_with_grace(b, _kept(_versioned(b)), 5),
    "stream_table_join_grace_to_stream_to_table": lambda b: _join_with_grace(b, _back_and_forth(b), 5),
    "versioned_store_negative_retention": lambda b: _versioned(b, -1),
    "versioned_store_zero_retention": lambda b: _versioned(b, 0),
    "negative_window_size": lambda b: _windowed(b, TimeWindows.of(_ms(-1))),
    "zero_window_size": lambda b: _windowed(b, TimeWindows.of(_ms(0))),
    "negative_window_grace": lambda b: _windowed(b, TimeWindows.of("5 ms").grace(_ms(-1))),
    "advance_larger_than_size": lambda b: _windowed(b, TimeWindows.of("5 ms").advance_by("6 ms")),
    "advance_zero": lambda b: _windowed(b, TimeWindows.of("5 ms").advance_by("0 ms")),
    "session_gap_zero": lambda b: _windowed(b, SessionWindows.of("0 ms")),
    "session_gap_negative": lambda b: _windowed(b, SessionWindows.of(_ms(-1))),
    "sliding_difference_negative": lambda b: _windowed(b, SlidingWindows.of_time_difference_with_no_grace(_ms(-1))),
    "sliding_difference_zero": lambda b: _windowed(b, SlidingWindows.of_time_difference_with_no_grace(_ms(0))),
    "join_windows_negative_interval": lambda b: _stream(b).join(
        b.stream("other"), windows=JoinWindows.of("5 ms").before(_ms(-6))
    ),
    "window_store_retention_less_than_size_plus_grace": _stored_nine(_tumbling()),
    "session_store_retention_less_than_gap_plus_grace": _stored_nine(SessionWindows.of("5 ms").grace("5 ms")),
    "suppress_time_limit_negative": lambda b: _plain(b).suppress(
        Suppressed.until_time_limit(_ms(-1), BufferConfig.unbounded())
    ),
    "suppress_max_records_negative": lambda b: _plain(b).suppress(
        Suppressed.until_time_limit("5 ms", BufferConfig.max_records(-1))
    ),
    "suppress_duplicate_names": _suppressed_twice,
    "table_join_versioned_materialized_versioned": lambda b: _table_join(b, _history()),
    "aggregate_materialized_versioned": lambda b: _aggregate(b, _history()),
    "stream_aggregate_materialized_versioned": lambda b: _stream(b).group_by_key().count(materialized=_history()),
    "to_table_versioned": lambda b: _stream(b).to_table(_history()),
}


def run_topology_error(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """``topology_errors``: whether the plan is refused."""
    try:
        build_case(scenario["params"]["case"])
    except (TopologyError, ConfigurationError) as refusal:
        return {"ok": False, "error": {"input_index": -1, "message": str(refusal)}}
    return {"ok": True}


RUNNERS: Final = {"topology_errors": run_topology_error}
