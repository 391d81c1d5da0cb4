"""A run in progress: a live view on a terminal, or a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import floor, log10
from typing import TYPE_CHECKING

from calipers.reports.figures import format_figure
from calipers.statistics.intervals import wilson

if TYPE_CHECKING:
    from calipers.systems.tally import Tally

_LINE_EVERY = 10.0  # seconds, where there is no terminal
_CONFIDENCE = 0.95
_MINUTE = 60
_LEAST_SHOWN = 1e-6


@contextmanager
def watch_run(tally: Tally) -> Iterator[None]:
    """Show a live view on a terminal, else a line now and then; both on stderr."""
    if sys.stderr.isatty():
        with _show_live(tally):
            yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_say_lines, args=(tally, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show_live(tally: Tally) -> AbstractContextManager[object]:
    """Return what shows a bar and a line of counts on stderr while its block runs."""
    from rich.console import Console, RenderableType  # noqa: PLC0415 (only on a terminal)
    from rich.live import Live  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def draw() -> RenderableType:
        view = Grid.grid()
        view.add_row(ProgressBar(total=tally.calls, completed=tally.done, width=40))
        view.add_row(Text(format_progress(tally)))
        return view

    console = Console(stderr=True)
    return Live(
        get_renderable=draw,
        console=console,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
    )


def _say_lines(tally: Tally, over: threading.Event) -> None:
    while not over.wait(_LINE_EVERY):
        sys.stderr.write(f"{format_progress(tally)}\n")
        sys.stderr.flush()


def format_progress(tally: Tally) -> str:
    """Return a line such as `120/400 calls, 2 failed, 31,200 tokens, $0.0123, 20 s left`."""
    said = [f"{tally.done:,}/{tally.calls:,} calls"]
    if tally.errors:
        said.append(f"{tally.errors:,} failed")
    if tally.truncated:
        said.append(f"{tally.truncated:,} truncated")
    if tally.tokens:
        said.append(f"{tally.tokens:,.0f} tokens")
    if tally.priced:
        said.append(format_dollars(tally.cost_usd))
    if tally.rate > 0:
        said.append(f"{tally.rate:,.1f} calls/s")
        said.append(f"{_format_time(tally.seconds_left or 0)} left")
    if tally.decided:
        share = tally.right / tally.decided
        # Runs of one task are taken for independent here; the score at the end knows better.
        around = wilson(share, tally.decided, 0.0, tally.decided, _CONFIDENCE)
        said.append(f"accuracy {format_figure(share, around.low, around.high)}")
    return ", ".join(said)


def format_dollars(amount: float) -> str:
    """Return $5.00, or as many digits as a small sum needs.

    >>> format_dollars(1234.5), format_dollars(0.0020734), format_dollars(2e-9)
    ('$1,234.50', '$0.00207', '< $0.000001')
    """
    if amount >= 1 or not amount:
        return f"${amount:,.2f}"
    if amount < _LEAST_SHOWN:
        return f"< ${_LEAST_SHOWN:f}"
    return f"${amount:.{2 - floor(log10(amount))}f}"


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
