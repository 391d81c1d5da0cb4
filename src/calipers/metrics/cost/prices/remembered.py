"""What the price list said of models, remembered from one command to the next.

The list takes a tenth of a second to load, and most commands ask for the same few models. One small
file in the user's cache holds what it said of them, for the versions that are installed and until
one of its prices changes; where it cannot be read or written, the list is asked again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple, field
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.metrics.cost.prices.table import Price
from calipers.support.cache import find_cache_home
from calipers.support.quick_dataclasses import dataclass
from calipers.support.version import __version__
from calipers.support.whole_files import stage_file

Tariff = tuple[tuple[float, Price], ...]
"""A model's prices, each with the number of input tokens that a call must pass for it to hold."""

_MOST = 200  # models
_LONGEST = 200  # characters of a name
_OF_ANOTHER_SHAPE = (TypeError, KeyError, AttributeError)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The day whose prices hold, until when, and the prices asked for so far; None: not listed."""

    version: str
    day: date
    until: date | None = None  # the day of the next change, where one is announced
    tariffs: dict[str, Tariff | None] = field(default_factory=dict, hash=False)

    def remember(self, model: str, tariff: Tariff | None) -> None:
        """Keep what the list said, also for other commands."""
        if model in self.tariffs or len(self.tariffs) >= _MOST or len(model) > _LONGEST:
            return
        self.tariffs[model] = tariff
        place = _locate()
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            with stage_file(place, private=True) as beside:
                beside.write_text(json.dumps(self._to_dict()), encoding="utf-8")

    def _to_dict(self) -> dict[str, Any]:
        return {
            "calipers": __version__,
            "version": self.version,
            "day": self.day.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "models": {
                name: None if tariff is None else [[above, astuple(at)] for above, at in tariff]
                for name, tariff in [*self.tariffs.items()]  # another thread may add one
            },
        }


def read_excerpt(version: str, today: date) -> Excerpt | None:
    """Return what is remembered of this version of the list; None where it does not hold today."""
    with suppress(OSError, ValueError, ArithmeticError, RecursionError, *_OF_ANOTHER_SHAPE):
        found = json.loads(_locate().read_bytes())
        day = date.fromisoformat(found["day"])
        until = None if found["until"] is None else date.fromisoformat(found["until"])
        is_same = (found["calipers"], found["version"]) == (__version__, version)
        if is_same and day <= today and (until is None or today < until):
            models = {name: _read_tariff(tariff) for name, tariff in found["models"].items()}
            return Excerpt(version, day, until, models)
    return None


def _read_tariff(given: list[Any] | None) -> Tariff | None:
    """Return a tariff; raise ValueError for what cannot be one."""
    if given is None:
        return None
    tariff = tuple((_read_number(above), _read_price(at)) for above, at in given)
    if not tariff or tariff[0][0] >= 0:
        raise ValueError("no price for a call without input")
    return tariff


def _read_price(given: list[Any]) -> Price:
    needed, (read, write) = [_read_number(each) for each in given[:2]], given[2:]
    if min(*needed, read or 0, write or 0) < 0:
        raise ValueError("a negative price")
    cached = (None if each is None else _read_number(each) for each in (read, write))
    return Price(*needed, *cached)


def _read_number(given: Any) -> float:
    if isinstance(given, bool) or not isfinite(given):
        raise ValueError("no number")
    return float(given)


def _locate() -> Path:
    return find_cache_home() / "price-list.json"
