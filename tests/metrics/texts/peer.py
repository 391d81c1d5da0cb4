"""P's own code: what our similarities must equal."""

from __future__ import annotations

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity


def compute_cosine_similarity(text1: str, text2: str) -> float:
    """As P prints it."""
    vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
    tfidf_matrix = vectorizer.fit_transform([text1, text2])
    similarity = cosine_similarity(tfidf_matrix[0:1], tfidf_matrix[1:2])
    return float(similarity[0][0])


def compute_jaccard_similarity(text1: str, text2: str) -> float:
    """As P prints it."""
    words1 = set(text1.lower().split())
    words2 = set(text2.lower().split())
    if len(words1) == 0 and len(words2) == 0:
        return 1.0
    intersection = len(words1.intersection(words2))
    union = len(words1.union(words2))
    return intersection / union if union > 0 else 0.0


def cosine_of_definitions(text1: str, text2: str) -> float:
    """P's code; where a text has no term, 1 if the two word sets are equal, else 0."""
    same = float(set(text1.lower().split()) == set(text2.lower().split()))
    try:
        vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
        counts = vectorizer.fit_transform([text1, text2])
    except ValueError:  # empty vocabulary
        return same
    if counts[0].nnz == 0 or counts[1].nnz == 0:
        return same
    return compute_cosine_similarity(text1, text2)
