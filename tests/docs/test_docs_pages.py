"""Every page of the documentation does what it says; what needs Spark is in ``test_docs_on_spark.py``."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import behaviour_table
import doc_blocks
import generated_sections
import pytest
import yaml
from doc_blocks import DOCS, PAGES, PROJECT, BrokenBlockError, blocks_of, check_page

import streams
import streams.spark
import streams.testing
import versioned
from jobs.plan_settings import Plan
from jobs.session import DELTA
from streams import reasons, recovery_rules
from streams.driver.registry import OPERATORS
from streams.driver.store_view import StoreView
from streams.metrics import COUNTERS
from streams.spark import StreamingApplication, doctor, recovery
from streams.spark.ledger import _COLUMNS as LEDGER_COLUMNS
from streams.spark.rejects import _SCHEMA as REJECTS_SCHEMA
from streams.testing import TopologyTestDriver

_IDS = [str(page.relative_to(DOCS)) for page in PAGES]
_GOOD = {
    "python": "print(1 + 1)",
    "yaml": "plan:\n  clicks: {op: stream, key: user}",
    "bash": "versioned conf check conf/quickstart.yaml",
}


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _block(language: str, text: str) -> str:
    return f"# Title\n\n```{language}\n{text}\n```\n"


def _nav(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _nav(inner)


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_block_of_a_page_does_what_the_page_says(page: Path) -> None:
    check_page(page.read_text(encoding="utf-8"))


def test_the_pages_have_blocks_of_every_kind() -> None:
    found = [block for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8"))]
    languages = {language: sum(block.language == language for block in found) for language in (*_GOOD, "text")}
    assert all(number >= 5 for number in languages.values()), languages


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_a_broken_block_on_any_page_is_found(page: Path) -> None:
    with pytest.raises(BrokenBlockError, match="NameError: name 'undefined_name' is not defined"):
        check_page(page.read_text(encoding="utf-8") + "\n" + _block("python", "undefined_name"))


@pytest.mark.parametrize("language", _GOOD)
def test_a_right_block_is_checked_and_passes(language: str) -> None:
    assert check_page(_block(language, _GOOD[language])) == 1


@pytest.mark.parametrize(
    ("language", "text", "reason"),
    [
        ("python", "print(", "SyntaxError"),
        ("python", "raise SystemExit(0)", "SystemExit"),
        ("python", "assert 1 == 2", "AssertionError"),
        ("python", "print(1)\n```\n\n```text\n2", "it prints\n1"),
        ("python", "print(1)\n```\n\n```yaml\nplan: {}\n```\n\n```text\n1", "what the Python block before it prints"),
        ("yaml", "plan:\n  clicks: {op: strem, key: user}", '"strem" is unknown; did you mean "stream"'),
        ("yaml", "plan:\n  clicks: {op: stream, kye: user}", "unknown key; did you mean"),
        ("yaml", "plan:\n  slow: {op: filter, from: clicks, where: true}", "clicks"),
        ("yaml", "plan: [", "not readable as YAML"),
        ("yaml", "root: tables\nvacum: true", "unknown key"),
        ("yaml", (PROJECT / "conf" / "quickstart.yaml").read_text(encoding="utf-8") + "orde: x", "unknown key"),
        ("bash", "make quickstat", "no such target"),
        ("bash", "versioned rum", "no command"),
        ("bash", "versioned run --confg x.yaml", "confg"),
        ("bash", "versioned run", "config"),
        ("bash", "versioned conf check conf/nothing.yaml", "no such file"),
        ("bash", "VERSIONED_JOB__TIGGER=1 versioned describe --config conf/quickstart.yaml", "unknown key"),
        ("bash", "VERSIONED_JOB__TRIGGER=1 versioned describe --config mine.yaml", "nothing reads them"),
        ("bash", "spark-submit jobs/runn.py", "no such file"),
        ("bash", f"spark-submit --packages {DELTA} jobs/run.py --confg x.yaml", "does not know --confg"),
        ("bash", "spark-submit --propertys-file conf/spark-defaults.conf jobs/run.py", "spark-submit --propertys-file"),
        ("bash", "spark-submit jobs/run.py --config conf/quickstart.yaml", "not told where Delta Lake is"),
        ("bash", "spark-submit --packages io.delta:delta-spark_4.2_2.13:9.9 jobs/run.py", "not told where Delta Lake"),
        ("bash", f"spark-submit --packages {DELTA},a:b:1 jobs/run.py", "a:b:1 is none of the packages"),
        ("bash", "python -m jobs.askk", "no such program"),
        ("bash", 'pip install -e ".[dosc]"', "no extra dosc"),
        ("bash", "rm -rf tables", "no command that is checked"),
        ("java", "int x;", 'nothing checks blocks of language "java"'),
        ("", "anything", 'nothing checks blocks of language ""'),
    ],
)
def test_a_broken_block_is_found_with_the_reason(language: str, text: str, reason: str) -> None:
    with pytest.raises(BrokenBlockError, match=re.escape(reason)):
        check_page(_block(language, text))


def test_a_block_that_is_not_closed_is_found() -> None:
    with pytest.raises(BrokenBlockError, match="line 3: the block is not closed"):
        blocks_of("# Title\n\n```python\nprint(1)\n")


def test_an_indented_block_is_a_block() -> None:
    (block,) = blocks_of("* one\n\n    ```python\n    print(1)\n    ```\n")
    assert (block.language, block.text) == ("python", "print(1)\n")


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_generated_sections_are_what_the_code_says_now(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generated_sections.renewed(text) == text, "run: python tests/docs/generated_sections.py"


def test_every_generated_section_stands_on_one_page() -> None:
    found = [name for page in PAGES for name in generated_sections.names_of(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(generated_sections.SECTIONS)


def test_a_changed_section_is_found() -> None:
    text = _page("reference/behaviour.md").replace("result, not latest", "result", 1)
    assert generated_sections.renewed(text) != text


def test_operations_say_what_to_do_about_everything_that_the_doctor_finds() -> None:
    section = _page("operations.md").split("## Checkpoint and recovery")[1].split("\n## ")[0]
    told = {
        name for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE) for name in re.findall("`([a-z-]+)`", row)
    }
    modules = (recovery_rules, recovery, doctor)
    assert told == {rule for module in modules for rule in _rules_named_in(module)} - {"other-driver"}


def _rules_named_in(module: ModuleType) -> Iterator[str]:
    """The first argument of each finding that a module makes."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("found", "Finding"):
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield str(name.value)


@pytest.mark.parametrize("operator", behaviour_table.OPERATORS, ids=lambda operator: operator.name)
def test_every_operator_rejects_a_record_without_time(operator: behaviour_table.Operator) -> None:
    assert "rejected `NULL_TS`" in behaviour_table.happens(operator, behaviour_table.NULL_TIME)


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(_nav(settings["nav"])) == sorted(_IDS)


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_link_of_a_page_leads_to_a_page_and_a_heading(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue  # no test asks the network
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.is_file() or (anchor and anchor not in _anchors(goal)):
            broken.append(target)
    assert broken == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:conf|jobs|tests|streams|suppress|versioned)/[\w./*-]+)`", page.read_text(encoding="utf-8")
    )
    homes = (PROJECT, PROJECT / "streams" / "spark")
    assert [name for name in named if not any(any(home.glob(name.rstrip("/"))) for home in homes)] == []


_MODULES = [
    file.relative_to(PROJECT)
    for package in ("versioned", "suppress", "streams", "jobs")
    for file in sorted((PROJECT / package).rglob("*.py"))
]


def test_every_folder_of_modules_is_on_the_map_of_the_architecture() -> None:
    assert {str(file.parent) for file in _MODULES} == set(generated_sections.FOLDERS)


@pytest.mark.parametrize("module", _MODULES, ids=str)
def test_the_first_line_of_each_module_says_what_it_is(module: Path) -> None:
    told = ast.get_docstring(ast.parse((PROJECT / module).read_text(encoding="utf-8"))) or ""
    assert re.fullmatch(r"[^\n]+\.", told.partition("\n")[0]), "a sentence for docs/architecture.md"


def test_the_architecture_names_each_operator_whose_module_is_called_otherwise_on_spark() -> None:
    told = _page("architecture.md").split("<!-- other names -->")[1].split("<!-- end of other names -->")[0]
    of_driver = {operator.__module__.rpartition(".")[2] for operator in OPERATORS.values()}
    on_spark = {file.stem for file in (PROJECT / "streams" / "spark").glob("*.py")}
    assert set(re.findall(r"`driver/(\w+)\.py`", told)) == of_driver - on_spark


def _cells(section: str) -> list[str]:
    text = re.search(r"<!-- names -->\n(.*?)<!-- end of names -->", section, re.DOTALL)
    assert text is not None
    rows = text[1].splitlines()[2:]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.split("|")[2])]


_NAMES = vars(streams) | {
    "StoreView": StoreView,
    "StreamingApplication": StreamingApplication,
    "TopologyTestDriver": TopologyTestDriver,
}


def _resolved(code: str) -> None:
    """A name such as ``KStream.join(other, joined=)`` is there, and takes these arguments.

    Raises:
        AttributeError, KeyError: there is no such name.
        TypeError: it does not take the arguments.
    """
    tree = ast.parse(code.replace("=)", "=0)").replace("=,", "=0,"), mode="eval").body
    call, function = (tree, tree.func) if isinstance(tree, ast.Call) else (None, tree)
    owner, _, member = ast.unparse(function).partition(".")
    found = getattr(_NAMES[owner], member) if member else _NAMES[owner]
    if call is None:
        # Stores are made when a driver is.
        return
    taken = inspect.signature(found).parameters
    is_bound = "self" not in taken
    named = [word.arg for word in call.keywords] + [ast.unparse(argument) for argument in call.args]
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    unknown = [name for name in named if name not in taken and not (passes_on and is_known_option(owner, name))]
    if unknown:
        raise TypeError(f"{code}: no arguments {unknown}; there are {list(taken)[0 if is_bound else 1 :]}")


def is_known_option(owner: str, name: str) -> bool:
    """Whether some private method of the class takes the option that a public one passes on."""
    methods = [method for _, method in inspect.getmembers(_NAMES[owner], inspect.isfunction)]
    return any(name in inspect.signature(method).parameters for method in methods)


@pytest.mark.parametrize("code", _cells(_page("migration/kafka-streams.md")))
def test_every_name_in_the_migration_table_is_there_with_its_arguments(code: str) -> None:
    if code == "TopologyTestDriver.stores":
        code = "TopologyTestDriver(topology)"
    _resolved(code)


@pytest.mark.parametrize(
    "code", ["KStream.flat_map(mapper)", "KStream.filter(predikate)", "KStream.join(other, joined_with=)"]
)
def test_a_name_or_argument_that_is_not_there_is_found(code: str) -> None:
    with pytest.raises((AttributeError, TypeError)):
        _resolved(code)


@pytest.mark.parametrize(
    "name",
    ["merge", "flat_map", "flat_map_values", "repartition", "cogroup", "process", "peek", "foreach", "print", "split"],
)
def test_what_the_migration_page_says_is_missing_is_missing(name: str) -> None:
    assert not hasattr(streams.KStream, name)
    assert not hasattr(streams.KGroupedStream, name)


def test_every_departure_of_kafka_in_the_traces_is_explained() -> None:
    marks: set[str] = set()
    for file in (PROJECT / "tests" / "traces").glob("*.json"):
        for scenario in json.loads(file.read_text(encoding="utf-8")):
            said = scenario.get("kafka", [])
            for part in [said] if isinstance(said, dict) else said:
                because = part["because"]
                marks |= {because} if isinstance(because, str) else set(because)
    text = _page("migration/kafka-streams.md")
    assert marks
    assert [mark for mark in marks if f"`{mark}`" not in text] == []


@pytest.mark.parametrize("column", LEDGER_COLUMNS)
def test_every_column_of_the_ledger_is_explained(column: str) -> None:
    section = _page("operations.md").split("## The ledger")[1].split("\n## ")[0]
    assert re.search(rf"^\|[^|]*`{column}`[^|]*\|", section, re.MULTILINE)


@pytest.mark.parametrize("count", sorted(COUNTERS))
def test_every_count_of_a_node_is_explained(count: str) -> None:
    section = _page("operations.md").split("## The ledger")[1].split("\n## ")[0]
    assert re.search(rf"^\|[^|]*`{count}`[^|]*\|", section, re.MULTILINE)


def test_every_reason_of_a_reject_is_explained() -> None:
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    section = _page("operations.md").split("## Rejects")[1].split("\n## ")[0]
    explained = set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE))
    # A look-up without a match, or of a deleted key, is an answer and no reject.
    assert codes - explained == {"NO_MATCH", "TOMBSTONE"}
    assert explained <= codes


def test_every_reason_of_an_invalid_record_is_explained_where_its_action_is_chosen() -> None:
    section = _page("how-to/bad-input.md").split("## What becomes of a bad record")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE)) == set(reasons.INVALID)


def test_the_rejects_have_the_columns_that_the_page_asks_for() -> None:
    assert all(f"{column} " in REJECTS_SCHEMA for column in ("node", "reason", "ts", "record"))


@pytest.mark.parametrize("column", [column.split()[0] for column in REJECTS_SCHEMA.split(", ")])
def test_every_column_of_the_rejects_is_explained(column: str) -> None:
    section = _page("operations.md").split("## Rejects")[1].split("\n## ")[0]
    assert re.search(rf"^\|[^|]*`{column}`[^|]*\|", section, re.MULTILINE)


def test_every_operation_of_a_plan_has_a_table_of_its_keys() -> None:
    text = _page("reference/configuration.md")
    members = re.findall(r"plan_settings\.(\w+Step)\b", repr(Plan))
    assert members
    assert [name for name in members if f"### {name}\n" not in text] == []


def _on_the_page_of_names() -> list[Any]:
    """What the page of Python names shows: each must be there."""
    return [pkgutil.resolve_name(name) for name in re.findall(r"^::: (\S+)$", _page("reference/api.md"), re.MULTILINE)]


def _is_shown(public: Any, shown: list[Any]) -> bool:
    return public in shown or getattr(public, "__module__", None) in {
        module.__name__ for module in shown if isinstance(module, ModuleType)
    }


@pytest.mark.parametrize("package", [versioned, streams, streams.spark, streams.testing], ids=lambda p: p.__name__)
def test_the_page_of_names_has_every_name_that_a_package_exports(package: ModuleType) -> None:
    shown = _on_the_page_of_names()
    assert [name for name in package.__all__ if not _is_shown(getattr(package, name), shown)] == []


def test_the_page_of_names_has_what_other_pages_import() -> None:
    shown = _on_the_page_of_names()
    text = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, PROJECT / "README.md"])
    lines = re.findall(r"^from ((?:versioned|suppress|streams|jobs)\b\S*) import (\w.*)$", text, re.MULTILINE)
    imported = {f"{module}:{name}" for module, names in lines for name in names.split(", ")}
    assert len(imported) > 20
    # How settings are read and shown is no interface, nor is the plan of the quickstart.
    inner = ("jobs.layers:", "jobs.settings:", "jobs.shown:", "jobs.quickstart_plan:")
    missing = [name for name in imported if not _is_shown(pkgutil.resolve_name(name), shown)]
    assert [name for name in missing if not name.startswith(inner)] == []


#: What those who write plans and run them only pass on.
_PASSED_ON = {
    "Expr",
    "JobSettings",
    "Node",
    "Processor",
    "RecoverySurvey",
    "TableRef",
    "UntilTimeLimit",
    "UntilWallClockTimeLimit",
    "UntilWindowCloses",
}


def test_the_page_of_names_has_what_the_calls_that_it_shows_give() -> None:
    shown = _on_the_page_of_names()
    given = {kind for public in shown for kind in _given_by(public) if not _is_shown(kind, shown)}
    assert {kind.__name__ for kind in given} - _PASSED_ON == set()


def _given_by(public: Any) -> Iterator[type]:
    """The classes of ours that a call, or the calls and properties of a class or a module, are annotated to give."""
    if inspect.ismodule(public):
        for name, member in vars(public).items():
            if name[0] != "_" and getattr(member, "__module__", None) == public.__name__:
                yield from _given_by(member)
        return
    members = [member for name, member in inspect.getmembers(public) if name[0] != "_"]
    for call in members if inspect.isclass(public) else [public]:
        function = call.fget if isinstance(call, property) else call
        if inspect.isfunction(function) or inspect.ismethod(function):
            yield from _classes_in(_hints(function).get("return"))
    if dataclasses.is_dataclass(public):
        yield from _classes_in(tuple(kind for name, kind in _hints(public).items() if name[0] != "_"))


def _hints(public: Any) -> dict[str, Any]:
    try:
        return get_type_hints(public)
    except NameError:  # of a name that only the type checker imports
        return {}


def _classes_in(kind: Any) -> Iterator[type]:
    if inspect.isclass(kind) and kind.__module__.partition(".")[0] in ("versioned", "suppress", "streams", "jobs"):
        yield kind
    for part in kind if isinstance(kind, tuple) else get_args(kind):
        yield from _classes_in(part)


def test_docstrings_are_shown_with_their_examples_as_code_and_without_roles() -> None:
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said = "As :meth:`join` of ``a``.\n\n    >>> f(1)\n    [1]\n\nThen text; :class:`~a.b.C`."
    shown = "As `join` of ``a``.\n\n    ```pycon\n    >>> f(1)\n    [1]\n    ```\n\nThen text; `C`."
    assert module.as_markdown(said) == shown


def test_what_checks_a_block_is_told_at_the_top_of_its_module() -> None:
    assert all(f"``{language}" in str(doc_blocks.__doc__) for language in (*_GOOD, "text", "sql"))
