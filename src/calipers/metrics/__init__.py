"""Every metric, declared once, in the file of its family.

`mean`, `quantile` and `sum` declare a metric of your own; `calipers.register` adds it. The names
are listed once, in `__init__.pyi`, and loaded when they are first used: the command line reads the
options of metrics, and no more.
"""

from importlib import import_module
from typing import Any

import lazy_loader

PROFILES = ("reasoning", "tiers", "scenarios", "agents")
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["PROFILES"]


def __getattr__(name: str) -> Any:
    """Return what loads Polars only once it is asked for."""
    if name in __all__:
        import_module(f"{__name__}.lookup")  # makes the registry of metrics known
    return _load(name)
