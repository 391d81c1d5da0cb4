"""What a run needs once its calls are made, loaded while others keep it waiting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import Event, Thread, get_ident

from calipers.metrics import catalogue
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
_HEAD_START = 0.03  # seconds in which the first calls are sent
_PAUSE = 0.001  # seconds after each module, in which replies are read


@contextmanager
def load_meanwhile(suite: Suite) -> Iterator[None]:
    """Load modules in a thread while the calls of the block wait for other processes.

    A function of this process would share Python's lock with the thread, and its latency would be
    measured wrong; then the modules are loaded when they are used.
    """
    if any(system.python is not None for system in suite.systems):
        yield
        return
    over = Event()
    thread = Thread(target=_load, args=(over,), daemon=True, name="calipers-loading")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _load(over: Event) -> None:
    over.wait(_HEAD_START)
    pauses = _Pauses(over)
    sys.meta_path.insert(0, pauses)
    try:
        for name in NEEDED_AFTER_CALLS:
            with suppress(Exception):  # it is told where the module is used
                import_module(name)
        with suppress(Exception):
            catalogue()
    finally:
        sys.meta_path.remove(pauses)


class _Pauses(MetaPathFinder):
    """Finds nothing, and pauses before each module that its thread loads, until calls are over."""

    def __init__(self, over: Event) -> None:
        self._over = over
        self._thread = get_ident()

    def find_spec(self, *_: object) -> None:
        if get_ident() == self._thread:
            self._over.wait(_PAUSE)
