"""Fields that both sides of a join have: the error message, for the plan, the test driver and Spark."""

from __future__ import annotations

from collections.abc import Iterable

#: Names that both sides have: as the left side writes it, and as the right side does.
Shared = list[tuple[str, str]]


def shared_names(left: Iterable[str], right: Iterable[str]) -> Shared:
    """The names that two rows share, sorted, each as both rows write it: Spark ignores their case.

    >>> shared_names(("price", "city"), ("Price", "place"))
    [('price', 'Price')]
    """
    others = {name.lower(): name for name in right}
    return sorted((name, others[name.lower()]) for name in left if name.lower() in others)


def both_have(left: str, right: str, shared: Shared) -> str:
    """The message that two rows share names, with what to write instead in Python and in settings.

    >>> both_have("s", "t", [("a", "a")])[:69]
    "s and t both have ['a']. Pass a joiner that names the fields, such as"
    """
    names = [name for name, _ in shared]
    as_one = [f"{name} and {other}" for name, other in shared if name != other]
    case = f" ({', '.join(as_one)} are one field to Spark, whatever their case)" if as_one else ""
    name, other = shared[0]
    return (
        f"{left} and {right} both have {names}{case}. Pass a joiner that names the fields, such as "
        f'lambda left, right: {{"{name}": left.{name}, "right_{other}": right.{other}}}; in YAML the value: of the '
        f"join, such as {{{name}: left.{name}, right_{other}: right.{other}}}."
    )
