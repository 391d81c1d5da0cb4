"""Word-level diff of two texts: which words they share, and which only one has."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from calipers.support.quick_dataclasses import dataclass

MOST_WORDS = 4_000  # of both texts; beyond it the work would grow too fast
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class WordRun:
    """Some words that are in both texts, or in one of them."""

    text: str
    changed: bool


def diff_words(first: str, second: str) -> tuple[list[WordRun], list[WordRun]]:
    """Return both texts in runs of words; very long ones are shown undivided."""
    ours, theirs = _WORD.findall(first), _WORD.findall(second)
    if len(ours) + len(theirs) > MOST_WORDS:
        changed = first != second
        return [WordRun(first, changed)], [WordRun(second, changed)]
    left: list[WordRun] = []
    right: list[WordRun] = []
    matcher = SequenceMatcher(a=ours, b=theirs, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        changed = kind != "equal"
        left += [WordRun("".join(ours[a:b]), changed)] if a < b else []
        right += [WordRun("".join(theirs[c:d]), changed)] if c < d else []
    return left, right
