"""Models that the price list does not know, remembered from one command to the next.

The list takes a tenth of a second to load, and most models of one's own are not in it. One small
file in the user's cache holds their names; where it cannot be written, the list is asked again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from calipers.support.cache import find_cache_home
from calipers.support.whole_files import stage_file

_MOST = 200  # names
_LONGEST = 200  # characters


def is_unlisted(model: str) -> bool:
    """Say whether the list, as it is installed, is known not to have the model."""
    return model in _read(_locate(), _find_version())


def remember_unlisted(model: str) -> None:
    """Remember that the list does not have a model."""
    place, of = _locate(), _find_version()
    known = _read(place, of)
    if model in known or len(known) >= _MOST or len(model) > _LONGEST:
        return
    known.add(model)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with stage_file(place, private=True) as beside:
            beside.write_text(json.dumps({"version": of, "models": sorted(known)}))


@cache
def _find_version() -> str | None:
    try:
        return version("genai-prices")
    except PackageNotFoundError:
        return None


def _locate() -> Path:
    return find_cache_home() / "unlisted-models.json"


@cache
def _read(place: Path, of: str | None) -> set[str]:
    """Return the names in the file; none if they are of another version, or it cannot be read."""
    with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
        found = json.loads(place.read_bytes())
        if found["version"] == of:
            return {name for name in found["models"] if isinstance(name, str)}
    return set()
