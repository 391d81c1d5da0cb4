"""Python functions that a file of the user's names: FILE.py:FUNCTION."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path
from typing import Any

from calipers.support.errors import UsageError, nearest
from calipers.support.plugins import import_file
from calipers.support.reloading import reload_modules

Function = Callable[..., Any]


def load_function(reference: str, folder: Path) -> Function:
    """Return the function that FILE.py:FUNCTION names; the file may import from its own folder."""
    function = load_object(reference, folder)
    if not callable(function):
        path, name = _split_reference(reference, folder)
        raise UsageError(f"{path} has no function {name}", fix=f"def {name}(…): …")
    return function  # type: ignore[no-any-return]


def load_object(reference: str, folder: Path) -> Any:
    """Return what FILE.py:NAME names, whatever it is.

    Raises:
        UsageError: There is no such file or name, or the file cannot be loaded.
    """
    path, name = _split_reference(reference, folder)
    module = _import_file(path, folder.resolve())
    if not hasattr(module, name):
        known = [each for each, value in vars(module).items() if _may_be_meant(each, value)]
        raise UsageError(f"{path} has no function {name}", fix=nearest(name, known))
    return getattr(module, name)


def _may_be_meant(name: str, value: Any) -> bool:
    """Say whether a file may offer a name: a function or an object, and nothing of Python's."""
    return not (name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value))


def _split_reference(reference: str, folder: Path) -> tuple[Path, str]:
    """Return the file and the name of FILE.py:NAME."""
    file, _, name = reference.rpartition(":")
    path = (folder / file).resolve()
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file", fix="the path is relative to the file that names it"
        )
    return path, name


def _import_file(path: Path, folder: Path) -> Any:
    if path.suffix not in SOURCE_SUFFIXES:
        raise UsageError(f"{path}: no Python file", fix="for example solver.py:answer")
    if str(path.parent) in sys.path:  # another suite's folder may stand before it
        sys.path.remove(str(path.parent))
    sys.path.insert(0, str(path.parent))
    try:
        with reload_modules(path, folder):
            return import_file(path, f"calipers_system_{path.stem}")
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{path}: it cannot be loaded: {type(error).__name__}: {error}",
            fix=f"see where: python {path.name}",
        ) from error
