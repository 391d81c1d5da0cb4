"""Local modules that this process imported before they changed: they are imported again.

Without it, a second run in one process, as in a notebook, would call the code of the first.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from calipers.support.local_imports import LocalImports, is_installed

_seen: dict[Path, str] = {}  # the content of local files when they were last loaded
_there: dict[Path, frozenset[str]] = {}  # the modules there were when a file was last loaded
_led_to: dict[Path, set[Path]] = {}  # the modules that came with a file, or while it was called
_OURS = ("calipers", "__main__")


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
        if name not in _there[file] and name.partition(".")[0] not in _OURS
    ]
    paths = {Path(each).resolve() for each in files if isinstance(each, str)}
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
