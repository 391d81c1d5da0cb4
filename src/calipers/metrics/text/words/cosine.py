"""Cosine similarity of TF-IDF vectors, fitted on each pair, as P's scikit-learn code has it.

>>> cosine(pl.Series(["red wine"]), pl.Series(["red wine, white wine"])).round(4).to_list()
[0.6687]

Terms are tokens and pairs of neighbouring tokens, stop words left out before. With two texts the
inverse document frequency takes two values only: ln(3/3) + 1 = 1 for a term of both texts and
ln(3/2) + 1 for a term of one. So the cosine follows from sums of counts, without any vector:

    Σ a·b / √((Σ a² + idf² Σ a'²) · (Σ b² + idf² Σ b'²))

with a, b the counts of shared terms and a', b' of those that one text alone has.
"""

from __future__ import annotations

from math import log

import polars as pl

from calipers.metrics.text.words.overlap import jaccard
from calipers.metrics.text.words.pairs import Counts, apply_to_pairs, count_terms
from calipers.metrics.text.words.pieces import Array, split_tokens
from calipers.metrics.text.words.stop_words import ENGLISH_STOP_WORDS
from calipers.support.late import np

IDF_OF_ONE = log(3 / 2) + 1


def cosine(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the cosine of each pair; without a term in a text, 1 for equal words, else 0."""
    values = apply_to_pairs(_compute_cosines, first, second)
    empty = values.is_infinite().fill_null(value=False).arg_true()
    if not len(empty):
        return values
    same = jaccard(first.gather(empty), second.gather(empty)) == 1
    return values.scatter(empty, same.cast(pl.Float64))


def _compute_cosines(texts: pl.Series, pairs: int) -> Array:
    """Return the cosines of a slice; infinite if a text has no term."""
    found = split_tokens(texts, without=ENGLISH_STOP_WORDS)
    bound = found.bound
    behind = np.flatnonzero(found.texts[1:] == found.texts[:-1])
    neighbours = found.numbers[behind] * bound + found.numbers[behind + 1]
    counts = count_terms(
        np.concatenate([found.numbers, bound + neighbours]),
        np.concatenate([found.texts, found.texts[behind]]),
        bound=bound + bound * bound,
        pairs=pairs,
    )
    dot = counts.sum_per_pair(counts.first * counts.second)
    product = _sum_squares(counts, counts.first) * _sum_squares(counts, counts.second)
    values = np.full(pairs, np.inf)
    np.divide(dot, np.sqrt(product), out=values, where=product > 0)
    np.minimum(values, 1, out=values, where=product > 0)
    return values


def _sum_squares(counts: Counts, of_text: Array) -> Array:
    squares = of_text * of_text
    shared = counts.sum_per_pair(np.where(counts.shared, squares, 0))
    return shared + IDF_OF_ONE**2 * (counts.sum_per_pair(squares) - shared)
