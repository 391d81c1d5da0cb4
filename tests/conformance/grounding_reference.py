"""How far passages support a statement, from docs/rag_usr.md: every window, every word, one by one.

Sentences, and which of them state something, are taken from the reader; tests/metrics/test_grounding
holds these to examples.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import log2
from typing import Any

from calipers.metrics.grounding.support import (
    SEPARATORS,
    SINGLE,
    find_statements,
    find_stem,
    read_words,
)


def _within(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(character) <= last for first, last in ranges)


def split(text: str) -> list[str]:
    """Return the words as they are spelled."""
    words: list[str] = []
    open_ = False
    for at, character in enumerate(text):
        before, behind = text[at - 1 : at] if at else "", text[at + 1 :]
        digits = len(behind) - len(behind.lstrip("0123456789"))
        joins = before.isascii() and before.isdigit() and open_
        if _within(character, SINGLE):
            words.append(character)
            open_ = False
        elif (character.isascii() and character.isalnum()) or (
            not character.isascii() and not _within(character, SEPARATORS)
        ):
            words[-1:] = [words[-1] + character] if open_ else [*words[-1:], character]
            open_ = True
        elif joins and ((character == "." and digits) or (character == "," and digits == 3)):
            words[-1] += character
        else:
            open_ = False
    return words


def stem(word: str) -> str:
    """Return how a word is compared."""
    folded = "".join(read_words().letters.get(ord(each), each) for each in word).replace(",", "")
    return folded if folded[:1] and folded[0] in "0123456789" else find_stem(folded)


def measure(weights: dict[str, int], words: int, passages: list[str]) -> Fraction:
    """Return the support of a statement with these content words, and so many words in all."""
    stems = [stem(word) for passage in passages for word in split(passage)]

    def in_sixteenths(number: int) -> int:
        power = int(log2(number))
        return 16 * power + (16 * number >> power) - 16

    telling = {
        word: weight * (16 + in_sixteenths(1 + len(stems) // (1 + stems.count(word))))
        for word, weight in weights.items()
    }
    windows = [set(stems[at : at + 2 * words]) for at in range(len(stems))]
    together = max((sum(telling[w] for w in weights if w in seen) for seen in windows), default=0)
    found = sum(telling[word] for word in weights if word in stems)
    share = Fraction(found + together, 2 * sum(telling.values()))
    good, bad = share * len(weights), (1 - share) * (len(weights) + 10)
    return good / (good + bad)


def list_texts(field: Any) -> list[str]:
    """Return the texts of `passages`."""
    if isinstance(field, str):
        try:
            return list_texts(json.loads(field)) if field.strip()[:1] in ("[", "{") else [field]
        except ValueError:
            return [field]
    if isinstance(field, dict):
        texts = [field[key] for key in ("text", "content", "page_content") if key in field]
        return [text for text in texts if isinstance(text, str)][:1]
    return [
        text for each in field for text in ([each] if isinstance(each, str) else list_texts(each))
    ]


def supports(answer: str, passages: Any) -> list[Fraction]:
    """Return the support of each statement."""
    texts = list_texts(passages)
    return [measure(dict(each.weights), len(each.words), texts) for each in find_statements(answer)]


def unsupported_share(answer: str, passages: Any) -> float | None:
    """Return the share of statements that are not supported; None without any."""
    found = supports(answer, passages)
    return sum(each < Fraction(1, 2) for each in found) / len(found) if found else None
