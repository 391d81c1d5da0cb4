"""The live view of a run on a terminal: a bar, and a line of counts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from calipers.reports.run import format_progress

if TYPE_CHECKING:
    from calipers.systems.tally import Tally


def show_live(tally: Tally) -> AbstractContextManager[object]:
    """Return what shows the counts on stderr while its block runs."""
    return Live(
        get_renderable=lambda: _draw_progress(tally),
        console=Console(stderr=True),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
    )


def _draw_progress(tally: Tally) -> RenderableType:
    view = Table.grid()
    view.add_row(ProgressBar(total=tally.calls, completed=tally.done, width=40))
    view.add_row(Text(format_progress(tally)))
    return view
