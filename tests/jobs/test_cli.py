"""The command line: what each command prints, and the code it ends with. No Spark here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobs.cli import app
from jobs.exit_codes import exit_code, reason
from jobs.settings import load
from versioned import errors

_PROJECT = Path(__file__).parents[2]
_CONF = _PROJECT / "conf"
_JOBS = ["alert_few_events", "quickstart", "rate_limit_best_effort", "rate_limit_strict"]
_ALERTS = str(_CONF / "alert_few_events.yaml")


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("file", sorted(file.name for file in _CONF.glob("*.yaml")))
def test_every_file_of_conf_is_right(file: str) -> None:
    ended = _run("conf", "check", str(_CONF / file))
    assert (ended.exit_code, ended.stdout.strip()) == (0, f"{_CONF / file}: right")


def test_all_files_are_checked_and_one_fault_gives_code_2(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "application: a\nroot: r\nsources: {s: {format: rate}}\nplan: {s: {op: strem}}\n", encoding="utf-8"
    )
    ended = _run("conf", "check", str(wrong), _ALERTS, "--json")
    told = json.loads(ended.stdout)
    assert ended.exit_code == 2
    assert [said["ok"] for said in told] == [False, True]
    assert 'plan.s.op: "strem" is unknown; did you mean "stream"?' in told[0]["error"]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"a": {"op": "stream", "topic": "r"}}, 'plan.a.topic: "r" has no source'),
        ({"s": {"op": "stream"}, "x": {"op": "suppress", "from": "s", "until": "window_closes"}}, "plan.x.from"),
        ("no_such_module:build", "plan: no_such_module:build is not there"),
        ("jobs.exit_codes:exit_code", "plan_settings: missing a required argument"),
        ("jobs.fetch_jars:_NEEDED", "no function but tuple"),
        ("tempfile:gettempdir", "belongs to Python itself"),
    ],
)
def test_a_wrong_plan_is_found_by_the_check(plan: Any, told: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    said = {"application": "a", "root": "r", "sources": {"s": {"format": "rate"}}, "plan": plan}
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    ended = _run("conf", "check", str(file))
    assert ended.exit_code == 2
    assert told in ended.stderr


def test_a_source_that_nothing_reads_is_found_by_the_check(tmp_path: Path) -> None:
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    said["sources"]["unread"] = {"format": "rate"}
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert "sources.unread: nothing in the plan reads it" in _run("conf", "check", str(file)).stderr


@pytest.mark.parametrize("name", _JOBS)
def test_what_is_shown_are_settings_that_mean_the_same(name: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(_run("conf", "show", "--config", str(_CONF / f"{name}.yaml")).stdout, encoding="utf-8")
    assert load(file, {}) == load(_CONF / f"{name}.yaml", {})


def test_what_is_shown_is_what_is_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSIONED_JOB__TRIGGER", "10 seconds")
    monkeypatch.setenv("VERSIONED_JOB__ORDER", "arrival")
    path = "plan.events_by_hour.windowed_by.grace"
    ended = _run("conf", "show", "-c", _ALERTS, "--set", f"{path}=90 min", "--set", "trigger=5 s", "--json")
    told = json.loads(ended.stdout)
    assert (told["order"], told["trigger"]) == ("arrival", "5 s")
    assert told["plan"]["events_by_hour"]["windowed_by"]["grace"] == "1 hour 30 minutes"
    assert told["max_future_skew"] == "1 day"


@pytest.mark.parametrize(
    ("option", "value", "seen"),
    [
        ("kafka.sasl.jaas.config", "x password='tiger'", False),
        ("kafka.ssl.truststore.password", "tiger", False),
        ("fs.s3a.secret.key", "tiger", False),
        ("fs.s3a.access.key", "tiger", False),
        ("authToken", "tiger", False),
        ("url", "jdbc:postgresql://scott:tiger@db/x", False),
        ("subscribe", "tiger", True),
        ("startingOffsets", "tiger", True),
    ],
)
def test_secrets_are_not_shown(option: str, value: str, seen: bool, tmp_path: Path) -> None:
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    said["sources"]["events"]["options"] = {option: value}
    file = tmp_path / "secret.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    printed = _run("conf", "show", "-c", str(file)).stdout
    assert option in printed
    assert ("tiger" in printed) is seen


def test_a_plan_is_described_and_drawn(tmp_path: Path) -> None:
    drawn = tmp_path / "plan.svg"
    ended = _run("describe", "-c", _ALERTS, "--svg", str(drawn))
    assert ended.exit_code == 0
    assert "few_events: filter value.count < 3" in ended.stdout
    assert drawn.read_text(encoding="utf-8").startswith("<svg")


def test_a_dry_run_tells_the_plan_and_the_tables_and_writes_nothing(tmp_path: Path) -> None:
    ended = _run("run", "-c", _ALERTS, "--work", str(tmp_path), "--dry-run", "--json")
    told = json.loads(ended.stdout)
    assert ended.exit_code == 0
    assert {Path(table).name for table in told["tables"]} >= {"events_by_hour", "alerts", "rejects", "ledger"}
    assert "few_events" in told["plan"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "--config"),
        (["runn"], "No such command"),
        (["run", "-c", "no/such.yaml"], "there is no such file"),
        (["run", "-c", _ALERTS, "--set", "trigger"], "--set trigger"),
        (["run", "-c", _ALERTS, "--set", "tigger=5 s"], 'did you mean "trigger"'),
        (["run", "-c", _ALERTS, "--set", "order.every=5 s"], "order.every: goes below"),
        (["doctor"], "--config"),
        (["doctor", "-c", "no/such.yaml"], "there is no such file"),
        (["describe", "-c", _ALERTS, "--set", "plan.few_events.where=value.cuont < 3"], 'did you mean "count"'),
        (["describe", "-c", _ALERTS, "--set", "plan.final_counts.from=events"], "plan.final_counts.from"),
        (["describe", "-c", str(_CONF / "maintain.yaml")], "application: Field required"),
        (["conf", "schema", "jobs"], "Allowed: job, maintain"),
        (["maintain", "-c", str(_CONF / "maintain.yaml"), "--work", "no/such"], "there are no tables"),
        (["maintain", "-c", str(_CONF / "maintain.yaml"), "--set", "retian=9 days"], 'did you mean "retain"'),
        (["table", "as-of", "a/b", "noon"], "no instant"),
    ],
)
def test_wrong_usage_and_configuration_end_with_code_2_and_what_to_do(arguments: list[str], told: str) -> None:
    ended = _run(*arguments)
    assert ended.exit_code == 2
    assert told in ended.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 2),
        (errors.TopologyError("R1", "n", "x"), 2),
        (errors.NotAVersionedTableError("x"), 2),
        (errors.SchemaError("x"), 3),
        (errors.RecordError("x"), 3),
        (errors.InvariantError("x"), 3),
        (errors.BufferFullError("x"), 1),
        (errors.CheckpointMismatchError("x"), 1),
        (errors.FencedError("x"), 1),
        (errors.ReplayMismatchError("x"), 1),
        (errors.CommitError("x"), 1),
        (errors.RetentionError("x"), 1),
        (errors.VersionedError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: errors.VersionedError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_of_a_batch_is_told_in_its_own_words_although_spark_wraps_it() -> None:
    from pyspark.errors import StreamingQueryException

    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. "
        "Reason: Traceback (most recent call last):\n"
        '  File "application.py", line 1, in _run_batch\n'
        "versioned.errors.SchemaError: events: the column kind is missing.\n\n\tat org.apache.spark.Any.run(Any.java)"
    )
    wrapped = StreamingQueryException(text)
    assert exit_code(wrapped) == 3
    assert reason(wrapped) == "Problem in the data: events: the column kind is missing."
