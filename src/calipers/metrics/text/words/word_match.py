"""How many words of each text the other has, both ways, as one F1.

It is what BERTScore becomes when a word is like itself and like no other: the share of the words
that find themselves in the other text, for either text, and the harmonic mean of the two. It sees
words, not meanings, and costs next to nothing.

>>> match_words(pl.Series(["the red wine"]), pl.Series(["a red"])).to_list()
[0.4]
"""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.metrics.text.words.pairs import apply_to_pairs, count_terms
from calipers.metrics.text.words.pieces import Array, split_words


def match_words(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the F1 of lower-cased words; 1 for two texts without a word, 0 for one such text."""
    return apply_to_pairs(_matches, first, second)


def _matches(texts: pl.Series, pairs: int) -> Array:
    found = split_words(texts)
    counts = count_terms(found.numbers, found.texts, bound=found.bound, pairs=pairs)
    shares = []
    for of_text in (counts.first, counts.second):
        all_words = counts.sum_per_pair(of_text)
        matched = counts.sum_per_pair(np.where(counts.shared, of_text, 0))
        shares.append(np.divide(matched, all_words, out=np.zeros(pairs), where=all_words > 0))
    precision, recall = shares
    f1 = np.where(counts.terms > 0, 0.0, 1.0)
    total = precision + recall
    np.divide(2 * precision * recall, total, out=f1, where=total > 0)
    return f1
