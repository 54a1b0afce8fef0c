"""Functions of Python modules that settings name: ``module:function``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from versioned.errors import ConfigurationError


def named_function(name: str) -> Callable[..., Any]:
    """The function of that name; its module is found as Python finds modules.

    Raises:
        ConfigurationError: there is no such function, or it is one of Python's own library.

    >>> named_function("jobs.quickstart_plan:build").__name__
    'build'
    >>> named_function("os:system")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: os:system belongs to Python itself. Name a function of your own module.
    """
    module, _, function = check_function_name(name).partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{name} is not there: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"{name} is no function but {type(found).__name__}.")
    called: Callable[..., Any] = found
    return called


def check_function_name(name: str) -> str:
    """Refuse functions of Python's own library, such as ``os:system``: settings name functions of plans only.

    Raises:
        ConfigurationError: it is one of those.
    """
    if name.split(":")[0].split(".")[0] in sys.stdlib_module_names:
        raise ConfigurationError(f"{name} belongs to Python itself. Name a function of your own module.")
    return name
