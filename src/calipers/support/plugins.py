"""Plug-ins: files that the user names, and packages with an entry point in the group `calipers`.

A plug-in calls `calipers.register` when it is imported. A file runs only because the user named it;
installed packages are loaded when the first name is looked up.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from calipers.support.arguments import require_type
from calipers.support.errors import CalipersError, UsageError
from calipers.support.registry import add_thing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "calipers"

_files: dict[Path, ModuleType] = {}
_installed = {"are loaded": False}


def load_plugin(path: str | Path) -> ModuleType:
    """Run a plug-in file, so that what it registers can be used, and return its module.

    Raises UsageError with the file and the line where it fails.
    """
    require_type("plug-in", path, str | Path, expected="a path", fix="name a file that ends in .py")
    return load_file(path, fix="fix the plug-in, or leave --plugin out")


def load_file(path: str | Path, *, fix: str) -> ModuleType:
    """Run a Python file as a module of its own; one that was loaded before is run again."""
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file():
        what = "no such file" if not file.exists() else "no Python file"
        raise UsageError(f"{path}: {what}", fix="name a file that ends in .py")
    try:
        with _allow_imports(file.parent):
            _files[file] = import_file(
                file, f"calipers_file_{file.stem}_{crc32(str(file).encode()):08x}"
            )
    except CalipersError as error:
        raise UsageError(f"{_locate_error(file, error)}: {error.message}", fix=error.fix) from error
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"{_locate_error(file, error)}: {said}", fix=fix) from error
    return _files[file]


def import_file(file: Path, name: str) -> ModuleType:
    """Run a Python file as the module of a name, whatever it raises."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def list_loaded() -> list[ModuleType]:
    """Return the modules of all loaded files, for worker processes that need them too."""
    return list(_files.values())


def load_installed() -> None:
    """Load the entry points of installed packages, once.

    Raises UsageError that names the package whose plug-in does not load.
    """
    if _installed["are loaded"]:
        return
    _installed["are loaded"] = True  # a plug-in may look names up itself
    for entry in _list_entries():
        try:
            _register_found(entry.load(), f"the entry point {entry.name} = {entry.value}")
        except (Exception, SystemExit) as error:
            _installed["are loaded"] = False
            package = entry.dist.name if entry.dist is not None else entry.value
            said = error.message if isinstance(error, CalipersError) else str(error)
            raise UsageError(
                f"the plug-in {entry.name} of the package {package} cannot be loaded: "
                f"{type(error).__name__}: {said}",
                fix=f"update the package, or remove it: pip uninstall {package}",
            ) from error


def _list_entries() -> Iterator[EntryPoint]:
    """Yield the entry points of all packages; only files that name the group are parsed."""
    from importlib.metadata import distributions  # noqa: PLC0415 (only on a lookup)

    seen: set[str] = set()
    for package in distributions():
        if f"[{GROUP}]" in (package.read_text("entry_points.txt") or ""):
            if package.name not in seen:  # what comes first on the path hides the others
                yield from (each for each in package.entry_points if each.group == GROUP)
            seen.add(package.name)


def _register_found(found: Any, origin: str) -> None:
    """Use what an entry point names: a module that registers things, a function, or a thing."""
    if isinstance(found, ModuleType):
        return
    if callable(found):
        found()
    else:
        add_thing(found, origin)


def _locate_error(file: Path, error: BaseException) -> str:
    """Return FILE:LINE of the file's own line that failed."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


@contextmanager
def _allow_imports(folder: Path) -> Iterator[None]:
    """Allow a file to import the modules next to it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
