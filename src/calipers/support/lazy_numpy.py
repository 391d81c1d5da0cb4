"""NumPy, imported when first used: it loads slowly, and a few records can be counted without it.

>>> np.sqrt(4.0).item()
2.0
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["WORTH_LOADING", "is_numpy_scalar", "np", "replace_numpy"]

WORTH_LOADING = 10_000  # rows; with fewer, Polars alone is done sooner than NumPy is loaded

if TYPE_CHECKING:
    import numpy as np
else:

    class _Late(ModuleType):
        """A stand-in for a module, which is imported when one of its names is first used."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(import_module(self.__name__), name)
            setattr(self, name, attribute)  # found without __getattr__ the next time
            return attribute

    np = _Late("numpy")


def is_numpy_scalar(value: object) -> bool:
    """Return True if a value is one of NumPy's, of which there are none before it is loaded."""
    return "numpy" in sys.modules and isinstance(value, np.generic)


def replace_numpy(value: Any) -> Any:
    """Return a value of JSON in which NumPy's numbers, texts and arrays are Python's.

    >>> replace_numpy({"cost_usd": np.float32(0.5), "scores": [np.int64(1)], "ids": np.arange(2)})
    {'cost_usd': 0.5, 'scores': [1], 'ids': [0, 1]}
    """
    if "numpy" not in sys.modules:
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {replace_numpy(name): replace_numpy(part) for name, part in value.items()}
    return type(value)(map(replace_numpy, value)) if type(value) in (list, tuple) else value
