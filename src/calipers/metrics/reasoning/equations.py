"""Equations in a text: find them, work them out exactly, say which are right.

The grammar is that of DEFINITIONS (`math_usr`); docs/metrics/math_usr.md lists the rules that it
leaves open. A line is cut into tokens once; each side of an `=` is then the longest expression that
touches it, found by walking away from the `=`, so that the work grows with the text's length only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_MARK = re.compile(r"<<([^<>\r\n]*)>>")  # GSM8K's calculator marks
_LINE_END = re.compile(r"\r\n|\n|\r")
_LIST_MARK = re.compile(r"\s*(?:\d+\.|-|\*)\s+")
_TIMES_X = re.compile(r"([0-9%)]\s*)x(?=\s*[0-9.$(])")
_POWER = re.compile(r"([0-9%)]\s*)\*{2,}(?=\s*[0-9.$(])")
_TOKEN = re.compile(
    r"""
    (?P<number>\$?(?<![\w.,])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?
        (?![.,]*[0-9]|\w)%?)
  | (?P<equals>=)
  | (?P<foreign>\^|√|\\(?:times|cdot|div)(?![A-Za-z]))   # what is beside it is part of more
  | (?P<of>of\b)
  | (?P<sign>(?<!\w)[-+−–](?=[0-9.$(]))
  | (?P<operator>(?<!\*)\*(?!\*)|[-+−–×·/÷])
  | (?P<word>\w+)
  | (?P<open>\()
  | (?P<close>\))
  | (?P<other>\S)
    """,
    re.VERBOSE,
)
_OPERATION = {
    **dict.fromkeys("+", "+"),
    **dict.fromkeys("-−–", "-"),
    **dict.fromkeys("*×·", "*"),
    **dict.fromkeys("/÷", "/"),
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}
_LONGEST = 400  # tokens of a side; a longer one is no equation a person wrote

Token = tuple[str, str, int, int]  # kind, text, start, end
Ratio = tuple[int, int]  # numerator and denominator, never reduced: faster, and as exact


def equations(text: str) -> list[bool]:
    """Say of each equation whether it is right: those in marks first, then those in the text."""
    found = [verdict for mark in _MARK.findall(text) for verdict in _in_mark(mark)]
    for line in _LINE_END.split(_MARK.sub("", text)):
        if "=" in line:
            found += _in_line(line)
    return found


def located(text: str) -> list[tuple[int, int, bool]]:
    """Each equation's start and end in the text, and whether it is right, in `equations`' order.

    >>> located("so 2 + 2 = 5 apples")
    [(3, 12, False)]
    """
    found = [
        (mark.start(), mark.end(), verdict)
        for mark in _MARK.finditer(text)
        for verdict in _in_mark(mark[1])
    ]
    kept = [at for start, end in _between_marks(text) for at in range(start, end)]
    rest = "".join(text[at] for at in kept)
    start = 0
    for line in _LINE_END.split(rest):
        found += ((kept[start + a], kept[start + b - 1] + 1, right) for a, b, right in _spans(line))
        start += len(line)
        start += len(_LINE_END.match(rest, start)[0]) if start < len(rest) else 0  # type: ignore[index]
    return found


def _between_marks(text: str) -> Iterator[tuple[int, int]]:
    end = 0
    for mark in _MARK.finditer(text):
        yield end, mark.start()
        end = mark.end()
    yield end, len(text)


def _spans(line: str) -> Iterator[tuple[int, int, bool]]:
    """Where the equations of a line are; the whole line where a power was respelled in it."""
    list_mark = _LIST_MARK.match(line)
    before = list_mark.end() if list_mark else 0
    respelled = _POWER.search(line)
    for left, right in _pairs_in(line):
        places = (0, len(line)) if respelled else (before + left[0][2], before + right[-1][3])
        yield *places, _is_right(left, right)


def _in_mark(mark: str) -> Iterator[bool]:
    """A mark counts if each of its sides is wholly an expression, with an operator or without."""
    sides = _sides(mark)
    if all(side and _reach_right(side) == len(side) for side in sides):
        for left, right in pairwise(sides):
            yield _is_right(left, right)


def _in_line(line: str) -> Iterator[bool]:
    for left, right in _pairs_in(line):
        yield _is_right(left, right)


def _pairs_in(line: str) -> Iterator[tuple[list[Token], list[Token]]]:
    """The two sides of each equation of a line."""
    list_mark = _LIST_MARK.match(line)
    for before, after in pairwise(_sides(line[list_mark.end() :] if list_mark else line)):
        left, right = _left_side(before), _right_side(after)
        if left and right and (_has_operator(left) or _has_operator(right)):
            yield left, right


def _sides(line: str) -> list[list[Token]]:
    """The tokens between the equals signs."""
    line = _POWER.sub(r"\1^", _TIMES_X.sub(r"\1×", line))
    sides: list[list[Token]] = [[]]
    before = ""
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup or ""
        if kind == "sign" and before in ("number", "close"):
            kind = "operator"
        elif kind == "of" and before not in ("number", "close"):
            kind = "word"
        before = kind
        if kind == "equals":
            sides.append([])
        else:
            sides[-1].append((kind, match[0], match.start(), match.end()))
    return sides


def _left_side(tokens: list[Token]) -> list[Token] | None:
    """The longest expression that ends at the `=`, unless it is the tail of something larger."""
    start = _reach_left(tokens)
    if start is None:
        return None
    if start:
        kind, text, _, end = tokens[start - 1]
        operand = kind in ("word", "number", "close") or text in ("]", "}")
        if kind in ("operator", "foreign", "of") or (operand and end == tokens[start][2]):
            return None
    return tokens[start:]


def _right_side(tokens: list[Token]) -> list[Token] | None:
    """The longest expression that starts behind the `=`, unless it is the head of a larger one."""
    end = _reach_right(tokens)
    if end is None:
        return None
    if end < len(tokens):
        kind, text, start, _ = tokens[end]
        operator = kind == "operator" and text not in "-−–/"  # there a dash or a unit: $5/hour
        operand = kind in ("word", "number", "open")
        if operator or kind == "foreign" or (operand and start == tokens[end - 1][3]):
            return None
    return tokens[:end]


def _reach_right(tokens: list[Token]) -> int | None:
    """Where the longest expression from the first token on ends."""
    reached, depth, wants_operand = None, 0, True
    for position, (kind, _, _, _) in enumerate(tokens[:_LONGEST], start=1):
        if wants_operand:
            if kind == "number":
                wants_operand = False
            elif kind == "open":
                depth += 1
            elif kind != "sign":
                break
        elif kind == "operator":
            wants_operand = True
        elif kind == "close" and depth:
            depth -= 1
        else:
            break
        if not depth and not wants_operand:
            reached = position
    return reached


def _reach_left(tokens: list[Token]) -> int | None:
    """Where the longest expression up to the last token begins."""
    reached, depth, wants_operand = None, 0, True
    for position in range(len(tokens) - 1, max(-1, len(tokens) - 1 - _LONGEST), -1):
        kind = tokens[position][0]
        if wants_operand:
            if kind == "number":
                wants_operand = False
            elif kind == "close":
                depth += 1
            else:
                break
        elif kind == "operator":
            wants_operand = True
        elif kind == "open" and depth:
            depth -= 1
        elif kind != "sign":
            break
        if not depth and not wants_operand:
            reached = position
    return reached


def _has_operator(tokens: list[Token]) -> bool:
    return any(kind == "operator" for kind, _, _, _ in tokens)


def _is_right(left: list[Token], right: list[Token]) -> bool:
    """Equal, or within half a unit of the last decimal that is written on the right."""
    try:
        (a, b), (c, d) = _value(left), _value(right)
    except ZeroDivisionError:
        return False
    unit = 10 ** max(_decimals(text) for kind, text, _, _ in right if kind == "number")
    distance = abs(a * d - c * b)
    return distance == 0 if unit == 1 else 2 * unit * distance <= abs(b * d)


def _decimals(number: str) -> int:
    return len(number.rstrip("%").partition(".")[2])


def _value(tokens: list[Token]) -> Ratio:
    """The exact value of an expression, by precedence."""
    values: list[Ratio] = []
    pending: list[str] = []
    for kind, text, _, _ in tokens:
        if kind == "number":
            values.append(_ratio(text))
        elif kind == "open":
            pending.append("(")
        elif kind == "close":
            while pending[-1] != "(":
                _apply(pending.pop(), values)
            pending.pop()
        elif kind == "sign":
            if _OPERATION[text] == "-":
                pending.append("negate")
        else:
            operation = _OPERATION[text]
            while pending and _PRECEDENCE.get(pending[-1], 0) >= _PRECEDENCE[operation]:
                _apply(pending.pop(), values)
            pending.append(operation)
    while pending:
        _apply(pending.pop(), values)
    return values[0]


def _ratio(number: str) -> Ratio:
    whole, _, fraction = number.strip("$%").replace(",", "").partition(".")
    return int(whole + fraction), 10 ** len(fraction)


def _apply(operation: str, values: list[Ratio]) -> None:
    c, d = values.pop()
    if operation == "negate":
        values.append((-c, d))
        return
    a, b = values.pop()
    if operation == "+":
        values.append((a * d + c * b, b * d))
    elif operation == "-":
        values.append((a * d - c * b, b * d))
    elif operation == "*":
        values.append((a * c, b * d))
    elif c:
        values.append((a * d, b * c))
    else:
        raise ZeroDivisionError
