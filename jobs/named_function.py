"""Functions of Python modules that settings name as ``module:function``.

A module is found as Python finds modules, or else next to the settings file. A module found there is not installed, so
Spark's workers cannot import it: its functions travel to them by value.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle

from versioned.errors import ConfigurationError
from versioned.given import near

#: Folders of the settings files read so far, the newest first.
_BESIDE: Final[list[Path]] = []
#: Those of them that are on Python's path for this reason only: they are the last on it, in this order.
_ADDED: Final[list[Path]] = []


def look_beside(config: Path) -> None:
    """From now on, also find modules in the folder of a settings file, if they are nowhere else.

    The folder of the newest settings comes before the others: two jobs may each have a module of the same name.
    """
    folder = config.resolve().parent
    if _BESIDE[:1] == [folder]:
        return
    _BESIDE[:] = [folder, *(other for other in _BESIDE if other != folder)]
    if folder not in _ADDED and str(folder) in sys.path:
        _forget_others(folder)
        return  # It is on the path already, at a place that somebody chose.
    sys.path[:] = [place for place in sys.path if place not in map(str, _ADDED)]
    _ADDED[:] = [each for each in _BESIDE if each == folder or each in _ADDED]
    sys.path.extend(map(str, _ADDED))
    _forget_others(folder)


def _forget_others(folder: Path) -> None:
    """Forget imported modules of other settings folders if this folder has a module of the same name."""
    # A process that reads many settings files has thousands of modules; few share a name with one of the folder.
    here = {entry.stem for entry in folder.glob("*") if entry.is_dir() or entry.suffix == ".py"}
    others = [other for other in _ADDED if other != folder]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in here and any(_is_of(module, name, other) for other in others):
            del sys.modules[name]


def _is_of(module: ModuleType, name: str, folder: Path) -> bool:
    """Whether a module was imported from a folder, and not as a part of a package above it."""
    file, place = getattr(module, "__file__", None), folder.joinpath(*name.split("."))
    return file is not None and Path(file) in (place.with_suffix(".py"), place / "__init__.py")


def named_function(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; its module is imported.

    Raises:
        ConfigurationError: there is no such function, its module cannot be imported, or it belongs to Python's own
            library.

    >>> named_function("jobs.quickstart_plan:build").__name__
    'build'
    >>> named_function("os:system")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: os:system belongs to Python itself. Name a function of your own module.
    """
    module, _, function = check_function_name(name).partition(":")
    holder = _imported(module, name)
    if not hasattr(holder, function):
        raise ConfigurationError(
            f"{name} is not there: {module} has no {function}{near(function, vars(holder))}{_instead(module)}"
        )
    found = getattr(holder, function)
    if not callable(found):
        raise ConfigurationError(f"{name} is no function but {type(found).__name__}.")
    if _lies_beside(holder):
        cloudpickle.register_pickle_by_value(holder)  # type: ignore[no-untyped-call]
    called: Callable[..., Any] = found
    return called


def fault_of(error: BaseException) -> str:
    """An error in a user's code in one text: its class, its message, and the line next to the settings that raised it.

    >>> fault_of(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_beside(frame.filename)]
    where = f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def _imported(module: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"{name} is not there: {error}{_instead(module, '.')}") from error
    except (Exception, SystemExit) as error:  # a user's module may raise anything when it is imported
        raise ConfigurationError(f"{name} cannot be imported: {fault_of(error)}") from error


def _instead(module: str, end: str = "") -> str:
    """After ``end``, a hint that another module hides the one of the same name next to the settings; empty if not."""
    first = module.partition(".")[0]
    file = getattr(sys.modules.get(first), "__file__", None)
    own = [place for folder in _BESIDE for place in (folder / first, folder / f"{first}.py") if place.exists()]
    if file is None or not own or _is_beside(file):
        return ""
    return f"{end} Python found {first} in {file}, which hides {own[0]}. Give yours another name."


def _lies_beside(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and _is_beside(file)


def _is_beside(file: str) -> bool:
    if "site-packages" in Path(file).parts:
        return False
    return any(Path(file).resolve().is_relative_to(folder) for folder in _BESIDE)


def check_function_name(name: str) -> str:
    """Refuse functions of Python's own library, such as ``os:system``: settings name functions of plans only.

    Raises:
        ConfigurationError: the name is of such a function.
    """
    if name.split(":")[0].split(".")[0] in sys.stdlib_module_names:
        raise ConfigurationError(f"{name} belongs to Python itself. Name a function of your own module.")
    return name
