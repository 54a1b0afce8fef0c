"""The library over Spark Connect: a server in a process of its own, a client without a JVM in another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from connect_server import PROJECT, environment, running_server

pytest.importorskip("grpc", reason='pip install "pyspark[connect]"')

#: A server and a client are processes of their own, with a Spark session each.
pytestmark = pytest.mark.slow


def _told(folder: Path, *parts: str) -> dict[str, Any]:
    """What a client finds that does these parts on a server of its own."""
    client = str(PROJECT / "tests" / "connect_client.py")
    with running_server(folder) as url:
        command = [sys.executable, client, url, str(folder), *parts]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=240)
    log = (folder / "server.log").read_text(encoding="utf-8")
    said = "\n".join(line for line in ran.stderr.splitlines() if not line.startswith("\tat "))
    assert ran.returncode == 0, f"{said[-4000:]}\nThe server said:\n{log[-2000:]}"
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _told(tmp_path_factory.mktemp("connect"), "prices", "missing", "batch", "upkeep", "job")


def test_the_session_is_a_remote_one(told: dict[str, Any]) -> None:
    assert told["remote"]
    assert told["session"] == "pyspark.sql.connect.session"


def test_a_versioned_table_takes_puts_in_any_order_and_refuses_what_is_too_late(told: dict[str, Any]) -> None:
    prices = told["prices"]
    assert prices["counts"] == [
        "PutCounts(accepted=3, refused=0, out_of_order=0, spliced=0)",
        "PutCounts(accepted=2, refused=0, out_of_order=2, spliced=2)",
        "PutCounts(accepted=0, refused=1, out_of_order=0, spliced=0)",
    ]
    assert sorted(prices["history"]) == [
        ["oil", 7.0, 2.0], ["tea", 9.0, 2.0], ["tea", 10.0, 1.0], ["tea", 11.0, 3.0], ["tea", 12.0, 5.0],
    ]  # fmt: skip
    assert prices["is_sound"]


def test_a_versioned_table_answers_as_of_an_instant_and_row_by_row(told: dict[str, Any]) -> None:
    prices = told["prices"]
    assert prices["as_of"] == [["oil", 7.0], ["tea", 9.0]]
    assert prices["lookup"] == [["oil", 7.0, None], ["rum", None, "NO_MATCH"], ["tea", 11.0, None]]


def test_a_versioned_table_deletes_and_purges(told: dict[str, Any]) -> None:
    prices = told["prices"]
    assert prices["deleted"] == [["tea", 12.0]]
    assert prices["current"] == [["oil", 7.0]]
    assert prices["purged"] == [1, True, 2]


def test_an_application_runs_its_batches_in_the_server(told: dict[str, Any]) -> None:
    assert told["batch"] == {"priced": [["tea", 1, 10.0, None]]}


def test_upkeep_beside_a_stream_looks_after_the_tables_that_the_server_lists(told: dict[str, Any]) -> None:
    assert told["upkeep"] == {
        "done": {"ledger": [None], "priced": [None], "prices": [2, "optimized"], "rejects": [None]},
        "failed": [],
    }


def test_a_command_shows_its_batches_counts_them_and_writes_their_metrics(told: dict[str, Any]) -> None:
    assert told["job"] == {"code": 0, "batches": [["0", "3"], ["1", "micro-batches"]], "tables": {"out": 3},
                           "metrics": True}  # fmt: skip


def test_an_application_joins_counts_suppresses_and_keeps_the_latest_across_a_restart(tmp_path: Path) -> None:
    assert _told(tmp_path, "shop")["shop"] == {
        "priced": [["tea", 1, 10.0, None], ["tea", 2, 11.0, None], ["oil", 3, None, "NO_MATCH"]],
        "latest": [["oil", 3, None], ["tea", 2, 11.0]],
        "finals": [["tea", 4, 2]],
        "calmed": [["tea", 12.0], ["tea", 11.0]],
        "batches": 2,
    }


def test_the_servers_plugin_for_delta_tables_is_not_needed(told: dict[str, Any]) -> None:
    assert told["missing"] != "works"
