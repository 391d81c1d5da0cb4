"""Which local modules a Python file imports, directly or by way of others; nothing is executed."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

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
        found = list(_find_files(self._folders, parts))
        if not found and parts[0] != _OURS and parts[0] not in sys.stdlib_module_names:
            found = list(_find_files(self._find_folders(parts[0]), parts))
        yield from (path for path in found if not is_installed(path))

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
            yield from ((0, each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (node.level, ".".join(filter(None, (node.module, each.name))))
                for each in node.names
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
        package = next((each for each in folders if any(_find_module(each, "__init__"))), None)
        file = next((each for place in places for each in _find_module(place, part)), None)
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
            yield from (Path(each).parent for each in spec.submodule_search_locations)
        elif spec.origin is not None:
            yield Path(spec.origin).parent
        return


def is_installed(path: Path) -> bool:
    """Say whether a module belongs to Python or to an installed package."""
    if any(part in _INSTALLED for part in path.parts):
        return True
    return any(path.is_relative_to(place) for place in _PYTHON)
