"""Text similarity as P has it: scikit-learn pair by pair, and Python's sets; one fit for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

Pairs = list[tuple[str, str]]


def read(path: Path) -> Pairs:
    """Give the answer and the reference of each record."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["answer"], row["reference"]) for row in rows]


def compute_cosine_similarity(text1: str, text2: str) -> float:
    """Compute it on vectors that are fitted on the pair, as P's code does."""
    vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
    tfidf_matrix = vectorizer.fit_transform([text1, text2])
    similarity = cosine_similarity(tfidf_matrix[0:1], tfidf_matrix[1:2])
    return float(similarity[0][0])


def compute_jaccard_similarity(text1: str, text2: str) -> float:
    """Compute it on the sets of words, as P's code does."""
    words1, words2 = set(text1.lower().split()), set(text2.lower().split())
    if len(words1) == 0 and len(words2) == 0:
        return 1.0
    return len(words1.intersection(words2)) / len(words1.union(words2))


def mean(pairs: Pairs, similarity: Callable[[str, str], float]) -> float:
    """Average a similarity over the pairs, one at a time."""
    return sum(similarity(first, second) for first, second in pairs) / len(pairs)


def one_vectorizer(pairs: Pairs) -> float:
    """Fit once on all texts: another number, since words are rare or common among all of them."""
    first, second = zip(*pairs, strict=True)
    vectors = TfidfVectorizer(stop_words="english", ngram_range=(1, 2)).fit_transform(
        [*first, *second]
    )
    a, b = vectors[: len(pairs)], vectors[len(pairs) :]
    return float(a.multiply(b).sum()) / len(pairs)
