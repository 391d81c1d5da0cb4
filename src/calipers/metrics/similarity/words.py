"""Similarity of texts by their words, for many pairs at once: cosine, Jaccard, matched words.

Each function takes two columns of texts and returns a column of numbers in [0, 1], null where one
of the texts is null. Two equal texts, also two empty ones, are 1.

>>> cosine(pl.Series(["red wine"]), pl.Series(["red wine, white wine"])).round(4).to_list()
[0.6687]
>>> jaccard(pl.Series(["a b"]), pl.Series(["B c"])).round(4).to_list()
[0.3333]
>>> match_words(pl.Series(["the red wine"]), pl.Series(["a red"])).to_list()
[0.4]

A whole column is cut into words or tokens at once, each distinct one known by a number. Python
itself lower-cases, and its `re` decides which characters are letters: the Unicode tables of Polars
are of another version, and its word characters include marks that Python's do not.

The stop words are `sklearn.feature_extraction.text.ENGLISH_STOP_WORDS` (scikit-learn,
BSD-3-Clause), from the Glasgow Information Retrieval Group. Its oddities (`fire`, `system`) are
kept: the cosine of P is defined by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from math import log
from typing import Any, TypeAlias

import polars as pl

from calipers.support.lazy_numpy import np

_LIST = """
a about above across after afterwards again against all almost alone along already also although
always am among amongst amoungst amount an and another any anyhow anyone anything anyway
anywhere are around as at back be became because become becomes becoming been before beforehand
behind being below beside besides between beyond bill both bottom but by call can cannot cant co
con could couldnt cry de describe detail do done down due during each eg eight either eleven
else elsewhere empty enough etc even ever every everyone everything everywhere except few
fifteen fifty fill find fire first five for former formerly forty found four from front full
further get give go had has hasnt have he hence her here hereafter hereby herein hereupon hers
herself him himself his how however hundred i ie if in inc indeed interest into is it its itself
keep last latter latterly least less ltd made many may me meanwhile might mill mine more
moreover most mostly move much must my myself name namely neither never nevertheless next nine
no nobody none noone nor not nothing now nowhere of off often on once one only onto or other
others otherwise our ours ourselves out over own part per perhaps please put rather re same see
seem seemed seeming seems serious several she should show side since sincere six sixty so some
somehow someone something sometime sometimes somewhere still such system take ten than that the
their them themselves then thence there thereafter thereby therefore therein thereupon these
they thick thin third this those though three through throughout thru thus to together too top
toward towards twelve twenty two un under until up upon us very via was we well were what
whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever
whether which while whither who whoever whole whom whose why will with within without would yet
you your yours yourself yourselves
"""

ENGLISH_STOP_WORDS = frozenset(_LIST.split())


Array: TypeAlias = "np.ndarray[Any, Any]"

_WORD = r"[^\s\x1c-\x1f]+"  # as `str.split()` cuts: Rust's white space lacks the last four
_RUN_IN_ASCII = r"[0-9a-z_]{2,}"
_PLANES = 0x40000  # Unicode has no letter, digit or underscore beyond
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of all texts, one text after the other."""

    numbers: Array  # equal pieces, and only they, have the same number
    texts: Array  # the position of the text that each is from

    @property
    def bound(self) -> int:
        """Above every number."""
        return int(self.numbers.max()) + 1 if len(self.numbers) else 1


def split_words(texts: pl.Series) -> Pieces:
    """Return what `text.lower().split()` gives."""
    return _cut([text.lower() for text in texts], _WORD)


def split_tokens(texts: pl.Series, *, without: Collection[str] = ()) -> Pieces:
    r"""Return what `re.findall(r"\b\w\w+\b", text.lower())` gives."""
    lowered = [text.lower() for text in texts]
    ascii_only = all(text.isascii() for text in lowered)
    return _cut(lowered, _RUN_IN_ASCII if ascii_only else _list_word_ranges(), without=without)


def _cut(texts: list[str], pattern: str, *, without: Collection[str] = ()) -> Pieces:
    """Return the pieces; categories number them exactly, whereas hashes may collide."""
    found = pl.Series(texts, dtype=pl.String).str.extract_all(pattern)
    # In one column with the pieces: categories, and their numbers, last as long as a column does.
    every = pl.concat(
        [pl.Series(sorted(without), dtype=pl.String), found.explode(empty_as_null=False)]
    )
    numbers = every.cast(pl.Categorical(pl.Categories.random())).to_physical().to_numpy()
    left_out, pieces = np.split(numbers.astype(np.int64), [len(without)])
    origin = np.repeat(np.arange(len(texts)), found.list.len().to_numpy())
    if len(left_out):
        kept = np.ones(numbers.max() + 1, dtype=np.bool_)
        kept[left_out] = False
        pieces, origin = pieces[kept[pieces]], origin[kept[pieces]]
    return Pieces(pieces, origin)


@cache
def _list_word_ranges() -> str:
    r"""Return runs of what Python's `\w` matches, as ranges of code points."""
    points = np.delete(np.arange(_PLANES, dtype="<u4"), _SURROGATES)
    runs = re.findall(r"\w+", points.tobytes().decode("utf-32-le"))
    ranges = (rf"\x{{{ord(run[0]):x}}}-\x{{{ord(run[-1]):x}}}" for run in runs)
    return f"[{''.join(ranges)}]{{2,}}"


_AT_ONCE = 1 << 20  # bytes of text: what is made of them takes some ten times as much memory
_PER_PAIR = 64  # bytes, so that a slice of empty texts has its bounds too


@dataclass(frozen=True, slots=True)
class Counts:
    """A row for each pair and each term that is in one of its texts, pair after pair."""

    first: Array  # how often the term is in the first text
    second: Array
    edges: Array  # where the rows of each pair begin, and where the last end

    @property
    def shared(self) -> Array:
        """Which terms both texts have."""
        both: Array = (self.first > 0) & (self.second > 0)
        return both

    @property
    def terms(self) -> Array:
        """How many terms each pair has."""
        return np.diff(self.edges)

    def sum_per_pair(self, values: Array) -> Array:
        """Return the sum of whole numbers over each pair's terms."""
        return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[self.edges])


def count_terms(terms: Array, texts: Array, *, bound: int, pairs: int) -> Counts:
    """Count terms below `bound`; text k is the first of pair k, text k + pairs the second."""
    # Pair, term and side as one number, so that one sort brings equal ones together. No hash, so
    # no two terms are ever taken for one; and it fits: a slice of several pairs has at most 2^14
    # of them and 2^19 pieces, two of which make 2^38 terms; one pair alone may have 2^30 pieces.
    second = texts >= pairs
    keys = ((texts - pairs * second) * bound + terms) * 2 + second
    keys.sort()
    starts = np.flatnonzero(np.diff(keys >> 1, prepend=-1))
    in_second = np.add.reduceat(keys & 1, starts) if len(starts) else starts
    in_both = np.diff(starts, append=len(keys))
    edges = np.searchsorted(keys[starts], np.arange(pairs + 1) * (2 * bound))
    return Counts(in_both - in_second, in_second, edges)


def apply_to_pairs(
    work: Callable[[pl.Series, int], Array], first: pl.Series, second: pl.Series
) -> pl.Series:
    """Return `work` on both columns, one below the other, by slices; null if either text is."""
    rows = (first.is_not_null() & second.is_not_null()).arg_true()
    if not len(rows):
        return pl.Series(first.name, dtype=pl.Float64).clear(len(first))
    a, b = first.gather(rows), second.gather(rows)
    # No threads here: inside an expression, Polars would wait for them, and they for Polars.
    found = [
        work(pl.concat([a.slice(start, size), b.slice(start, size).alias(a.name)]), size)
        for start, size in _split_pairs(a, b)
    ]
    values = np.full(len(first), np.nan)
    values[rows.to_numpy()] = np.concatenate(found)
    return pl.Series(first.name, values, dtype=pl.Float64, nan_to_null=True)


def _split_pairs(a: pl.Series, b: pl.Series) -> Iterator[tuple[int, int]]:
    """Yield starts and sizes of slices with few enough bytes; a longer text has its own."""
    ends = np.cumsum((a.str.len_bytes() + b.str.len_bytes()).to_numpy().astype(np.int64))
    ends += _PER_PAIR * np.arange(1, len(ends) + 1)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
        yield start, stop - start
        start = stop


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
