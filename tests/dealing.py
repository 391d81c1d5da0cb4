"""Which tests share a process under `pytest -n 3`: those of Spark, of systems, and of one file.

`--dist loadgroup` would do, but pytest-xdist 3.8 ignores groups under pytest 9.2 (its issue 1386):
each process started Java and a browser, and prepared what the tests of a file share.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

SPARK = "spark"
SYSTEMS = "tests/systems/"  # which import what each provider and framework brings
# Units of few and slow tests begin first, so that no process is left with one at the end.
_SLOWEST = (
    *(SPARK, SYSTEMS, "tests/dashboard/test_browser", "tests/reports/test_browser"),
    *("tests/conformance/", "tests/runs/", "tests/judges/", "tests/reports/"),
)


def unit_of(nodeid: str) -> str:
    """Return the name of what a test is dealt out with: Spark, systems, or its file."""
    if SPARK in nodeid.lower():
        return SPARK
    return SYSTEMS if nodeid.startswith(SYSTEMS) else nodeid.split("::", maxsplit=1)[0]


def sort_slowest_first(items: list[pytest.Item]) -> None:
    """Sort tests unit by unit: those known to be slow, then by the number of tests."""
    size = Counter(unit_of(item.nodeid) for item in items)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        unit = unit_of(item.nodeid)
        slow = [at for at, start in enumerate(_SLOWEST) if unit.startswith(start)]
        return min(slow, default=len(_SLOWEST)), -size[unit], unit

    items.sort(key=place)


def make_dealer(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler of pytest-xdist that deals out unit by unit, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 (it may be missing)

    class Dealer(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return Dealer(config, log)
