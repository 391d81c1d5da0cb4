"""How much of a promise `make test` tries: a tenth of the examples, the first of many cases.

`make test-long` tries all of them, as does CI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

LONG = "long"


def examples(many: int, **more: Any) -> settings:
    """Return the settings of a property that is worth so many examples, at least four of them."""
    long = settings.get_current_profile_name() == LONG
    return settings(max_examples=many if long else max(4, many // 10), **more)


def first_of(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return cases for `parametrize`, of which all but the first few are long; tuples are unpacked."""
    return [
        case
        if at < quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for at, case in enumerate(cases)
    ]
