"""Rules about the code itself, read from its syntax trees: what it never calls, and how it makes SQL."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = ("versioned", "suppress", "streams", "jobs")

#: Calls that make code or objects out of text or bytes.
_NEVER_CALLED: Final = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.unsafe_load",
    "yaml.full_load", "re.compile_user", "F.call_function", "F.java_method", "F.reflect", "F.try_reflect",
}  # fmt: skip
_NEVER_IMPORTED: Final = {"marshal", "shelve", "dill", "joblib", "telnetlib", "ftplib", "http", "requests", "socket"}
#: Where something that is barred elsewhere stands, with the reason.
_IMPORTED_HERE: Final = {
    ("pickle", "suppress/spill.py"): "rows that this process spills into a file of its own, which nobody else sees",
    ("cloudpickle", "jobs/named_function.py"): "ships the modules of a plan to Spark's workers; nothing is read back",
    ("subprocess", "jobs/quickstart.py"): "starts spark-submit with a fixed list of arguments",
    ("importlib", "jobs/named_function.py"): "the user's own functions, by name",
    ("importlib", "jobs/job_plan.py"): "the drawing function beside a plan's",
    ("importlib", "streams/testing/trace_engines.py"): "the adapters of the traces, by a constant name",
}
_BARRED: Final = {"pickle", "cloudpickle", "subprocess", "importlib"}
#: Attributes that reach into the JVM, which Spark Connect does not have.
_JVM: Final = {"_jvm", "_jsc", "_jdf", "_jc", "_jsparkSession", "_sc", "sparkContext"}
_JVM_HERE: Final = {("sparkContext", "streams/testing/trace_spark.py"): "silences the log of the traces' own session"}

#: What tells the time of this machine.
_CLOCKS: Final = {
    "monotonic", "monotonic_ns", "perf_counter", "time_ns", "now", "utcnow", "today",
    "current_timestamp", "current_date", "localtimestamp", "unix_timestamp",
}  # fmt: skip
#: Where one is read or imported, with the reason: no rule depends on it, or the batch keeps what was read.
_CLOCK_HERE: Final = {
    ("time", "versioned/commit.py"): "sleeps between retries",
    ("now", "versioned/system_history.py"): "the system time of a put outside a stream, which the table keeps",
    ("now", "versioned/table.py"): "the future skew of a put outside a stream",
    ("current_timestamp", "streams/spark/sources.py"): "the clock of a batch, which the ledger keeps",
    ("current_timestamp", "streams/spark/reader_options.py"): "the form of a change feed, whose column nobody reads",
    ("now", "streams/spark/erase.py"): "the receipt of an erasure",
    ("time", "streams/spark/doctor.py"): "imports what follows",
    ("time_ns", "streams/spark/doctor.py"): "warns of a clock that is ahead",
    ("time", "streams/spark/started_query.py"): "imports what follows",
    ("monotonic", "streams/spark/started_query.py"): "how long a batch took",
    ("time", "streams/testing/traces.py"): "imports what follows",
    ("monotonic", "streams/testing/traces.py"): "how long the traces took",
    ("time", "streams/testing/trace_spark.py"): "imports what follows",
    ("monotonic", "streams/testing/trace_spark.py"): "how long the traces took",
}

#: What Spark parses as SQL.
_PARSED: Final = {"sql", "expr", "selectExpr"}
_SQL: Final = re.compile(
    r"^\s*(SELECT|CREATE|ALTER|DESCRIBE|OPTIMIZE|VACUUM|REORG|MERGE|DROP|INSERT|DELETE|UPDATE|TBLPROPERTIES|SHOW|RESTORE|"
    r"WITH|FROM|WHERE|AND|OR|NOT|TO_TIMESTAMP|TIMESTAMP) "
)
#: What gives text that is safe in SQL: names and texts quoted, numbers, instants, types with quoted names.
_SAFE_CALLS: Final = {"quote", "text_literal", "int", "instant_literal", "sql_type"}
#: Functions whose texts cannot be proven from the tree alone, with the reason why they are right.
_REVIEWED: Final = {
    ("jobs/ask.py", "answer"): "a person's own question, typed at the prompt",
    ("streams/spark/sql_conditions.py", "sql_condition"): "read word by word against a list, just before",
    ("versioned/merge_sql.py", "text"): "made of the parts below",
    ("versioned/merge_sql.py", "execute"): "made of the parts below",
    ("versioned/merge_sql.py", "whenMatchedUpdate"): "names are quoted here, values by the callers",
    ("versioned/merge_sql.py", "whenNotMatchedInsert"): "names are quoted here, values by the callers",
    ("versioned/merge_sql.py", "_add"): "conditions are constants and quoted names, from the callers of Merge",
    ("versioned/sql.py", "_known"): "its instants are the arguments of a SQL function",
    ("versioned/sql.py", "function"): "the query is made by the lambdas of register_sql, of quoted names",
    ("versioned/sql.py", "select"): "its parts are made in this module and streams/spark/sql_views.py, of quoted names",
    ("versioned/sql.py", "view"): "the query is made by select",
    ("versioned/sql.py", "register_sql"): "arguments are named by the library itself",
}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package in _PACKAGES:
        for file in sorted((_ROOT / package).rglob("*.py")):
            yield str(file.relative_to(_ROOT)), _tree(file)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_code_is_made_of_text() -> None:
    found = [
        (file, node.lineno, _dotted(node.func))
        for file, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _dotted(node.func) in _NEVER_CALLED
    ]
    assert found == []


def test_modules_that_run_or_unpack_what_they_are_given_are_imported_only_where_there_is_a_reason() -> None:
    found = set()
    for file, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {part for alias in node.names for part in alias.name.split(".")}
            elif isinstance(node, ast.ImportFrom) and node.module != "importlib.metadata":  # which imports nothing
                names = {*(node.module or "").split("."), *(alias.name for alias in node.names)}
            else:
                continue
            assert not names & _NEVER_IMPORTED, (file, names & _NEVER_IMPORTED)
            found |= {(name, file) for name in names & _BARRED}
    assert found == set(_IMPORTED_HERE)


def test_nothing_reaches_into_the_jvm() -> None:
    found = {
        (node.attr, file)
        for file, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _JVM
    }
    assert found == set(_JVM_HERE)


def test_a_class_of_streams_is_called_as_no_other_that_is_used_there() -> None:
    trees = [tree for file, tree in _modules() if file.startswith("streams/")]
    own = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    from_below = {
        alias.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("versioned.", "suppress."))
        for alias in node.names
    }
    assert own
    assert {name for name in own if own.count(name) > 1 or name in from_below} == set()


@pytest.mark.rule("R126")
def test_clocks_are_read_only_where_no_rule_depends_on_them() -> None:
    found = {
        (name, file)
        for file, tree in _modules()
        if not file.startswith("jobs/")
        for node in ast.walk(tree)
        if (name := _clock(node))
    }
    assert found == set(_CLOCK_HERE)


@pytest.mark.parametrize(
    ("code", "is_clock"),
    [
        ("import time", True),
        ("now = monotonic", True),
        ("from time import time", True),
        ("import time as t", True),
        ("datetime.datetime.now(timezone.utc)", True),
        ("datetime.utcnow()", True),
        ("date.today()", True),
        ("F.current_timestamp()", True),
        ("F.expr('current_timestamp()')", True),
        ("self.wall_clock.now_us", False),
        ("now()", True),
        ("now = batch.clock_us", False),
        ("node.time + datetime(2026, 1, 1)", False),
        ("from datetime import datetime", False),
    ],
)
def test_the_reading_of_clocks_tells_them_from_times_that_are_given(code: str, is_clock: bool) -> None:
    assert any(_clock(node) for node in ast.walk(ast.parse(code))) is is_clock


def _clock(node: ast.AST) -> str:
    """The clock that is read or imported here; empty = none."""
    if isinstance(node, ast.Import):
        return next((alias.name for alias in node.names if alias.name == "time"), "")
    if isinstance(node, ast.ImportFrom):
        return "time" if node.module == "time" else ""
    if isinstance(node, ast.Constant):
        return str(node.value) if re.match(r"(current_timestamp|now)\(", str(node.value)) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in _CLOCKS else ""
    if isinstance(node, ast.Name):
        return node.id if node.id in _CLOCKS - {"now", "today"} else ""  # as variables are called, too
    return node.attr if isinstance(node, ast.Attribute) and node.attr in _CLOCKS else ""


class _Sql:
    """Whether text that becomes SQL is made of constants, quoted names and numbers alone."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file = file
        self._tree = tree
        self.open: list[str] = []
        self._owners: dict[ast.AST, ast.FunctionDef | None] = {}
        self._own(tree, None)

    def _own(self, node: ast.AST, owner: ast.FunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            self._owners[child] = owner
            self._own(child, child if isinstance(child, ast.FunctionDef) else owner)

    def check(self) -> None:
        for node in ast.walk(self._tree):
            for text in self._texts(node):
                if not self._is_safe(text, frozenset()):
                    owner = self._owners.get(node)
                    if (self._file, owner.name if owner else "") not in _REVIEWED:
                        self.open.append(f"{self._file}:{node.lineno} {ast.unparse(text)[:160]}")  # type: ignore[attr-defined]

    def _texts(self, node: ast.AST) -> Iterator[ast.expr]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARSED:
            # The attribute ``sql`` of a table is no call.
            yield from (arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args)
        elif isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            if isinstance(first, ast.Constant) and _SQL.match(str(first.value)):
                yield node

    def _is_safe(self, node: ast.AST, seen: frozenset[str]) -> bool:
        judge = self._judges.get(type(node))
        return judge is not None and judge(self, node, seen)

    def _all(self, nodes: list[ast.expr], seen: frozenset[str]) -> bool:
        return all(self._is_safe(node, seen) for node in nodes)

    def _joined(self, node: ast.JoinedStr, seen: frozenset[str]) -> bool:
        return all(isinstance(v, ast.Constant) or self._is_safe(v.value, seen) for v in node.values)  # type: ignore[attr-defined]

    def _call(self, node: ast.Call, seen: frozenset[str]) -> bool:
        name = _dotted(node.func).rsplit(".", 1)[-1] or getattr(node.func, "attr", "")
        if name in _SAFE_CALLS:
            return True
        if name == "join" and isinstance(node.func, ast.Attribute):
            return self._is_safe(node.func.value, seen) and self._all(node.args, seen)
        if name == "map":
            return isinstance(node.args[0], ast.Name) and node.args[0].id in _SAFE_CALLS
        if name in ("replace", "removesuffix", "removeprefix", "strip") and isinstance(node.func, ast.Attribute):
            return self._is_safe(node.func.value, seen) and self._all(node.args, seen)
        return self._function_is_safe(name, seen)

    def _function_is_safe(self, name: str, seen: frozenset[str]) -> bool:
        if name in seen:
            return True
        made = _functions().get(name, [])
        made = [found for found in made if found[0] == self._file] or made
        return bool(made) and all(
            _Sql(file, tree)._returns_safe(function, seen | {name}) for file, tree, function in made
        )

    def _returns_safe(self, function: ast.FunctionDef, seen: frozenset[str]) -> bool:
        own = [n for n in ast.walk(function) if isinstance(n, ast.Return) and self._owners.get(n) is function]
        return bool(own) and all(n.value is not None and self._is_safe(n.value, seen) for n in own)

    def _name(self, node: ast.Name, seen: frozenset[str]) -> bool:
        if node.id.lstrip("_").isupper():
            return True  # A constant of a module; their own texts are read like all others.
        owner = self._owners.get(node)
        mark = f"{owner.name if owner else ''}.{node.id}"
        if mark in seen:
            return True
        made = [value for target, value in _assigned(owner or self._tree) if target == node.id]
        if owner is not None and not made:
            return self._argument_is_safe(owner, node.id, seen | {mark})
        return bool(made) and all(self._is_safe(value, seen | {mark}) for value in made)

    def _argument_is_safe(self, function: ast.FunctionDef, name: str, seen: frozenset[str]) -> bool:
        """Whether every call in the packages gives a parameter a safe text."""
        named = [
            argument.arg for argument in (*function.args.args, *function.args.kwonlyargs) if argument.arg != "self"
        ]
        if name not in named:
            return False
        given = []
        for file, tree, call in _calls(self._file, self._tree, function):
            keyword = [word.value for word in call.keywords if word.arg == name]
            place = named.index(name)
            value = keyword[0] if keyword else call.args[place] if place < len(call.args) else None
            # What is left out is the default, a constant of the function itself.
            given.append(value is None or _Sql(file, tree)._is_safe(value, seen))
        return bool(given) and all(given)

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp, seen: frozenset[str]) -> bool:
        targets = {n.id: g.iter for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        if isinstance(node.elt, ast.JoinedStr):
            parts = [v.value for v in node.elt.values if isinstance(v, ast.FormattedValue)]
            return all(
                self._is_safe(targets[part.id] if isinstance(part, ast.Name) and part.id in targets else part, seen)
                for part in parts
            )
        return self._is_safe(node.elt, seen)

    _judges: Final[dict[type, Callable[..., bool]]] = {
        ast.Constant: lambda self, node, seen: True,
        ast.JoinedStr: _joined,
        ast.Call: _call,
        ast.Name: _name,
        ast.Attribute: lambda self, node, seen: node.attr == "sql" or node.attr.lstrip("_").isupper(),
        ast.IfExp: lambda self, node, seen: self._all([node.body, node.orelse], seen),
        ast.BinOp: lambda self, node, seen: self._all([node.left, node.right], seen),
        ast.List: lambda self, node, seen: self._all(node.elts, seen),
        ast.Tuple: lambda self, node, seen: self._all(node.elts, seen),
        ast.Starred: lambda self, node, seen: self._is_safe(node.value, seen),
        ast.Dict: lambda self, node, seen: self._all(node.values, seen),
        ast.UnaryOp: lambda self, node, seen: True,
        ast.Subscript: lambda self, node, seen: self._is_safe(node.value, seen),
        ast.DictComp: lambda self, node, seen: self._is_safe(node.value, seen),
        ast.GeneratorExp: _comprehension,
        ast.ListComp: _comprehension,
    }


def _assigned(owner: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what they are given, also piece by piece."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            yield from _pairs(node.target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for part, each in zip(target.elts, values, strict=True):
            yield from _pairs(part, each)


def _calls(file: str, tree: ast.Module, function: ast.FunctionDef) -> list[tuple[str, ast.Module, ast.Call]]:
    """Who calls a function: by its name, or its module's; a method by any name before the dot."""
    is_method = any(argument.arg == "self" for argument in function.args.args)
    stem = Path(file).stem

    def is_call(node: ast.Call) -> bool:
        before = _dotted(node.func).rpartition(".")[0]
        return bool(before) if is_method else before in ("", stem)

    there = _own_calls() if (_ROOT / file).is_file() else _by_name([(file, tree)])
    return [call for call in there[function.name] if is_call(call[2])]


@cache
def _own_calls() -> dict[str, list[tuple[str, ast.Module, ast.Call]]]:
    return _by_name(_modules())


def _by_name(modules: Iterable[tuple[str, ast.Module]]) -> dict[str, list[tuple[str, ast.Module, ast.Call]]]:
    """All calls by the last part of what they call."""
    found: dict[str, list[tuple[str, ast.Module, ast.Call]]] = defaultdict(list)
    for file, tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found[_dotted(node.func).rpartition(".")[2]].append((file, tree, node))
    return found


@cache
def _functions() -> dict[str, list[tuple[str, ast.Module, ast.FunctionDef]]]:
    found: dict[str, list[tuple[str, ast.Module, ast.FunctionDef]]] = {}
    for file, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append((file, tree, node))
    return found


def _unproven(file: str, tree: ast.Module) -> list[str]:
    sql = _Sql(file, tree)
    sql.check()
    return sql.open


def test_sql_is_made_of_constants_quoted_names_and_numbers() -> None:
    assert [told for file, tree in _modules() for told in _unproven(file, tree)] == []


@pytest.mark.parametrize(
    ("code", "is_safe"),
    [
        ("spark.sql('SELECT 1')", True),
        ("spark.sql(f'VACUUM {target.sql} RETAIN {int(hours)} HOURS')", True),
        ("def f(t, k):\n    where = f' WHERE {quote(k)} = 1'\n    spark.sql(f'SELECT * FROM {t.sql}{where}')", True),
        ("def f(t, ks):\n    spark.sql(f'SELECT {\", \".join(map(quote, ks))} FROM {t.sql}')", True),
        ("def f(t, ks):\n    spark.sql(f'SELECT {\", \".join(quote(k) for k in ks)} FROM {t.sql}')", True),
        ("def f(path):\n    spark.sql(f'DESCRIBE DETAIL delta.`{path}`')", False),
        ("def f(t, key):\n    spark.sql(f\"DELETE FROM {t.sql} WHERE k = '{key}'\")", False),
        ("def f(t, key):\n    where = f\" WHERE k = '{key}'\"\n    spark.sql(f'SELECT * FROM {t.sql}' + where)", False),
        ("def f(text):\n    F.expr(text)", False),
        ("def f(text):\n    frame.selectExpr(*text)", False),
        ("def f(ks):\n    text = f'SELECT {\", \".join(ks)}'", False),
        ("def f(ks):\n    text = f'SELECT {\", \".join(k.name for k in ks)}'", False),
    ],
)
def test_the_reading_of_sql_tells_quoted_names_from_values(code: str, is_safe: bool) -> None:
    assert (_unproven("x.py", ast.parse(code)) == []) is is_safe
