"""Numbers for people, and text that cannot harm a terminal or a page.

One rule for every format: an interval decides how many digits its value has.

>>> format_figure(0.87213, 0.76789, 0.93312), format_figure(36.912, 34.6, 39.2)
('0.872 [0.768, 0.933]', '36.9 ± 2.3')
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

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
LONGEST_NAME = 60  # characters of a name in a sentence
_NAMED = 6  # in a note
_LEAST_SHOWN = 1e-6  # of money
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
    points: bool = False  # a difference of two rates
    thousand: bool = False  # an amount of money, of a thousand
    decimals: int | None = None  # fixed for all values, instead of by each interval

    @property
    def shift(self) -> int:
        """The power of ten that a value is multiplied by."""
        return 3 if self.thousand else 2 if self.percent or self.points else 0


PLAIN = Form()


def choose_form(estimates: Iterable[Estimated], own: Form = PLAIN, *, signed: bool = False) -> Form:
    """Return the form of a quantity with several values: all alike, bounds if one is asymmetric.

    What `own` says besides, as that it is a percentage, is kept.

    The decimals are those of most values, and at least one digit of the narrowest interval.
    """
    brackets, places = False, list[int]()
    for each in estimates:
        if each.value is not None and not (each.low is None and each.high is None):
            brackets |= _is_lopsided(each.value, each.low, each.high)
            places.append(count_decimals(each.value, each.low, each.high))
    places.sort()
    decimals = max(places[len(places) // 2], places[-1] - 1) if places else None
    return replace(own, brackets=brackets, signed=signed or own.signed, decimals=decimals)


def format_percent(share: float) -> str:
    """Return a share in percent.

    >>> [format_percent(each) for each in (0.9375, 1.0, 0.0004)]
    ['93.8 %', '100 %', '0.04 %']
    """
    percent = 100 * share
    return f"{percent:.3g} %" if 0 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004


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
    if form.shift:
        scale = 10**form.shift
        value, low, high = (None if each is None else scale * each for each in (value, low, high))
        assert value is not None
    decimals = count_decimals(value, low, high)
    if form.decimals is not None:
        decimals = max(0, form.decimals - form.shift)
    number = _format_number(value, decimals, signed=form.signed)
    if low is None and high is None and form.decimals is None and decimals <= _MOST_DECIMALS:
        number = number.rstrip("0").rstrip(".") if "." in number else number
    text, behind = f"{number} %" if form.percent else number, " points" if form.points else ""
    if form.thousand and "∞" not in number:
        bare = number.lstrip("−+")
        text = f"{number.removesuffix(bare)}${bare}"
    if low is None and high is None:
        return text + behind, ""
    if form.brackets or low is None or high is None or _is_lopsided(value, low, high):
        bounds = (
            NOTHING if each is None else _format_number(each, decimals, signed=form.signed)
            for each in (low, high)
        )
        return text, f"[{', '.join(bounds)}]{behind}"
    return text, f"± {_format_number((high - low) / 2, decimals)}{behind}"


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


def format_dollars(amount: float) -> str:
    """Return $5.00, or as many digits as a small sum needs.

    >>> format_dollars(1234.5), format_dollars(0.0020734), format_dollars(2e-9)
    ('$1,234.50', '$0.00207', '< $0.000001')
    """
    if amount >= 1 or not amount:
        return f"${amount:,.2f}"
    if amount < _LEAST_SHOWN:
        return f"< ${_LEAST_SHOWN:f}"
    return f"${amount:.{2 - math.floor(math.log10(amount))}f}"


def count_things(number: float, what: str) -> str:
    """Return `1 task`, `2,000 tasks`."""
    whole = int(number) if number == int(number) else number
    return f"{whole:,} {what}{'' if number == 1 else 's'}"


def format_group(by: Mapping[str, Any]) -> str:
    """Return a group's key on one line."""
    return ", ".join(map(show_name, by.values())) if by else "all"


def show_name(value: object) -> str:
    """Return a name from the data, in quotes where its ends could not be seen without them.

    >>> [show_name(name) for name in ("llama 3", " llama 3", "", None)]
    ['llama 3', '" llama 3"', '""', '(none)']
    """
    if value is None:
        return "(none)"
    name = strip_controls(value)
    return f'"{name}"' if name != name.strip() or not name else name


def strip_controls(value: object) -> str:
    """Return untrusted text without control characters, which could control the terminal."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isprintable():  # as most are
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def join_some(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are.

    >>> join_some(["o1, steps", "o1, plain", "o3, steps"], 2)
    'o1, steps; o1, plain and 1 more'
    """
    names = [shorten_name(name) for name in names[:most]] + list(names[most:])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    mark = "; " if any(", " in name for name in names[:most]) else ", "
    return mark.join(names[:most]) + more


def shorten_text(text: str, most: int) -> str:
    """Return untrusted text on one line, of at most `most` characters."""
    name = strip_controls(text)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def shorten_name(name: str, most: int = LONGEST_NAME) -> str:
    """Return untrusted text on one line, cut in the middle: long names often differ at the end.

    >>> shorten_name("accounts/research/models/llama-3.1-8b-checkpoint-0019", 30)
    'accounts/re…8b-checkpoint-0019'
    """
    text = strip_controls(name)
    if len(text) <= most:
        return text
    head = 2 * (most - 1) // 5
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


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
