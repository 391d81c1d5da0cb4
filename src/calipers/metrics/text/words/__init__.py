"""How alike two texts are, for many pairs at once: cosine, Jaccard, matched words.

Each function takes two columns of texts and gives a column of numbers in [0, 1], null where one of
the texts is. Two equal texts, two empty ones among them, are 1.

>>> cosine(pl.Series(["red wine"]), pl.Series(["red wine, white wine"])).round(4).to_list()
[0.6687]
>>> jaccard(pl.Series(["a b"]), pl.Series(["B c"])).round(4).to_list()
[0.3333]
>>> match_words(pl.Series(["the red wine"]), pl.Series(["a red"])).to_list()
[0.4]
"""

from __future__ import annotations

from math import log

import polars as pl

from calipers.metrics.text.words.pairs import Counts, apply_to_pairs, count_terms
from calipers.metrics.text.words.pieces import Array, split_tokens, split_words
from calipers.metrics.text.words.stop_words import ENGLISH_STOP_WORDS
from calipers.support.late import np

IDF_OF_ONE = log(3 / 2) + 1


def cosine(first: pl.Series, second: pl.Series) -> pl.Series:
    """Return the cosine of each pair; without a term in a text, 1 for equal words, else 0.

    Vectors are of TF-IDF, fitted on each pair, as P's scikit-learn code has it. Terms are tokens
    and pairs of neighbouring tokens, stop words left out before. With two texts the inverse
    document frequency takes two values only: ln(3/3) + 1 = 1 for a term of both texts and
    ln(3/2) + 1 for a term of one. So the cosine follows from sums of counts, without any vector:

        Σ a·b / √((Σ a² + idf² Σ a'²) · (Σ b² + idf² Σ b'²))

    with a, b the counts of shared terms and a', b' of those that one text alone has.
    """
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
