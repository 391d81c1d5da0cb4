"""Scripts, styles and figures inside a page, which works from disk and without a network.

The drawing script is Vega, Vega-Lite and vega-embed in one; vl-convert takes seconds to put it
together, so that it is kept in the user's cache. Scripts and styles are allowed by their hashes and
nothing else is; charts are JSON that no text in it can break out of.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from calipers.reports.charts.chart import FAINT, GREY, INK, PALETTE, PAPER
from calipers.support.files import find_cache_home

if TYPE_CHECKING:
    from calipers.reports.charts.chart import Chart


@cache
def read_static(name: str) -> str:
    """Return the text of one of our own files."""
    return files("calipers.reports.pages").joinpath("static", name).read_text(encoding="utf-8")


def make_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the content security policy: run exactly these texts, load and send nothing."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash_source, scripts))}",
            f"style-src {' '.join(map(_hash_source, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_START = "// calipers: whole\n"  # a file that was cut short, or is another's, does not have both
_END = "\n// calipers: end\n"


@cache
def load_script() -> str:
    """Return the script from the cache, or made again if it cannot be cached."""
    kept = find_script()
    if kept is not None:
        return kept
    from vl_convert import javascript_bundle  # noqa: PLC0415 (loads a large library)

    script = f"{_START}{javascript_bundle()}{_END}"  # type: ignore[call-arg]
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("the drawing script cannot be put into a page")
    _write_script(script, _locate_script())
    return script


def find_script() -> str | None:
    """Return the script if it is in the cache, whole."""
    return _read_script(_locate_script())


def _locate_script() -> Path:
    return find_cache_home() / f"vega-{version('vl-convert-python')}.js"


def _read_script(place: Path) -> str | None:
    try:
        script = place.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
    return script if script.startswith(_START) and script.endswith(_END) else None


def _write_script(script: str, place: Path) -> None:
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(script, encoding="utf-8")
        beside.replace(place)
    except OSError:
        with suppress(OSError):
            beside.unlink()


_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_DATA_KEYS = ("data", "datasets")

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
        spec={key: part if key in _DATA_KEYS else _recolor(part) for key, part in spec.items()},
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
        return {key: each if key in _DATA_KEYS else _recolor(each) for key, each in part.items()}
    if isinstance(part, list):
        return [_recolor(each) for each in part]
    return COLOURS.get(part, part) if isinstance(part, str) else part


def dump_page_json(value: Any) -> Markup:
    """Return JSON for a script element: no character in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 (nothing in it is markup any more)
