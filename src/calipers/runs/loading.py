"""What a run needs once its calls are made, loaded while others keep it waiting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import Event, Thread, local

from calipers.metrics import catalogue
from calipers.runs.suite import Suite

NEEDED_AFTER_CALLS = (
    "numpy.random",  # first: where there are keys, replies are searched with NumPy
    "calipers.runs.finish",
    "calipers.engines.polars",
    "calipers.scores.plans",
    "calipers.reports.pages.report",
    "calipers.reports.run",
    "calipers.reports.terminal",
    "rich.console",
)
_HEAD_START = 0.05  # seconds in which the first calls are sent
_PAUSE = 0.001  # seconds before each module, in which replies are read


@contextmanager
def load_meanwhile(suite: Suite) -> Iterator[None]:
    """Load modules in a thread while the calls of the block wait for other processes.

    Functions and tools of this process would share Python's lock with the thread, and their latency
    would be measured wrong; then the modules are loaded when they are used.
    """
    runs_code = suite.tools is not None or any(system.python for system in suite.systems)
    if runs_code or all(name in sys.modules for name in NEEDED_AFTER_CALLS):
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
    if _pauses not in sys.meta_path:
        sys.meta_path.insert(0, _pauses)  # for good: who imports meanwhile goes through this list
    _here.over = over
    for name in NEEDED_AFTER_CALLS:
        with suppress(Exception):  # it is told where the module is used
            import_module(name)
    with suppress(Exception):
        catalogue()


_here = local()


class _Pauses(MetaPathFinder):
    """Finds nothing; in a thread that loads, it pauses before each module until calls are over."""

    def find_spec(self, *_: object) -> None:
        over: Event | None = getattr(_here, "over", None)
        if over is not None:
            over.wait(_PAUSE)


_pauses = _Pauses()
