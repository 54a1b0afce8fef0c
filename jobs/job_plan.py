"""The plan of a job: declared in its settings, or built by the function that they name. Needs no Spark."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from jobs.named_function import fault_of, named_function
from jobs.plan import build
from jobs.plan_arguments import arguments_of
from jobs.plan_words import as_declared
from jobs.settings import JobSettings
from jobs.strict import at, nearest
from streams.describe import what_it_is
from streams.field_checks import check_apart
from streams.nodes import Topology, sources_of
from streams.picture import role_of
from versioned.errors import ArgumentError, ConfigurationError, VersionedError
from versioned.given import near


def plan_of(settings: JobSettings) -> Topology:
    """The plan that the settings declare, or that the function they name builds from their ``plan_settings``.

    Raises:
        ConfigurationError: a step or an option is wrong; there is no such function, it does not take these settings,
            or it fails; or a topic has no source, or a source no reader. The message names the path.
        TopologyError: the plan can never work; the message names the step.

    >>> from jobs.settings import parse
    >>> plan = {"clicks": {"op": "stream", "key": "user"}, "all": {"op": "to_changelog", "from": "clicks"}}
    >>> said = {"application": "a", "root": "tables", "sources": {"clicks": {"format": "rate"}}, "plan": plan}
    >>> [node.name for node in plan_of(parse(said))]
    ['clicks', 'all']
    """
    for topic, source in settings.sources.items():
        if source.transform is not None:
            with at(f"sources.{topic}.transform"):
                named_function(source.transform)
    with as_declared(settings.plan):
        plan = _called(settings.plan, settings) if isinstance(settings.plan, str) else build(settings.plan)
        for node in plan:
            check_apart(node)
    topics = {node.topic: node.name for node in sources_of(plan)}
    for topic, name in topics.items():
        if topic not in settings.sources:
            # A step without a topic reads the topic of its own name. Suggest no source that another step reads.
            place = f"plan.{name}" if topic == name else f"plan.{name}.topic"
            unread = [source for source in settings.sources if source not in topics]
            raise ConfigurationError(
                f'{place}: "{topic}" has no source{near(topic, unread)} Add sources.{topic} '
                f"(there are: {', '.join(settings.sources) or 'none'})."
            )
    for name in settings.sources:
        if name not in topics:
            raise ConfigurationError(f"sources.{name}: nothing in the plan reads it{nearest(name, list(topics))}")
    return plan


def plan_as_json(plan: Topology) -> list[dict[str, Any]]:
    """A plan as plain values, node by node: its name, role, what it does, and the nodes that it reads.

    >>> from streams.nodes import StreamSource
    >>> plan_as_json(Topology((StreamSource("clicks", topic="clicks"),)))[0]["role"]
    'source stream'
    """
    return [
        {
            "node": node.name,
            "role": role_of(node),
            "what": what_it_is(node),
            "reads": [parent.name for parent in node.parents],
        }
        for node in plan
    ]


def _called(name: str, settings: JobSettings) -> Topology:
    with at("plan"):
        function = named_function(name)
    arguments = arguments_of(function, settings.plan_settings)
    try:
        plan = function(**arguments)
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        # An error about a wrong argument names no node: the user needs the line of the call.
        if isinstance(error, VersionedError) and not isinstance(error, ArgumentError):
            raise
        raise ConfigurationError(f"plan: {name} fails: {fault_of(error)}") from error
    if not isinstance(plan, Topology):
        raise ConfigurationError(f"plan: {name} gives {type(plan).__name__}, not a topology: end it with build().")
    return plan


def picture_of(settings: JobSettings) -> Callable[..., Any] | None:
    """The function that draws a finished run: ``draw(app, work)`` in the module that builds the plan, if it has one."""
    if not isinstance(settings.plan, str):
        return None
    draw = getattr(importlib.import_module(settings.plan.split(":")[0]), "draw", None)
    return draw if callable(draw) and _takes_two(draw) else None


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with two arguments; a module may call anything ``draw``."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
