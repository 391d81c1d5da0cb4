"""Equations in a chain of thought: find them, and say which are wrong (DEFINITIONS, `math_usr`).

What is called wrong is wrong: a reading that a careful reader might not share (a number that is a
label, a dash that ends a sentence, units that convert) makes an equation only where it holds.
docs/math_usr.md lists the rules.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from calipers.metrics.reasoning.equations import EquationCounts
from calipers.metrics.reasoning.equations.sides import (
    find_left_side,
    find_right_side,
    is_doubtful,
    reach_right,
    read_otherwise,
)
from calipers.metrics.reasoning.equations.tokens import JOIN, JOIN_SIGN, WORD, Token, tokenize
from calipers.metrics.reasoning.equations.units import convert, has_mixed_units
from calipers.metrics.reasoning.equations.values import Verdict, is_bare, judge_equation

MARK = re.compile(r"<<([^<>\r\n]*)>>")  # GSM8K's calculator marks
_LINE_END = re.compile(r"\r\n|\n|\r")
_ARROW = re.compile(r"[-=]{1,3}>|\\(?:begin|end)\{[^{}]*\}")  # and LaTeX's environments
_QUOTE = re.compile(r"\s*>[>\s]*")  # Markdown's quote marks, at the start of a line
_ABOUT = frozenset(("about", "approximately", "roughly", "around", "nearly", "almost"))


class Equation(NamedTuple):
    """Where an equation stands in its text, and what is said of it."""

    start: int
    end: int
    verdict: Verdict


def count_equations(text: str) -> EquationCounts:
    """Return how many equations a text holds, how many are wrong, and how many `=` it has."""
    parts = [count_in_mark(mark) for mark in MARK.findall(text)]
    parts += [count_in_line(line) for line in _LINE_END.split(MARK.sub("", text))]
    return EquationCounts(*map(sum, zip(*parts, strict=True)))


def count_in_mark(mark: str) -> EquationCounts:
    """Return the counts of what stands in one of GSM8K's marks."""
    return _count(mark, _judge_mark(mark))


def count_in_line(line: str) -> EquationCounts:
    """Return the counts of a line without marks."""
    return _count(line, _judge_line(line)) if JOIN_SIGN.search(line) else EquationCounts(0, 0, 0, 0)


def _count(text: str, found: tuple[Equation, ...]) -> EquationCounts:
    verdicts = [equation.verdict for equation in found]
    wrong, rounded = verdicts.count(Verdict.WRONG), verdicts.count(Verdict.ROUNDED)
    return EquationCounts(len(verdicts), wrong, rounded, len(JOIN_SIGN.findall(text)))


def find_equations(text: str) -> list[Equation]:
    """Return the equations of a text with their places: those in marks first.

    >>> find_equations("so 2 + 2 = 5 apples")
    [Equation(start=3, end=12, verdict=<Verdict.WRONG: 'wrong'>)]
    """
    found = [
        Equation(mark.start(), mark.end(), verdict)
        for mark in MARK.finditer(text)
        for _, _, verdict in _judge_mark(mark[1])
    ]
    pieces = MARK.split(text)[::2]
    ends = list(accumulate(len(piece) for piece in pieces))
    shifts = [0, *accumulate(mark.end() - mark.start() for mark in MARK.finditer(text))]
    rest, start = "".join(pieces), 0

    def place(position: int) -> int:
        return position + shifts[min(bisect_right(ends, position), len(shifts) - 1)]

    for line in re.split(r"(\r\n|\n|\r)", rest):
        for first, last, verdict in _judge_line(line) if JOIN_SIGN.search(line) else ():
            found.append(Equation(place(start + first), place(start + last - 1) + 1, verdict))
        start += len(line)
    return found


def quote_wrong_equations(text: str) -> list[str]:
    """Return the wrong equations of a text as they are written in it, without marks inside.

    >>> quote_wrong_equations("so 2 + 2 = 5 apples")
    ['2 + 2 = 5']
    """
    wrong = [text[a:b] for a, b, verdict in find_equations(text) if verdict is Verdict.WRONG]
    return [each if MARK.fullmatch(each) else MARK.sub("", each) for each in wrong]


@lru_cache(maxsize=4096)
def _judge_mark(mark: str) -> tuple[Equation, ...]:
    """Return a mark's equations; it counts if each of its sides is wholly an expression."""
    sides, joins = _split(tokenize(mark))
    if not all(side and reach_right(side) == len(side) for side in sides):
        return ()
    return tuple(
        Equation(left[0].start, right[-1].end, judge_equation(left, right, inexact=join.inexact))
        for (left, right), join in zip(pairwise(sides), joins, strict=True)
    )


@lru_cache(maxsize=4096)
def _judge_line(line: str) -> tuple[Equation, ...]:
    sides, joins = _split(tokenize(_mark_breaks(line)))
    last = len(joins) - 1
    found = (
        _judge_pair(before, after, join, ends_line=position == last)
        for position, ((before, after), join) in enumerate(zip(pairwise(sides), joins, strict=True))
    )
    return tuple(equation for equation in found if equation)


def _mark_breaks(line: str) -> str:
    """Return the line with breaks for arrows and the bars of a Markdown table, all in their places.

    >>> _mark_breaks("| apples | 2 * 3 = 6 -> done |")
    '; apples ; 2 * 3 = 6 ;  done ;'
    """
    cells = line.strip()
    if len(cells) > 1 and cells[0] == cells[-1] == "|":
        line = line.replace("|", ";")
    if ">" in line and (quote := _QUOTE.match(line)):
        line = " " * quote.end() + line[quote.end() :]
    return _ARROW.sub(lambda arrow: ";".ljust(len(arrow[0])), line)


def _split(tokens: list[Token]) -> tuple[list[list[Token]], list[Token]]:
    sides: list[list[Token]] = [[]]
    joins: list[Token] = []
    for token in tokens:
        if token.kind == JOIN:
            joins.append(token)
            sides.append([])
        else:
            sides[-1].append(token)
    return sides, joins


def _judge_pair(
    before: list[Token], after: list[Token], join: Token, *, ends_line: bool
) -> Equation | None:
    """Return the equation that a join makes of what touches it on both sides, or None."""
    inexact = join.inexact
    while after and after[0].text.lower() in _ABOUT:
        after, inexact = after[1:], True
    left, left_is_sure = find_left_side(before)
    right = find_right_side(after)
    if not left or not right or (is_bare(left) and is_bare(right)):
        return None
    verdict = judge_equation(left, right, inexact=inexact)
    if verdict is Verdict.WRONG:
        unit = [token for token in after[len(right) :][:1] if token.kind == WORD]
        readings = read_otherwise(before, left, right, ends_line=ends_line)
        for other_left, other_right in (*readings, *convert(left, [*right, *unit])):
            other = judge_equation(other_left, other_right, inexact=inexact)
            if other is not Verdict.WRONG:
                return Equation(other_left[0].start, other_right[-1].end, other)
        if (
            not left_is_sure
            or has_mixed_units(left, after)
            or is_doubtful(before, left, after, right)
        ):
            return None
    return Equation(left[0].start, right[-1].end, verdict)
