"""Units of measure that convert into one another: feet and inches, hours and minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.metrics.reasoning.equation_tokens import CLOSE, NUMBER, OPERATOR, WORD, Token

# How many of the dimension's smallest unit each unit is; None: it varies.
_SIZES: dict[str, dict[str, int | None]] = {
    "time": {
        **dict.fromkeys(("second", "sec"), 1),
        **dict.fromkeys(("minute", "min"), 60),
        **dict.fromkeys(("hour", "hr"), 3600),
        "day": 86_400,
        "week": 604_800,
        "month": None,
        "year": None,
        "decade": None,
    },
    "imperial length": {
        **dict.fromkeys(("inch", "inche"), 1),
        **dict.fromkeys(("foot", "feet", "ft"), 12),
        "yard": 36,
        "mile": 63_360,
    },
    "length": {
        **dict.fromkeys(("mm", "millimeter"), 1),
        **dict.fromkeys(("cm", "centimeter"), 10),
        **dict.fromkeys(("m", "meter", "metre"), 1000),
        **dict.fromkeys(("km", "kilometer"), 1_000_000),
    },
    "imperial weight": {
        **dict.fromkeys(("ounce", "oz"), 1),
        **dict.fromkeys(("pound", "lb"), 16),
        "ton": 32_000,
    },
    "weight": {
        **dict.fromkeys(("mg", "milligram"), 1),
        **dict.fromkeys(("g", "gram"), 1000),
        **dict.fromkeys(("kg", "kilogram"), 1_000_000),
    },
    "money": {
        **dict.fromkeys(("cent", "penny", "pennie"), 1),
        "nickel": 5,
        "dime": 10,
        "quarter": 25,
        **dict.fromkeys(("$", "dollar", "buck"), 100),
    },
    "volume": {
        "teaspoon": 1,
        "tablespoon": 3,
        "cup": 48,
        "pint": 96,
        "quart": 192,
        "gallon": 768,
    },
    "metric volume": {
        **dict.fromkeys(("ml", "milliliter"), 1),
        **dict.fromkeys(("liter", "litre", "l"), 1000),
    },
    "count": {"dozen": 12},
}
_DIMENSION = {unit: dimension for dimension, units in _SIZES.items() for unit in units}
_SIZE = {unit: size for units in _SIZES.values() for unit, size in units.items()}


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
