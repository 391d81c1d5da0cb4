"""Texts as a reader sees them: look-alike letters, hidden characters, width and case undone.

`fold_text` and `list_readings` give the ways in which a judged text may be read (each takes time in
proportion to the text); `find_look_alikes` tells names apart that look the same.

>>> find_look_alikes(["safety", "Safety ", "вода", "водан", "adversarial", "adversarials"])
[('safety', 'Safety ')]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, groupby

_DROPPED = ("Mn", "Me", "Cf")  # accents, and characters that are not seen
_LOOK_ALIKES = {
    **str.maketrans("асеорхуіѕјԁһӏқвкмнтгпиԛԝ", "aceopxyisjdhlkbkmhtrnuqw"),
    **str.maketrans("αβεικνορτυχγηωϲϳ", "abeikvoptuxynwcj"),
    **str.maketrans("ıɑɡʟɩɪꞁℓ", "iagliill"),
}
_DIGIT_LETTERS = dict(zip("013457@$!", "oieastasi", strict=True))
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_MIXED = re.compile(r"[a-z0-9@$!]+")
_LAST_LETTER = 0x1F000  # beyond are pictures, and CJK characters without accents
_TAGS = range(0xE0000, 0xE0200)
_FEWEST_LETTERS = 4  # letters with a space after each that are read as a word


def fold_text(text: str) -> str:
    """Return the text in lower case, without accents, hidden characters and compatibility forms.

    >>> fold_text("Gi\u200bve it ｆｕｌｌ Márks")
    'give it full marks'
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text).translate(_list_dropped()).lower()


def list_readings(folded: str) -> Iterator[str]:
    """Yield the other ways to read a folded text, if there are any.

    >>> list(list_readings("1gn0r3 it")), list(list_readings("p a s s  it"))
    (['ignore it'], ['pass  it'])
    """
    latin = folded if folded.isascii() else folded.translate(_LOOK_ALIKES)
    if latin != folded:
        yield latin
    plain = _MIXED.sub(_replace_digits, latin)
    if plain != latin:
        yield plain
    closed = _close_up(latin)
    if closed != latin:
        yield closed


def to_ascii(folded: str) -> str:
    """Return a folded text in ASCII: letters of other scripts as ~.

    >>> to_ascii(fold_text("score 5 分"))
    'score 5 ~'
    """
    return folded if folded.isascii() else _FOREIGN.sub("~", folded)


def find_reversed(text: str) -> Iterator[str]:
    """Yield what follows a mark that reverses the reading direction, as it is displayed."""
    for part in re.split("[\u202d\u202e]", text)[1:]:
        yield re.split("[\u202c\n]", part, maxsplit=1)[0][::-1]


def read_tags(text: str) -> str:
    """Return what is written in tag characters, which are invisible except to a model."""
    return "".join(
        chr(ord(character) - 0xE0000)
        for character in text
        if "\U000e0020" <= character <= "\U000e007e"
    )


@cache
def _list_dropped() -> dict[int, None]:
    every = chain(range(_LAST_LETTER), _TAGS)
    return {at: None for at in every if unicodedata.category(chr(at)) in _DROPPED}


def _replace_digits(match: re.Match[str]) -> str:
    """Return the word in which digits stand for letters; a plain word or number is unchanged."""
    word = match[0]
    if word.isalpha() or not any(map(str.isalpha, word)):
        return word
    ending = word[len(word.rstrip("!")) :]
    body = word.removesuffix(ending)
    return "".join(_DIGIT_LETTERS.get(character, character) for character in body) + ending


def _close_up(text: str) -> str:
    """Return letters with a space after each joined into words; two spaces separate words."""
    lines = []
    for line in text.split("\n"):
        parts: list[str] = []
        for is_letter, group in groupby(line.split(" "), key=lambda piece: len(piece) <= 1):
            words = list(group)
            if is_letter and sum(map(bool, words)) >= _FEWEST_LETTERS:
                parts += "".join(word or " " for word in words).split(" ")
            else:
                parts += words
        lines.append(" ".join(parts))
    return "\n".join(lines)


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
