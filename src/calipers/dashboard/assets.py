"""Scripts and styles of the pages, all of them from this machine."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from calipers.reports.pages.drawing_script import load_script
from calipers.reports.pages.inlining import read_static
from calipers.support.version import __version__

ASSETS = (
    *("style.css", "view.css", "view.svg"),
    *("theme.js", "figures.js", "view.js", "vega.js", "htmx.js"),
)
MEDIA = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def asset(name: str) -> str:
    """The address of a script or a style, another one with each version."""
    return f"/static/{__version__}/{name}"


@cache
def asset_text(name: str) -> str:
    """The text of one of them."""
    if name == "vega.js":
        return load_script()
    if name == "htmx.js":
        place = files("js_lib_htmx").joinpath("static", "htmx", "htmx.min.js")
        return place.read_text(encoding="utf-8")
    if name.startswith("view."):
        own = files("calipers.dashboard").joinpath("static", name)
        return own.read_text(encoding="utf-8")
    return read_static(name)
