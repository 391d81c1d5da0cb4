"""Which statements of a text its passages support: the rules of docs/rag_usr.md, in Python.

The native library (`native/src/grounding.rs`) follows them to the letter. All weights are whole
numbers, and letters are compared by a table of our own, so that both give the same values on every
machine, with every version of Unicode.

>>> passage = "Arthur's Magazine (1844–1846) was an American literary periodical."
>>> [judged.is_supported for judged in judge_text("It was American. It sold in 1901.", [passage])]
[True, False]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from calipers.records.fields import load_json

PLAIN, NAME, NUMBER = 1, 2, 3  # how much a word, a name and a number tell
NEIGHBOURHOOD = 2  # times as long as the statement
LENIENCE = 10  # content words: of a short statement every word counts, of a long one most
MOST_PLACES = 1000  # of a stem: a bound on the work for texts that repeat a word
GAP = 4  # words that may stand between those of a refusal
_FRACTION = 16  # parts of a power of two in a logarithm
_SHORTEST_STEMMED = 4  # letters
_SHORTEST_STEM = 3
_SUFFIXES = (("ies", 7), ("ing", 6), ("ed", 5), ("es", 5), ("ly", 6), ("s", 4))
_TEXT_KEYS = ("text", "content", "page_content")
_DEEPEST = 64  # lists and objects within each other

# Characters, as in grounding.rs: those that separate words, and those that are words by themselves.
SEPARATORS = (
    *((0x80, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7), (0x2000, 0x2BFF), (0x2E00, 0x2E7F)),
    *((0x3000, 0x303F), (0xFE10, 0xFE1F), (0xFE30, 0xFE6F), (0xFF00, 0xFF0F), (0xFF1A, 0xFF20)),
    *((0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFE0, 0xFFFF), (0x1F000, 0x1FAFF)),
)
SINGLE = (
    *((0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3)),
    *((0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
_MARKS = (0x300, 0x36F)  # accents that follow their letter: left out
_CAPITALS = ((0x391, 0x3A9, 0x20), (0x410, 0x42F, 0x20), (0x400, 0x40F, 0x50))  # and what to add


@dataclass(frozen=True)
class Words:
    """The lists of words.txt."""

    sets: Mapping[str, frozenset[str]]
    letters: Mapping[int, str]  # by the number of a character: what it is compared as
    capitals: frozenset[str]
    refusals: Sequence[Sequence[str | frozenset[str]]]  # "~", "^", or one of these words


@cache
def read_words() -> Words:
    """Return the lists."""
    sets: dict[str, frozenset[str]] = {}
    letters = dict.fromkeys(range(_MARKS[0], _MARKS[1] + 1), "")
    capitals: set[str] = set()
    refusals: list[list[str | frozenset[str]]] = []
    for first, last, shift in _CAPITALS:
        letters |= {number: chr(number + shift) for number in range(first, last + 1)}
        capitals |= set(map(chr, range(first, last + 1)))
    for first, last, base in ((0xFF10, 0xFF19, "0"), (0xFF21, 0xFF3A, "a"), (0xFF41, 0xFF5A, "a")):
        letters |= {at: chr(ord(base) + at - first) for at in range(first, last + 1)}
    capitals |= set(map(chr, range(0xFF21, 0xFF3B)))
    for line in (Path(__file__).with_name("words.txt")).read_text("utf-8").splitlines():
        name, _, listed = line.partition(": ")
        if line.startswith("#"):
            continue
        if name == "refusal":
            refusals.append([_read_slot(slot, sets) for slot in listed.split()])
        elif listed.isascii():
            sets[name] = frozenset(listed.split())
        else:
            letters |= {ord(letter): name.lower() for letter in listed}
            capitals |= set(listed) if name[0].isupper() else set()
    letters |= {number: chr(number + 32) for number in range(ord("A"), ord("Z") + 1)}
    capitals |= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return Words(sets, letters, frozenset(capitals), refusals)


def _read_slot(slot: str, sets: Mapping[str, frozenset[str]]) -> str | frozenset[str]:
    if slot in "~^":
        return slot
    return frozenset(chain.from_iterable(sets.get(part, (part,)) for part in slot.split("|")))


def _write_class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


_SINGLE = _write_class(SINGLE)
_NO_LETTER = f"\\x00-/:-@\\[-`{{-\\x7f{_write_class(SEPARATORS)}"
_WORD = re.compile(
    rf"[{_SINGLE}]"
    rf"|(?:[^{_NO_LETTER}{_SINGLE}]"
    r"|(?<=[0-9])\.(?=[0-9])|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))+"
)


class Word(NamedTuple):
    """A word of a text, and how it is compared."""

    text: str  # folded: lower case, without accents
    stem: str
    weight: int


def split_words(text: str) -> list[Word]:
    """Return the words of a text, in their order.

    >>> [word.stem for word in split_words("The 1,000 Cafés closed in U.S. cities, re-opening.")]
    ['the', '1000', 'caf', 'clos', 'in', 'u', 's', 'citi', 're', 'open']
    """
    return [_read_word(match.group()) for match in _WORD.finditer(text)]


@cache
def _fold(spelled: str) -> str:
    return spelled.translate(read_words().letters).replace(",", "")


def _read_word(spelled: str) -> Word:
    text = _fold(spelled)
    is_number = "0" <= text[:1] <= "9"
    weight = NUMBER if is_number else NAME if spelled[0] in read_words().capitals else PLAIN
    return Word(text, text if is_number else find_stem(text), weight)


def find_stem(word: str) -> str:
    """Return the stem of an English word; other words are their own.

    >>> [find_stem(word) for word in ("series", "released", "cities", "glass", "running", "moved")]
    ['seri', 'releas', 'citi', 'glass', 'runn', 'mov']
    """
    if len(word) < _SHORTEST_STEMMED or not word.isascii():
        return word
    for suffix, shortest in _SUFFIXES:
        if word.endswith(suffix) and len(word) >= shortest and not word.endswith("ss"):
            word = word[: -len(suffix)] + ("y" if suffix == "ies" else "")
            break
    if len(word) > _SHORTEST_STEM and word.endswith("e"):
        word = word[:-1]
    if len(word) > _SHORTEST_STEM and word.endswith("y"):
        word = f"{word[:-1]}i"
    return word


class Statement(NamedTuple):
    """A sentence with something to support, where it stands in its text, and its words."""

    start: int
    end: int
    words: Sequence[Word]
    weights: Mapping[str, int]  # of the content words, by their stems


_CITATION = re.compile(r"\[(?=[,; ^-]{0,39}[0-9])[0-9,; ^-]{1,40}\]")
_BLANK = " \t\n\r\v\f"
_LIST_MARK = re.compile(r"[ \t]*(?:[-*•#>]+|[0-9]{1,3}[.)])(?:[ \t]+|\Z)")
_ENDS, _WIDE_ENDS = ".!?…", "。！？"
_CLOSING = "\"'”’)]»*_"


def find_statements(text: str) -> list[Statement]:
    """Return the statements of a text: its sentences, but for questions, greetings and refusals.

    >>> text = "Sure! 1. It opened in 1901 [2]. Why? The passages do not say."
    >>> [text[found.start : found.end] for found in find_statements(text)]
    ['It opened in 1901 [2].']
    """
    statements = []
    for start, end in _split_sentences(text):
        sentence = text[start:end]
        words = split_words(_CITATION.sub(lambda match: " " * len(match.group()), sentence))
        weights = _weigh_words(words)
        is_none = not weights or _is_question(sentence) or _is_courtesy(words, weights)
        if not is_none and not any(_matches(words, refusal) for refusal in read_words().refusals):
            statements.append(Statement(start, end, words, weights))
    return statements


def _split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a text start and end, without marks of lists and white space."""
    start = _skip_list_marks(text, 0)
    at = start
    while at < len(text):
        is_end, at = _find_end(text, start, at)
        if is_end:
            yield start, _strip_end(text, start, at)
            start = at = _skip_list_marks(text, at)
    if start < len(text):
        yield start, _strip_end(text, start, len(text))


def _skip_list_marks(text: str, at: int) -> int:
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
        elif (mark := _LIST_MARK.match(text, at)) is not None:
            at = mark.end()
        else:
            break
    return at


def _strip_end(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in _BLANK:
        end -= 1
    return end


def _find_end(text: str, start: int, at: int) -> tuple[bool, int]:
    """Return whether the sentence that starts at `start` ends here, and where to go on."""
    character = text[at]
    if character == "\n":
        is_paragraph = text.startswith("\n", _skip(text, at + 1, " \t\r"))
        return is_paragraph or _LIST_MARK.match(text, at + 1) is not None, at + 1
    if character not in _ENDS and character not in _WIDE_ENDS:
        return False, at + 1
    end = _skip(text, at + 1, f"{_ENDS}{_WIDE_ENDS}{_CLOSING}")
    if character in _WIDE_ENDS:
        return True, end
    after = _skip(text, end, _BLANK)
    goes_on = after == end < len(text) or "a" <= text[after : after + 1] <= "z"
    is_dot = character == "." and end == at + 1
    return not goes_on and not (is_dot and _is_abbreviated(text, start, at)), end


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _is_abbreviated(text: str, start: int, at: int) -> bool:
    """Return True if the dot here ends an abbreviation or an initial, and no sentence."""
    first = at
    while first > start and text[first - 1].isascii() and text[first - 1].isalpha():
        first -= 1
    word = text[first:at].lower()
    return (len(word) == 1 and word != "i") or word in read_words().sets["abbreviation"]


def _is_question(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING)[-1:] in ("?", "？")


def _weigh_words(words: Iterable[Word]) -> dict[str, int]:
    stop = read_words().sets["stop"]
    weights: dict[str, int] = {}
    for word in words:
        if word.text and word.text not in stop:
            weights[word.stem] = max(weights.get(word.stem, 0), word.weight)
    return weights


def _is_courtesy(words: Sequence[Word], weights: Mapping[str, int]) -> bool:
    """Return True if nothing but a greeting, thanks or an offer of help is in the words."""
    sets = read_words().sets
    content = {word.text for word in words if word.stem in weights}
    greeting, known = sets["greeting"], sets["greeting"] | sets["courtesy"] | sets["stop"]
    return not content.isdisjoint(greeting) and content <= known


def _matches(words: Sequence[Word], pattern: Sequence[str | frozenset[str]]) -> bool:
    anchored, slots = pattern[0] == "^", pattern[1 if pattern[0] == "^" else 0 :]
    starts = range(1 if anchored else len(words))
    return any(_matches_at(words, start, slots) for start in starts)


def _matches_at(words: Sequence[Word], at: int, slots: Sequence[str | frozenset[str]]) -> bool:
    if not slots:
        return True
    if slots[0] == "~":
        return any(_matches_at(words, at + skip, slots[1:]) for skip in range(GAP + 1))
    return at < len(words) and words[at].text in slots[0] and _matches_at(words, at + 1, slots[1:])


class JudgedStatement(NamedTuple):
    """A statement, how far the passages support it, and where its words are found together."""

    statement: Statement
    support: float
    nearest: int | None  # the passage; None where none holds any of its words
    missing: frozenset[str]  # stems that no passage holds

    @property
    def is_supported(self) -> bool:
        """Whether the passages support it."""
        return self.support >= 0.5  # noqa: PLR2004 (the middle: docs/rag_usr.md)


class Passages:
    """The words of passages, one after the other, and where each stem stands."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.places: dict[str, list[int]] = {}
        self.ends: list[int] = []  # of the passages
        count = 0
        for text in texts:
            for word in split_words(text):
                self.places.setdefault(word.stem, []).append(count)
                count += 1
            self.ends.append(count)
        self.count = count

    def judge(self, statement: Statement) -> JudgedStatement:
        """Return how far the passages support a statement."""
        weights = {
            stem: weight
            * (_FRACTION + _compute_log2(1 + self.count // (1 + len(self.places.get(stem, ())))))
            for stem, weight in statement.weights.items()
        }
        total = sum(weights.values())
        found = sum(weight for stem, weight in weights.items() if stem in self.places)
        together, place = self._find_together(weights, NEIGHBOURHOOD * len(statement.words))
        size = len(weights)
        good = (found + together) * size
        bad = (2 * total - found - together) * (size + LENIENCE)
        nearest = next((at for at, end in enumerate(self.ends) if place < end), None)
        missing = frozenset(stem for stem in weights if stem not in self.places)
        return JudgedStatement(
            statement, good / (good + bad), None if together == 0 else nearest, missing
        )

    def _find_together(self, weights: Mapping[str, int], width: int) -> tuple[int, int]:
        """Return the most that is found among `width` words in a row, and where it begins."""
        hits = sorted(
            (at, stem) for stem in weights for at in self.places.get(stem, [])[:MOST_PLACES]
        )
        counts = dict.fromkeys(weights, 0)
        best, place, current, first = 0, 0, 0, 0
        for at, stem in hits:
            counts[stem] += 1
            current += weights[stem] if counts[stem] == 1 else 0
            while hits[first][0] <= at - width:
                gone = hits[first][1]
                counts[gone] -= 1
                current -= weights[gone] if counts[gone] == 0 else 0
                first += 1
            if current > best:
                best, place = current, hits[first][0]
        return best, place


def _compute_log2(number: int) -> int:
    """Return the logarithm of a whole number from 1 on, in sixteenths, by straight lines."""
    power = number.bit_length() - 1
    return _FRACTION * power + ((number * _FRACTION) >> power) - _FRACTION


def judge_text(text: str, passages: Sequence[str]) -> list[JudgedStatement]:
    """Return the statements of a text, each with its support by the passages."""
    statements = find_statements(text)
    read = Passages(passages) if statements else None
    return [read.judge(statement) for statement in statements] if read is not None else []


def list_passages(field: str) -> list[str]:
    """Return the texts of a `passages` field: a list of texts or objects, as JSON, or one text."""
    found = load_json(field) if field.lstrip(_BLANK)[:1] in ("[", "{") else None
    return [field] if found is None else list(_walk(found, 0))


def _walk(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < _DEEPEST:
        yield from chain.from_iterable(_walk(part, depth + 1) for part in value)
    elif isinstance(value, dict):
        texts = (value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str))
        yield next(texts, "")
