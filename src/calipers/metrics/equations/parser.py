"""Find the equations in a chain of thought, and judge which are wrong (DEFINITIONS, `math_usr`).

The sides of an equation are the longest expressions that touch its sign. What is called wrong is
wrong: a reading that a careful reader might not share (a number that is a label, a dash that ends a
sentence, units that convert) makes an equation only where it holds. docs/math_usr.md lists the
rules.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from calipers.metrics.equations import EquationCounts
from calipers.metrics.equations.arithmetic import (
    Verdict,
    convert_units,
    has_mixed_units,
    is_bare,
    judge_equation,
)
from calipers.metrics.equations.lexer import (
    BREAK,
    CLOSE,
    DASHES,
    FOREIGN,
    JOIN,
    JOIN_SIGN,
    NUMBER,
    OPEN,
    OPERATOR,
    PART_OF,
    SIGN,
    UNIT_LETTERS,
    WORD,
    Token,
    tokenize,
)

_LONGEST = 400  # tokens of a side; a longer one is no equation a person wrote
_UNIT_WORDS = 8  # the most words of a unit


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that end a clause: what stands before them is not the unit of what follows.
NO_UNIT = _split_words(
    "so then and or is are was were be which that this has have had thus therefore hence but"
    " because since if when we he she they it you i gives get gets makes make means equals as than"
    " number"
)
# Words after which a number is an amount ("we get 12 = 3 * 4"), not the name of a thing ("Day 2").
_BEFORE_AMOUNT = _split_words(
    "so then and or is are was were be thus therefore hence but because since have has had get gets"
    " gives makes means that which to left remaining only"
)
# Words that stand for an operator: what follows them is part of more than can be read here.
SPELLED_OUT = _split_words("for times by in of over per every plus minus divided multiplied with")
_SPELLED_WORDS = 3  # so many words after another number: "8 packs of 5 bags * 4"


def is_doubtful(
    before: Sequence[Token], left: Sequence[Token], after: Sequence[Token], right: Sequence[Token]
) -> bool:
    """Return True for a possible variable, a part of an unknown whole, or words that multiply."""
    letters = UNIT_LETTERS[2:]
    if any(token.kind == WORD and token.text in (*letters, PART_OF) for token in left):
        return True
    if any(token.text in letters for token in after[len(right) : len(right) + 1]):
        return True
    if any(a.text == b.text == "/" for a, b in zip(left[1:], left[3:], strict=False)):
        return True  # 7.5/1/2: by a half, or by one and then by two
    if any(_is_rate(*three) for three in zip(left, left[1:], left[2:], strict=False)):
        return True  # 2 pages/15 minutes * 3: by fifteen, or by nothing
    words: list[str] = []
    for token in reversed(before[: len(before) - len(left)]):
        if token.kind != WORD or len(words) > _SPELLED_WORDS:
            break
        words.append(token.text.lower())
    ahead = before[len(before) - len(left) - len(words) - 1 :][:1]
    if left[-1].kind == WORD and words[:1] in (["for"], ["of"]):
        return True  # "cost for 2 x 4 x 10 boards =": what is left of the sign is a name
    follows_number = len(before) > len(left) + len(words) and ahead[0].kind == NUMBER
    return follows_number and len(words) <= _SPELLED_WORDS and not SPELLED_OUT.isdisjoint(words[:1])


def _is_rate(unit: Token, slash: Token, number: Token) -> bool:
    touch = unit.end == slash.start and slash.end == number.start
    return touch and (unit.kind, slash.text, number.kind) == (WORD, "/", NUMBER)


def find_left_side(  # noqa: PLR0911 (a rule each)
    tokens: list[Token],
) -> tuple[list[Token] | None, bool]:
    """Return the longest expression that ends at the join, and whether that reading is sure.

    None where it is the tail of something larger (`x + 5 =`), or names a thing (`Day 2 =`).
    """
    start = _reach_left(tokens)
    if start is None:
        return None, False
    side = tokens[start:]
    bare = is_bare(side)
    sure = not (bare and side[-1].kind == WORD)
    if not start:
        return side, sure
    last = tokens[start - 1]
    touches = last.end == side[0].start
    if last.kind == OPERATOR:
        is_dash = last.text in DASHES and start > 1 and tokens[start - 2].kind in (WORD, BREAK)
        return (side, False) if is_dash and not bare else (None, False)
    if last.kind == FOREIGN:
        return (side, sure) if last.text == "!" else (None, False)
    if last.kind in (WORD, NUMBER, CLOSE) and touches:
        return None, False
    if last.kind == WORD and bare:
        return (side, sure) if last.text.lower() in _BEFORE_AMOUNT else (None, False)
    return side, sure and last.kind != NUMBER


def find_right_side(tokens: list[Token]) -> list[Token] | None:
    """Return the longest expression after the join; None if it is the head of a larger one."""
    end = reach_right(tokens)
    if end is None:
        return None
    if end < len(tokens):
        following = tokens[end]
        touches = following.start == tokens[end - 1].end
        behind = tokens[end + 1] if end + 1 < len(tokens) else None
        if following.kind == OPERATOR:
            ends_sentence = following.text in DASHES + "/"
            if not ends_sentence or (behind and behind.kind in (FOREIGN, OPEN)):
                return None
        if following.kind == FOREIGN and following.text not in ("!", *UNIT_LETTERS):
            return None
        if following.kind in (NUMBER, OPEN) and touches:
            return None
    return tokens[:end]


def read_otherwise(
    before: list[Token], left: list[Token], right: list[Token], *, ends_line: bool
) -> Iterator[tuple[list[Token], list[Token]]]:
    """Yield shorter readings, where a dash may be punctuation: `Step 2 - 5 + 3 = 8`."""
    after_word = len(before) > len(left) and before[-len(left) - 1].kind == WORD
    has_dash = left[1:2] and left[1].kind == OPERATOR and left[1].text in DASHES
    if after_word and has_dash and not is_bare(left[2:]):
        yield left[2:], right
    if ends_line and not is_bare(left):
        for position, token in enumerate(right):
            spaced = token.start > right[position - 1].end
            if position and token.kind == OPERATOR and spaced and token.text in DASHES:
                shorter = right[:position]
                while shorter[-1].kind == WORD:
                    shorter = shorter[:-1]
                if reach_right(shorter) == len(shorter):
                    yield left, shorter


def reach_right(tokens: list[Token]) -> int | None:
    """Return where the longest expression from the first token on ends, or None."""
    reached, depth, wants_operand, words = None, 0, True, 0
    for position, token in enumerate(tokens[:_LONGEST], start=1):
        kind = token.kind
        if wants_operand:
            if kind == NUMBER:
                wants_operand, words = False, 0
            elif kind == OPEN:
                depth += 1
            elif kind != SIGN:
                break
        elif kind == OPERATOR:
            wants_operand = True
        elif kind == CLOSE and depth:
            depth -= 1
        elif kind == WORD and _may_be_unit(token, words):
            words += 1
            continue
        else:
            break
        if not depth and not wants_operand and kind in (NUMBER, CLOSE):
            reached = position
    return reached


def _may_be_unit(token: Token, words: int) -> bool:
    return words < _UNIT_WORDS and token.text.lower() not in NO_UNIT


def _reach_left(tokens: list[Token]) -> int | None:
    """Return where the longest expression up to the last token begins, or None."""
    reached, depth, wants_operand, words = None, 0, True, 0
    for position in range(len(tokens) - 1, max(-1, len(tokens) - 1 - _LONGEST), -1):
        token = tokens[position]
        kind = token.kind
        if wants_operand:
            if kind == NUMBER:
                wants_operand, words = False, 0
            elif kind == CLOSE:
                depth += 1
            elif kind == WORD and _may_be_unit(token, words):
                words += 1
                continue
            else:
                break
        elif kind == OPERATOR:
            wants_operand = True
        elif kind == OPEN and depth:
            depth -= 1
        elif kind != SIGN:
            break
        if not depth and not wants_operand and kind != OPERATOR:
            reached = position
    return reached


MARK = re.compile(r"<<([^<>\r\n]*)>>")  # GSM8K's calculator marks
_LINE_END = re.compile(r"\r\n|\n|\r")
_ARROW = re.compile(r"[-=]{1,3}>|\\(?:begin|end)\{[^{}]*\}")  # and LaTeX's environments
_QUOTE = re.compile(r"\s*>[>\s]*")  # Markdown's quote marks, at the start of a line
_ABOUT = frozenset(("about", "approximately", "roughly", "around", "nearly", "almost"))


class Equation(NamedTuple):
    """The place of an equation in its text, and the verdict on it."""

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
    equations = [
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
            equations.append(Equation(place(start + first), place(start + last - 1) + 1, verdict))
        start += len(line)
    return equations


def quote_wrong_equations(text: str) -> list[str]:
    """Return the wrong equations of a text as they are written in it, without marks inside.

    >>> quote_wrong_equations("so 2 + 2 = 5 apples")
    ['2 + 2 = 5']
    """
    wrong = [text[a:b] for a, b, verdict in find_equations(text) if verdict is Verdict.WRONG]
    return [equation if MARK.fullmatch(equation) else MARK.sub("", equation) for equation in wrong]


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
        for other_left, other_right in (*readings, *convert_units(left, [*right, *unit])):
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
