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


def locate_asset(name: str) -> str:
    """Return the address of a script or a style, which differs by version."""
    return f"/static/{__version__}/{name}"


@cache
def read_asset(name: str) -> str:
    """Return the text of a script or a style."""
    if name == "vega.js":
        return load_script()
    if name == "htmx.js":
        place = files("js_lib_htmx").joinpath("static", "htmx", "htmx.min.js")
        return place.read_text(encoding="utf-8")
    if name.startswith("view."):
        own = files("calipers.dashboard").joinpath("static", name)
        return own.read_text(encoding="utf-8")
    return read_static(name)
