"""``versioned suppress`` and ``versioned picture``, of an application whose function lies beside its settings."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from test_cli_tables import _submit
from typer.testing import CliRunner

from jobs.cli import app

pytestmark = pytest.mark.slow

_PROJECT = Path(__file__).parents[2]
_BEST_EFFORT = _PROJECT / "conf" / "rate_limit_best_effort.yaml"
_CONFIG = """
application: calm
root: tables
order: sequence
metrics: {level: debug}
sources:
  prices:
    format: json
    path: input/prices
    schema: seq BIGINT, ts TIMESTAMP, item STRING, price DOUBLE
    sequence_by: seq
plan:
  history: {op: table, topic: prices, key: item, value: price, store: {kind: versioned, history_retention: 30 days}}
  prices: {op: table, key: item, value: price, store: {kind: key_value}}
  hourly: {op: suppress, from: prices, until: time_limit, wait: 1 hour, buffer: {max_records: 5, when_full: shut_down}}
  hourly_stream: {op: to_stream, from: hourly}
  said: {op: transform_values, from: hourly_stream, function: "words_beside_settings:said", returns: "said STRING"}
  out: {op: to_changelog, from: said}
  soon: {op: suppress, from: prices, until: wall_clock_time_limit, wait: 1 second}
  soon_out: {op: to_changelog, from: soon}
"""
_MODULE = """
UNIT = "EUR"

def said(key, value):
    return {"said": f"{key['item']}: {value['price']} {UNIT}"}
"""
_PRICES = [("08:00", "tea", 3.0), ("08:10", "milk", 1.0), ("08:05", "tea", 3.5), ("08:20", "milk", 1.5)]


def _rows(prices: list[tuple[str, str, float]]) -> str:
    said = [
        {"seq": n, "ts": f"2026-01-01T{clock}:00Z", "item": item, "price": price}
        for n, (clock, item, price) in enumerate(prices)
    ]
    return "".join(json.dumps(row) + "\n" for row in said)


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What each command said, one after the other, and the rows of the sinks after those that change something."""
    work = tmp_path_factory.mktemp("calm")
    (work / "input" / "prices").mkdir(parents=True)
    (work / "input" / "prices" / "0.json").write_text(_rows(_PRICES), encoding="utf-8")
    (work / "calm.yaml").write_text(_CONFIG, encoding="utf-8")
    (work / "words_beside_settings.py").write_text(_MODULE, encoding="utf-8")
    told: dict[str, Any] = {"work": work}

    def ask(step: str, *arguments: str) -> None:
        there = ["-c", str(work / "calm.yaml"), "-w", str(work)]
        ended = CliRunner().invoke(app, [*arguments, *there], catch_exceptions=False)
        told[step] = ended.output if ended.exit_code else [json.loads(line) for line in ended.stdout.splitlines()]

    def sink(name: str) -> list[Any]:
        return [row[0] for row in spark.read.format("delta").load(f"{work}/tables/{name}").orderBy("ts").collect()]

    ask("before", "suppress", "inspect", "--json")
    ask("too early", "picture", "lateness", "-o", str(work / "no.svg"))
    ask("run", "run", "--json")
    time.sleep(1)  # By then what waits for the wall clock is due.
    ask("held", "suppress", "inspect", "--rows", "1", "--json")
    ask("due", "suppress", "flush", "--dry-run", "--json")
    told["soon before"] = sink("soon_out")
    ask("flush", "suppress", "flush", "--json")
    told["soon after"] = sink("soon_out")
    ask("dry", "suppress", "drain", "hourly", "--dry-run", "--json")
    told["out before"] = sink("out")
    ask("drain", "suppress", "drain", "hourly", "--json")
    said = spark.read.format("delta").load(f"{work}/tables/out").orderBy("ts").select("said").collect()
    told["out after"] = [row[0] for row in said]
    ask("lateness", "picture", "lateness", "-o", str(work / "lateness.svg"), "--json")
    ask("of node", "picture", "lateness", "--node", "history", "-o", str(work / "node.html"), "--json")
    ask("buffer", "picture", "buffer", "hourly", "-o", str(work / "buffer.svg"), "--json")
    ask("no buffer", "picture", "buffer", "said", "-o", str(work / "no.svg"))
    ask("no node", "picture", "lateness", "--node", "sayd", "-o", str(work / "no.svg"))
    return told


def _by_name(buffers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {buffer["name"]: buffer for buffer in buffers if "name" in buffer}


def test_before_the_first_run_nobody_is_told_that_buffers_are_empty(story: Mapping[str, Any]) -> None:
    assert "it has never run there. If it has run, name its folder with --work." in story["before"]


def test_inspect_tells_what_a_buffer_holds_its_bounds_and_when_the_next_row_leaves(story: Mapping[str, Any]) -> None:
    hourly = _by_name(story["held"])["hourly"]
    assert (hourly["records"], hourly["max_records"], hourly["max_bytes"], hourly["due"]) == (2, 5, None, 0)
    # One text and one double each, and the timestamp.
    assert hourly["bytes"] == len("tea") + len("milk") + 2 * (8 + 8)
    assert (hourly["oldest"], hourly["deadline"]) == ("2026-01-01T08:00:00+00:00", "2026-01-01T09:00:00+00:00")
    assert hourly["clock"] == "event time"


def test_inspect_shows_the_rows_that_leave_first(story: Mapping[str, Any]) -> None:
    (row,) = _by_name(story["held"])["hourly"]["rows"]
    assert (row["item"], row["value"]) == ("tea", {"price": 3.5})


def test_what_the_wall_clock_would_let_out_is_told_before_it_is(story: Mapping[str, Any]) -> None:
    due = {name: said["due"] for name, said in _by_name(story["due"]).items()}
    assert (due, story["soon before"]) == ({"hourly": 0, "soon": 2}, [])


def test_a_flush_lets_out_what_is_due_and_nothing_else(story: Mapping[str, Any]) -> None:
    held = {name: said["records"] for name, said in _by_name(story["flush"]).items()}
    assert (held, sorted(story["soon after"])) == ({"hourly": 2, "soon": 0}, ["milk", "tea"])


def test_a_dry_run_of_a_drain_tells_what_would_leave_and_changes_nothing(story: Mapping[str, Any]) -> None:
    (said,) = story["dry"]
    assert (said["name"], said["records"], story["out before"]) == ("hourly", 2, [])


@pytest.mark.rule("R59")
def test_a_drain_sends_everything_downstream_through_a_function_beside_the_settings(story: Mapping[str, Any]) -> None:
    assert _by_name(story["drain"])["hourly"]["records"] == 0
    assert story["out after"] == ["tea: 3.5 EUR", "milk: 1.5 EUR"]


def test_lateness_is_drawn_of_each_topic_once(story: Mapping[str, Any]) -> None:
    (said,) = story["lateness"]
    # 08:05 came when 08:10 was there: 5 minutes late; classes grow by a quarter.
    assert [row["records"] for row in said["rows"]] == ["3", "1"]
    assert said["rows"][0]["at most so late"] == "on time"
    assert Path(said["file"]).read_text(encoding="utf-8").startswith("<svg")
    (of_node,) = story["of node"]
    assert (of_node["rows"], of_node["title"]) == (said["rows"], 'Lateness of records at "history"')


def test_a_buffer_is_drawn_with_a_reading_per_batch_and_its_bound(story: Mapping[str, Any]) -> None:
    (said,) = story["buffer"]
    assert [row["records"] for row in said["rows"]] == ["2", "0"]
    assert "at most 5" in Path(said["file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("too early", "has no ledger"),
        ("no buffer", "holds no buffer; those that do are ['hourly', 'soon']"),
        ("no node", '"sayd" is no node of the plan'),
    ],
)
def test_a_picture_of_what_is_not_there_says_why(story: Mapping[str, Any], step: str, reason: str) -> None:
    assert reason in story[step]
    assert not (story["work"] / "no.svg").exists()


def test_versions_of_a_table_are_drawn_within_bounds(story: Mapping[str, Any], tmp_path: Path) -> None:
    target, out = str(story["work"] / "tables" / "history"), tmp_path / "prices.html"
    asked = ["--from", "2026-01-01T08:06:00Z", "--until", "2026-01-01T08:15:00Z", "-o", str(out), "--json"]
    told = json.loads(CliRunner().invoke(app, ["table", "timeline", target, *asked]).stdout)
    # Milk's first price ended at 08:20, when its second began: after the bounds.
    assert [(row["item"], row["value"]) for row in told["rows"]] == [("milk", "1.0"), ("tea", "3.5")]
    page = out.read_text(encoding="utf-8")
    assert ("<svg" in page, "<script" in page, "http://www.w3.org" in page) == (True, False, True)


def test_of_many_keys_the_first_are_drawn_and_the_title_says_of_how_many(story: Mapping[str, Any]) -> None:
    target, out = str(story["work"] / "tables" / "history"), story["work"] / "few.svg"
    told = CliRunner().invoke(app, ["picture", "timeline", target, "--most-keys", "1", "-o", str(out), "--json"])
    said = json.loads(told.stdout)
    assert (said["title"], {row["item"] for row in said["rows"]}) == ("history: 1 of 2 keys", {"milk"})


_IN_AND_OUT = (("input", "prices"), ("emitted", "price_updates"))


def test_by_spark_submit_a_buffer_of_conf_is_drained(tmp_path: Path) -> None:
    folder = tmp_path / "input" / "prices"
    folder.mkdir(parents=True)
    of_job = ("-c", str(_BEST_EFFORT), "-w", str(tmp_path), "--json")
    first, *others = _rows(_PRICES[:3]).splitlines(keepends=True)
    (folder / "0.json").write_text(first, encoding="utf-8")
    begun = _submit("run", *of_job)
    assert begun.returncode == 0, begun.stderr[-3_000:]
    (folder / "1.json").write_text("".join(others), encoding="utf-8")
    # The first price of tea leaves by itself; both items still wait when the input ends.
    ended = _submit("suppress", "drain", "limited", *of_job)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    *batches, left = map(json.loads, ended.stdout.splitlines())
    told = [sum(batch[what].get(name, 0) for batch in batches) for what, name in _IN_AND_OUT]
    assert told == [2, 3]
    assert (left["name"], left["records"], left["max_records"]) == ("limited", 0, 2)
