"""How many words two texts have in common: Jaccard's share of all, or matched both ways.

>>> jaccard(pl.Series(["a b"]), pl.Series(["B c"])).round(4).to_list()
[0.3333]
>>> match_words(pl.Series(["the red wine"]), pl.Series(["a red"])).to_list()
[0.4]
"""

from __future__ import annotations

import polars as pl

from calipers.metrics.text.words.pairs import Counts, apply_to_pairs, count_terms
from calipers.metrics.text.words.pieces import Array, split_words
from calipers.support.late import np


def jaccard(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the share of all lower-cased words that both have; 1 for two texts without a word."""
    return apply_to_pairs(_measure_shared, first, second)


def match_words(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the F1 of lower-cased words; 1 for two texts without a word, 0 for one such text.

    It is what BERTScore becomes when a word is like itself and like no other: the share of the
    words that find themselves in the other text, for either text, and the harmonic mean of the two.
    It sees words, not meanings, and costs next to nothing.
    """
    return apply_to_pairs(_measure_matched, first, second)


def _count_words(texts: pl.Series, pairs: int) -> Counts:
    found = split_words(texts)
    return count_terms(found.numbers, found.texts, bound=found.bound, pairs=pairs)


def _measure_shared(texts: pl.Series, pairs: int) -> Array:
    counts = _count_words(texts, pairs)
    shared, either = counts.sum_per_pair(counts.shared), counts.terms
    return np.divide(shared, either, out=np.ones(pairs), where=either > 0)


def _measure_matched(texts: pl.Series, pairs: int) -> Array:
    counts = _count_words(texts, pairs)
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
