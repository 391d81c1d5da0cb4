r"""Equations in a chain of thought in plain Python: D, `math_usr`, and docs/math_usr.md.

Slow and literal: LaTeX is respelled by substitution, every possible side is tried, the longest
first, each is read by recursive descent, and values are fractions.

>>> equations("so 3 + 4 = 7 apples, and 7 * 2 = 15; 10 / 3 = 3")
['right', 'wrong', 'rounded']
>>> equations(r"\[ \frac{36 \text{ slices}}{12} = \boxed{3} \]")
['right']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from tests.conformance.equation_tokens_reference import (
    MINUS,
    OVER,
    TIMES,
    UNIT_WORDS,
    UNITS,
    Token,
    tokens_of,
)

LONGEST = 400
RIGHT, ROUNDED, WRONG = "right", "rounded", "wrong"
NO_UNIT = (
    "so then and or is are was were be which that this has have had thus therefore hence but because "
    "since if when we he she they it you i gives get gets makes make means equals as than number"
).split()
BEFORE_AMOUNT = (
    "so then and or is are was were be thus therefore hence but because since have has had get gets "
    "gives makes means that which to left remaining only"
).split()
SPELLED_OUT = "for times by in of over per every plus minus divided multiplied with".split()
ABOUT = "about approximately roughly around nearly almost".split()
SIZES = {  # of a dimension, in its smallest unit; 0: it varies
    "time": "second 1 sec 1 minute 60 min 60 hour 3600 hr 3600 day 86400 week 604800 month 0 year 0 decade 0",
    "imperial length": "inch 1 inche 1 foot 12 feet 12 ft 12 yard 36 mile 63360",
    "length": "mm 1 millimeter 1 cm 10 centimeter 10 m 1000 meter 1000 metre 1000 km 1000000 kilometer 1000000",
    "imperial weight": "ounce 1 oz 1 pound 16 lb 16 ton 32000",
    "weight": "mg 1 milligram 1 g 1000 gram 1000 kg 1000000 kilogram 1000000",
    "money": "cent 1 penny 1 pennie 1 nickel 5 dime 10 quarter 25 dollar 100 buck 100",
    "volume": "teaspoon 1 tablespoon 3 cup 48 pint 96 quart 192 gallon 768",
    "metric volume": "ml 1 milliliter 1 liter 1000 litre 1000 l 1000",
    "count": "dozen 12",
}
SIZE = {
    unit: (dimension, int(size))
    for dimension, units in SIZES.items()
    for unit, size in zip(units.split()[::2], units.split()[1::2], strict=True)
}


class NoExpressionError(Exception):
    """The tokens are no arithmetic expression of numbers."""


class Reader:
    """Reads a side by recursive descent; percentages divided by 100, or their sign ignored."""

    def __init__(self, tokens: list[Token], *, hundredths: bool) -> None:
        self.rest, self.hundredths, self.words = tokens[::-1], hundredths, 0

    def next_is(self, kind: str, texts: tuple[str, ...] | str | None = None) -> bool:
        token = self.rest[-1] if self.rest else None
        return token is not None and token.kind == kind and (texts is None or token.text in texts)

    def sum(self) -> Fraction | None:
        value = self.product()
        while self.next_is("operator", "+" + MINUS):
            sign = -1 if self.rest.pop().text in MINUS else 1
            term = self.product()
            value = None if value is None or term is None else value + sign * term
        return value

    def product(self) -> Fraction | None:
        value = self.factor()
        while self.next_is("operator", (*TIMES, *OVER)):
            divides = self.rest.pop().text in OVER
            factor = self.factor()
            if value is None or factor is None or (divides and factor == 0):
                value = None
            else:
                value = value / factor if divides else value * factor
        return value

    def factor(self) -> Fraction | None:
        if self.next_is("sign"):
            minus = self.rest.pop().text in MINUS
            value = self.factor()
            return -value if minus and value is not None else value
        value = self.operand()
        if self.next_is("operator", "&"):  # 1\frac{1}{2}
            self.rest.pop()
            part = self.operand()
            return None if value is None or part is None else value + part
        return value

    def operand(self) -> Fraction | None:
        value: Fraction | None
        if self.next_is("number"):
            token, self.words = self.rest.pop(), 0
            value = token.value / 100 if self.hundredths and token.percent else token.value
        elif self.next_is("open"):
            self.rest.pop()
            value = self.sum()
            if not self.next_is("close"):
                raise NoExpressionError
            self.rest.pop()
        else:
            raise NoExpressionError
        while self.next_is("word"):  # a unit
            self.words += 1
            if self.rest.pop().text.lower() in NO_UNIT or self.words > UNIT_WORDS:
                raise NoExpressionError
        return value


def value_of(tokens: list[Token], *, hundredths: bool = False) -> Fraction | None:
    """Return an expression's value, None where it divides by zero."""
    reader = Reader(tokens, hundredths=hundredths)
    value = reader.sum()
    if reader.rest:
        raise NoExpressionError
    return value


def is_expression(tokens: list[Token]) -> bool:
    try:
        value_of(tokens)
    except NoExpressionError:
        return False
    return len(tokens) <= LONGEST


def is_bare(tokens: list[Token]) -> bool:
    return all(token.kind != "operator" or token.text == "&" for token in tokens)


def judge(left: list[Token], right: list[Token], *, inexact: bool) -> str:
    """Say what an equation is; percentages count under either reading, the better one."""
    found = [_judge(left, right, inexact=inexact, hundredths=False)]
    if any(token.percent for token in left + right):
        found.append(_judge(left, right, inexact=inexact, hundredths=True))
        numbers = [token for token in left if token.kind == "number"]
        kinds = [token.kind for token in left if token.kind != "word"]
        adds = any(token.kind == "operator" and token.text in "+" + MINUS for token in left)
        if (
            kinds == ["number", "operator", "number"]
            and adds
            and [n.percent for n in numbers] == [False, True]
        ):
            times = Token("operator", "*", 0, 0)  # 75 - 20%
            found.append(
                _judge([*left, times, numbers[0]], right, inexact=inexact, hundredths=True)
            )
    return min(found, key=[RIGHT, ROUNDED, WRONG].index)


def _judge(left: list[Token], right: list[Token], *, inexact: bool, hundredths: bool) -> str:
    a, b = value_of(left, hundredths=hundredths), value_of(right, hundredths=hundredths)
    if a is None or b is None:
        return WRONG
    distance = abs(a - b)
    numbers = [token for token in left + right if token.kind == "number"]
    printed = any(token.digits >= 10 and token.decimals for token in numbers)
    if distance == 0 or (printed and distance <= max(abs(a), abs(b)) / 10**9):
        return RIGHT
    result = left if is_bare(left) and not is_bare(right) else right
    written = [token for token in result if token.kind == "number"]
    decimals = max(token.decimals for token in written)
    unit = Fraction(1, 10**decimals) / (100 if hundredths and written[-1].percent else 1)
    if (inexact or decimals or any(token.inexact for token in right)) and distance <= unit:
        return RIGHT
    rounded = (t for t in written if t.decimals and t.digits >= 3)  # a factor that may be rounded
    if (
        result is right
        and not is_bare(right)
        and any(distance * t.value * 10**t.decimals <= abs(b) for t in rounded)
    ):
        return RIGHT
    return ROUNDED if is_bare(right) and not decimals and 2 * distance <= 1 else WRONG


def left_side(tokens: list[Token]) -> tuple[list[Token], bool] | None:  # noqa: PLR0911 (a rule each)
    """Return the longest expression that ends at the join, and whether that reading is sure."""
    starts = (i for i in range(len(tokens)) if is_expression(tokens[i:]))
    start = next(starts, None)
    if start is None:
        return None
    side = tokens[start:]
    bare = is_bare(side)
    sure = not (bare and side[-1].kind == "word")
    if start == 0:
        return side, sure
    last = tokens[start - 1]
    if last.kind == "operator":  # the tail of something larger, unless a dash ends a clause
        dash = last.text in MINUS and start > 1 and tokens[start - 2].kind in ("word", "break")
        return (side, False) if dash and not bare else None
    if last.kind == "foreign" and last.text != "!":
        return None
    if last.kind in ("word", "number", "close") and last.end == side[0].start:
        return None
    if last.kind == "word" and bare and last.text.lower() not in BEFORE_AMOUNT:
        return None  # the name of a thing: Day 2
    return side, sure and last.kind != "number"


def right_side(tokens: list[Token]) -> list[Token] | None:
    """Return the longest expression that starts after the join, if it is not the head of a larger."""
    ends = (i for i in range(len(tokens), 0, -1) if _ends_in_operand(tokens[:i]))
    end = next(ends, None)
    if end is None:
        return None
    after, behind = [*tokens[end:], None, None][:2]
    if after is None:
        return tokens[:end]
    touches = after.start == tokens[end - 1].end
    goes_on = after.text not in MINUS + "/" or (behind and behind.kind in ("foreign", "open"))
    if after.kind == "operator" and goes_on:
        return None
    if after.kind == "foreign" and after.text not in ("!", *UNITS):
        return None
    return None if after.kind in ("number", "open") and touches else tokens[:end]


def _ends_in_operand(tokens: list[Token]) -> bool:
    return tokens[-1].kind in ("number", "close") and is_expression(tokens)


def units_of(tokens: list[Token]) -> list[tuple[Token, str]]:
    """Return the numbers that have a unit, each with its unit in the singular."""
    found = []
    for token, after in pairwise([*tokens, Token("break", "", 0, 0)]):
        if token.kind in ("number", "close") and (token.money or after.kind == "word"):
            word = "dollar" if token.money else after.text.lower().rstrip(".")
            found.append((token, word if word in SIZE else word.removesuffix("s")))
    return found


def mixes_units(left: list[Token], after: list[Token]) -> bool:
    """Say whether both sides may be of one quantity in different units."""
    here, there = ([unit for _, unit in units_of(side)] for side in (left, after))
    known = {unit for unit in here + there if unit in SIZE}
    sizes = {(SIZE[unit][0], SIZE[unit][1] or unit) for unit in known}
    if len({dimension for dimension, _ in sizes}) < len(sizes) or "dozen" in known:
        return True
    adds = all(token.text == "+" for token in left if token.kind == "operator")
    numbers = sum(token.kind == "number" for token in left)
    one_thing = adds and len(here) == numbers > 1 and len(set(here)) == 1 and here[0] != "dollar"
    return one_thing and bool(there) and there[0] != here[0]


def in_smallest_unit(tokens: list[Token]) -> list[Token]:
    sizes = {number.start: SIZE.get(unit, ("", 1))[1] for number, unit in units_of(tokens)}
    found: list[Token] = []
    for token in tokens:
        size = Fraction(sizes.get(token.start, 1) if token.kind == "number" else 1)
        divides = [each.kind for each in found[-2:]] == ["number", "operator"] and found[
            -1
        ].text == "/"
        if divides and found[-2].start not in sizes:  # the unit of the whole fraction: 6/12 feet
            size = 1 / size
        found.append(replace(token, value=token.value * size))
    while found[-1].kind == "word":
        found.pop()
    return found


def other_readings(
    before: list[Token], left: list[Token], right: list[Token], after: list[Token], *, last: bool
) -> Iterator[tuple[list[Token], list[Token]]]:
    """Yield readings with a dash as punctuation, and with units converted."""
    ahead = before[: len(before) - len(left)]
    is_dash = len(left) > 1 and left[1].kind == "operator" and left[1].text in MINUS
    if ahead and ahead[-1].kind == "word" and is_dash and not is_bare(left[2:]):
        yield left[2:], right
    for i in range(1, len(right)) if last and not is_bare(left) else ():
        if (
            right[i].kind == "operator"
            and right[i].text in MINUS
            and right[i].start > right[i - 1].end
        ):
            shorter = right[:i]
            while shorter[-1].kind == "word":
                shorter = shorter[:-1]
            if is_expression(shorter):
                yield left, shorter
    unit = [token for token in after[len(right) :][:1] if token.kind == "word"]
    known = [unit for side in (left, right + unit) for _, unit in units_of(side) if unit in SIZE]
    if mixes_units(left, right + unit) and all(SIZE[unit][1] for unit in known):
        yield in_smallest_unit(left), in_smallest_unit(right + unit)


def is_doubtful(
    before: list[Token], left: list[Token], after: list[Token], right: list[Token]
) -> bool:
    """Say whether a letter may be a variable, a part is of an unknown whole, or words multiply."""
    letters = UNITS[2:]
    if any(token.kind == "word" and token.text in (*letters, "of …") for token in left):
        return True
    if after[len(right) :] and after[len(right)].text in letters:
        return True
    if any(a.text == b.text == "/" for a, b in zip(left[1:], left[3:], strict=False)):
        return True
    for unit, slash, number in zip(left, left[1:], left[2:], strict=False):  # 2 pages/15 minutes
        kinds = (unit.kind, slash.text, number.kind)
        if (
            kinds == ("word", "/", "number")
            and unit.end == slash.start
            and slash.end == number.start
        ):
            return True
    ahead = before[: len(before) - len(left)]
    words: list[str] = []
    while ahead and ahead[-1].kind == "word" and len(words) <= 3:
        words.append(ahead.pop().text.lower())
    if left[-1].kind == "word" and words[:1] in (["for"], ["of"]):
        return True
    after_number = bool(ahead) and ahead[-1].kind == "number" and len(words) <= 3
    return after_number and bool(words) and words[0] in SPELLED_OUT


def judge_pair(before: list[Token], after: list[Token], join: Token, *, last: bool) -> str | None:
    inexact = join.inexact
    while after and after[0].text.lower() in ABOUT:
        after, inexact = after[1:], True
    found, right = left_side(before), right_side(after)
    if not found or not right:
        return None
    left, sure = found
    if is_bare(left) and is_bare(right):
        return None
    verdict = judge(left, right, inexact=inexact)
    if verdict != WRONG:
        return verdict
    for other in other_readings(before, left, right, after, last=last):
        if (verdict := judge(*other, inexact=inexact)) != WRONG:
            return verdict
    doubtful = not sure or mixes_units(left, after) or is_doubtful(before, left, after, right)
    return None if doubtful else WRONG


def split(tokens: list[Token]) -> tuple[list[list[Token]], list[Token]]:
    sides: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind == "join":
            sides.append([])
        else:
            sides[-1].append(token)
    return sides, [token for token in tokens if token.kind == "join"]


def in_mark(mark: str) -> list[str]:
    """A mark counts if each of its sides is wholly an expression, with or without an operator."""
    sides, joins = split(tokens_of(mark))
    if not all(side and _ends_in_operand(side) for side in sides):
        return []
    pairs = zip(pairwise(sides), joins, strict=True)
    return [judge(a, b, inexact=join.inexact) for (a, b), join in pairs]


def in_line(line: str) -> list[str]:
    """Bars of a table, arrows and LaTeX's environments end what stands before them."""
    if re.fullmatch(r"\s*\|.*\|\s*", line, re.DOTALL):
        line = line.replace("|", ";")
    line = re.sub(r"^\s*>[>\s]*", "", line)
    line = re.sub(r"[-=]{1,3}>", ";", line)
    line = re.sub(r"\\(begin|end)\{[^{}]*\}", ";", line)
    sides, joins = split(tokens_of(line))
    pairs = enumerate(zip(pairwise(sides), joins, strict=True), start=1)
    found = [judge_pair(a, b, join, last=i == len(joins)) for i, ((a, b), join) in pairs]
    return [verdict for verdict in found if verdict]


def equations(cot: str) -> list[str]:
    """Say what each equation is: first those in marks, then those in the text without the marks."""
    mark = re.compile(r"<<([^<>\r\n]*)>>")
    lines = re.split("\r\n|\n|\r", mark.sub("", cot))
    return [
        *(v for text in mark.findall(cot) for v in in_mark(text)),
        *(v for line in lines for v in in_line(line)),
    ]


def wrong_share(cot: str) -> float | None:
    """A row without an equation is left out, as one without a CoT is."""
    verdicts = equations(cot)
    return verdicts.count(WRONG) / len(verdicts) if verdicts else None
