"""Jaccard similarity: the share of all words of two texts that both have.

>>> jaccard(pl.Series(["a b"]), pl.Series(["B c"])).round(4).to_list()
[0.3333]
"""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.metrics.text.words.pairs import by_pairs, counted
from calipers.metrics.text.words.pieces import Array, words


def jaccard(first: pl.Series, second: pl.Series) -> pl.Series:
    """Of lower-cased words between white space; two texts without a word are 1."""
    return by_pairs(_jaccards, first, second)


def _jaccards(texts: pl.Series, pairs: int) -> Array:
    found = words(texts)
    counts = counted(found.numbers, found.texts, bound=found.bound, pairs=pairs)
    shared, either = counts.per_pair(counts.shared), counts.terms
    return np.divide(shared, either, out=np.ones(pairs), where=either > 0)
