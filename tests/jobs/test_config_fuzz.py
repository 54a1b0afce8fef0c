"""Whatever stands in a file of settings: it is right, or refused by its path; nothing is written, run or looked up."""

from __future__ import annotations

import copy
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from jobs.config_schema import KINDS, checked
from jobs.job_plan import plan_of
from jobs.settings import JobSettings, read
from versioned.errors import ConfigurationError, TopologyError

_CONF: Final = Path(__file__).parents[2] / "conf"
_FILES: Final = sorted(_CONF.glob("*.yaml"))
_MUTATIONS: Final = 2_000
_SEED: Final = 7
#: CI may take a minute; a mutation takes milliseconds.
_MOST_SECONDS: Final = 60
_LONGEST_MESSAGE: Final = 50_000

#: Values that nobody should write: wrong types, too large, hostile, odd.
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 2**31, 2**63, 2**70, -(2**70), 10**400, 0.1, float("inf"), float("nan"), "", " ", "\t",
    "x" * 5_000, "no", "null", "~", "1", "-1", "1e9", "0x10",
    "../../etc/passwd", "/etc/passwd", "a/../../b", "..", ".", "~/x", "file:///etc/passwd", "s3a://bucket/x", "C:\\x",
    "a\nb", "a\x07b", "*", "[a]", "{a}", "`; DROP TABLE t; --", "'; SELECT 1; --", '"', "`", "a`b", "a'b",
    "${jndi:ldap://127.0.0.1/x}", "${HOME}", "$(touch touched)", "{{7*7}}", "%s%n", "<script>", "; rm -rf .",
    "__import__('os').system('touch touched')", "value.__class__.__bases__", "(lambda: 1)()", "[x for x in value]",
    "reflect('java.lang.System', 'exit', 1)", "exec('x')", "eval(value)", "value.a if", "((((((((((1))))))))))",
    "os:system", "subprocess:run", "builtins:eval", "jobs.plan:build", "jobs:nothing", "no.such.module:f", "a:b:c", ":",
    "1 day; rm", "99999999999999999999 days", "-1 day", "1e9 years", "NaN minutes", "1 month", "9" * 5_000 + " days",
    "\u05ea\u05d4", "cafe\u0301", "caf\u00e9", "\U0001f375", "\u202egnp.exe", "\ufeff", "\u2028", "a\u00a0b", "\u0000",
    [], {}, [[]], [None], [1, "a"], {"a": 1}, {"": ""}, {1: 2}, {None: None}, {True: {}}, {"op": "stream"},
    {"op": ["stream"]}, {"kind": {}}, [{"a": [{"b": [{}]}]}], date(2026, 1, 1), datetime(2026, 1, 1), b"bytes",
)  # fmt: skip
_KEYS: Final = (
    "tigger", "", " ", "a.b", "a b", "__class__", "__proto__", "self", "model_config", "validate", "copy", "from", "op",
    "x" * 3_000, "\U0001f375", "../x", "`x`", "'; DROP", "${x}", "\u0000", "name", "1", "null",
)  # fmt: skip
#: Text put into the file as it is.
_TEXTS: Final = (
    "\n\t", ": ", "- ", "&a ", "*a ", "*none ", "<<: *a\n", "!!python/object/apply:os.system ['touch touched']\n",
    "!!python/name:os.system ", "!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!binary ", "!!set ", "!!map ",
    "!!omap ", "!<tag:x> ", "---\n", "...\n", "%YAML 9.9\n", "{", "}", "[", "]", "'", '"', "|\n", ">\n", "#", "? ", "@",
    "`", "\x00", "\ufeff", "\u2028", "2026-99-99", "99:99:99", "0b2", "0o9", ".inf", "[" * 2_000, "{a: " * 500, "\\x",
)  # fmt: skip
_BOMB: Final = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def _paths(said: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a file of settings."""
    pairs = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from _paths(value, (*above, key))


def _mutated(chance: random.Random) -> str:
    """A file of settings with one to three things wrong, or right by chance."""
    text = chance.choice(_FILES).read_text(encoding="utf-8")
    kind = chance.random()
    if kind < 0.25:
        return _text_mutated(text, chance)
    said = yaml.safe_load(text)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _mutate(said, chance)
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True)


def _mutate(said: dict[str, Any], chance: random.Random) -> None:
    places = list(_paths(said))
    if not places:
        return
    *above, key = chance.choice(places)
    holder: Any = said
    for part in above:
        holder = holder[part]
    action = chance.randrange(5)
    if action == 0 and isinstance(holder, dict):
        holder[chance.choice(_KEYS)] = copy.deepcopy(chance.choice(_VALUES))
    elif action == 1 and isinstance(holder, dict):
        holder[chance.choice(_KEYS)] = holder.pop(key)
    elif action == 2:
        del holder[key]
    elif action == 3:
        other = chance.choice(places)
        value: Any = said
        for part in other:
            value = value[part] if isinstance(value, (dict, list)) and _has(value, part) else None
        holder[key] = copy.deepcopy(value)
    else:
        holder[key] = copy.deepcopy(chance.choice(_VALUES))


def _has(value: Any, part: Any) -> bool:
    return part in value if isinstance(value, dict) else isinstance(part, int) and part < len(value)


def _text_mutated(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text))
    action = chance.randrange(5)
    if action == 0:
        return text[:at] + chance.choice(_TEXTS) + text[at:]
    if action == 1:
        return text[:at] + text[at + chance.randrange(1, 40) :]
    if action == 2:
        return text[:at] + chr(chance.choice((0, 7, 9, 127, 133, 160, 0x2028, 0xFEFF, 0x1F375))) + text[at:]
    if action == 3:
        lines = text.splitlines()
        chance.shuffle(lines)
        return "\n".join(lines)
    return chance.choice((_BOMB, text + _BOMB, text * 2, "a: &a [*a]\n", text + "\nx: &x {y: *x}\n", "", "# " + text))


@contextmanager
def _watched() -> Iterator[list[str]]:
    """What a Python program does to the world beside reading files, as Python's own audit tells it."""
    done: list[str] = []
    watching = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching[0]:
            return
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if writes or event in ("os.system", "subprocess.Popen", "socket.connect", "os.remove", "os.mkdir", "os.rename"):
            done.append(f"{event} {arguments[:2]}")

    sys.addaudithook(hook)
    try:
        yield done
    finally:
        watching[0] = False


def _fault(file: Path) -> Exception | None:
    try:
        settings = checked(read(file, {}, {}))
        if isinstance(settings, JobSettings):
            plan_of(settings)
    except (ConfigurationError, TopologyError) as error:
        return error
    return None


_TOP: Final = {field.alias or name for model in KINDS.values() for name, field in model.model_fields.items()}


def _names_a_path(error: Exception, file: Path, text: str) -> bool:
    """Whether a message begins with the file, with a key that the file has or lacks, or with a step's name."""
    message = str(error)
    if message.startswith((str(file), "The settings are nested too deeply")):
        return True
    if isinstance(error, TopologyError):
        return error.node in text
    said = yaml.safe_load(text)
    keys = {str(key) for key in said} | _TOP
    return any(re.match(rf"'?{re.escape(key)}'?[.:]", message) for key in keys)


def test_mutated_settings_are_right_or_refused_by_their_path_and_nothing_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    chance = random.Random(_SEED)
    texts = [_mutated(chance) for _ in range(_MUTATIONS)]
    files = [tmp_path / f"{number}.yaml" for number in range(_MUTATIONS)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for folder in (tmp_path, _CONF) for path in folder.rglob("*")}
    started = time.monotonic()
    with _watched() as done:
        faults = [_fault(file) for file in files]
    seconds = time.monotonic() - started
    assert done == []
    assert {path: path.stat().st_mtime_ns for folder in (tmp_path, _CONF) for path in folder.rglob("*")} == before
    refused = [(fault, file, text) for fault, file, text in zip(faults, files, texts, strict=True) if fault is not None]
    assert len(refused) > _MUTATIONS / 2
    assert [str(fault)[:300] for fault, file, text in refused if not _names_a_path(fault, file, text)] == []
    assert max(len(str(fault)) for fault, _, _ in refused) < _LONGEST_MESSAGE
    assert seconds < _MOST_SECONDS


def test_an_unknown_key_is_told_by_its_whole_path_wherever_it_stands(tmp_path: Path) -> None:
    file, told = tmp_path / "s.yaml", []
    for source in _FILES:
        said = yaml.safe_load(source.read_text(encoding="utf-8"))
        for path in [(), *_paths(said)]:
            changed = copy.deepcopy(said)
            holder: Any = changed
            for part in path:
                holder = holder[part]
            if not isinstance(holder, dict) or _takes_any_key(path):
                continue
            holder["unknwon"] = 1
            file.write_text(yaml.safe_dump(changed), encoding="utf-8")
            fault = _fault(file)
            where = ".".join(map(str, (*path, "unknwon")))
            if not (isinstance(fault, ConfigurationError) and f"{where}:" in str(fault)):
                told.append((source.name, where, str(fault)[:200]))
    assert told == []


def _takes_any_key(path: tuple[Any, ...]) -> bool:
    """Below ``options`` and where rows are named, keys are the user's own."""
    return path[-1:] in (
        ("options",),
        ("value",),
        ("key",),
        ("where",),
        ("group_by",),
        ("group_value",),
        ("foreign_key",),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_BOMB, "aliases make more than 100000 values"),
        ("a: &a [*a]\n", "an alias stands within what it means"),
        ("a: {b: &b {c: *b}}\n", "an alias stands within what it means"),
        ("a: !!int x\n", "does not fit"),
        ("a: 2026-99-99\n", "does not fit"),
        (f"a: {'9' * 5_000}\n", "does not fit"),
        ("a: !!timestamp x\n", "does not fit"),
        ("a: !!bool perhaps\n", "does not fit"),
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("[" * 5_000, "nested too deeply"),
        ("a: 1\n---\nb: 2\n", "but found another document"),
        ("a: " + "x" * (1 << 20), "too large for settings"),
    ],
)
def test_yaml_that_is_a_trap_is_refused_at_once(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "trap.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=re.escape(told)) as refused:
        read(file, {}, {})
    assert str(refused.value).startswith(str(file))


@pytest.mark.parametrize("value", ["*tiger", "!tiger", "!tiger!x y", "!!tiger x", "!<tiger> x"])
def test_a_password_that_reads_as_an_alias_or_a_tag_is_not_told_but_its_place_is(tmp_path: Path, value: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"password: {value}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"line 1, column \d+; write a text .* in quotes") as refused:
        read(file, {}, {})
    assert "tiger" not in str(refused.value)


def test_what_is_wrong_in_yaml_is_told_by_line_and_column_without_the_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("sources:\n  s: {options: {password: 'hunter2}}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 3, column 1") as refused:
        read(file, {}, {})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("place", ["../x", "a/../../x", "/a/../b", "a\nb", "a\x00b", "", " ", "..", "file://a/b"])
@pytest.mark.parametrize("path", ["root", "checkpoint", "sources.s.path", "metrics.prometheus"])
def test_a_path_that_climbs_or_hides_is_refused_by_its_key(place: str, path: str) -> None:
    said: dict[str, Any] = {
        "application": "a", "root": "r", "sources": {"s": {"format": "rate"}}, "metrics": {},
        "plan": {"s": {"op": "stream"}},
    }  # fmt: skip
    holder = said
    *above, key = path.split(".")
    for part in above:
        holder = holder[part]
    holder[key] = f"{place}/x.prom" if key == "prometheus" and place.strip() else place
    with pytest.raises(ConfigurationError, match=re.escape(path)):
        checked(said)
