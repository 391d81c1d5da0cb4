"""A check of the language of a reply: by its script, then by frequent words and letters.

A script that only one of the languages uses decides at once. Among languages of the Latin and the
Cyrillic script, frequent words and rare letters count, the more the fewer languages share them.
Code blocks and addresses are left out. Without a clear winner the language is unknown: a reply of
one number has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from calipers.metrics.checks.kind import Replies, ReplyTest, ask_each
from calipers.metrics.checks.kinds.language_profiles import LETTERS, SCRIPTS, WORDS
from calipers.metrics.checks.values import Schema
from calipers.support.config.files import shown
from calipers.support.config.models import refuse
from calipers.support.errors import nearest
from calipers.support.quick_dataclasses import dataclass

CODES = tuple(sorted({*WORDS, *(code for codes in SCRIPTS.values() for code in codes)}))
_MOST = 4000  # characters that are read
_NO_LANGUAGE = re.compile(r"```.*?(?:```|\Z)|`[^`]*`|https?://\S+|\S+@\S+", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LETTER = 0.5  # the weight of a letter that few languages have
_CLEAR = 1.05  # least ratio of the best score to the second best
_DENSE = frozenset(("han", "kana", "hangul"))  # one sign counts as several letters
_PER_DENSE = 3
_MOSTLY = 0.5  # share of the letters that a script must have


@dataclass(frozen=True)
class Language(ReplyTest):
    """The reply is in a language."""

    key = "language"
    says = (
        "The reply is in the language (ISO 639-1): "
        f"{', '.join(CODES)}. By script, frequent words and letters; too short a reply cannot be "
        "decided."
    )
    example = "de"
    schema: ClassVar[Schema] = {"enum": list(CODES)}
    lacks = "too few words to identify the language"

    code: str

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        code = {"nb": "no", "nn": "no"}.get(str(value).lower().partition("-")[0], value)
        code = str(code).lower().partition("-")[0] if isinstance(code, str) else code
        if code not in CODES:
            # YAML reads a bare `no` as false.
            fix = 'put it in quotes: "no"' if value is False else nearest(str(value), CODES)
            refuse(f"{shown(value)} is not a language that is known", fix=fix)
        return cls(code)

    @property
    def sentence(self) -> str:
        return f"language {self.code}"

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(self._detect(replies), lambda code: code == self.code)

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(self._detect(replies), "the language is {}".format, pl.String)

    def _detect(self, replies: Replies) -> Iterator[str | None]:
        return (None if text is None else detect_language(text) for text in replies.text)


def detect_language(text: str) -> str | None:
    """Return the code of a text's language, or None if it cannot be determined.

    >>> detect_language("Das Paket ist noch nicht angekommen."), detect_language("42")
    ('de', None)
    """
    text = _NO_LANGUAGE.sub(" ", text[:_MOST]).lower()
    letters = Counter(_find_script(each) for each in text if each.isalpha())
    if not letters:
        return None
    for script in _DENSE & letters.keys():
        letters[script] *= _PER_DENSE
    if letters["kana"]:  # Japanese is written with both
        letters["kana"] += letters.pop("han", 0)
    script, count = letters.most_common(1)[0]
    if count < _MOSTLY * letters.total():
        return None
    codes = SCRIPTS.get(script, ())
    return codes[0] if len(codes) == 1 else _guess_by_words(text, codes)


def _guess_by_words(text: str, codes: tuple[str, ...]) -> str | None:
    scores: Counter[str] = Counter()
    weights = _weigh_words()
    for word in _WORD.findall(text):
        for code, weight in weights.get(word.replace("’", "'"), ()):
            scores[code] += weight  # type: ignore[assignment]
    for code, own in LETTERS.items():
        if many := sum(text.count(letter) for letter in own):
            scores[code] += _LETTER * many  # type: ignore[assignment]
    told = [(code, score) for code, score in scores.most_common() if code in codes]
    if not told or (len(told) > 1 and told[0][1] < _CLEAR * told[1][1]):
        return None
    return told[0][0]


@cache
def _weigh_words() -> dict[str, tuple[tuple[str, float], ...]]:
    """Return the weight of each frequent word per language: the fewer share it, the more."""
    shared: dict[str, list[str]] = {}
    for code, words in WORDS.items():
        for word in dict.fromkeys(words):
            shared.setdefault(word, []).append(code)
    return {word: tuple((c, 1 / len(codes)) for c in codes) for word, codes in shared.items()}


def _find_script(letter: str) -> str:
    return _SCRIPT_OF.get(ord(letter) >> 7, "other") if letter > "ɏ" else "latin"


_RANGES = {
    "latin": (0x1E00, 0x1F00), "greek": (0x0380, 0x0400), "cyrillic": (0x0400, 0x0580),
    "hebrew": (0x0580, 0x0600), "arabic": (0x0600, 0x0780), "devanagari": (0x0900, 0x0980),
    "bengali": (0x0980, 0x0A00), "tamil": (0x0B80, 0x0C00), "telugu": (0x0C00, 0x0C80),
    "thai": (0x0E00, 0x0E80), "kana": (0x3000, 0x3100), "han": (0x3400, 0xA000),
    "hangul": (0xAC00, 0xD800),
}  # fmt: skip
_SCRIPT_OF = {  # by blocks of 128 code points
    block: script
    for script, (first, end) in _RANGES.items()
    for block in range(first >> 7, end >> 7)
}

KINDS = (Language,)
