"""What users add: registries of metrics, log readers, systems, checks and rubrics, and plug-ins.

A plug-in is a file that the user names, or a package with an entry point in the group `calipers`.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from zlib import crc32

from calipers.support.errors import ArgumentTypeError, CalipersError, UsageError, nearest
from calipers.support.options import require_type

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Named(Protocol):
    """Anything that has a name."""

    @property
    def name(self) -> str:
        """The name by which it is looked up."""


T = TypeVar("T")
N = TypeVar("N", bound=Named)

_KINDS: dict[type, Registry[Any]] = {}
_PASSED_OVER = frozenset({__name__, "calipers.support.plugins"})  # between a caller and us


class Registry(Generic[T]):
    """Things of one kind by name, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # in words: "metric"
        self._things: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, thing: T, origin: str, *, replace: bool = False) -> None:
        """Add a thing; the same definition again, or one from the same place, replaces the old.

        Raises UsageError where another thing has the name.
        """
        held = self._things.get(name)
        same = self._origins.get(name) == origin or get_definition(held) == get_definition(thing)
        if held is not None and not (replace or same):
            raise UsageError(
                f"two {self.kind}s are called {name}: the first comes from {self._origins[name]}, "
                f"the second from {origin}",
                fix="rename one of them, or register the second with replace=True",
            )
        self._things[name], self._origins[name] = thing, origin

    def remove(self, name: str) -> None:
        """Remove the thing of that name, if there is one."""
        self._things.pop(name, None)
        self._origins.pop(name, None)

    def read_all(self) -> dict[str, T]:
        """Return the things by name, those of installed plug-ins too."""
        load_installed()
        return dict(self._things)

    def get(self, name: str) -> T:
        """Return the thing of that name, or raise UsageError with the nearest name."""
        registered = self.read_all()
        if name not in registered:
            raise UsageError(f"no {self.kind} is called {name}", fix=nearest(name, registered))
        return registered[name]

    def find_origin(self, name: str) -> str | None:
        """Return where the thing of that name comes from, or None."""
        return self._origins.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.read_all())


def get_definition(thing: Any) -> Any:
    """Return the `definition` of a thing, or the thing itself, to compare two of them."""
    defined = getattr(thing, "definition", None)
    return thing if defined is None else defined


def add_registry(kind: type, registry: Registry[Any]) -> None:
    """Make `register` put things of a type into a registry."""
    _KINDS[kind] = registry


def register(thing: N, *, replace: bool = False) -> N:
    """Add a metric, a log reader, a system, a check or a rubric under its name, and return it.

    The same definition may be registered again, as when a notebook's cell runs twice. Another
    definition of the same name raises UsageError with where the first comes from, unless `replace`
    is set; a thing of no kind that can be added raises TypeError.

    >>> register(3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    calipers.support.errors.ArgumentTypeError: register: expected a metric, ..., not int
    ...
    """
    add_thing(thing, _find_caller(), replace=replace)
    return thing


def add_thing(thing: Named, origin: str, *, replace: bool = False) -> None:
    """Add a thing to the registry of its type, as `register` does; `origin` is where it is from."""
    registry = next((_KINDS[kind] for kind in type(thing).__mro__ if kind in _KINDS), None)
    if registry is None:
        raise ArgumentTypeError(
            "register: expected a metric, a log reader, a system, a check or a rubric, "
            f"not {type(thing).__name__}",
            fix="for example calipers.register(calipers.metrics.mean(…))",
        )
    registry.add(thing.name, thing, origin, replace=replace)


def _find_caller() -> str:
    """Return the line that registers something: FILE:LINE."""
    frame = sys._getframe(1)  # noqa: SLF001 (as the standard library's warnings do)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _PASSED_OVER:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


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
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"{_locate_error(file, error)}: {problem}", fix=fix) from error
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
            problem = error.message if isinstance(error, CalipersError) else str(error)
            raise UsageError(
                f"the plug-in {entry.name} of the package {package} cannot be loaded: "
                f"{type(error).__name__}: {problem}",
                fix=f"update the package, or remove it: pip uninstall {package}",
            ) from error


def _list_entries() -> Iterator[EntryPoint]:
    """Yield the entry points of all packages; only files that name the group are parsed."""
    from importlib.metadata import distributions  # noqa: PLC0415 (only on a lookup)

    seen: set[str] = set()
    for package in distributions():
        if f"[{GROUP}]" in (package.read_text("entry_points.txt") or ""):
            if package.name not in seen:  # what comes first on the path hides the others
                yield from (
                    entry_point
                    for entry_point in package.entry_points
                    if entry_point.group == GROUP
                )
            seen.add(package.name)


def _register_found(plugin: Any, origin: str) -> None:
    """Use what an entry point names: a module that registers things, a function, or a thing."""
    if isinstance(plugin, ModuleType):
        return
    if callable(plugin):
        plugin()
    else:
        add_thing(plugin, origin)


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
