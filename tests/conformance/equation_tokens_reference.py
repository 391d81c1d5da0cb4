"""How a line of a chain of thought is cut into tokens: the first half of the equations' reference."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

MINUS, TIMES, OVER = "-−–", ("*", "×", "·", "⋅", "∗", "x", "X", "of", "touch"), "/÷⁄"
UNITS = "aAhmgsLl"  # letters that are units after a number and a space
UNIT_WORDS = 8
LONGEST_NUMBER = 600
VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5"}
# Private characters stand for the parentheses of a fraction.
PART = r"\{((?:[^{}]|\\text\s*\{[^{}]*\})*)\}"
FRACTION = re.compile(rf"\\[dtc]?frac\s*{PART}\s*{PART}")
SIGN = r"\\(?:approx|simeq|doteq|equiv)(?![A-Za-z])|(?<![<>!:=~])==?(?![=>])|[≈≐]"
RULES = {  # what stands at a place is of the first kind that matches there
    "join": SIGN,
    "foreign": r"_(?:\{[^{}]*\}|[A-Za-z0-9]+)|\^|√|!|\\sqrt|\\pm|[<>≤≥≠~]=?|=>|:=|[|²³]",
    "ellipsis": r"\.?\\overline\{[0-9]+\}|\\[lc]?dots(?![A-Za-z])|\.\.\.+|…",
    "label": r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox)\s*\{[\s(]*[^\W\d_][^{}]*\}",
    "skip": r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|text(?:bf|it|rm)?|math(?:rm|bf|it)"
    r"|mbox|boxed|fbox|quad|qquad)(?![A-Za-z])|\\[()\[\],;:!$ ]|[$€£¥₹]|&|__|[~°]",
    "percent": r"\\?%",
    "mixed": r"(?<![\w.,/])[0-9]+ [0-9]+[/⁄][0-9]+(?![\w.,]*[0-9]|[/⁄])",
    # Digits, dots and commas that touch are one number or none; `3x4` is a product.
    "number": r"(?:(?<![\w.,])(?<![0-9]:)|(?<=[0-9)\]\s][xX]))(?:(?<=\$)[0-9]{1,3}(?: [0-9]{3})+"
    r"|[0-9]{1,3}(?:(?:,|\{,\}|,\\!)[0-9]{3})+|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?(?![.,]?[0-9]|:[0-9])",
    "vulgar": r"(?<![.,\w])[0-9]*[½⅓⅔¼¾⅕]",
    "stars": r"\*\*+",
    "operator": r"[-+−–*×·⋅∗/÷⁄]|\\(?:times|cdot|div)(?![A-Za-z])"
    r"|(?<![A-Za-z])[xX](?=\s*(?:[0-9(\[.\ue000]|\\?\$|\\[(]|\*\*[0-9]))",
    "word": r"(?<![A-Za-z])(?:[ckm]?m|ft|in|yd)(?:\^\{?[23]\}?|[23²³])(?!\w)",
    "name": r"[^\W\d_](?:[\w'’.&-]*(?:[^\W_]|['’]))?",
    "open": r"[(\[\ue000]",
    "close": r"[)\]\ue001]",
    "brace": r"[{}]",
    "break": r"\\\\|\S",
}
OPERAND = re.compile(r"(?:\\?\$\s*)*(?:[0-9.(\[½⅓⅔¼¾⅕\ue000]|\\left)")
DETERMINERS = "the his her their its all those these that".split()


@dataclass(frozen=True)
class Token:
    """A piece of a line; `value`, `decimals`, `digits`, `percent` and `money` are a number's."""

    kind: str
    text: str
    start: int
    end: int
    value: Fraction = Fraction(0)
    decimals: int = 0
    digits: int = 0
    percent: bool = False
    inexact: bool = False
    money: bool = False


def respell(line: str) -> str:
    """Return the line without its list mark, emphasis around numbers and LaTeX fractions."""
    if "*" in line:
        line = re.sub(r"(?<![\w*)\]])\*(\$?[0-9][0-9,.]*%?)\*(?![\w*])", r" \1 ", line)
    line = re.sub(r"^\s*(?:\d+[.)]|[-*•])\s+", "", line)
    while FRACTION.search(line):
        line = FRACTION.sub("\ue000(\\1)/(\\2)\ue001", line)
    return line


def tokens_of(line: str) -> list[Token]:
    line, found, place, money = respell(line), list[Token](), 0, False
    while place < len(line):
        matches = (
            (kind, re.compile(pattern).match(line, place)) for kind, pattern in RULES.items()
        )
        kind, match = next(((kind, match) for kind, match in matches if match), ("space", None))
        if match is None:
            place += 1
            continue
        _add(found, kind, match, line, money=money)
        money = match[0][-1] in "$€£¥₹" if kind == "skip" else False
        place = match.end()
    return _read_of(_read_units(found))


def _add(found: list[Token], kind: str, match: re.Match[str], line: str, *, money: bool) -> None:  # noqa: C901, PLR0912
    """Add what matched to the tokens: each kind has its rule."""
    text, (start, end) = match[0], match.span()
    last = found[-1] if found and found[-1].kind in ("number", "close") else None
    touches = last is not None and last.end == start
    token = Token(kind, text, start, end)
    starts_operand = OPERAND.match(line, end) is not None
    if kind in ("skip", "brace"):
        return
    if kind in ("number", "mixed", "vulgar") and len(text) > LONGEST_NUMBER:
        found.append(replace(token, kind="break"))
    elif kind in ("number", "mixed", "vulgar"):
        found.append(_number(token, money=money))
    elif kind == "percent" and last and last.kind == "number":
        found[-1] = replace(last, percent=True, end=end)
    elif (
        kind == "ellipsis" and last and last.kind == "number" and not line[last.end : start].strip()
    ):
        found[-1] = replace(last, inexact=True, end=end)
    elif kind in ("percent", "ellipsis"):
        found.append(replace(token, kind="break"))
    elif kind == "join":
        found.append(replace(token, inexact=text not in ("=", "==")))
    elif kind == "stars":  # a power between two operands, else emphasis
        if last and starts_operand:
            found.append(replace(token, kind="foreign"))
    elif kind == "operator":
        found.append(_operator(token, found, line, starts_operand=starts_operand))
    elif kind == "label":
        found.append(replace(token, kind="word", text=text.partition("{")[2].strip("} ")))
    elif kind == "name":
        found.append(
            replace(
                token, kind=_word_or_variable(text, last, line[last.end : start] if last else "")
            )
        )
    elif kind == "open":
        if last and touches and text == "\ue000" and last.kind == "number" and "." not in last.text:
            found.append(Token("operator", "&", start, start))
        elif touches:
            found.append(Token("operator", "touch", start, start))
        found.append(token)
    else:
        found.append(token)


def _number(token: Token, *, money: bool) -> Token:
    if token.kind == "number":
        plain = re.sub(r"[^0-9.]", "", token.text)
        decimals = len(plain.partition(".")[2])
        digits = len(plain.replace(".", "").lstrip("0"))
        return replace(token, value=Fraction(plain), decimals=decimals, digits=digits, money=money)
    parts = re.sub("[½⅓⅔¼¾⅕]", lambda sign: " " + VULGAR[sign[0]], token.text).replace("⁄", "/")
    return replace(token, kind="number", value=sum(map(Fraction, parts.split()), Fraction(0)))


def _operator(token: Token, found: list[Token], line: str, *, starts_operand: bool) -> Token:
    """Read a plus or minus as a sign where no operand is before it, and one touches it."""
    behind = [each.kind for each in found[-UNIT_WORDS:] if each.kind != "word" and each.text != "/"]
    after_number = bool(found) and found[-1].kind in ("number", "close")
    after_operand = after_number or (bool(behind) and behind[-1] in ("number", "close"))
    text = {"\\times": "*", "\\cdot": "*", "\\div": "/"}.get(token.text, token.text)
    if text in ("x", "X") and not after_operand:
        return replace(token, kind="foreign")
    is_sign = text in "+" + MINUS and not after_operand and not line[: token.start][-1:].isalnum()
    return replace(token, text=text, kind="sign" if is_sign and starts_operand else "operator")


def _word_or_variable(text: str, last: Token | None, between: str) -> str:
    touches = last is not None and not re.search(r"\s", between)
    is_variable = len(text) == 1 and (touches or text not in UNITS)
    ordinal = touches and (text in "st nd rd th rds ths am pm".split() or not text.islower())
    return "foreign" if is_variable or ordinal or "_" in text or text[-1].isdigit() else "word"


def _read_units(found: list[Token]) -> list[Token]:
    """Make words of the slash in `km/h` and of the parentheses in `4 (Fred)`."""
    for i in range(1, len(found) - 1):
        before, token, after = found[i - 1 : i + 2]
        if before.kind not in ("number", "word", "close"):
            continue
        letter = after.kind == "foreign" and after.text in UNITS
        if token.text == "/" and (after.kind == "word" or letter):
            found[i : i + 2] = [replace(token, kind="word"), replace(after, kind="word")]
        elif token.kind == "open" and token.text == "(":
            end = next((j for j in range(i + 1, len(found)) if found[j].kind != "word"), i + 1)
            if end > i + 1 and found[end].kind == "close":
                found[i : end + 1] = [replace(each, kind="word") for each in found[i : end + 1]]
    return found


def _read_of(tokens: list[Token]) -> list[Token]:
    """Make a product of `of` between a percentage or a fraction and a number."""
    found: list[Token] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if token.kind == "word" and token.text == "of" and _is_fraction(found):
            after = next((i for i, each in enumerate(rest) if each.text not in DETERMINERS), 0)
            if rest and rest[after].kind in ("number", "open"):
                token, rest = replace(token, kind="operator"), rest[after:]
            else:
                token = replace(token, text="of …")
        found.append(token)
    return found


def _is_fraction(found: list[Token]) -> bool:
    if not found or found[-1].kind != "number":
        return bool(found) and found[-1].text == "\ue001"
    last = found[-1]
    divided = [each.kind for each in found[-3:-1]] == ["number", "operator"] and found[
        -2
    ].text in "/⁄"
    return last.percent or divided or last.value < 1 or " " in last.text
