"""Two solvers of word problems, one careful and one hasty.

Both read a problem clause by clause, take each number with the cue words around it, keep a running
total and write every step down. They share the code and differ in `Habits` alone: the hasty one
knows fewer words, converts no units, forgets carries and is surer of itself than it should be.

>>> careful({"input": "Mia has 57 stamps. She finds 38 more. How many has she now?"})["answer"]
'95'
"""

import math
import random
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Cues = tuple[tuple[str, str], ...]  # (sign, words that call for it), in the order to look

# The commonest words stand first in a line: a hasty reader has learned only those.
CHANGES: Cues = (
    ("-", "giv sells loses off drop eats paid uses not taken burns cuts evaporates buys.*for"),
    ("+", "more adds finds buys raises gets? grows tip tax receives joins"),
)
GROUPS: Cues = (("*", "times each every per"), ("/", "shared? equally splits divides among"))
PAIRS: Cues = (  # for two numbers in one clause
    ("/", "shared? equally splits divides among into"),
    ("*", r"each of.\d at.\$?\d per.[a-z] by.\d every.[a-z] a.(?:day|week)"),
    ("/", r"in.\d for.\d per.\d every.\d"),
)
QUESTIONS: Cues = (
    ("/", "each per needed need price.of.one"),
    ("+", "in.all total together altogether both"),
    ("-", "left remain more still change keep higher longer difference"),
)
VERBS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}

NUMERALS = (
    r"two.thirds=2/3 three.quarters=3/4 half=1/2 (?:a|one).third=1/3 (?:a|one).quarter=1/4 "
    r"(?:a|one).fifth=1/5 (\d+).1/2=\1.5 two.dozen=24 (?:a|one).dozen=12 .percent=% "
    "two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10"
)
UNIT = "(gram|kilogram|minute|hour)s?"
FACTORS = {"hour minute": "60", "minute hour": "1/60", "gram kilogram": "1/1000"}
QUANTITY = re.compile(rf"(?!\d+-year)(\d+(?:,\d{{3}})*(?:\.\d+)?)(%|/[1-9]\d*)?(?: {UNIT}\b)?")
TARGET_UNIT = re.compile(rf"\b(?:per|every|how many) (?:\d+ )?{UNIT}", re.IGNORECASE)
RATE = re.compile(r"(?:An? |The )?(\w+).* (?:costs|holds|needs|packs|carries|per|every)\b")
QUESTION = re.compile(r"\b(?:how|what)\b[^?]*", re.IGNORECASE)
CLAUSE_END = re.compile(r"[.?!]+(?:\s+|$)|,\s+|\s+(?=(?:and|but|then)\s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What sets one solver apart from another; the defaults are the careful one's."""

    words: int = 99  # known of each line of cues
    units: bool = True  # are converted
    skips: float = 0.0  # chance of passing over a clause
    slips: float = 0.05  # chance of a careless calculation
    checks: float = 0.8  # chance of noticing one
    guesses: float = 1.0  # share of the steps it may guess and still answer
    trust: tuple[float, float, float] = (0.98, 0.92, 0.5)  # in a step told, inferred, guessed


HASTY = Habits(
    words=5, units=False, skips=0.08, slips=0.35, checks=0.35, guesses=0.4, trust=(0.99, 0.97, 0.9)
)


def careful(record: dict[str, Any]) -> dict[str, Any]:
    """Answer slowly: read every clause, convert units, check the sums."""
    return solve(record, Habits())


def hasty(record: dict[str, Any]) -> dict[str, Any]:
    """Answer fast: skip, slip, and be sure of it."""
    return solve(record, HASTY)


def solve(record: dict[str, Any], habits: Habits) -> dict[str, Any]:
    """Answer the problem in `input`; each `run` of it has its own luck, the same every time."""
    problem = record["input"]
    luck = random.Random(f"{problem}|{record.get('run', 1)}")
    work = Work(habits, luck, in_digits(problem))
    answer = work.answer()
    cot = "\n".join(work.lines)
    confidence = math.prod(work.trusts or habits.trust[2:])  # no step at all: a guess
    return {
        "answer": answer,
        "cot": cot,
        "prob_correct": None if answer is None else round(confidence, 3),
        # Tokens are words between white space: there is no model here, so no tokenizer.
        "prompt_tokens": len(problem.split()),
        "completion_tokens": len(cot.split()),
    }


@dataclass(slots=True)
class Work:
    """One problem on the desk: the running total, and what has been written so far."""

    habits: Habits
    luck: random.Random
    text: str
    lines: list[str] = field(default_factory=list)
    trusts: list[float] = field(default_factory=list)  # one for each step
    total: Fraction = Fraction(0)
    rate_of: str = ""  # the total is for one of these, so the next number multiplies
    last: str = ""  # "gives 5 to Tom and 7 to Ann": the 7 are given, too

    def answer(self) -> str | None:
        """Work through the clauses to an answer, or give up."""
        for clause in CLAUSE_END.split(self.text):
            if not self.lines or self.luck.random() >= self.habits.skips:
                self.read(clause)
        guessed = self.trusts.count(self.habits.trust[2]) > len(self.trusts) * self.habits.guesses
        result = show(self.total)
        if not self.lines or guessed or result.startswith("("):
            self.write("That does not come out; I have no answer.")
            return None
        self.write(f"So the answer is {result}.")
        return result

    def write(self, line: str) -> None:
        """Add a numbered line to the chain of thought."""
        self.lines.append(f"{len(self.lines) + 1}. {line}")

    @property
    def asked(self) -> str:
        """The sign that the question itself calls for."""
        return self.cue(QUESTIONS, " ".join(QUESTION.findall(self.text)))

    def cue(self, cues: Cues, text: str) -> str:
        """Return the first sign with a word in the text that this solver knows."""
        for sign, words in cues:
            known = "|".join(words.split()[: self.habits.words])
            if re.search(rf"\b(?:{known})", text, re.IGNORECASE):
                return sign
        return ""

    def read(self, clause: str) -> None:
        """Bring the numbers of one clause into the total."""
        numbers, shares = self.quantities(clause)
        if shares and not numbers and not self.lines:
            numbers = [Fraction(1)]  # "3/4 of a cup": of a whole one
        if numbers and not self.lines:
            self.write(f'"{clause}": start with {show(numbers[0])}.')
            self.rate_of = rate[1].lower() if (rate := RATE.match(clause)) else ""
            self.total = self.combine(clause, numbers)
        elif numbers:
            self.join(clause, numbers)
        for share in shares:
            self.take_share(clause, share)

    def quantities(self, clause: str) -> tuple[list[Fraction], list[Fraction]]:
        """Return the plain numbers of a clause, and the shares (25%, 2/3) to take of a total."""
        numbers, shares = [], []
        target = TARGET_UNIT.search(self.text) if self.habits.units else None
        for digits, share, unit in QUANTITY.findall(clause):
            value = Fraction(digits.replace(",", ""))
            if share:
                shares.append(value / Fraction(share[1:] or 100))
            else:
                factor = FACTORS.get(f"{unit} {target[1]}", "1") if target else "1"
                numbers.append(value * Fraction(factor))
        return numbers, shares

    def combine(self, clause: str, numbers: list[Fraction]) -> Fraction:
        """Make one amount of the numbers in a clause: 24 rows of 36, 420 km in 3 hours."""
        amount, *others = numbers
        for other in others:
            told = self.cue(PAIRS, clause)
            sign = told or self.asked or "+"
            self.trusts.append(self.habits.trust[0 if told else 1])
            amount = self.reckon(f'"{clause}" says {VERBS[sign]}', amount, sign, other)
            self.rate_of = "unit" if sign == "/" else ""
        return amount

    def join(self, clause: str, numbers: list[Fraction]) -> None:
        """Join an amount to the total as the clause says, or else as seems likely."""
        sign, trust, reason = self.choose(clause, CHANGES + GROUPS * (len(numbers) == 1))
        self.trusts.append(trust)
        amount = self.combine(clause, numbers)
        self.total = self.reckon(f'"{clause}" {reason} {VERBS[sign]}', self.total, sign, amount)
        self.last, self.rate_of = sign, ""

    def choose(self, clause: str, cues: Cues) -> tuple[str, float, str]:
        """Choose the sign for a clause, how far to trust it, and say why."""
        told, inferred, guessed = self.habits.trust
        if self.rate_of and self.rate_of in clause.lower():
            return "*", told, "counts them, so"
        if said := self.asked if QUESTION.match(clause) else self.cue(cues, clause):
            return said, told, "says"
        likely = "*" if self.rate_of else self.last or self.asked
        if likely or clause.startswith("and "):
            return likely or "+", inferred, "suggests"
        return self.luck.choice("+-*"), guessed, "has no word that I know; I guess"

    def take_share(self, clause: str, share: Fraction) -> None:
        """Take a share of the total, then add it or take it off if the problem says so."""
        told = self.cue(CHANGES, clause)
        sign = told or ("-" if self.asked == "-" else "")
        self.trusts.append(self.habits.trust[0 if told else 1])
        part = self.reckon(f'"{clause}"', self.total, "*", share)
        self.total = self.reckon(f"Then {VERBS[sign]}", self.total, sign, part) if sign else part

    def reckon(self, why: str, left: Fraction, sign: str, right: Fraction) -> Fraction:
        """Calculate on paper, with this solver's slips and second looks."""
        if sign in "-/" and left < right:  # a schoolbook habit: the larger number goes first
            left, right = right, left
        task, result = f"{show(left)} {sign} {show(right)}", exact(left, sign, right)
        slip = careless(left, sign, right)
        if slip != result and self.luck.random() < self.habits.slips:
            self.write(f"{why}: {task} = {show(slip)}.")
            if self.luck.random() >= self.habits.checks:
                return slip
            why = "Actually, that was too quick"
        self.write(f"{why}: {task} = {show(result)}.")
        return result


def in_digits(text: str) -> str:
    """Write number words as digits, as in 2/3 for two thirds."""
    for numeral in NUMERALS.split():
        words, digits = numeral.split("=")
        text = re.sub(rf"\b{words}\b", digits, text, flags=re.IGNORECASE)
    return text


def exact(left: Fraction, sign: str, right: Fraction) -> Fraction:
    """Return the right result."""
    if sign == "/":
        return left / (right or 1)  # nothing to divide by: leave it
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def careless(left: Fraction, sign: str, right: Fraction) -> Fraction:
    """Return the result of someone in a hurry: nothing carried or borrowed, no decimals."""
    if sign in "*/":
        return Fraction(round(exact(left, sign, right)))
    columns = zip(f"{int(left * 100):018}", f"{int(right * 100):018}", strict=False)
    digits = ((int(a) + int(b)) % 10 if sign == "+" else abs(int(a) - int(b)) for a, b in columns)
    return Fraction(int("".join(map(str, digits))), 100)


def show(value: Fraction) -> str:
    """Write a number as people do; what no short decimal can give stays a fraction."""
    text = f"{float(value):,.4f}".rstrip("0").rstrip(".")
    return text if Fraction(text.replace(",", "")) == value else f"({value})"
