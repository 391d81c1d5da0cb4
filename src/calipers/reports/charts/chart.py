"""A chart: shown in a notebook, put into a page, saved as a file, changed as Vega-Lite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import write_whole

_MIME = "application/vnd.vegalite.v6+json"
PIXELS = 2  # of a saved PNG per pixel of the drawing, for screens and print
_FORMATS = ("svg", "pdf", "png", "html", "json")


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A figure as a Vega-Lite specification. Shows in a notebook, saves as a file."""

    spec: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, to change at will or to give to other tools."""
        return deepcopy(self.spec)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the Vega-Lite specification as JSON."""
        return json.dumps(self.spec, indent=indent, ensure_ascii=False)

    def save(self, path: str | Path, *, scale_factor: float = 1) -> Path:
        """Write SVG, PDF, PNG, HTML or JSON, by the ending of the name; return where.

        A page works without a network. `scale_factor` is how many pixels of a PNG, or points of
        a PDF, a pixel of the drawing has.

        Raises:
            UsageError: The name has another ending, or the file cannot be written.
        """
        place = Path(path)
        kind = place.suffix.removeprefix(".").lower()
        if kind not in _FORMATS:
            endings = ", ".join(f".{each}" for each in _FORMATS)
            raise UsageError(
                f"{place}: a chart is not saved as {kind!r}", fix=f"end the name in {endings}"
            )
        write_whole(place, self.render(kind, scale_factor))
        return place

    def render(self, kind: str, scale_factor: float = 1) -> bytes:
        """Return the bytes of a file: `svg`, `pdf`, `png`, `html` or `json`."""
        import vl_convert  # noqa: PLC0415 (loads a large library)

        if kind == "json":
            return self.to_json().encode()
        if kind == "svg":
            return vl_convert.vegalite_to_svg(self.spec).encode()
        if kind == "html":
            return vl_convert.vegalite_to_html(self.spec, bundle=True).encode()
        draw = vl_convert.vegalite_to_png if kind == "png" else vl_convert.vegalite_to_pdf
        return draw(self.spec, scale=scale_factor)

    def to_html(self) -> str:
        """Return a picture to put into a page: it shows anywhere and offline."""
        return f"<div>{self.render('svg').decode()}</div>"

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, Any]:
        """Return what a notebook shows: the specification, or a picture where that is unknown."""
        return {_MIME: self.spec, "text/html": self.to_html()}

    def __repr__(self) -> str:
        return f"Chart({self.spec['title']['text']!r})"


def save_charts(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Write each chart as NAME.svg, NAME.pdf and NAME.png."""
    if charts:
        make_folder(folder)
    written = []
    for name, chart in charts.items():
        for kind, scale in (("svg", 1), ("pdf", 1), ("png", PIXELS)):
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
