"""Names of systems, tasks and fields: sorted as people count, and told apart where they look alike.

>>> find_look_alikes(["safety", "Safety ", "вода", "водан", "adversarial", "adversarials"])
[('safety', 'Safety ')]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_DIGITS = re.compile(r"([0-9]{1,18})")


def split_natural(text: str) -> tuple[Any, ...]:
    """Return the sort key of a text in which numbers count as such: T2 before T10.

    >>> sorted(["T10", "T2", "T1", "T"], key=split_natural)
    ['T', 'T1', 'T2', 'T10']
    """
    parts = _DIGITS.split(text)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), text


# Letters of other scripts, and of rarer Latin, that look like a common Latin one.
_LETTERS = {
    **dict(zip("АВЕЅІЈКМНОРСТУХҮԌԚԜһӀ", "ABESIJKMHOPCTYXYGQWhI", strict=True)),
    **dict(zip("аеѕіјкорсухүԁɡԛԝӏвмнт", "aesijkopcyxydgqwlbmht", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
    **dict(zip("αεικνορυχγ", "aeikvopuxy", strict=True)),
    **dict(zip("ꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜꓮ", "BCDEFGHIJKLMNOPRSTUVWXYZA", strict=True)),
    **dict(zip("օոսհցզյ", "onuhgqj", strict=True)),
    **dict(zip("ᎪᏴᏟᎠᎬᏀᎻᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "ABCDEGHKLMPRSTVWZ", strict=True)),
    **dict(zip("ѵгⲁⲅⲉⲓⲕⲟⲣⲥⲧⲩⲭ", "vrareikopctyx", strict=True)),
    **dict(zip("ıİɑɩʟʏꞵᴀᴄᴅᴇɢʜᴊᴋᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ", "iIailybacdeghjkmnoprstuvwz", strict=True)),
    "I": "l",
    "|": "l",
}
_SMALL = {
    small: latin.lower()
    for letter, latin in _LETTERS.items()
    if letter.isupper() and not letter.isascii() and len(small := letter.lower()) == 1
}
_LOOKS = str.maketrans(_SMALL | _LETTERS)
_LOOKS_IN_CAPITALS = {**_LOOKS, ord("I"): "i"}  # where a capital i is one
_BLANK = "\u034f\u115f\u1160\u180b\u180c\u180d\u2800\u3164\uffa0"  # shown as nothing
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # of a glyph's variant
_INVISIBLE = ("Cc", "Cf")
_MARKS = ("Mn", "Me")  # that are put on the letter before them
_BETWEEN_WORDS = re.compile(r"[\s_\-−‐‑‒–—―]+")
_CODES = 4  # code points that a message shows


def fold_plain(name: str) -> str:
    """Return a name without what one may overlook: case, width, spaces, dashes, invisible marks."""
    return unicodedata.normalize("NFKC", _strip(name).casefold())


def fold_letters(name: str) -> str:
    """Return the same with Latin letters in the place of those that look like them.

    A mark that is written apart from its Latin letter is left out; é and e stay two letters.
    """
    return _strip(_drop_marks(name)).translate(_LOOKS).casefold()


def fold_capitals(name: str) -> str:
    """Return the same, for a name in which a capital i is no small l."""
    return _strip(_drop_marks(name)).translate(_LOOKS_IN_CAPITALS).casefold()


_FOLDS = (fold_plain, fold_letters, fold_capitals)


def _drop_marks(name: str) -> str:
    if name.isascii():
        return name
    kept = ""
    for letter in name:
        if not (kept[-1:].isascii() and kept and unicodedata.category(letter) in _MARKS):
            kept += letter
    return kept


def _strip(name: str) -> str:
    spaced = " ".join(unicodedata.normalize("NFKC", name).split())
    is_plain = spaced.isascii() and spaced.isprintable()
    visible = spaced if is_plain else "".join(e for e in spaced if not _is_invisible(e))
    return _BETWEEN_WORDS.sub(_join_words, visible.strip())


def _join_words(gap: re.Match[str]) -> str:
    """Return nothing for a space, dash or underscore, except where it makes another number."""
    before, after = gap.string[: gap.start()][-1:], gap.string[gap.end() :][:1]
    return "-" if after.isdigit() and (before.isdigit() or not before) else ""


def _is_invisible(letter: str) -> bool:
    code = ord(letter)
    return (
        letter in _BLANK
        or unicodedata.category(letter) in _INVISIBLE
        or any(first <= code <= last for first, last in _SELECTORS)
    )


def find_look_alikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of different names that look the same, each name with the first like it."""
    pairs: dict[tuple[str, str], None] = {}
    first: dict[tuple[int, str], str] = {}
    for name in names:
        for kind, fold in enumerate(_FOLDS):
            other = first.setdefault((kind, fold(name)), name)
            if other != name:
                pairs[other, name] = None
    return list(pairs)


def find_plurals(names: Iterable[str], named: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of a named name and one of the others that differ only by a plural.

    >>> find_plurals(["policies", "security"], ["policy", "safety"])
    [('policy', 'policies')]
    """
    by_singular: dict[str, list[str]] = {}
    for name in names:
        by_singular.setdefault(_strip_plural(name), []).append(name)
    return [
        (first, name)
        for first in named
        for name in by_singular.get(_strip_plural(first), ())
        if name != first
    ]


def _strip_plural(name: str) -> str:
    folded = fold_plain(name)
    return f"{folded[:-3]}y" if folded.endswith("ies") else folded.removesuffix("s")


def show_difference(name: str, other: str) -> str:
    r"""Return the code points that only one of two names has.

    >>> show_difference("\u0430dversarial", "adversarial\u200b")
    'it has U+0430, the other U+200B'
    """
    mine, others = (
        ", ".join(
            [f"U+{ord(letter):04X}" for letter in dict.fromkeys(one) if letter not in two][:_CODES]
        )
        for one, two in ((name, other), (other, name))
    )
    if not mine:
        return f"the other has {others}" if others else "in another order"
    return f"it has {mine}, the other {others}" if others else f"it has {mine}"
