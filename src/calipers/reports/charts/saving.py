"""Charts as files: SVG, PDF and PNG, without a browser and without a network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from calipers.reports.charts.style import Drawing
from calipers.support.errors import UsageError
from calipers.support.whole_files import write_whole

_PIXELS = 2  # of a PNG per pixel of the drawing, for screens and print


def save_charts(charts: Mapping[str, Drawing], folder: Path) -> list[Path]:
    """Write each chart as NAME.svg, NAME.pdf and NAME.png."""
    if charts:
        make_folder(folder)
    written = []
    for name, chart in charts.items():
        for suffix, data in _render(chart):
            path = folder / f"{name}{suffix}"
            write_whole(path, data)
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


def _render(chart: Drawing) -> Iterator[tuple[str, bytes]]:
    svg = io.StringIO()
    chart.save(svg, format="svg")
    yield ".svg", svg.getvalue().encode()
    pdf = io.BytesIO()
    chart.save(pdf, format="pdf")
    yield ".pdf", pdf.getvalue()
    png = io.BytesIO()
    chart.save(png, format="png", scale_factor=_PIXELS)
    yield ".png", png.getvalue()
