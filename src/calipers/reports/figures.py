"""Numbers for people, and text that cannot harm a terminal or a page.

One rule for every format: an interval decides how many digits its value has.

>>> format_figure(0.87213, 0.76789, 0.93312), format_figure(36.912, 34.6, 39.2)
('0.872 [0.768, 0.933]', '36.9 ± 2.3')
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Protocol

from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NOTHING = "—"
_DIGITS = 4  # of a number without an interval
_DIGITS_OF_HALF = 2  # of half of an interval
_DIGITS_OF_SHORT = 1  # of the shorter side of a lopsided interval
_SKEWED = 10  # times as long as the shorter side
_MORE_OF_LOPSIDED = 2  # decimals
_MOST_DECIMALS = 7  # beyond them: powers of ten
_LEAST_P = 0.0001
_NAMED = 6  # in a note
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Estimated(Protocol):
    """Whatever has a value and an interval."""

    @property
    def value(self) -> float | None:
        """The value, if there is one."""

    @property
    def low(self) -> float | None:
        """The lower bound, if it is known."""

    @property
    def high(self) -> float | None:
        """The upper bound, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one quantity is written everywhere on a page."""

    brackets: bool = False  # with its bounds; otherwise with ± where the interval is symmetric
    signed: bool = False
    percent: bool = False
    decimals: int | None = None  # fixed for all values, instead of by each interval


PLAIN = Form()


def choose_form(estimates: Iterable[Estimated], *, signed: bool = False) -> Form:
    """Return the form of a quantity with several values: all alike, bounds if one is asymmetric.

    The decimals are those of most values, and at least one digit of the narrowest interval.
    """
    brackets, places = False, list[int]()
    for each in estimates:
        if each.value is not None and not (each.low is None and each.high is None):
            brackets |= _is_lopsided(each.value, each.low, each.high)
            places.append(count_decimals(each.value, each.low, each.high))
    places.sort()
    decimals = max(places[len(places) // 2], places[-1] - 1) if places else None
    return Form(brackets=brackets, signed=signed, decimals=decimals)


def format_figure(
    value: float | None, low: float | None = None, high: float | None = None, form: Form = PLAIN
) -> str:
    """Return a value, and its interval if it has one, with the digits that the interval allows."""
    return " ".join(filter(None, split_figure(value, low, high, form)))


def split_figure(
    value: float | None, low: float | None = None, high: float | None = None, form: Form = PLAIN
) -> tuple[str, str]:
    """Return the value and, separately, its interval (empty if there is none)."""
    if value is None:
        return NOTHING, ""
    if form.percent:
        value, low, high = (None if each is None else 100 * each for each in (value, low, high))
        assert value is not None
    decimals = count_decimals(value, low, high)
    if form.decimals is not None:
        decimals = max(0, form.decimals - 2) if form.percent else form.decimals
    number = _format_number(value, decimals, signed=form.signed)
    if low is None and high is None and form.decimals is None and decimals <= _MOST_DECIMALS:
        number = number.rstrip("0").rstrip(".") if "." in number else number
    text = f"{number} %" if form.percent else number
    if low is None and high is None:
        return text, ""
    if form.brackets or low is None or high is None or _is_lopsided(value, low, high):
        bounds = (
            NOTHING if each is None else _format_number(each, decimals, signed=form.signed)
            for each in (low, high)
        )
        return text, f"[{', '.join(bounds)}]"
    return text, f"± {_format_number((high - low) / 2, decimals)}"


def count_decimals(value: float, low: float | None = None, high: float | None = None) -> int:
    """Return how many decimals the interval supports; without one, those of four digits.

    Half of an interval has two digits, and the shorter side of a lopsided one has one at least, or
    two where the upper side is more than ten times as long, as on a scale of logarithms.
    """
    ends = [each for each in (low, high) if each is not None and math.isfinite(each)]
    sides = sorted(abs(value - each) for each in ends if each != value)
    if sides and math.isfinite(value):
        of_half = _count_decimals(sum(sides) / 2, _DIGITS_OF_HALF)
        skewed = max(ends) - value > _SKEWED * sides[0]
        of_short = _count_decimals(sides[0], _DIGITS_OF_SHORT + skewed)
        return max(of_half, min(of_short, of_half + _MORE_OF_LOPSIDED))
    known = abs(value) if math.isfinite(value) else max(map(abs, ends), default=0.0)
    return _count_decimals(known, _DIGITS)


def _count_decimals(size: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(size))) if size > 0 else 0


def _is_lopsided(value: float, low: float | None, high: float | None) -> bool:
    if low is None or high is None or math.isinf(high - low):
        return True
    return abs((high - value) - (value - low)) > (high - low) / 10


def _format_number(value: float, decimals: int, *, signed: bool = False) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):,.{decimals}f}" if decimals <= _MOST_DECIMALS else f"{abs(value):.2e}"
    if not value or not text.strip("0.,"):
        return text
    return f"−{text}" if value < 0 else f"+{text}" if signed else text


def format_p(p: float | None) -> str:
    """Return a p-value with four decimals, or that it is smaller."""
    if p is None:
        return NOTHING
    return f"< {_LEAST_P}" if p < _LEAST_P else f"{p:.4f}"


def count_things(number: float, what: str) -> str:
    """Return `1 task`, `2,000 tasks`."""
    whole = int(number) if number == int(number) else number
    return f"{whole:,} {what}{'' if number == 1 else 's'}"


def group_name(by: Mapping[str, Any]) -> str:
    """Return a group's key on one line."""
    if not by:
        return "all"
    return ", ".join("(none)" if value is None else strip_controls(value) for value in by.values())


def strip_controls(value: object) -> str:
    """Return untrusted text without control characters, which could control the terminal."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isprintable():  # as most are
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def join_some(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shorten_text(text: str, most: int) -> str:
    """Return untrusted text on one line, of at most `most` characters."""
    name = strip_controls(text)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def join_ranges(told: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return texts with the names they are of; those that differ in numbers alone are one.

    >>> join_ranges([("235 rows are too few", "a"), ("240 rows are too few", "b")])
    {'235 to 240 rows are too few': ['a', 'b']}
    """
    alike: dict[str, tuple[dict[str, None], list[list[str]]]] = {}
    for text, name in told:
        names, numbers = alike.setdefault(_NUMBER.sub("\0", text), ({}, []))
        names[name] = None
        numbers.append(_NUMBER.findall(text))
    found = {}
    for pattern, (names, numbers) in alike.items():
        spans = [_join_span(several) for several in zip(*numbers, strict=True)]
        pieces = pattern.split("\0")
        text = "".join(piece + span for piece, span in zip(pieces, (*spans, ""), strict=True))
        found[text] = list(names)
    return found


def _join_span(numbers: Sequence[str]) -> str:
    ordered = sorted({*numbers}, key=lambda each: float(each.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
