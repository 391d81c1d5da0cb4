"""A chart, what it is made of in Vega-Lite, and the look of all: colours, fonts, title and notes.

A chart is shown in a notebook, put into a page, saved as a file, or changed as Vega-Lite. Its parts
are plain values: fields, marks, layers, panels.

>>> mark("rule", {"opacity": 0.4}, x=quantity("low"), x2="high")["encoding"]["x2"]
{'field': 'high'}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from calipers.support.errors import UsageError
from calipers.support.files import write_whole

INK, GREY, FAINT, PAPER = "#222222", "#666666", "#dddddd", "#ffffff"

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, without the yellow that is hard to see on white."""


Spec = dict[str, Any]
"""A part of a specification: https://vega.github.io/vega-lite/docs/."""


def quantity(field: str, **look: Any) -> Spec:
    """Return a number of each row, with its scale, axis, title or format."""
    return {"field": field, "type": "quantitative", **look}


def category(field: str, **look: Any) -> Spec:
    """Return a name or another text of each row, with its scale, axis, legend or title."""
    return {"field": field, "type": "nominal", **look}


def constant(value: Any) -> Spec:
    """Return what is the same for all rows: a colour, a shape, a pixel."""
    return {"value": value}


def mark(
    kind: str,
    look: Mapping[str, Any],
    *,
    rows: Iterable[Mapping[str, Any]] | None = None,
    **channels: Spec | list[Spec] | str,
) -> Spec:
    """Return a mark for each row, its own rows or those of the layers that it is among.

    A channel that is a bare name, as `x2="high"`, is a field without properties of its own.
    """
    encoding = {
        name: {"field": channel} if isinstance(channel, str) else channel
        for name, channel in channels.items()
    }
    return {"mark": {"type": kind, **look}, "encoding": encoding, **_hold(rows)}


def layer(*marks: Spec, rows: Iterable[Mapping[str, Any]] | None = None, **properties: Any) -> Spec:
    """Return marks over each other, the last on top, with rows for those that have none."""
    return {"layer": list(marks), **_hold(rows), **properties}


def concat(panels: Iterable[Spec], **properties: Any) -> Spec:
    """Return charts beside and below each other."""
    return {"concat": list(panels), **properties}


def _hold(rows: Iterable[Mapping[str, Any]] | None) -> Spec:
    return {} if rows is None else {"data": {"values": [dict(row) for row in rows]}}


_MIME = "application/vnd.vegalite.v6+json"
PIXELS = 2  # of a saved PNG per pixel of the drawing, for screens and print
_FORMATS = ("svg", "pdf", "png", "html", "json")


# What every object of JavaScript has: Vega keeps groups by their names in plain objects, and takes
# a group of such a name for one that is there already.
_RESERVED_NAMES = frozenset(
    (
        *("__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__"),
        *("__lookupSetter__", "constructor", "hasOwnProperty", "isPrototypeOf"),
        *("propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
    )
)
_UNSEEN = "\u2060"  # a word joiner, which has no width


def _mark_reserved(part: Any) -> Any:
    """Return a specification in which no text is the name of something in all objects."""
    if isinstance(part, dict):
        return {name: _mark_reserved(each) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_mark_reserved(each) for each in part]
    return f"{part}{_UNSEEN}" if isinstance(part, str) and part in _RESERVED_NAMES else part


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A figure as a Vega-Lite specification. Shows in a notebook, saves as a file."""

    spec: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _mark_reserved(self.spec))

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


FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LINE_CHARS = 105  # of a subtitle, so that it fits the width of a chart
_TITLE_STYLE = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 16,
    "subtitleFontSize": 12,
    "subtitleColor": GREY,
    "subtitleLineHeight": 16,
    "offset": 14,
}
_CONFIG = {
    "background": PAPER,
    "font": FONT,
    "padding": {"left": 16, "top": 16, "right": 20, "bottom": 16},
    "title": {"color": INK, "subtitleColor": GREY, "limit": 0},
    "axis": {
        "labelColor": GREY,
        "labelFontSize": 11,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": "#eeeeee",
        "domainColor": "#888888",
        "tickColor": "#888888",
    },
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelColor": INK,
        "titleColor": GREY,
        "labelLimit": 260,
    },
    "view": {"stroke": None},
}


def finish_chart(picture: Spec, title: str, notes: Iterable[str]) -> Chart:
    """Return the chart in the look of all, its title above it, and how to read it below that."""
    lines = [line for note in notes for line in wrap(note, _LINE_CHARS)]
    shown = {"text": title, "subtitle": lines, **_TITLE_STYLE}
    return Chart({"$schema": _SCHEMA, "config": _CONFIG, "title": shown, **picture})
