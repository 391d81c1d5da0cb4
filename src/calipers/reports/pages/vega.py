"""Figures inside pages: the drawing script, and charts as JSON that no text can break out of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from calipers.reports.colours import FAINT, GREY, INK, PALETTE, PAPER
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.reports.charts.chart import Chart

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_DATA = ("data", "datasets")

COLOURS: Mapping[str, str] = {
    INK: "var(--ink)",
    GREY: "var(--quiet)",
    FAINT: "var(--line)",
    PAPER: "var(--paper)",
    "#eeeeee": "var(--hairline)",
    "#888888": "var(--rule)",
    "#999999": "var(--quiet)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(PALETTE, start=1)},
}
"""The colours of charts as the page's own, so that they follow light, dark and print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFigure:
    """A chart for a page: what it shows, how to read it, and what the script draws."""

    name: str
    title: str
    notes: tuple[str, ...]
    spec: Mapping[str, Any]


def make_page_figure(name: str, chart: Chart) -> PageFigure:
    """Return a chart with its title and notes as text of the page, in the page's colours."""
    spec = {**chart.spec, "background": None}
    title = spec.pop("title")
    return PageFigure(
        name=name,
        title=title["text"],
        notes=_split_sentences(title["subtitle"]),
        spec={key: part if key in _DATA else _recolor(part) for key, part in spec.items()},
    )


def _split_sentences(lines: list[str]) -> tuple[str, ...]:
    """Return the notes before they were wrapped: a note ends with a full stop."""
    found: list[str] = []
    for line in lines:
        if found and not found[-1].endswith("."):
            found[-1] += f" {line}"
        else:
            found.append(line)
    return tuple(found)


def _recolor(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: each if key in _DATA else _recolor(each) for key, each in part.items()}
    if isinstance(part, list):
        return [_recolor(each) for each in part]
    return COLOURS.get(part, part) if isinstance(part, str) else part


def dump_page_json(value: Any) -> Markup:
    """Return JSON for a script element: no character in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 (nothing in it is markup any more)
