"""The error hierarchy: everything that the library raises on purpose is a ``VersionedError``.

Each message says what was wrong, with the numbers, and what to do about it.
"""

from __future__ import annotations


class VersionedError(Exception):
    """Base class of every error that this library raises on purpose."""


class ConfigurationError(VersionedError, ValueError):
    """A setting or argument is outside what is allowed. No rows were written."""


class ArgumentError(ConfigurationError, TypeError):
    """A call of the Python API has an unexpected argument, or lacks a required one."""


class UnknownNameError(ConfigurationError, KeyError):
    """A topology has no node, sink or store of this name, or there is no such counter."""

    def __str__(self) -> str:
        # KeyError would show its message in quotes.
        return str(self.args[0])


class TopologyError(VersionedError, ValueError):
    """A plan can never work; it is refused when it is built.

    Args:
        rule: The broken rule: a number of docs/reference/rules.md, for example ``"R165"``, or a short slug.
        node: Name of the node that breaks it.
        message: What is wrong and what to do; available as ``said``.
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
    """A table or an input does not have the columns or types of its contract."""


class NotAVersionedTableError(SchemaError):
    """There is no table created by this library at the path or name."""


class RecordError(VersionedError, ValueError):
    """A single record breaks its contract (unknown topic, null key, wrong type)."""


class BufferFullError(VersionedError):
    """A strict buffer reached its bound. The batch was not committed; a restart resumes with this batch."""


class CommitError(VersionedError):
    """A write did not become this batch's own commit."""


class DeliveryError(VersionedError):
    """An external system did not accept the output of a batch. The batch is not done; the next start sends it again."""


class FencedError(CommitError):
    """Another driver, or a newer epoch, owns the table. Stop this one."""


class OvertakenError(CommitError):
    """Someone else wrote to a versioned table between the judging of a batch and its write. Put the batch again."""


class CheckpointMismatchError(VersionedError):
    """The checkpoint and the tables do not belong together. Nothing was written."""


class ReplayMismatchError(VersionedError):
    """A batch was replayed with different input, or reads a missing file. Operator action: restore it as it was."""


class RetentionError(VersionedError):
    """Maintenance would remove what a replay or the guaranteed history still needs."""


class DataQualityError(VersionedError):
    """Records break a rule that their source declares with ``policy: fail``. Nothing of the batch was written."""


class ExpectationError(VersionedError):
    """An expectation could not be evaluated, so it says nothing about the data. Check its arguments."""


class InvariantError(VersionedError):
    """Stored rows break an invariant of their table. The cause is a bug or a write by someone else."""


def first_line(said: BaseException | str) -> str:
    """The first line of an error or of its text, without Spark's stack trace; the class of an error without a message.

    >>> first_line(ValueError("Access denied\\n\\tat org.apache.hadoop")), first_line(ValueError()), first_line("")
    ('Access denied', 'ValueError', '')
    """
    line = str(said).strip().partition("\n")[0]
    return type(said).__name__ if not line and isinstance(said, BaseException) else line
