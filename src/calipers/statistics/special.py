"""The special functions of scipy, loaded when one is first called.

`import scipy.special` loads adapters for other array libraries and all of numpy's rarer parts, ten
times as much as the compiled functions themselves. Where nobody has imported it, these are loaded
alone; a scipy that is built otherwise is imported as usual. The functions are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
)
from importlib.util import find_spec, module_from_spec
from threading import Lock
from types import ModuleType
from typing import Any

_PACKAGE = "scipy.special"
_COMPILED = "_ufuncs"
# What the compiled functions import themselves, before them: else they would import the package.
_NEEDED = ("_ufuncs_cxx", "_special_ufuncs", "_gufuncs", "_ellip_harm_2")
_lock = Lock()


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    with _lock:
        found: Callable[..., Any] = getattr(_load(), name)
    globals()[name] = found
    return found


@cache
def _load() -> ModuleType:
    """Return the module with scipy's compiled functions, or the whole package."""
    if _PACKAGE not in sys.modules:
        try:
            return _load_compiled()
        except (ImportError, KeyError):
            sys.modules.pop(f"{_PACKAGE}.{_COMPILED}", None)
    return import_module(_PACKAGE)


def _load_compiled() -> ModuleType:
    """Load the compiled functions under their own names, as the package would."""
    scipy = find_spec("scipy")
    if scipy is None or not scipy.submodule_search_locations:
        raise ImportError("scipy is not installed in a folder")
    finder = FileFinder(
        f"{scipy.submodule_search_locations[0]}/special",
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
    )
    for name in (*_NEEDED, _COMPILED):
        full = f"{_PACKAGE}.{name}"
        spec = finder.find_spec(full)
        if full in sys.modules or spec is None:
            continue
        assert spec.loader is not None
        sys.modules[full] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[f"{_PACKAGE}.{_COMPILED}"]
