r"""Regular expressions over untrusted texts, in time linear in the text.

Python's own engine takes exponential time for a pattern like `(a+)+$` on a hostile text. Rust's,
which comes with Polars, does not; it has no look-around and no backreferences.

>>> find_last(r"ANSWER: (\d+)", "ANSWER: 4, no, ANSWER: 16.")
PatternMatch(start=15, end=25, group='16')
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calipers.support.errors import UsageError

_OF_NOBODY = range(0xE000, 0xF900)  # code points that Unicode leaves to private use


class PatternMatch(NamedTuple):
    """The place of the last match, and the text of its first group."""

    start: int
    end: int
    group: str


def find_last(pattern: str, text: str) -> PatternMatch | None:
    """Return the last match or None; `$` also matches before a final line break, as in Python."""
    text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded
    match = _search_last(pattern, text)
    if match is None and text.endswith("\n"):
        match = _search_last(pattern, text[:-1])
    return match


def find_first_matches(patterns: Mapping[str, str], texts: Sequence[str]) -> dict[str, str]:
    """Return, by pattern name, what each pattern matches in the first text that it matches.

    >>> find_first_matches({"number": "[0-9]+", "mark": "!"}, ["some", "7 of 9"])
    {'number': '7'}
    """
    import polars as pl  # noqa: PLC0415 (takes a while to load)

    given = pl.Series([text.encode("utf-8", "replace").decode() for text in texts], dtype=pl.String)
    # Only `contains` keeps what it compiled; to compile a long pattern takes 5 ms.
    rows = {name: given.filter(given.str.contains(pattern)) for name, pattern in patterns.items()}
    return {
        name: first[:1].str.extract(patterns[name], 0).item()
        for name, first in rows.items()
        if len(first)
    }


def _search_last(pattern: str, text: str) -> PatternMatch | None:
    """Return the last match, found by putting every match between marks."""
    import polars as pl  # noqa: PLC0415 (takes a while to load)

    mark = _choose_mark(text)
    marked = pl.Series([text]).str.replace_all(pattern, f"{mark}${{1}}{mark}${{0}}{mark}").item()
    before, _, rest = marked.rpartition(mark)
    if not before:
        return None
    before, _, matched = before.rpartition(mark)
    group = before.rpartition(mark)[2]
    end = len(text) - len(rest)
    return PatternMatch(end - len(matched), end, group)


def _choose_mark(text: str) -> str:
    while True:
        mark = "".join(map(chr, random.choices(_OF_NOBODY, k=2)))  # noqa: S311 (no secret)
        if mark not in text:
            return mark


def check_pattern(flag: str, pattern: str, used_as: str | None = None) -> None:
    """Raise UsageError for an option's pattern that cannot be used, by itself or as it is used."""
    try:
        for expression in filter(None, (pattern, used_as)):
            count_groups(expression)
    except ValueError as error:
        raise UsageError(
            f"{flag} {pattern}: {error}",
            fix="write it in the syntax of Rust's regex: no look-around, no backreferences",
        ) from None


def count_groups(pattern: str) -> int:
    """Return the number of groups in a pattern; raise ValueError if it is not a pattern."""
    import polars as pl  # noqa: PLC0415 (takes a while to load)

    try:
        groups = pl.Series([""]).str.extract_groups(pattern)
    except pl.exceptions.ComputeError as error:
        lines = str(error).strip().splitlines()
        raise ValueError(lines[-1].removeprefix("error: ").removeprefix("regex error: ")) from None
    return len(groups.struct.fields)
