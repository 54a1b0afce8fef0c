"""The error hierarchy: everything that the library raises on purpose is a ``VersionedError``.

Each message says what was wrong, with the numbers, and what to do about it.
"""

from __future__ import annotations


class VersionedError(Exception):
    """Base of every error that this library raises on purpose."""


class ConfigurationError(VersionedError, ValueError):
    """A setting or argument is outside what is allowed. No rows were written."""


class ArgumentError(ConfigurationError, TypeError):
    """A call of the Python API with an argument that it does not take, or without one that it needs."""


class UnknownNameError(ConfigurationError, KeyError):
    """A node, sink or store that a topology does not have, or a counter that does not exist."""

    def __str__(self) -> str:
        # KeyError would show its message in quotes.
        return str(self.args[0])


class TopologyError(VersionedError, ValueError):
    """A plan that can never work, refused when it is built.

    Args:
        rule: The broken rule: a number of docs/reference/rules.md, for example ``"R165"``, or a short slug.
        node: Name of the node that breaks it.
        message: What is wrong and what to do; the error has it as ``said``.
    """

    def __init__(self, rule: str, node: str, message: str) -> None:
        super().__init__(f"{node}: {message} [{rule}]")
        self.rule = rule
        self.node = node
        self.said = message

    def __reduce__(self) -> tuple[type[TopologyError], tuple[str, str, str]]:
        # Process pools pickle errors; one that cannot be rebuilt would make the pool wait for ever.
        return type(self), (self.rule, self.node, self.said)


class SchemaError(VersionedError):
    """A table or an input does not have the columns or types that its contract promises."""


class NotAVersionedTableError(SchemaError):
    """The path or name does not hold a table made by this library."""


class RecordError(VersionedError, ValueError):
    """A single record that breaks its contract (unknown topic, null key, wrong type)."""


class BufferFullError(VersionedError):
    """A strict buffer reached its bound. The batch was not committed; a restart resumes there."""


class CommitError(VersionedError):
    """A write did not land as this batch's own commit."""


class DeliveryError(VersionedError):
    """An external system did not accept what a batch sends. The batch is not done; the next start sends it again."""


class FencedError(CommitError):
    """Another driver, or a newer epoch, owns the table. Stop this one."""


class OvertakenError(CommitError):
    """Somebody else wrote to a versioned table after a batch was judged and before it was written. Put it again."""


class CheckpointMismatchError(VersionedError):
    """The checkpoint and the tables do not belong together. Nothing was written."""


class ReplayMismatchError(VersionedError):
    """A replayed batch has other input, or reads a file that is gone. Operator action: put it back as it was."""


class RetentionError(VersionedError):
    """Maintenance would remove what a replay or the promised history still needs."""


class DataQualityError(VersionedError):
    """Records break a rule that their source declares with ``policy: fail``. Nothing of the batch was written."""


class ExpectationError(VersionedError):
    """An expectation could not be judged: it says nothing about the data. Look at its arguments."""


class InvariantError(VersionedError):
    """Stored rows break an invariant of their table. This is a bug or a foreign write."""


def first_line(said: BaseException | str) -> str:
    """The first line of an error or of its text, without Spark's stack trace; the class of an error without a message.

    >>> first_line(ValueError("Access denied\\n\\tat org.apache.hadoop")), first_line(ValueError()), first_line("")
    ('Access denied', 'ValueError', '')
    """
    line = str(said).strip().partition("\n")[0]
    return type(said).__name__ if not line and isinstance(said, BaseException) else line
