"""Exact values of expressions, whether an equation holds, and conversion of units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from calipers.metrics.equations.lexer import (
    CLOSE,
    MIXED,
    NUMBER,
    OPEN,
    OPERATIONS,
    OPERATOR,
    SIGN,
    SIGNS,
    WORD,
    Token,
)

Ratio = tuple[int, int]  # numerator and denominator, not reduced: faster, and as exact

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3, MIXED: 4}
_PRINTED_DIGITS = 10  # from here on a number with decimals is a printed float
_FLOAT_ERROR = 10**9
_ROUNDED_DIGITS = 3  # a factor with as many, and decimals, may be rounded


class Verdict(Enum):
    """The verdict on an equation."""

    RIGHT = "right"
    ROUNDED = "rounded"
    WRONG = "wrong"


def judge_equation(left: Sequence[Token], right: Sequence[Token], *, inexact: bool) -> Verdict:
    """Return True if `left = right` holds; percentages count under either reading."""
    verdict = _judge(left, right, inexact=inexact, hundredths=False)
    if verdict is Verdict.RIGHT or not any(token.percent for token in (*left, *right)):
        return verdict
    readings = [(left, right)] + (
        [(_spell_percentage(left), right)] if _is_less_a_percentage(left) else []
    )
    verdicts = [_judge(a, b, inexact=inexact, hundredths=True) for a, b in readings]
    return min(verdict, *verdicts, key=list(Verdict).index)


def _is_less_a_percentage(tokens: Sequence[Token]) -> bool:
    """Return True if a side is like `75 - 20%`: an amount less, or more, a part of itself."""
    kinds = [token.kind for token in tokens if token.kind != WORD]
    numbers = [token for token in tokens if token.kind == NUMBER]
    is_sum = any(token.kind == OPERATOR and token.text in SIGNS for token in tokens)
    of_itself = [number.percent for number in numbers] == [False, True]
    return kinds == [NUMBER, OPERATOR, NUMBER] and is_sum and of_itself


def _spell_percentage(tokens: Sequence[Token]) -> list[Token]:
    """Return `75 - 20% * 75` for `75 - 20%`."""
    amount = next(token for token in tokens if token.kind == NUMBER)
    return [*tokens, amount._replace(kind=OPERATOR, text="*"), amount]


def _judge(
    left: Sequence[Token], right: Sequence[Token], *, inexact: bool, hundredths: bool
) -> Verdict:
    try:
        a, b = evaluate(left, hundredths=hundredths)
        c, d = evaluate(right, hundredths=hundredths)
    except ZeroDivisionError:
        return Verdict.WRONG
    distance, scale = abs(a * d - c * b), abs(b * d)
    if distance == 0 or _is_printed_float(left, right, distance, abs(c * b), abs(a * d)):
        return Verdict.RIGHT
    written = left if is_bare(left) and not is_bare(right) else right
    decimals, is_percent = _read_precision(written)
    if inexact or decimals or any(token.inexact for token in right):
        unit = 10 ** (decimals + 2 * (hundredths and is_percent))
        if distance * unit <= scale:
            return Verdict.RIGHT
    if written is right and not is_bare(right) and _is_rounded_factor(right, distance, abs(c * b)):
        return Verdict.RIGHT
    if is_bare(right) and not decimals and 2 * distance <= scale:
        return Verdict.ROUNDED
    return Verdict.WRONG


def _is_printed_float(
    left: Sequence[Token], right: Sequence[Token], distance: int, a: int, b: int
) -> bool:
    printed = any(token.digits >= _PRINTED_DIGITS and token.decimals for token in (*left, *right))
    return printed and distance * _FLOAT_ERROR <= max(a, b)


def _is_rounded_factor(right: Sequence[Token], distance: int, size: int) -> bool:
    """Return True if a rounded number explains the distance, as in `5/12 = 0.4167 * 1`."""
    return any(
        token.decimals and token.digits >= _ROUNDED_DIGITS and distance * token.numerator <= size
        for token in right
        if token.kind == NUMBER
    )


def _read_precision(tokens: Sequence[Token]) -> tuple[int, bool]:
    """Return how many decimals are written, and whether the last number is a percentage."""
    numbers = [token for token in tokens if token.kind == NUMBER]
    return max(token.decimals for token in numbers), numbers[-1].percent


def is_bare(tokens: Sequence[Token]) -> bool:
    """Return True if a side is one number, without an operator."""
    return not any(token.kind == OPERATOR and token.text != MIXED for token in tokens)


def evaluate(tokens: Sequence[Token], *, hundredths: bool = False) -> Ratio:  # noqa: C901
    """Return the exact value of an expression; words are skipped.

    Raises:
        ZeroDivisionError: It divides by zero.
    """
    values: list[Ratio] = []
    pending: list[str] = []
    for token in tokens:
        kind = token.kind
        if kind == NUMBER:
            per_cent = 100 if hundredths and token.percent else 1
            values.append((token.numerator, token.denominator * per_cent))
        elif kind == OPEN:
            pending.append("(")
        elif kind == CLOSE:
            while pending[-1] != "(":
                _apply(pending.pop(), values)
            pending.pop()
        elif kind == SIGN:
            if OPERATIONS[token.text] == "-":
                pending.append("negate")
        elif kind == OPERATOR:
            operation = OPERATIONS[token.text]
            while pending and _PRECEDENCE.get(pending[-1], 0) >= _PRECEDENCE[operation]:
                _apply(pending.pop(), values)
            pending.append(operation)
    while pending:
        _apply(pending.pop(), values)
    return values[0]


def _apply(operation: str, values: list[Ratio]) -> None:
    c, d = values.pop()
    if operation == "negate":
        values.append((-c, d))
        return
    a, b = values.pop()
    if operation in ("+", MIXED):
        values.append((a * d + c * b, b * d))
    elif operation == "-":
        values.append((a * d - c * b, b * d))
    elif operation == "*":
        values.append((a * c, b * d))
    elif c:
        values.append((a * d, b * c))
    else:
        raise ZeroDivisionError


# How many of the dimension's smallest unit each unit is, under all its names; None: it varies.
_SIZES: dict[str, dict[str, int | None]] = {
    "time": {
        "second sec": 1,
        "minute min": 60,
        "hour hr": 3600,
        "day": 86_400,
        "week": 604_800,
        "month year decade": None,
    },
    "imperial length": {"inch inche": 1, "foot feet ft": 12, "yard": 36, "mile": 63_360},
    "length": {
        "mm millimeter": 1,
        "cm centimeter": 10,
        "m meter metre": 1000,
        "km kilometer": 1_000_000,
    },
    "imperial weight": {"ounce oz": 1, "pound lb": 16, "ton": 32_000},
    "weight": {"mg milligram": 1, "g gram": 1000, "kg kilogram": 1_000_000},
    "money": {"cent penny pennie": 1, "nickel": 5, "dime": 10, "quarter": 25, "$ dollar buck": 100},
    "volume": {"teaspoon": 1, "tablespoon": 3, "cup": 48, "pint": 96, "quart": 192, "gallon": 768},
    "metric volume": {"ml milliliter": 1, "liter litre l": 1000},
    "count": {"dozen": 12},
}
_UNITS = [
    (unit, dimension, size)
    for dimension, sizes in _SIZES.items()
    for names, size in sizes.items()
    for unit in names.split()
]
_DIMENSION = {unit: dimension for unit, dimension, _ in _UNITS}
_SIZE = {unit: size for unit, _, size in _UNITS}


def convert_units(
    left: Sequence[Token], right: Sequence[Token]
) -> Iterator[tuple[list[Token], list[Token]]]:
    """Yield both sides in the smallest unit, where they mix units of one dimension."""
    units = {unit for side in (left, right) for _, unit in _find_units(side) if unit in _DIMENSION}
    if has_mixed_units(left, right) and all(_SIZE[unit] for unit in units):
        yield _convert_to_smallest(left), _convert_to_smallest(right)


def _convert_to_smallest(tokens: Sequence[Token]) -> list[Token]:
    """Return the side in the smallest unit; the unit after a fraction is that of the fraction."""
    sizes = {number.start: _SIZE.get(unit) or 1 for number, unit in _find_units(tokens)}
    scaled: list[Token] = []
    for token in tokens:
        size = sizes.get(token.start, 1) if token.kind == NUMBER else 1
        kinds = [token.kind for token in scaled[-2:]]
        over = kinds == [NUMBER, OPERATOR] and scaled[-1].text == "/"
        if over and scaled[-2].start not in sizes:
            scaled.append(token._replace(denominator=token.denominator * size))
        else:
            scaled.append(token._replace(numerator=token.numerator * size))
    while scaled[-1].kind == WORD:
        scaled.pop()
    return scaled


def has_mixed_units(left: Sequence[Token], after: Sequence[Token]) -> bool:
    """Return True if two sides may be of one quantity in different units.

    So where two units of one dimension occur (`6 inches = 6/12 feet`), where things come in dozens,
    and where a sum of one thing is given as another (`7 boxes + 9 boxes = 128 bars`).
    """
    here, there = [unit for _, unit in _find_units(left)], [unit for _, unit in _find_units(after)]
    known = {unit for unit in (*here, *there) if unit in _DIMENSION}
    sizes = {(_DIMENSION[unit], _SIZE[unit] or unit) for unit in known}
    if len({dimension for dimension, _ in sizes}) < len(sizes) or "dozen" in known:
        return True
    numbers = sum(token.kind == NUMBER for token in left)
    is_sum = all(token.text == "+" for token in left if token.kind == OPERATOR)
    one_thing = is_sum and len(here) == numbers > 1 and len(set(here)) == 1
    return one_thing and bool(there) and there[0] != here[0] and "dollar" not in here


def _find_units(tokens: Sequence[Token]) -> list[tuple[Token, str]]:
    """Return the numbers that have a unit, each with its unit in the singular."""
    units = []
    for number, following in zip(tokens, (*tokens[1:], None), strict=True):
        if number.kind not in (NUMBER, CLOSE):
            continue
        if number.money:
            units.append((number, "dollar"))
        elif following and following.kind == WORD:
            word = following.text.lower().rstrip(".")
            units.append((number, word if word in _DIMENSION else word.removesuffix("s")))
    return units
