"""NumPy, imported when first used: it loads slowly, and a few records can be counted without it.

>>> np.sqrt(4.0).item()
2.0
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["WORTH_LOADING", "is_numpy_scalar", "np"]

WORTH_LOADING = 10_000  # rows; with fewer, Polars alone is done sooner than NumPy is loaded

if TYPE_CHECKING:
    import numpy as np
else:

    class _Late(ModuleType):
        """A stand-in for a module, which is imported when one of its names is first used."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module(self.__name__), name)
            setattr(self, name, found)  # found without __getattr__ the next time
            return found

    np = _Late("numpy")


def is_numpy_scalar(value: object) -> bool:
    """Say whether a value is one of NumPy's, of which there are none before it is loaded."""
    return "numpy" in sys.modules and isinstance(value, np.generic)
