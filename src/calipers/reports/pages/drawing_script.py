"""The script that draws figures in a page: Vega, Vega-Lite and vega-embed, without a network.

vl-convert takes seconds to put it together, so that it is kept in the user's cache.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from calipers.support.cache import find_cache_home

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
    _keep(script, _find_place())
    return script


def find_script() -> str | None:
    """Return the script if it is in the cache, whole."""
    return _read(_find_place())


def _find_place() -> Path:
    return find_cache_home() / f"vega-{version('vl-convert-python')}.js"


def _read(place: Path) -> str | None:
    try:
        script = place.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
    return script if script.startswith(_START) and script.endswith(_END) else None


def _keep(script: str, place: Path) -> None:
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(script, encoding="utf-8")
        beside.replace(place)
    except OSError:
        with suppress(OSError):
            beside.unlink()
