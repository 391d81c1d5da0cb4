"""The code under test: the local files that a suite's systems are made of, by content hash.

Of a Python file these are also the local modules that it imports, and those that they import. The
imports are read from the syntax tree; nothing is executed. A module is local unless it belongs to
Python or is installed among the packages.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from hashlib import sha256
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

from calipers.runs.suite import Suite
from calipers.runs.tools import list_files
from calipers.support.errors import UsageError
from calipers.support.local_imports import LocalImports
from calipers.support.reloading import find_imported
from calipers.systems.registered import SYSTEMS
from calipers.systems.spec import SystemSpec

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_LARGEST = 64 << 20  # bytes of a file that is hashed at every start


def hash_code(suite: Suite, folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every local file of the systems, by its path from the suite's folder.

    Raises:
        UsageError: A pattern among the `files` of a system names no file.
    """
    base = folder.resolve()
    found = {path for system in suite.systems for path in _list_files(system, base)}
    if suite.tools is not None:
        tools = (folder / suite.tools).resolve()
        found.add(tools)
        for file in list_files(tools):
            found.update(_with_imports(file, base))
    return _hash_files(found, folder)


def hash_imported(suite: Suite, folder: Path) -> dict[str, str]:
    """Return the same of the local modules that this process has imported for the systems."""
    files = {(folder / _find_python(each)).resolve() for each in suite.systems if each.python}
    return _hash_files({path for file in files for path in find_imported(file)}, folder)


def _hash_files(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    named = {Path(os.path.relpath(path, folder.resolve())).as_posix(): path for path in paths}
    return {name: hash_file(named[name]) for name in sorted(named)}


def _find_python(system: SystemSpec) -> str:
    """Return the file of a system's function, also that of a plug-in; "" if there is none."""
    file, colon, _ = (system.python or "").rpartition(":")
    if colon or system.python is None:
        return file
    return str(SYSTEMS.get(system.python).file or "")


def _list_files(system: SystemSpec, folder: Path) -> Iterator[Path]:
    if file := _find_python(system):
        yield from _with_imports((folder / file).resolve(), folder)
    for path in _find_named(system.command or (), folder):
        yield from _with_imports(path, folder)
    for pattern in system.files:
        yield from _match_files(pattern, system, folder)


def _match_files(pattern: str, system: SystemSpec, folder: Path) -> Iterator[Path]:
    """Yield the files that a pattern of the suite names, or raise UsageError if there is none."""
    found = [folder / each for each in glob(pattern, root_dir=folder, recursive=True)]  # noqa: PTH207 (may be absolute)
    files = [path.resolve() for path in found if path.is_file()]
    if not files:
        raise UsageError(
            f"systems.{system.name}.files: {pattern} names no file",
            fix="a path or a glob, relative to the suite: prompts/*.md",
        )
    yield from files


def _with_imports(path: Path, folder: Path) -> Iterator[Path]:
    """Yield a file and, of a Python file, every local module that it leads to."""
    if path.suffix in SOURCE_SUFFIXES:
        yield from LocalImports((path.parent, folder)).find_reached(path)
    elif path.is_file():
        yield path


def _find_named(command: Sequence[str], folder: Path) -> Iterator[Path]:
    """Yield the local files that a command names: its words, and `python -m MODULE`."""
    for before, word in zip(("", *command), command, strict=False):
        for each in _split_words(word):
            path = (folder / each).resolve()
            if path.is_file() and not _is_installed(Path(each)):
                yield path
        if before == "-m" and _MODULE.fullmatch(word):
            yield from LocalImports((folder,)).find_module(f"{word}.__main__")


def _split_words(word: str) -> Iterator[str]:
    """Yield an argument, what follows its `=`, and the words of a shell's command line."""
    yield word
    yield from filter(None, (word.partition("=")[2],))
    if any(each.isspace() for each in word):
        try:
            yield from shlex.split(word)
        except ValueError:  # a quotation that does not end
            return


def _is_installed(path: Path) -> bool:
    """Say whether a file is a program of this machine, as interpreters are, and not local code."""
    if not path.is_absolute():
        return False
    programs = {Path(each) for each in os.get_exec_path()} | {Path(sys.executable).parent}
    return path.parent in programs or (path.parent.parent / "pyvenv.cfg").is_file()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; for a very large one, its size and time of change.

    Where it cannot be read, return why.
    """
    try:
        about = path.stat()
        if about.st_size > _LARGEST:
            return f"{about.st_size} bytes, changed {about.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
