"""Units of measure that convert into one another: feet and inches, hours and minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.metrics.reasoning.equations.tokens import CLOSE, NUMBER, OPERATOR, WORD, Token

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


def convert(
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
        over = [each.kind for each in scaled[-2:]] == [NUMBER, OPERATOR] and scaled[-1].text == "/"
        if over and scaled[-2].start not in sizes:
            scaled.append(token._replace(denominator=token.denominator * size))
        else:
            scaled.append(token._replace(numerator=token.numerator * size))
    while scaled[-1].kind == WORD:
        scaled.pop()
    return scaled


def has_mixed_units(left: Sequence[Token], after: Sequence[Token]) -> bool:
    """Say whether two sides may be of one quantity in different units.

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
    found = []
    for number, following in zip(tokens, (*tokens[1:], None), strict=True):
        if number.kind not in (NUMBER, CLOSE):
            continue
        if number.money:
            found.append((number, "dollar"))
        elif following and following.kind == WORD:
            word = following.text.lower().rstrip(".")
            found.append((number, word if word in _DIMENSION else word.removesuffix("s")))
    return found
