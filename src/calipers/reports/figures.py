"""Numbers as people read them, and text that cannot harm a terminal or a page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from calipers.scores.results import Group, Measured

NOTHING = "—"
_TINY = 0.001
_HUNDRED = 100
_MOST_DECIMALS = 6
_NAMED = 6  # groups in a note


def figure(value: float | None, unit: str | None = None) -> str:
    """A value with as many digits as say something: 0.5625, 46.5, 26,446.6."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 0 < abs(value) < _TINY:
        return f"{value:#.3g}"
    if unit is None or abs(value) < 10:  # noqa: PLR2004
        return f"{value:.4f}"
    if abs(value) < _HUNDRED:
        return f"{value:.2f}"
    return f"{value:,.1f}"


def with_interval(measured: Measured, unit: str | None = None) -> str:
    """A value and its error bar: 0.5625 ± 0.027, or 0.995 [0.971, 0.999] where it is lopsided."""
    value, low, high = measured.value, measured.low, measured.high
    text = figure(value, unit)
    if value is None or (low is None and high is None):
        return text
    return f"{text} {reach(value, low, high, unit)}"


def reach(value: float, low: float | None, high: float | None, unit: str | None) -> str:
    """How far an interval reaches: ± 0.027, or its bounds where it is lopsided."""
    if low is None or high is None or _lopsided(value, low, high):
        return f"[{figure(low, unit)}, {figure(high, unit)}]".replace("-", "−")
    return f"± {_half((high - low) / 2)}"


def _lopsided(value: float, low: float, high: float) -> bool:
    return math.isinf(high - low) or abs((high - value) - (value - low)) > (high - low) / 10


def _half(half: float) -> str:
    """Half of an interval, to two digits that say something."""
    if half == 0 or math.isinf(half):
        return "0" if half == 0 else "∞"
    if half < 10.0**-_MOST_DECIMALS:
        return f"{half:.2g}"
    decimals = min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(half))))
    return f"{half:,.{decimals}f}"


def group_name(by: Mapping[str, Any]) -> str:
    """A group's key on one line."""
    if not by:
        return "all"
    return ", ".join("(none)" if value is None else printable(value) for value in by.values())


def printable(value: object) -> str:
    """A text from outside without control characters: it must not drive the terminal."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def reasons(groups: Sequence[Group]) -> list[str]:
    """Why values are null: one line per metric and reason, with the groups it holds for."""
    return [
        *_notes(groups, lambda measured: measured.reason),
        *_together(groups, lambda measured: measured.interval_reason, "a bound is unknown:"),
        *_together(groups, lambda measured: measured.scope, "the interval holds only for the"),
    ]


def _notes(groups: Sequence[Group], note: Callable[[Measured], str | None]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for name, measured in group.metrics.items():
            if (said := note(measured)) is not None:
                found.setdefault((name, said), []).append(group_name(group.by))
    return [
        f"{name}: {said}" + ("" if len(names) == len(groups) else f" ({_some(names)})")
        for (name, said), names in found.items()
    ]


def _together(
    groups: Sequence[Group], note: Callable[[Measured], str | None], head: str
) -> list[str]:
    """One line per note, with the metrics it holds for in some group."""
    found: dict[str, dict[str, None]] = {}
    for group in groups:
        for name, measured in group.metrics.items():
            if (said := note(measured)) is not None:
                found.setdefault(said, {})[name] = None
    return [f"{_some(list(names))}: {head} {said}" for said, names in found.items()]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
