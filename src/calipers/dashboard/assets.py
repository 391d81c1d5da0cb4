"""Scripts and styles of the pages, all of them from this machine."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.resources import files
from threading import Lock

from calipers.reports.pages.drawing_script import find_script, load_script
from calipers.reports.pages.inlining import read_static
from calipers.support.version import __version__

ASSETS = (
    *("style.css", "view.css", "view.svg"),
    *("theme.js", "figures.js", "view.js", "vega.js", "htmx.js"),
)
_MAKE_SCRIPT = """
import os, sys
getattr(os, "nice", int)(10)
from calipers.reports.pages.drawing_script import load_script
sys.stdout.buffer.write(load_script().encode())
"""
_one_at_a_time = Lock()
MEDIA = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def locate_asset(name: str) -> str:
    """Return the address of a script or a style; it contains the version."""
    return f"/static/{__version__}/{name}"


@cache
def read_asset(name: str) -> str:
    """Return the text of a script or a style."""
    if name == "vega.js":
        return load_script_apart()
    if name == "htmx.js":
        place = files("js_lib_htmx").joinpath("static", "htmx", "htmx.min.js")
        return place.read_text(encoding="utf-8")
    if name.startswith("view."):
        own = files("calipers.dashboard").joinpath("static", name)
        return own.read_text(encoding="utf-8")
    return read_static(name)


def load_script_apart() -> str:
    """Return the drawing script; another process makes it, unless it is in the cache.

    Making it takes more than a second and would block every other thread of this process.
    """
    with _one_at_a_time:
        if (kept := find_script()) is not None:
            return kept
        command = [sys.executable, "-P", "-c", _MAKE_SCRIPT]
        made = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 (no input)
        return load_script() if made.returncode else made.stdout.decode()
