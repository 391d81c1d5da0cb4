"""Python code of the user's: functions named FILE.py:NAME, and the local modules they import.

A function is loaded with everything that it imports as it is on disk now, and the files that it
rests on are known, so that a run can say whether the code under test has changed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import Any

from calipers.support.errors import EXIT_INCOMPLETE, UsageError, nearest
from calipers.support.plugins import import_file

_INSTALLED = ("site-packages", "dist-packages")
_PYTHON = tuple(
    Path(sysconfig.get_paths()[name]).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OURS = "calipers"
_IMPORTERS = ("import_module", "__import__")


class LocalImports:
    """Finds modules in some folders first, then wherever this Python finds them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._elsewhere: dict[str, tuple[Path, ...]] = {}

    def find_reached(self, file: Path) -> set[Path]:
        """Return the file and every local module that it imports, directly or through others."""
        reached: set[Path] = set()
        left = [file.resolve()]
        while left:
            path = left.pop()
            if path in reached or not path.is_file():
                continue
            reached.add(path)
            if path.suffix in SOURCE_SUFFIXES:
                left += self._find_imported(path)
        return reached

    def find_module(self, name: str) -> Iterator[Path]:
        """Yield the files of a module and of the packages that contain it."""
        parts = name.split(".")
        paths = list(_find_files(self._folders, parts))
        if not paths and parts[0] != _OURS and parts[0] not in sys.stdlib_module_names:
            paths = list(_find_files(self._find_folders(parts[0]), parts))
        yield from (path for path in paths if not is_installed(path))

    def _find_imported(self, path: Path) -> Iterator[Path]:
        for level, name in _read_imports(path):
            if level:
                package = path.parents[min(level, len(path.parents)) - 1]
                yield from _find_files((package,), ["", *filter(None, name.split("."))])
            else:
                yield from self.find_module(name)

    def _find_folders(self, top: str) -> tuple[Path, ...]:
        """Return the folders in which Python finds a module that is not next to the code."""
        if top not in self._elsewhere:
            self._elsewhere[top] = tuple(_search_meta_path(top))
        return self._elsewhere[top]


def _read_imports(path: Path) -> tuple[tuple[int, str], ...]:
    try:
        return _list_imports(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # importing it will raise the error


@lru_cache(maxsize=256)  # a run looks at its systems' files several times
def _list_imports(source: bytes) -> tuple[tuple[int, str], ...]:
    """Return each imported name with its number of leading dots.

    `from a import b` gives `a.b`, whose files are those of `a` where `b` is no module.
    """
    return tuple(_walk_imports(ast.parse(source)))


def _walk_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (node.level, ".".join(filter(None, (node.module, alias.name))))
                for alias in node.names
            )
        elif isinstance(node, ast.Call) and _name_callee(node) in _IMPORTERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield 0, first.value


def _name_callee(node: ast.Call) -> str | None:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _find_files(places: Sequence[Path], parts: Sequence[str]) -> Iterator[Path]:
    """Yield the file of each part of a dotted name, up to the first that is not there.

    An empty part stands for the folder itself, as the dots of a relative import do.
    """
    for part in parts:
        folders = (place / part for place in places)
        package = next(
            (folder for folder in folders if any(_find_module(folder, "__init__"))), None
        )
        file = next((path for place in places for path in _find_module(place, part)), None)
        if package is not None:
            yield from _find_module(package, "__init__")
            places = (package,)
        elif file is not None:
            yield file
            return
        else:  # a folder without __init__.py is a package too
            places = tuple(place / part for place in places if (place / part).is_dir())


def _find_module(folder: Path, name: str) -> Iterator[Path]:
    for suffix in (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES) if name else ():
        if (path := folder / f"{name}{suffix}").is_file():
            yield path.resolve()


def _search_meta_path(top: str) -> Iterator[Path]:
    """Yield the folders that hold a module of that name, ignoring what is already imported."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(top, None)
        except Exception:  # noqa: BLE001, S112 (a finder of others' making)
            continue
        if spec is None:
            continue
        if spec.submodule_search_locations is not None:
            yield from (Path(location).parent for location in spec.submodule_search_locations)
        elif spec.origin is not None:
            yield Path(spec.origin).parent
        return


def is_installed(path: Path) -> bool:
    """Return True if a module belongs to Python or to an installed package."""
    if any(part in _INSTALLED for part in path.parts):
        return True
    return any(path.is_relative_to(place) for place in _PYTHON)


_seen: dict[Path, str] = {}  # the content of local files when they were last loaded
_there: dict[Path, frozenset[str]] = {}  # the modules there were when a file was last loaded
_led_to: dict[Path, set[Path]] = {}  # the modules that came with a file, or while it was called
_NEVER_RELOADED = ("calipers", "__main__")


@contextmanager
def reload_modules(file: Path, folder: Path) -> Iterator[None]:
    """Import, inside the block, the current versions of the local modules that a file imports.

    Those that have changed since an earlier load are forgotten, and so are those of the same name
    from another folder. Unchanged modules stay loaded. No bytecode is written: Python checks it
    against the source by size and second only.

    Args:
        file: The file that is about to be loaded.
        folder: The folder that it imports from beside its own, the suite's.
    """
    reached = LocalImports((file.parent, folder)).find_reached(file)
    reached |= {path for path in _led_to.get(file, ()) if path.is_file()}
    now = {path: _hash_file(path) for path in reached}
    changed = any(_seen.get(path, digest) != digest for path, digest in now.items())
    own = {_name_in(file.parent, path): path for path in reached}
    own = {name: path for name, path in own.items() if name not in sys.stdlib_module_names}
    file_names = {path.name for path in reached}
    for name, module in list(sys.modules.items()):
        written = str(getattr(module, "__file__", None))
        if name not in own and os.path.basename(written) not in file_names:  # noqa: PTH119 (quick)
            continue
        path = Path(written).resolve()
        is_other = name in own and path != own[name] and not is_installed(path)
        if name != "__main__" and (is_other or (changed and path in now)):
            del sys.modules[name]
    _seen.update(now)
    _there[file] = frozenset(sys.modules)
    importlib.invalidate_caches()
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes


def find_imported(file: Path) -> set[Path]:
    """Return the local modules that have been imported since a file was loaded, or with it before.

    Among them are those that no look at the source can find, as where it changes `sys.path`. To be
    asked while the file's functions are called, or right after.
    """
    if file not in _there:
        return set()
    files = [
        getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name not in _there[file] and name.partition(".")[0] not in _NEVER_RELOADED
    ]
    paths = {Path(imported).resolve() for imported in files if isinstance(imported, str)}
    local = {path for path in paths if path.is_file() and not is_installed(path)}
    _seen.update({path: _hash_file(path) for path in local - _seen.keys()})
    _led_to.setdefault(file, set()).update(local)
    return set(_led_to[file])


def _hash_file(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _name_in(folder: Path, path: Path) -> str | None:
    """Return the name by which a module in a folder is imported; None where it is not in it."""
    if not path.is_relative_to(folder):
        return None
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


Function = Callable[..., Any]

_EXITED = (
    b"error: the code under test has ended this process (os._exit), so nothing is decided\n"
    b"  raise an exception instead; run again: what is done is kept\n"
)


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
        known = [
            attribute
            for attribute, value in vars(module).items()
            if _may_be_meant(attribute, value)
        ]
        raise UsageError(f"{path} has no function {name}", fix=nearest(name, known))
    return getattr(module, name)


def _may_be_meant(name: str, value: Any) -> bool:
    """Return True if a file may offer a name: a function or an object, and nothing of Python's."""
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


@contextmanager
def fail_on_exit() -> Iterator[None]:
    """Make `os._exit` a failure while this lasts, whatever status the user's code asks for.

    Nothing else of this process is run after it: with the status 0 a build would be green of which
    nothing was decided. Processes that were forked from this one end as they like.
    """
    process, leave = os.getpid(), os._exit

    def leave_as_failure(status: int) -> None:
        if os.getpid() == process:
            os.write(2, _EXITED)
            leave(EXIT_INCOMPLETE)
        leave(status)

    os._exit = leave_as_failure  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave
