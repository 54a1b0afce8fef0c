"""Traces of versioned stores: calls of the pure rule itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from versioned.errors import ConfigurationError, RecordError
from versioned.store_rules import LATEST, REFUSED, Reason, Version, VersionedStore

_US: Final = 1_000
#: The stream time with which Kafka's stores begin.
_KAFKA_START_US: Final = -1 * _US

Call = Mapping[str, Any]
Answer = dict[str, Any]


def run_versioned_store(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """``versioned_store``: what each call returns, and how many puts and deletes were refused."""
    retention_us = scenario["params"]["history_retention_ms"] * _US
    store = VersionedStore(retention_us, first_stream_time_us=_KAFKA_START_US)
    returns: list[Answer] = []
    refused = 0
    for index, call in enumerate(scenario["steps"]):
        try:
            if call["key"] is None:
                raise RecordError(f"call {index} has no key.")
            answer = _CALLS[call["call"]](store, call)
        except (RecordError, ConfigurationError) as failure:
            answer = {"error": {"input_index": index, "message": str(failure)}}
        refused += answer.pop("refused", 0)
        returns.append({"input_index": index, **answer})
    return {"returns": returns, "dropped_total": refused}


def _put(store: VersionedStore, call: Call) -> Answer:
    outcome = store.put(call["key"], call["value"], call["ts"] * _US)
    shown = outcome if outcome in (LATEST, REFUSED) else outcome // _US
    return {"return": shown, "refused": int(outcome == REFUSED)}


def _delete(store: VersionedStore, call: Call) -> Answer:
    ts_us = call["ts"] * _US
    observed_us = store.stream_time_us(call["key"])
    is_late = observed_us is not None and ts_us < observed_us - store.grace_us
    record = _record(store.delete(call["key"], ts_us))
    # Kafka's record is made by the delete that ends the version, and does not say where the version ended before.
    return {"record": None if record is None else {**record, "valid_to": None}, "refused": int(is_late)}


def _get(store: VersionedStore, call: Call) -> Answer:
    return {"record": _record(store.get(call["key"]))}


def _get_as_of(store: VersionedStore, call: Call) -> Answer:
    found = store.as_of(call["key"], call["as_of"] * _US)
    return {"record": None if isinstance(found, Reason) else _record(found)}


def _multi(store: VersionedStore, call: Call) -> Answer:
    from_us, to_us = (None if call.get(name) is None else call[name] * _US for name in ("from", "to"))
    found = store.history(call["key"], from_us, to_us, ascending=call["order"] == "asc")
    return {"records": [_record(version) for version in found]}


def _record(version: Version | None) -> Answer | None:
    if version is None:
        return None
    valid_to = None if version.valid_to_us is None else version.valid_to_us // _US
    return {"value": version.value, "timestamp": version.valid_from_us // _US, "valid_to": valid_to}


_CALLS: Final[dict[str, Callable[[VersionedStore, Call], Answer]]] = {
    "put": _put,
    "delete": _delete,
    "get": _get,
    "get_as_of": _get_as_of,
    "multi": _multi,
}

RUNNERS: Final = {"versioned_store": run_versioned_store}
