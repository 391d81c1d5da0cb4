"""Charts as files: SVG, PDF and PNG, without a browser and without a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calipers.reports.charts.chart import Chart
from calipers.support.errors import UsageError
from calipers.support.whole_files import write_whole

PIXELS = 2  # of a PNG per pixel of the drawing, for screens and print
_SCALES = {"svg": 1, "pdf": 1, "png": PIXELS}


def save_charts(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Write each chart as NAME.svg, NAME.pdf and NAME.png."""
    if charts:
        make_folder(folder)
    written = []
    for name, chart in charts.items():
        for kind, scale in _SCALES.items():
            path = folder / f"{name}.{kind}"
            write_whole(path, chart.render(kind, scale))
            written.append(path)
    return written


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", fix="name another folder") from error
