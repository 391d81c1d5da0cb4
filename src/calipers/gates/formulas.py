"""A small arithmetic language for users' own scores, parsed here and never evaluated as Python.

>>> score = parse_formula("min(accuracy, 1) × 0.3 + (1 − normalized_latency) ÷ 2")
>>> score.names
('accuracy', 'normalized_latency')
>>> score.compute({"accuracy": 0.5, "normalized_latency": 0.2})
0.55
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import inf, isnan
from operator import add, mul, sub, truediv
from typing import Any

from calipers.support.config.files import shown
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

MAX_CHARACTERS = 2000
MAX_TOKENS = 400
MAX_DEPTH = 30

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)(?![\w.])|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-−–+*×·/÷(),]))",
    re.ASCII,
)
_SIGNS = {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/"}
_FIX = "names of metrics, numbers, + − × ÷ * /, min, max and parentheses, nothing else"

Bounds = tuple[float, float]
_Part = float | str | tuple[Any, ...]  # a number, a name, or a sign and the parts that it joins
_FUNCTIONS = ("min", "max")
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
    "min": min,
    "max": max,
}


def _evaluate(part: _Part, names: Mapping[str, float]) -> float:
    if isinstance(part, tuple):
        sign, *parts = part
        return reduce(_OPERATIONS[sign], (_evaluate(each, names) for each in parts))
    return names[part] if isinstance(part, str) else part


def _bound(part: _Part, names: Mapping[str, Bounds]) -> Bounds:
    if not isinstance(part, tuple):
        return names[part] if isinstance(part, str) else (part, part)
    sign, *parts = part
    lows, highs = zip(*(_bound(each, names) for each in parts), strict=True)
    operation = _OPERATIONS[sign]
    if sign in _FUNCTIONS:
        return reduce(operation, lows), reduce(operation, highs)
    if sign == "/" and lows[1] <= 0 <= highs[1]:
        return -inf, inf
    # Each of the four is monotonic in either side, so the ends give the ends.
    ends = [operation(a, b) for a in (lows[0], highs[0]) for b in (lows[1], highs[1])]
    return (-inf, inf) if any(map(isnan, ends)) else (min(ends), max(ends))


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was read, and the names in it in the order of their first use."""

    text: str
    names: tuple[str, ...]
    _root: _Part

    def compute(self, values: Mapping[str, float]) -> float:
        """Return its value; raise ZeroDivisionError for a division by zero."""
        return _evaluate(self._root, values)

    def bound(self, bounds: Mapping[str, Bounds]) -> Bounds:
        """Return its bounds, given the bounds of each name."""
        return _bound(self._root, bounds)

    def __str__(self) -> str:
        return self.text


def parse_formula(text: str) -> Formula:
    """Read a formula, or say where it stops being one."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a formula of more than {MAX_CHARACTERS} characters", fix="shorten it")
    tokens = list(_tokenize(text))
    if len(tokens) > MAX_TOKENS:
        raise UsageError(f"a formula of more than {MAX_TOKENS} words and signs", fix="shorten it")
    reader = _FormulaReader(text, tokens)
    root = reader.read_whole()
    return Formula(" ".join(text.split()), tuple(dict.fromkeys(reader.names)), root)


def _tokenize(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"not arithmetic, from here: {shown(text[at:].strip())}", fix=_FIX)
        yield _SIGNS.get(match[0].strip(), match[0].strip())
        at = match.end()


class _FormulaReader:
    """Recursive descent over the tokens, to a limited depth."""

    def __init__(self, text: str, tokens: list[str]) -> None:
        self.names: list[str] = []
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def read_whole(self) -> _Part:
        found = self._read_sum()
        if self._next is not None:
            raise self._make_error()
        return found

    def _read_sum(self) -> _Part:
        return self._join(("+", "-"), lambda: self._join(("*", "/"), self._read_factor))

    def _join(self, signs: tuple[str, str], read: Callable[[], _Part]) -> _Part:
        """Return parts with these signs between them, from left to right."""
        found = read()
        while self._next in signs:
            found = (self._take(), found, read())
        return found

    def _read_factor(self) -> _Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UsageError(f"a formula nested deeper than {MAX_DEPTH} levels", fix="flatten it")
        found = self._read_inner()
        self._depth -= 1
        return found

    def _read_inner(self) -> _Part:
        word = self._next
        if word is None or word in "*/),":
            raise self._make_error()
        self._take()
        if word in "+-":
            return (word, 0.0, self._read_factor())
        if word == "(":
            found = self._read_sum()
            self._require(")")
            return found
        if word[0].isdigit() or word[0] == ".":
            return float(word)
        if self._next == "(":
            return self._read_call(word)
        if word in _FUNCTIONS:
            raise UsageError(f"{word} without parentheses", fix=f"write {word}(…, …)")
        self.names.append(word)
        return word

    def _read_call(self, function: str) -> _Part:
        if function not in _FUNCTIONS:
            raise UsageError(f"{shown(function)} is not a known function", fix=_FIX)
        self._require("(")
        arguments = [self._read_sum()]
        while self._next == ",":
            self._take()
            arguments.append(self._read_sum())
        self._require(")")
        return (function, *arguments)

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _require(self, token: str) -> None:
        if self._next != token:
            raise self._make_error()
        self._take()

    def _make_error(self) -> UsageError:
        if self._next is None:
            return UsageError(f"the formula ends too soon: {shown(self._text.strip())}", fix=_FIX)
        return UsageError(f"{shown(self._next)} is unexpected at word {self._at + 1}", fix=_FIX)
