"""How many words of each text the other has, both ways, as one F1.

It is what BERTScore becomes when a word is like itself and like no other: the share of the words
that find themselves in the other text, for either text, and the harmonic mean of the two. It sees
words, not meanings, and costs next to nothing.

>>> word_match(pl.Series(["the red wine"]), pl.Series(["a red"])).to_list()
[0.4]
"""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.metrics.text.words.pairs import by_pairs, counted
from calipers.metrics.text.words.pieces import Array, words


def word_match(first: pl.Series, second: pl.Series) -> pl.Series:
    """The F1 of lower-cased words; two texts without a word are 1, one of them alone is 0."""
    return by_pairs(_matches, first, second)


def _matches(texts: pl.Series, pairs: int) -> Array:
    found = words(texts)
    counts = counted(found.numbers, found.texts, bound=found.bound, pairs=pairs)
    shares = []
    for of_text in (counts.first, counts.second):
        all_words = counts.per_pair(of_text)
        matched = counts.per_pair(np.where(counts.shared, of_text, 0))
        shares.append(np.divide(matched, all_words, out=np.zeros(pairs), where=all_words > 0))
    precision, recall = shares
    f1 = np.where(counts.terms > 0, 0.0, 1.0)
    total = precision + recall
    np.divide(2 * precision * recall, total, out=f1, where=total > 0)
    return f1
