"""Ranks with intervals, and letters that systems share which cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

_ROUNDING = 1e-12


def ranks(values: NDArray[np.float64], *, higher_is_better: bool) -> list[int]:
    """Return each value's rank, 1 for the best; equal values share the better one.

    >>> ranks(np.array([0.5, 0.9, 0.9, 0.1]), higher_is_better=True)
    [3, 1, 1, 4]
    """
    signed = values if higher_is_better else -values
    rounding = _ROUNDING * np.abs(signed).max(initial=0.0)
    return [1 + int((signed > value + rounding).sum()) for value in signed]


def rank_bounds(better: Flags) -> tuple[list[int], list[int]]:
    """Return the best and the worst rank that each system may have.

    `better[i, j]` says that i is significantly better than j. If these decisions hold all at once
    with a confidence, so do the bounds (Klein, Wright & Wieczorek 2020, J. R. Stat. Soc. A 183,
    589; Mogstad, Romano, Shaikh & Wilhelm 2024, Rev. Econ. Stud. 91, 476).

    >>> rank_bounds(np.array([[False, False, True], [False, False, True], [False] * 3]))
    ([1, 1, 3], [2, 2, 3])
    """
    count = len(better)
    return (1 + better.sum(axis=0)).tolist(), (count - better.sum(axis=1)).tolist()


def share_letters(different: Flags) -> list[str]:
    """Return a text of letters per system: two share one exactly where they do not differ.

    A compact letter display (Piepho 2004, J. Comput. Graph. Stat. 13, 456): a letter for each
    largest set of systems of which no two differ, the first ones for the first systems.

    >>> different = np.zeros((3, 3), dtype=bool)
    >>> different[0, 2] = different[2, 0] = True
    >>> share_letters(different)
    ['a', 'ab', 'b']
    """
    alike = ~different
    neighbours = [
        sum(1 << other for other in np.flatnonzero(row).tolist() if other != place)
        for place, row in enumerate(alike)
    ]
    sets = sorted(map(_list_bits, _list_largest_sets(0, (1 << len(alike)) - 1, 0, neighbours)))
    found = [""] * len(alike)
    for number, members in enumerate(sets):
        again, letter = divmod(number, len(ascii_letters))  # with a digit once all are used up
        for place in members:
            found[place] += f"{ascii_letters[letter]}{again or ''}"
    return found


def _list_bits(chosen: int) -> list[int]:
    return [place for place in range(chosen.bit_length()) if chosen >> place & 1]


def _list_largest_sets(chosen: int, open_: int, done: int, neighbours: list[int]) -> Iterator[int]:
    """Yield the sets, as bits, that are alike throughout and in no larger one (Bron-Kerbosch)."""
    if not open_ and not done:
        yield chosen
        return
    pivot = max(_list_bits(open_ | done), key=lambda place: (neighbours[place] & open_).bit_count())
    for place in _list_bits(open_ & ~neighbours[pivot]):
        one = 1 << place
        beside = neighbours[place]
        yield from _list_largest_sets(chosen | one, open_ & beside, done & beside, neighbours)
        open_ &= ~one
        done |= one
