"""Scripts and styles of the pages, all of them from this machine."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files

from calipers.pages.inlining import static
from calipers.version import __version__
from calipers.web.cache_folder import cache_home

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
        return _drawing_script()
    if name == "htmx.js":
        place = files("js_lib_htmx").joinpath("static", "htmx", "htmx.min.js")
        return place.read_text(encoding="utf-8")
    if name.startswith("view."):
        own = files("calipers.web").joinpath("static", name)
        return own.read_text(encoding="utf-8")
    return static(name)


def _drawing_script() -> str:
    """Bundling it takes a second or more, so that it is kept."""
    path = cache_home() / f"vega-{version('vl-convert-python')}.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        from calipers.pages.vega import drawing_script  # noqa: PLC0415 (loads Altair)

        script = drawing_script()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(script, encoding="utf-8")
        beside.replace(path)
    except OSError:
        pass  # it is made anew next time
    return script
