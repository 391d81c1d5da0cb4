r"""Cut a line of reasoning into the tokens of arithmetic, as people and chat models write it.

LaTeX, currency signs and Markdown emphasis disappear here: `\frac{a}{b}` becomes `((a)/(b))`,
`\text{feet}` the word `feet`, `**18**` the number 18. What follows sees numbers, operators,
parentheses, joins (`=`, `≈`), words, and breaks (everything else).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

NUMBER, OPERATOR, SIGN, OPEN, CLOSE = "number", "operator", "sign", "open", "close"
JOIN, WORD, FOREIGN, BREAK = "join", "word", "foreign", "break"

MIXED = "&"  # joins the two parts of a mixed number
OPERATIONS = {
    **dict.fromkeys(("+",), "+"),
    **dict.fromkeys(("-", "−", "–"), "-"),
    **dict.fromkeys(("*", "×", "·", "⋅", "∗", "x", "X", "\\times", "\\cdot", "of", "("), "*"),
    **dict.fromkeys(("/", "÷", "⁄", "\\div"), "/"),
    MIXED: MIXED,
}
DASHES = "-−–"
SIGNS = "+" + DASHES
PART_OF = "of …"  # the word in `1/4 of a spoon`, where what it multiplies is not known
UNIT_LETTERS = "aAhmgsLl"  # after a number and a space; elsewhere a letter is a variable
_VULGAR = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5)}
_CURRENCY = "$€£¥₹"
_UNIT_WORDS = 8  # the most words of a unit
_LONGEST_NUMBER = 600  # characters; Python may refuse to read more than 640 digits
_NUMBERS = ("mixed", "number", "vulgar")
_NOT_DIGIT = re.compile(r"[^0-9.]")
_SPACE = re.compile(r"\s")
_TRANSPARENT = (
    r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox"
    r"|boxed|fbox|quad|qquad)(?![A-Za-z])|\\[()\[\],;:!$ ]|[$€£¥₹]|&|__|[~°]"
)
JOIN_SIGN = re.compile(r"\\(?:approx|simeq|doteq|equiv)(?![A-Za-z])|(?<![<>!:=~])==?(?![=>])|[≈≐]")
_TOKEN = rf"""
    (?P<fraction>\\[dtc]?frac\s*\{{)
  | (?P<join>{JOIN_SIGN.pattern})
  | (?P<foreign>_(?:\{{[^{{}}]*\}}|[A-Za-z0-9]+)|\^|√|!|\\sqrt|\\pm|[<>≤≥≠~]=?|=>|:=|[|²³])
  | (?P<ellipsis>\.?\\overline\{{[0-9]+\}}|\\[lc]?dots(?![A-Za-z])|\.\.\.+|…)
  | (?P<label>\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox)\s*\{{[\s(]*[^\W\d_][^{{}}]*\}})
  | (?P<skip>{_TRANSPARENT})
  | (?P<percent>\\?%)
  | (?P<mixed>(?<![\w.,/])[0-9]+[ ][0-9]+[/⁄][0-9]+(?![\w.,]*[0-9]|[/⁄]))
  | (?P<number>(?:(?<![\w.,])(?<![0-9]:)|(?<=[0-9)\]\s][xX]))
        (?:(?<=\$)[0-9]{{1,3}}(?:[ ][0-9]{{3}})+
          |[0-9]{{1,3}}(?:(?:,|\{{,\}}|,\\!)[0-9]{{3}})+|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?
        (?![.,]?[0-9]|:[0-9]))
  | (?P<vulgar>(?<![.,\w])[0-9]*[½⅓⅔¼¾⅕])
  | (?P<stars>\*\*+)
  | (?P<operator>[-+−–*×·⋅∗/÷⁄]|\\(?:times|cdot|div)(?![A-Za-z])
        |(?<![A-Za-z])[xX](?=\s*(?:[0-9(\[.]|\\?\$|\\[(]|\\[dt]?frac|\*\*[0-9])))
  | (?P<unit>(?<![A-Za-z])(?:[ckm]?m|ft|in|yd)(?:\^\{{?[23]\}}?|[23²³])(?!\w))
  | (?P<word>[^\W\d_](?:[\w'’.&-]*(?:[^\W_]|['’]))?)
  | (?P<open>[(\[])
  | (?P<close>[)\]])
  | (?P<opening_brace>\{{)
  | (?P<closing_brace>\}})
  | (?P<break>\\\\|\S)
    """
_LIST_MARK = re.compile(r"\s*(?:\d+[.)]|[-*•])\s+")
_STARTS_OPERAND = re.compile(r"\s*(?:\\?\$\s*)*(?:[0-9.(\[½⅓⅔¼¾⅕]|\\[dtc]?frac|\\left)")
_NOT_UNITS = frozenset(("st", "nd", "rd", "th", "rds", "ths", "am", "pm"))
_EMPHASIS = re.compile(r"(?<![\w*)\]])\*(\$?[0-9][0-9,.]*%?)\*(?![\w*])")
_DETERMINERS = frozenset(("the", "his", "her", "their", "its", "all", "those", "these", "that"))


class Token(NamedTuple):
    """A piece of a line: what it is, how it is written, and where it stands."""

    kind: str
    text: str
    start: int
    end: int
    numerator: int = 0  # of a number's value
    denominator: int = 1
    decimals: int = 0
    digits: int = 0  # significant ones
    percent: bool = False
    inexact: bool = False  # written with an ellipsis; of a join: ≈
    money: bool = False


def tokenize(line: str) -> list[Token]:
    """Return the tokens of a line, without its list mark."""
    return _read_of_as_product(_join_units(_Lexer(line).read()))


@cache
def _make_pattern() -> re.Pattern[str]:
    """Return the pattern of a token, which takes milliseconds to compile."""
    return re.compile(_TOKEN, re.VERBOSE)


class _Lexer:
    """Reads a line from left to right; `read_KIND` adds the tokens of a kind of match."""

    def __init__(self, line: str) -> None:
        self.line = _EMPHASIS.sub(r" \1 ", line) if "*" in line else line
        self.tokens: list[Token] = []
        self.braces: list[str] = []  # "plain", or which part of a fraction the open brace holds
        self.money = False  # whether a currency sign stands before what is read next

    def read(self) -> list[Token]:
        """Return the tokens of the line."""
        list_mark = _LIST_MARK.match(self.line)
        for match in _make_pattern().finditer(self.line, list_mark.end() if list_mark else 0):
            kind = match.lastgroup or ""
            if kind in _NUMBERS and len(match[0]) > _LONGEST_NUMBER:
                kind = "break"
            if kind == "skip":
                self.money = match[0][-1] in _CURRENCY
                continue
            if kind in _AS_THEY_ARE:
                self.add(_AS_THEY_ARE[kind], match)
            else:
                _READ[kind](self, match)
            self.money = False
        return self.tokens

    def add(self, kind: str, match: re.Match[str]) -> None:
        """Add the match as a token of this kind."""
        self.tokens.append(Token(kind, match[0], match.start(), match.end()))

    def get_last(self, *kinds: str) -> Token | None:
        """Return the last token if it is of one of these kinds."""
        return self.tokens[-1] if self.tokens and self.tokens[-1].kind in kinds else None

    def read_number(self, match: re.Match[str]) -> None:
        text = match[0]
        whole, _, fraction = _NOT_DIGIT.sub("", text).partition(".")
        digits = whole + fraction
        token = Token(NUMBER, text, match.start(), match.end(), int(digits), 10 ** len(fraction))
        significant = len(digits.lstrip("0"))
        self.tokens.append(
            token._replace(decimals=len(fraction), digits=significant, money=self.money)
        )

    def read_mixed(self, match: re.Match[str]) -> None:
        whole, over, under = (int(part) for part in re.split(r"[ /⁄]", match[0]))
        value = (whole * under + over, under)
        self.tokens.append(Token(NUMBER, match[0], *match.span(), *value))

    def read_vulgar(self, match: re.Match[str]) -> None:
        whole, (over, under) = int(match[0][:-1] or 0), _VULGAR[match[0][-1]]
        value = (whole * under + over, under)
        self.tokens.append(Token(NUMBER, match[0], *match.span(), *value))

    def read_percent(self, match: re.Match[str]) -> None:
        if last := self.get_last(NUMBER):
            self.tokens[-1] = last._replace(percent=True, end=match.end())
        else:
            self.add(BREAK, match)

    def read_ellipsis(self, match: re.Match[str]) -> None:
        last = self.get_last(NUMBER)
        if last and not self.line[last.end : match.start()].strip():
            self.tokens[-1] = last._replace(inexact=True, end=match.end())
        else:
            self.add(BREAK, match)

    def read_fraction(self, match: re.Match[str]) -> None:
        """Open `((`; a number that touches it makes it a mixed number, a parenthesis a product."""
        last, (start, end) = self.get_last(NUMBER, CLOSE), match.span()
        if last and last.end == start:
            is_mixed = last.kind == NUMBER and last.denominator == 1
            self.tokens.append(Token(OPERATOR, MIXED if is_mixed else "(", start, start))
        self.tokens += [Token(OPEN, "frac", start, end), Token(OPEN, "(", end, end)]
        self.braces.append("numerator")

    def read_opening_brace(self, match: re.Match[str]) -> None:
        start, end = match.span()
        if self.braces and self.braces[-1] == "between":
            self.braces[-1] = "denominator"
            self.tokens += [Token(OPERATOR, "/", start, start), Token(OPEN, "(", start, end)]
        else:
            self.braces.append("plain")

    def read_closing_brace(self, match: re.Match[str]) -> None:
        start, end = match.span()
        part = self.braces.pop() if self.braces else "plain"
        if part == "numerator":
            self.tokens.append(Token(CLOSE, ")", start, end))
            if self.line[end:].lstrip().startswith("{"):
                self.braces.append("between")
            else:
                self.add(FOREIGN, match)
        elif part == "denominator":
            self.tokens += [Token(CLOSE, ")", start, start), Token(CLOSE, "frac", start, end)]

    def read_join(self, match: re.Match[str]) -> None:
        self.add(JOIN, match)
        self.tokens[-1] = self.tokens[-1]._replace(inexact=match[0] not in ("=", "=="))

    def read_stars(self, match: re.Match[str]) -> None:
        """Keep `**` between two operands, a power; elsewhere it is Markdown's emphasis."""
        if self.get_last(NUMBER, CLOSE) and self._is_before_operand(match):
            self.add(FOREIGN, match)

    def read_operator(self, match: re.Match[str]) -> None:
        """Add an operator; a sign where no operand stands before it and one touches it."""
        text, before = match[0], self.line[: match.start()][-1:]
        after_operand = self.get_last(NUMBER, CLOSE) or self._is_after_unit()
        if text in ("x", "X") and not after_operand:
            self.add(FOREIGN, match)
        elif text not in SIGNS or after_operand or before.isalnum():
            self.add(OPERATOR, match)
        else:
            self.add(SIGN if self._is_before_operand(match) else OPERATOR, match)

    def read_label(self, match: re.Match[str]) -> None:
        self.add(WORD, match)
        words = match[0].partition("{")[2].strip("} ")
        self.tokens[-1] = self.tokens[-1]._replace(text=words)

    def read_word(self, match: re.Match[str]) -> None:
        """Add a word; what touches a number is a variable (3x, 5m, 2Ann) unless a unit (5km)."""
        text, last = match[0], self.get_last(NUMBER, CLOSE)
        touches = last is not None and not _SPACE.search(self.line, last.end, match.start())
        is_variable = len(text) == 1 and (touches or text not in UNIT_LETTERS)
        is_name = touches and (text in _NOT_UNITS or not text.islower())
        is_name |= "_" in text or text[-1].isdigit()
        self.add(FOREIGN if is_variable or is_name else WORD, match)

    def read_open(self, match: re.Match[str]) -> None:
        """Add a parenthesis; one that touches an operand multiplies it."""
        last = self.get_last(NUMBER, CLOSE)
        if last and last.end == match.start():
            self.tokens.append(Token(OPERATOR, "(", match.start(), match.start()))
        self.add(OPEN, match)

    def _is_before_operand(self, match: re.Match[str]) -> bool:
        after = self.line[match.end() : match.end() + 1]
        return bool(after.strip()) and _STARTS_OPERAND.match(self.line, match.end()) is not None

    def _is_after_unit(self) -> bool:
        """Return True if the words at the end follow a number, as a unit does."""
        for token in reversed(self.tokens[-_UNIT_WORDS:]):
            if token.kind != WORD and token.text != "/":
                return token.kind in (NUMBER, CLOSE)
        return False


_AS_THEY_ARE = {"foreign": FOREIGN, "unit": WORD, "close": CLOSE, "break": BREAK}
_READ: dict[str, Callable[[_Lexer, re.Match[str]], None]] = {
    name.removeprefix("read_"): method
    for name, method in vars(_Lexer).items()
    if name.startswith("read_")
}


def _join_units(tokens: list[Token]) -> list[Token]:
    """Read the slash of `km/h` and `$5/hour`, and a word in parentheses, as parts of a unit."""
    for position, token in enumerate(tokens[1:-1], start=1):
        last, following = tokens[position - 1], tokens[position + 1]
        if last.kind not in (NUMBER, WORD, CLOSE):
            continue
        is_letter = following.kind == FOREIGN and following.text in UNIT_LETTERS
        if token.text == "/" and (following.kind == WORD or is_letter):
            tokens[position] = token._replace(kind=WORD)
            tokens[position + 1] = following._replace(kind=WORD)
        elif token.kind == OPEN and token.text == "(":
            _join_words_in_parentheses(tokens, position)
    return tokens


def _join_words_in_parentheses(tokens: list[Token], start: int) -> None:
    end = start + 1
    while end < len(tokens) and tokens[end].kind == WORD:
        end += 1
    if start + 1 < end < len(tokens) and tokens[end].kind == CLOSE:
        tokens[start : end + 1] = [token._replace(kind=WORD) for token in tokens[start : end + 1]]


def _read_of_as_product(tokens: list[Token]) -> list[Token]:
    """Read `of` between a percentage or a fraction and a number as a product."""
    found: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.text == "of" and token.kind == WORD and _is_fraction(found):
            following = position + 1
            while following < len(tokens) and tokens[following].text in _DETERMINERS:
                following += 1
            if following < len(tokens) and tokens[following].kind in (NUMBER, OPEN):
                found.append(token._replace(kind=OPERATOR))
                position = following
            else:
                found.append(token._replace(text=PART_OF))
                position += 1
            continue
        found.append(token)
        position += 1
    return found


def _is_fraction(tokens: list[Token]) -> bool:
    if not tokens:
        return False
    last = tokens[-1]
    if last.kind == CLOSE:
        return last.text == "frac"
    if last.kind != NUMBER:
        return False
    divides = [token.kind for token in tokens[-3:-1]] == [NUMBER, OPERATOR] and (
        tokens[-2].text in "/⁄"
    )
    return last.percent or divides or last.denominator > last.numerator or " " in last.text
