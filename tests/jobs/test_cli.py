"""The command line: what each command prints, and the code it ends with. No Spark here."""

from __future__ import annotations

import copy
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from rich.console import Console
from typer.testing import CliRunner

from jobs import config_schema, fetch_jars
from jobs.cli import app
from jobs.cli_shared import progress
from jobs.maintain_settings import MaintainSettings
from jobs.settings import load

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


def test_upkeep_that_is_repeated_begins_before_the_stream_has_made_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[MaintainSettings] = []
    monkeypatch.setattr("jobs.cli.quiet_session", lambda name: name)
    monkeypatch.setattr("jobs.maintenance.maintain", lambda _, settings, *rest: begun.append(settings) or [])
    asked = ["maintain", "-c", str(_CONF / "maintain.yaml"), "--work", str(tmp_path)]
    once, repeated = (_run(*asked, *said) for said in ([], ["--set", "every=1 minute"]))
    assert (once.exit_code, repeated.exit_code, [said.every for said in begun]) == (2, 0, [timedelta(minutes=1)])


@pytest.mark.parametrize("file", ["maintain.yaml", "validate.yaml"])
def test_variables_for_a_job_do_not_make_a_job_of_other_settings(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSIONED_JOB__APPLICATION", "orders")
    monkeypatch.setenv("VERSIONED_JOB__SOURCES__CLICKS__OPTIONS__PATH", "elsewhere")
    checked, shown = _run("conf", "check", str(_CONF / file)), _run("conf", "show", "-c", str(_CONF / file), "--json")
    assert (checked.exit_code, shown.exit_code) == (0, 0), checked.stderr
    assert "sources" not in json.loads(shown.stdout)["settings"]


def test_a_file_that_is_no_mapping_is_told_once_by_its_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.touch()
    ended = _run("conf", "check", str(empty))
    assert ended.stderr.strip() == f"{empty}: settings are a mapping of keys, and this is nothing."


@pytest.mark.parametrize(
    "command", [["conf", "check"], ["conf", "show", "-c"], ["describe", "-c"], ["run", "--dry-run", "-c"]], ids=" ".join
)
def test_settings_are_read_from_a_pipe_too(command: list[str]) -> None:
    read, write = os.pipe()
    with open(read, "rb"), open(write, "wb") as pipe:
        pipe.write(Path(_ALERTS).read_bytes())
        pipe.close()
        ended = _run(*command, f"/dev/fd/{read}")
    assert ended.exit_code == 0, ended.stderr


@pytest.mark.parametrize("program", [fetch_jars.main, config_schema.main], ids=lambda main: main.__module__)
def test_a_program_that_is_asked_for_help_tells_it_and_does_nothing(
    program: Callable[[list[str]], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        program(["--help"])
    assert (ended.value.code, list(tmp_path.iterdir())) == (0, [])


@pytest.mark.parametrize(("arguments", "told"), [([], "folder"), ([".jars", "delte"], "Allowed: delta, kafka, broker")])
def test_jars_that_nobody_knows_are_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        fetch_jars.main(arguments)
    assert (ended.value.code, told in capsys.readouterr().err) == (2, True)


def test_versions_are_told_for_a_report_of_an_error() -> None:
    ended = _run("--version")
    assert ended.exit_code == 0
    assert re.fullmatch(r"delta-versioned \d[\w.]*, pyspark 4\.[\w.]*, delta-spark 4\.[\w.]*", ended.stdout.strip())


def test_help_lists_the_commands_in_the_order_of_their_names() -> None:
    group: Any = typer.main.get_command(app)
    assert group.list_commands(typer.Context(group)) == sorted(group.commands)


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


def test_a_file_that_cannot_be_read_hides_no_other_one(tmp_path: Path) -> None:
    ended = _run("conf", "check", str(tmp_path / ("x" * 300)), str(tmp_path), _ALERTS)
    assert (ended.exit_code, ended.stdout) == (2, f"{_ALERTS}: right\n")
    assert ("File name too long" in ended.stderr, f"{tmp_path}: this is a folder" in ended.stderr) == (True, True)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"a": {"op": "stream", "topic": "r"}}, 'plan.a.topic: "r" has no source'),
        ({"a": {"op": "stream"}}, 'plan.a: "a" has no source'),
        ({"s": {"op": "stream"}, "x": {"op": "suppress", "from": "s", "until": "window_closes"}}, "plan.x.from"),
        ("no_such_module:build", "plan: no_such_module:build is not there"),
        ("jobs.exit_codes:exit_code", "plan_settings: missing a required argument"),
        ("jobs.fetch_jars:WANTED", "no function but dict"),
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


@pytest.mark.parametrize(
    ("name", "told"), [("unread", "sources.unread: nothing in the plan reads it"), ("orders-v1", "is not allowed")]
)
def test_a_source_that_nothing_reads_or_that_can_be_no_column_is_found_by_the_check(
    name: str, told: str, tmp_path: Path
) -> None:
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    said["sources"][name] = {"format": "rate", "sequence_by": "value"}
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert told in _run("conf", "check", str(file)).stderr


_COUNTS: dict[str, Any] = {
    "application": "a",
    "root": "r",
    "sources": {"s": {"format": "rate"}},
    "plan": {
        "s": {"op": "table", "store": {"kind": "versioned", "history_retention": "1 day"}},
        "c": {"op": "count", "from": "s", "group_by": ["value"]},
        "o": {"op": "to_latest", "from": "c"},
    },
}


def _counts(tmp_path: Path, path: str, value: Any) -> str:
    """A file of settings with one key changed."""
    said = copy.deepcopy(_COUNTS)
    at, *above, last = said, *path.split("/")
    for name in above:
        at = at.setdefault(name, {})
    at[last] = value
    file = tmp_path / "counts.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("plan/ledger", {"op": "to_latest", "from": "c"}, '"ledger" is reserved'),
        ("plan/_checkpoint", {"op": "to_latest", "from": "c"}, '"_checkpoint" is reserved'),
        ("plan/..", {"op": "to_latest", "from": "c"}, "[legal-names]"),
        ("plan/c/store", {"kind": "key_value", "name": "../x"}, '"../x"'),
        ("plan/c/store", {"kind": "key_value", "name": "final/x"}, '"final/x"'),
        ("plan/c/store", {"kind": "key_value", "name": "rejects"}, '"rejects" is reserved'),
        ("kafka/nosink", {"servers": "b:9092", "topic": "t"}, "no changelog sinks"),
        ("order", "sequence", "needs sequence_by"),
        ("sources/s/sequence_by", [], "sources.s: sequence_by names no column"),
        ("root", "x*y", "root: The path"),
        ("checkpoint", "x*y", "checkpoint: The path"),
        ("sources/s", {"format": "delta", "path": "r/s"}, "of the application itself"),
        (
            "plan/s",
            {
                "op": "table",
                "reorder": "1 h",
                "store": {"kind": "versioned", "history_retention": "1 day", "time_scope": "key"},
            },
            "not per key",
        ),
    ],
)
def test_what_a_start_would_refuse_is_found_by_the_check_and_by_a_dry_run(
    path: str, value: Any, told: str, tmp_path: Path
) -> None:
    file = _counts(tmp_path, path, value)
    for command in (["conf", "check", file], ["run", "-c", file, "-w", str(tmp_path), "--dry-run"]):
        ended = _run(*command)
        assert (ended.exit_code, told in ended.stderr) == (2, True), ended.output


@pytest.mark.parametrize("name", _JOBS)
def test_what_is_shown_are_settings_that_mean_the_same(name: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(_run("conf", "show", "--config", str(_CONF / f"{name}.yaml")).stdout, encoding="utf-8")
    assert load(file, {}) == load(_CONF / f"{name}.yaml", {})


def test_what_is_shown_of_a_source_in_kafka_means_the_same(tmp_path: Path) -> None:
    kafka = {"servers": "b:9092", "topic": "t", "value": "v INT", "key": "k STRING"}
    file, again = Path(_counts(tmp_path, "sources/s", {"kafka": kafka})), tmp_path / "shown.yaml"
    again.write_text(_run("conf", "show", "--config", str(file)).stdout, encoding="utf-8")
    assert load(again, {}) == load(file, {})


def test_a_bound_that_was_taken_away_is_shown(tmp_path: Path) -> None:
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    next(iter(said["sources"].values()))["contract"] = {"max_bytes": None}
    file, again = tmp_path / "any_size.yaml", tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    again.write_text(_run("conf", "show", "--config", str(file)).stdout, encoding="utf-8")
    assert load(again, {}) == load(file, {})


def test_what_is_shown_is_what_is_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSIONED_JOB__TRIGGER", "10 seconds")
    monkeypatch.setenv("VERSIONED_JOB__ORDER", "arrival")
    path = "plan.events_by_hour.windowed_by.grace"
    ended = _run("conf", "show", "-c", _ALERTS, "--set", f"{path}=90 min", "--set", "trigger=5 s", "--json")
    told = json.loads(ended.stdout)
    settings, origins = told["settings"], told["origins"]
    assert (settings["order"], settings["trigger"]) == ("arrival", "5 s")
    assert settings["plan"]["events_by_hour"]["windowed_by"]["grace"] == "1 hour 30 minutes"
    assert settings["max_future_skew"] == "1 day"
    asked = ["order", "trigger", path, "root", "max_future_skew"]
    assert [origins[name] for name in asked] == ["environment", "--set", "--set", "file", "default"]


def test_behind_every_shown_value_stands_where_it_comes_from() -> None:
    ended = _run("conf", "show", "-c", _ALERTS, "--set", "trigger=5 s")
    origin = {line.split(":")[0].strip(): line.rsplit("# ", 1)[1] for line in ended.stdout.splitlines() if "# " in line}
    assert {name: origin[name] for name in ("trigger", "where", "emit")} == {
        "trigger": "--set", "where": "file", "emit": "default",
    }  # fmt: skip
    without = [line for line in ended.stdout.splitlines() if "# " not in line]
    # Only mappings, and the elements of lists, have none.
    assert [line for line in without if not line.endswith(":") and not line.strip().startswith("- ")] == []


def test_nothing_of_a_plan_is_taken_for_a_secret(tmp_path: Path) -> None:
    value = "struct(token=value.token, x=value.x, url='http://a:b@c')"
    file = _counts(tmp_path, "plan/m", {"op": "map_values", "from": "s", "value": value})
    again = tmp_path / "shown.yaml"
    again.write_text(_run("conf", "show", "--config", file).stdout, encoding="utf-8")
    assert load(again, {}) == load(Path(file), {})


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
    ("place", "is_told"),
    [
        ("nowhere", True), ("nowhere/*.json", True), ("there", False), ("th*", False), ("s3a://lake/nowhere", False),
    ],
)  # fmt: skip
def test_a_dry_run_names_files_of_sources_that_are_not_there(tmp_path: Path, place: str, is_told: bool) -> None:
    (tmp_path / "there").mkdir()
    arguments = ["run", "-c", _ALERTS, "-w", str(tmp_path), "--dry-run", "--set", f"sources.events.path={place}"]
    ended = _run(*arguments)
    assert ended.exit_code == 0
    told = ended.stdout.partition("Not there, so that a start would end:\n")[2]
    assert told == (f"  events: {tmp_path / place}\n" if is_told else "")
    assert json.loads(_run(*arguments, "--json").stdout)["missing"] == ([told.strip()] if is_told else [])


def test_a_dry_run_tells_nothing_of_a_path_that_spark_takes_as_it_is(tmp_path: Path) -> None:
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    events = said["sources"]["events"]
    events["options"] = {**events.get("options", {}), "path": events.pop("path")}
    file = tmp_path / "alerts.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    told = json.loads(_run("run", "-c", str(file), "-w", str(tmp_path), "--dry-run", "--json").stdout)
    assert told["missing"] == []


def test_a_dry_run_names_the_tables_that_only_other_settings_make(tmp_path: Path) -> None:
    final = {"op": "suppress", "from": "events_by_hour", "until": "window_closes", "close_idle": True}
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    said["plan"]["final_counts"] = final
    said["suppressed.record.retention.ms"] = 60_000
    file = tmp_path / "idle.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    told = json.loads(_run("run", "-c", str(file), "--work", str(tmp_path), "--dry-run", "--json").stdout)
    assert {Path(table).name for table in told["tables"]} >= {"final_counts", "final_counts_closed"}


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
        (["describe", "-c", str(_CONF / "maintain.yaml")], "application: is missing"),
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


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))
    else:
        yield path, command


_ALL = dict(_commands(typer.main.get_command(app)))


def _options(path: tuple[str, ...]) -> set[str]:
    return {option for parameter in _ALL[path].params for option in parameter.opts}


@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_every_command_speaks_json_and_says_what_it_does(path: tuple[str, ...]) -> None:
    assert "--json" in _options(path)
    assert _ALL[path].help


@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_every_command_that_reads_settings_takes_them_from_the_command_line_too(path: tuple[str, ...]) -> None:
    assert "--config" not in _options(path) or "--set" in _options(path)


@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_every_option_says_what_it_is_and_whether_it_may_be_given_several_times(path: tuple[str, ...]) -> None:
    options = [option for option in _ALL[path].params if option.param_type_name == "option"]
    assert [option.name for option in options if not option.help] == []
    assert [option.name for option in options if option.multiple and "several times" not in option.help] == []


#: What changes tables, and can be asked first what it would do.
_CHANGES = [
    "run", "maintain", "table create", "table add-columns", "suppress drain", "suppress flush", "erase", "backfill",
    "rollback",
]  # fmt: skip


@pytest.mark.parametrize("path", _CHANGES)
def test_every_command_that_changes_tables_has_a_dry_run(path: str) -> None:
    assert "--dry-run" in _options(tuple(path.split()))


@pytest.mark.parametrize(("is_terminal", "seen"), [(True, True), (False, False)])
def test_a_bar_is_shown_on_a_terminal_and_nowhere_else(
    is_terminal: bool, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=is_terminal)
    monkeypatch.setattr("jobs.cli_shared.Console", lambda **_: console)
    with progress() as shown:
        shown.advance(shown.add_task("tables", total=2))
        shown.refresh()
    assert ("tables" in written.getvalue()) is seen


def test_a_plan_is_told_as_json_node_by_node() -> None:
    told = json.loads(_run("describe", "-c", _ALERTS, "--json").stdout)
    assert [node["node"] for node in told] == [
        "events", "events_by_hour", "final_counts", "final_counts_stream", "few_events", "alerts",
    ]  # fmt: skip
    assert told[2] == {
        "node": "final_counts", "role": "windowed table", "reads": ["events_by_hour"],
        "what": ["suppress until the window closes", "unbounded buffer"],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["plan.svg", "plan.html"])
def test_a_plan_is_drawn_into_a_file(name: str, tmp_path: Path) -> None:
    ended = _run("picture", "plan", "-c", _ALERTS, "--out", str(tmp_path / name), "--json")
    told = json.loads(ended.stdout)
    assert (told["file"], len(told["rows"])) == (str(tmp_path / name), 6)
    assert "few_events" in (tmp_path / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["picture", "plan", "-c", _ALERTS, "-o", "plan.png"], "Change the ending"),
        (["picture", "plan", "-c", _ALERTS, "-o", "no/such/plan.svg"], "there is no folder no/such"),
        (["describe", "-c", _ALERTS, "--svg", "no/such/plan.svg"], "--svg no/such/plan.svg: there is no folder"),
        (["picture", "timeline", "a/b", "-o", f"{_ALERTS}/plan.svg"], "alert_few_events.yaml is no folder"),
        (["picture", "timeline", "a/b", "-o", "x" * 300 + ".svg"], "File name too long"),
        (["picture", "timeline", "a/b", "--from", "noon"], "no instant"),
        (["picture", "timeline", "a/b", "--key", "item"], "--key item"),
        (["suppress", "inspect", "-c", _ALERTS, "final_count"], 'did you mean "final_counts"'),
        (["suppress", "drain", "-c", _ALERTS], "Missing argument"),
    ],
)
def test_wrong_pictures_and_suppressions_are_refused_before_spark_starts(arguments: list[str], told: str) -> None:
    ended = _run(*arguments)
    assert (ended.exit_code, told in ended.stderr) == (2, True), ended.stderr


def test_a_plan_without_suppressions_is_told_before_a_name_that_is_none(tmp_path: Path) -> None:
    ended = _run("suppress", "drain", "-c", _counts(tmp_path, "order", "arrival"), "zz")
    assert (ended.exit_code, ended.stderr) == (2, 'Wrong settings: The plan of "a" has no suppression.\n')


def test_a_picture_is_not_drawn_onto_a_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.svg").mkdir()
    ended = _run("picture", "timeline", "a/b", "-o", str(tmp_path / "plan.svg"))
    assert (ended.exit_code, "plan.svg is a folder. Name another one." in ended.stderr) == (2, True)


def test_a_picture_in_a_folder_that_may_not_be_written_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever is root may write everything.
    monkeypatch.setattr("os.access", lambda place, mode: False)
    ended = _run("picture", "timeline", "a/b", "-o", str(tmp_path / "plan.svg"))
    assert (ended.exit_code, f"{tmp_path} may not be written" in ended.stderr) == (2, True)


def test_a_picture_that_cannot_be_written_after_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    for command in (["picture", "plan", "-o"], ["describe", "--svg"]):
        ended = _run(*command, str(tmp_path / "plan.svg"), "-c", _ALERTS)
        assert (ended.exit_code, "No space left on device" in ended.stderr) == (2, True)


_OWN = """
from streams import StreamsBuilder

def build():
    builder = StreamsBuilder()
    builder.stream("s", key="k", value="v", name="{name}").to_changelog("out")
    return builder.build()
"""


def test_a_plan_may_be_built_by_a_module_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "plan_beside_settings.py").write_text(_OWN.format(name="mine"), encoding="utf-8")
    file = tmp_path / "job.yaml"
    said = {"application": "a", "root": "r", "sources": {"s": {"format": "rate"}}, "plan": "plan_beside_settings:build"}
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert _run("conf", "check", str(file)).exit_code == 0
    assert _run("describe", "-c", str(file)).stdout.startswith("mine: stream of topic s")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("def build(:", "plan: {name}:build cannot be imported: SyntaxError: invalid syntax ({name}.py, line 1)"),
        ("\n1 / 0", "plan: {name}:build cannot be imported: ZeroDivisionError: division by zero ({name}.py, line 2)"),
        ("raise SystemExit(0)", "plan: {name}:build cannot be imported: SystemExit: 0 ({name}.py, line 1)"),
        ("import no_such_thing", "plan: {name}:build is not there: No module named 'no_such_thing'"),
        ("def bild():\n    pass", '{name} has no build; did you mean "bild"?'),
        ("def build():\n    return {}['k']", "plan: {name}:build fails: KeyError: 'k' ({name}.py, line 2)"),
        (
            "from streams import functions\ndef build():\n    return functions.lit(len)",
            "plan: {name}:build fails: ArgumentError: The function len is no value. Call it, or wrap it: "
            "functions.python_function. ({name}.py, line 3)",
        ),
        ("def build():\n    raise SystemExit(0)", "plan: {name}:build fails: SystemExit: 0 ({name}.py, line 2)"),
    ],
)
def test_a_fault_in_a_plans_module_is_told_and_hides_no_other_file(module: str, told: str, tmp_path: Path) -> None:
    # No two tests with a module of one name.
    name = f"plan_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(module, encoding="utf-8")
    file = tmp_path / "job.yaml"
    said = {"application": "a", "root": "r", "sources": {"s": {"format": "rate"}}, "plan": f"{name}:build"}
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    ended = _run("conf", "check", str(file), _ALERTS)
    assert (ended.exit_code, ended.stdout) == (2, f"{_ALERTS}: right\n")
    assert told.format(name=name) in ended.stderr


def test_a_transform_of_a_source_that_is_not_there_is_found_by_the_check(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    said = yaml.safe_load(Path(_ALERTS).read_text(encoding="utf-8"))
    said["sources"]["events"]["transform"] = "plan_functions:no_such"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert "sources.events.transform: plan_functions:no_such is not there" in _run("conf", "check", str(file)).stderr
