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

from calipers.runs.suite import Suite, list_tool_files
from calipers.support.errors import UsageError
from calipers.support.user_code import LocalImports, find_imported
from calipers.systems.spec import SYSTEMS, SystemSpec

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_LARGEST = 64 << 20  # bytes of a file that is hashed at every start


def hash_code(suite: Suite, folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every local file of the systems, by its path from the suite's folder.

    Raises:
        UsageError: A pattern among the `files` of a system names no file.
    """
    base = folder.resolve()
    files = {path for system in suite.systems for path in _list_files(system, base)}
    if suite.tools is not None:
        tools = (folder / suite.tools).resolve()
        files.add(tools)
        for file in list_tool_files(tools):
            files.update(_with_imports(file, base))
    for server in suite.mcp:
        for path in _find_named(server.command or (), base):
            files.update(_with_imports(path, base))
    return _hash_files(files, folder)


def note_unwatched(suite: Suite, folder: Path) -> Iterator[str]:
    """Yield that changes of some commands' code cannot be seen, where that is so."""
    base = folder.resolve()
    names = [
        system.name
        for system in suite.systems
        if system.command and not system.files and not _is_code_here(system.command, base)
    ]
    listed = any(system.files for system in suite.systems)
    names += [
        server.label
        for server in suite.mcp
        if server.command and not listed and not _is_code_here(server.command, base)
    ]
    if names:
        it, its = ("it", "its") if len(names) == 1 else ("them", "their")
        yield (
            f"the command of {', '.join(names)} leads to no local file, so a change of {its} code "
            f"is not noticed and old answers are kept: list what {it} runs under `files:`"
        )


def _is_code_here(command: Sequence[str], folder: Path) -> bool:
    """Return whether a command names a file here; after a `cd` its words are of another folder."""
    words = {part for word in command for part in _split_words(word)}
    return not words & {"cd", "pushd"} and any(_find_named(command, folder))


def hash_imported(suite: Suite, folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the local modules that this process imported for the systems."""
    files = {(folder / _find_python(system)).resolve() for system in suite.systems if system.python}
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
    paths = [folder / name for name in glob(pattern, root_dir=folder, recursive=True)]  # noqa: PTH207 (may be absolute)
    files = [path.resolve() for path in paths if path.is_file()]
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
        for part in _split_words(word):
            path = (folder / part).resolve()
            if path.is_file() and not _is_installed(Path(part)):
                yield path
        if before == "-m" and _MODULE.fullmatch(word):
            yield from LocalImports((folder,)).find_module(f"{word}.__main__")


def _split_words(word: str) -> Iterator[str]:
    """Yield an argument, what follows its `=`, and the words of a shell's command line."""
    yield word
    yield from filter(None, (word.partition("=")[2],))
    if any(character.isspace() for character in word):
        try:
            yield from shlex.split(word)
        except ValueError:  # a quotation that does not end
            return


def _is_installed(path: Path) -> bool:
    """Return True if a file is a program of this machine, such as an interpreter."""
    if not path.is_absolute():
        return False
    programs = {Path(folder) for folder in os.get_exec_path()} | {Path(sys.executable).parent}
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
