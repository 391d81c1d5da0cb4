"""Jaccard similarity: the share of all words of two texts that both have.

>>> jaccard(pl.Series(["a b"]), pl.Series(["B c"])).round(4).to_list()
[0.3333]
"""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.metrics.text.words.pairs import apply_to_pairs, count_terms
from calipers.metrics.text.words.pieces import Array, split_words


def jaccard(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the similarity of lower-cased words; 1 for two texts without a word."""
    return apply_to_pairs(_jaccards, first, second)


def _jaccards(texts: pl.Series, pairs: int) -> Array:
    found = split_words(texts)
    counts = count_terms(found.numbers, found.texts, bound=found.bound, pairs=pairs)
    shared, either = counts.sum_per_pair(counts.shared), counts.terms
    return np.divide(shared, either, out=np.ones(pairs), where=either > 0)
