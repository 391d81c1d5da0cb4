"""What a run needs once its calls are made, loaded while others keep it waiting."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread

from calipers.runs.suite import Suite

NEEDED_AFTER_CALLS = (
    "numpy.random",  # first: a mask of keys needs NumPy with the first reply
    "calipers.runs.finish",
    "calipers.engines.polars",
    "calipers.scores.plans",
    "calipers.reports.pages.report",
    "calipers.reports.run",
    "calipers.reports.terminal",
    "rich.console",
)
_TURN = 0.0005  # seconds that a reply waits at most for Python's lock while modules are loaded


@contextmanager
def load_meanwhile(suite: Suite) -> Iterator[None]:
    """Load modules in a thread while the calls of the block wait for other processes.

    A function of this process would share Python's lock with the thread, and its latency would be
    measured wrong; then the modules are loaded when they are used.
    """
    if any(system.python is not None for system in suite.systems):
        yield
        return
    thread = Thread(target=_load, args=(NEEDED_AFTER_CALLS,), daemon=True, name="calipers-loading")
    turn = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        sys.setswitchinterval(turn)


def _load(names: Sequence[str]) -> None:
    for name in names:
        with suppress(Exception):  # it is told where the module is used
            import_module(name)
