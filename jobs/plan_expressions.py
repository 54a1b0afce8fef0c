"""Expressions in settings: turns short text such as ``"value.delay > 15"`` into an expression of the DSL.

The text is read with Python's grammar and never run: each piece of it is either on the list of what is allowed, and
translated, or refused with what is allowed. ``and``, ``or``, ``not``, ``in``, ``is None`` and ``a if c else b`` work
here, besides everything of ``streams.functions``.

>>> parse_expression("upper(value.city) if value.delay > 15 else None", ROW)
case(value.delay > 15, upper(value.city), None)
>>> parse_expression("value.delay.total()", ROW)
Traceback (most recent call last):
versioned.errors.ConfigurationError: "value.delay.total()": "value.delay.total" is no function. Allowed: cast, ...
"""

from __future__ import annotations

import ast
import inspect
import keyword
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

from streams import functions
from streams.casts import LARGEST, SMALLEST
from streams.expressions import Expr, as_expr
from streams.field_checks import no_field
from versioned.errors import ConfigurationError
from versioned.given import close

#: The rows that an expression over one record may use, and those for an expression over both sides of a join.
ROW: Final = ("key", "value")
SIDES: Final = ("key", "left", "right")
#: The fields of each row; None where the plan does not show them.
Known = Mapping[str, tuple[str, ...] | None]

_LONGEST: Final = 4_000
#: A field whose name is a keyword of Python.
_WORD: Final = re.compile(rf"(\w+)\s*\.\s*({'|'.join(keyword.kwlist)})\b")
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        functions.cast, functions.coalesce, functions.concat, functions.greatest, functions.is_in, functions.is_null,
        functions.least, functions.length, functions.lower, functions.merge, functions.starts_with, functions.struct,
        functions.substring, functions.substring_after, functions.substring_before, functions.upper, functions.when,
    )
}  # fmt: skip
#: Arguments that must be known when the plan is built.
_CONSTANTS: Final = {"cast": ("kind",), "substring": ("start", "length")}
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}  # fmt: skip
#: Operators that Python binds before comparisons (``a & b == c`` is ``(a & b) == c``), and the words to write instead.
_WORDS: Final[dict[type[ast.operator | ast.unaryop], tuple[str, str]]] = {
    ast.BitAnd: ("&", "and"), ast.BitOr: ("|", "or"), ast.Invert: ("~", "not"),
}  # fmt: skip
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_SYNTAX: Final = (
    "fields, constants, + - * / %, comparisons (== != < <= > >=), and or not, in (...), is None, a if c else b, "
    "functions"
)
#: What constants are called in YAML, JSON and SQL, in lower case, and what to write here.
_CONSTANT_WORDS: Final = {
    "true": "Write True.",
    "false": "Write False.",
    "null": 'Write None; "is None" asks for it.',
    "none": 'Write None; "is None" asks for it.',
}


def parse_expression(said: Any, names: tuple[str, ...], known: Known | None = None, *, field: bool = False) -> Expr:
    """The expression that a text, or a plain constant of YAML, stands for.

    Args:
        said: The text; a number, true, false or null stands for itself.
        names: The rows it may use.
        known: The fields of these rows, as far as they are known; other fields are refused.
        field: Whether a name alone is a field of the value.

    Raises:
        ConfigurationError: with the text, what is wrong in it, and what is allowed.

    >>> parse_expression("value.a + 1", ROW), parse_expression("carrier", ROW, field=True), parse_expression(3, ROW)
    (value.a + 1, value.carrier, 3)
    """
    if not isinstance(said, str):
        return as_expr(_constant(said))
    text = said.strip()
    if field and text.isidentifier() and text not in (*names, "None", "True", "False"):
        text = f"value[{text!r}]"
    try:
        expr = _Reader(names, known or {}).read(_tree(text))
    except ConfigurationError as error:
        raise ConfigurationError(f'"{said}": {error}') from None
    except (RecursionError, MemoryError):
        raise ConfigurationError(f'"{said[:40]}...": nested too deeply.') from None
    return as_expr(expr)


def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ConfigurationError(f"{len(text)} characters is too long for an expression (at most {_LONGEST}).")
    try:
        with warnings.catch_warnings():
            # Python would print its warnings, which are meant for source code and name no setting.
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        if found := _WORD.search(text):
            raise ConfigurationError(f'"{found[0]}" is no field here. Write {found[1]}["{found[2]}"].') from None
        raise ConfigurationError(f"not an expression ({getattr(error, 'msg', error)}). Allowed: {_SYNTAX}.") from None


def _constant(value: Any) -> Any:
    if value is not None and not isinstance(value, (str, bool, int, float)):
        kind = type(value).__name__
        way = " Write fields within a field as struct(x=value.a)." if isinstance(value, dict) else ""
        raise ConfigurationError(f"a {kind} is no constant here. Allowed: texts, numbers, True, False, None.{way}")
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        raise ConfigurationError(f"{value} does not fit in 64 bits. Write it as a double: {value}.0")
    return value


def _word_for(sign: ast.operator | ast.unaryop) -> str | None:
    written, word = _WORDS.get(type(sign), ("", ""))
    return f'write "{word}" for {written}, which Python binds before comparisons.' if word else None


def _options(right: ast.expr) -> list[ast.expr]:
    """What comes after ``in``: a list, or one constant, since Python reads ``('x')`` as ``'x'``."""
    if isinstance(right, (ast.Tuple, ast.List)):
        return right.elts
    number = right.operand if isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub) else right
    if isinstance(number, ast.Constant):
        return [right]
    raise ConfigurationError(f'"in {ast.unparse(right)}": in takes a list, of one thing too: [{ast.unparse(right)}].')


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def written(row: str, name: str) -> str:
    """How to write a field of a row in an expression.

    >>> written("key", "tail"), written("key", "class")
    ('key.tail', 'key["class"]')
    """
    return f"{row}.{name}" if name.isidentifier() and not keyword.iskeyword(name) else f'{row}["{name}"]'


class _Reader:
    """Translates a syntax tree, node by node; constants stay plain values until an operator uses them."""

    def __init__(self, names: tuple[str, ...], known: Known) -> None:
        self._names = names
        self._known = known
        self._kinds: dict[type[ast.expr], Callable[[Any], Any]] = {
            ast.Constant: lambda node: _constant(node.value),
            ast.Name: self._name,
            ast.Attribute: lambda node: self._field(node.value, node.attr),
            ast.Subscript: self._subscript,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._logical,
            ast.Compare: self._compare,
            ast.IfExp: self._choice,
            ast.Call: self._call,
            ast.Dict: self._dict,
        }

    def read(self, node: ast.expr) -> Any:
        """Translate a whole expression."""
        made = self._read(node)
        if isinstance(made, functions.When):
            raise ConfigurationError("a chain of when(...) ends with .otherwise(...).")
        return made

    def _read(self, node: ast.expr) -> Any:
        translate = self._kinds.get(type(node))
        if translate is None:
            raise ConfigurationError(f'"{ast.unparse(node)}" is not allowed here. Allowed: {_SYNTAX}.')
        return translate(node)

    def _expr(self, node: ast.expr) -> Expr:
        return as_expr(self.read(node))

    def _name(self, node: ast.Name) -> Expr:
        if node.id in self._names:
            return Expr("ref", node.id)
        row = next(name for name in self._names if name != "key")
        meant = close(node.id, self._names)
        constant = _CONSTANT_WORDS.get(node.id.lower())
        field_or_text = f'Write "{row}.{node.id}" for a field, "\'{node.id}\'" for a text.'
        hint = constant or (field_or_text if meant is None else f'Did you mean "{meant}"?')
        raise ConfigurationError(f'there is no "{node.id}"; known are {", ".join(self._names)}. {hint}')

    def _field(self, of: ast.expr, name: str) -> Expr:
        row = self._expr(of)
        fields = self._known.get(of.id) if isinstance(of, ast.Name) else None
        if isinstance(of, ast.Name) and fields is not None and name not in fields:
            elsewhere = f". The key has it: {written('key', name)}" if name in (self._known.get("key") or ()) else ""
            raise ConfigurationError(no_field(of.id, name, {of.id: fields}) + elsewhere)
        return row[name]

    def _subscript(self, node: ast.Subscript) -> Expr:
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
            raise ConfigurationError(f'"{ast.unparse(node)}": brackets take a field, such as value["class"].')
        return self._field(node.value, node.slice.value)

    def _binary(self, node: ast.BinOp) -> Any:
        symbol = _BINARY.get(type(node.op))
        if symbol is None:
            raise ConfigurationError(f'"{ast.unparse(node)}": {_word_for(node.op) or "operators are + - * / %."}')
        return symbol(self._expr(node.left), self._expr(node.right))

    def _unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.USub):
            value = node.operand.value if isinstance(node.operand, ast.Constant) else None
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return _constant(-value)  # Check it only once negated: the least number has no positive counterpart.
            return -self._expr(node.operand)
        if isinstance(node.op, ast.Not):
            return ~self._expr(node.operand)
        raise ConfigurationError(f'"{ast.unparse(node)}": {_word_for(node.op) or "a sign before a value is - or not."}')

    def _logical(self, node: ast.BoolOp) -> Any:
        symbol = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        return reduce(symbol, [self._expr(value) for value in node.values])

    def _compare(self, node: ast.Compare) -> Any:
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return reduce(operator.and_, [self._compare_two(*pair) for pair in pairs])

    def _compare_two(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        is_none = _is_none(right)
        if isinstance(op, (ast.Is, ast.IsNot)) and is_none:
            test = functions.is_null(self._expr(left))
            return test if isinstance(op, ast.Is) else ~test
        if isinstance(op, (ast.In, ast.NotIn)) and not is_none:
            found = functions.is_in(self._expr(left), *map(self._expr, _options(right)))
            return found if isinstance(op, ast.In) else ~found
        symbol = _COMPARISONS.get(type(op))
        if symbol is None or is_none or _is_none(left):
            raise ConfigurationError('comparisons are == != < <= > >=, in (...), and "is None" for null.')
        return symbol(self._expr(left), self._expr(right))

    def _choice(self, node: ast.IfExp) -> Expr:
        return functions.when(self._expr(node.test), self._expr(node.body)).otherwise(self._expr(node.orelse))

    def _dict(self, node: ast.Dict) -> Expr:
        if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys):
            raise ConfigurationError(f'"{ast.unparse(node)}": the fields of a row are named by texts.')
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        return as_expr(dict(zip(names, map(self._expr, node.values), strict=True)))

    def _call(self, node: ast.Call) -> Any:
        function = self._function(node.func)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise ConfigurationError("* is not allowed before an argument.")
        arguments = [self.read(argument) for argument in node.args]
        named = {word.arg: self.read(word.value) for word in node.keywords if word.arg is not None}
        if len(named) != len(node.keywords):
            raise ConfigurationError("** is not allowed before an argument.")
        try:
            given = inspect.signature(function).bind(*arguments, **named).arguments
        except TypeError as error:
            raise ConfigurationError(f"{ast.unparse(node)}: {error}.") from None
        for name in _CONSTANTS.get(getattr(function, "__name__", ""), ()):
            if isinstance(given[name], Expr):
                raise ConfigurationError(f"{ast.unparse(node)}: {name} is a constant.")
        made = function(*arguments, **named)
        if not given:  # Functions of any number of arguments need at least one.
            raise ConfigurationError(f"{ast.unparse(node)}: give at least one value.")
        return made

    def _function(self, node: ast.expr) -> Callable[..., Any]:
        if isinstance(node, ast.Name) and node.id in FUNCTIONS:
            return FUNCTIONS[node.id]
        if isinstance(node, ast.Attribute) and node.attr in ("when", "otherwise") and isinstance(node.value, ast.Call):
            chain = self._read(node.value)
            if isinstance(chain, functions.When):
                return chain.when if node.attr == "when" else chain.otherwise
        raise ConfigurationError(f'"{ast.unparse(node)}" is no function. Allowed: {", ".join(FUNCTIONS)}.')
