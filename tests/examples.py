"""How many examples a property is tried on: a fifth in `make test`, all in `make test-long`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

LONG = "long"


def examples(many: int, **more: Any) -> settings:
    """Return the settings of a property that is worth so many examples, at least five of them."""
    long = settings.get_current_profile_name() == LONG
    return settings(max_examples=many if long else max(5, many // 5), **more)
