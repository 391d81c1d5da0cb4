"""The text metrics of the agents' profile in plain Python, written from P and D: slow and literal.

P is specs/003, D is DEFINITIONS. The vectors of the cosine are spelt out, term by term; that they
are scikit-learn's is tested in tests/metrics/texts.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from calipers.metrics.similarity.words import ENGLISH_STOP_WORDS

Record = dict[str, Any]
Value = float | None

WEIGHTS = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}


@dataclass(frozen=True)
class Options:
    """The settings that move a number."""

    stand_in: bool = False  # --semantic-model lexical
    renormalize: bool = False
    threshold: float = 0.8


def _text(value: Any) -> str | None:
    """A JSON number or boolean in a text field is read as its JSON text (D)."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def references(record: Record) -> list[str]:
    given = record.get("reference")
    if isinstance(given, list):
        return given
    text = _text(given)
    return [] if text is None else [text]


def _vector(text: str) -> Counter[str]:
    words = [w for w in re.findall(r"(?u)\b\w\w+\b", text.lower()) if w not in ENGLISH_STOP_WORDS]
    pairs = [f"{a} {b}" for a, b in pairwise(words)]
    return Counter(words + pairs)


def cosine(a: str, b: str) -> float:
    """TF-IDF fitted on the two texts, smooth idf, l2 norm (P)."""
    counts = [_vector(a), _vector(b)]
    if not all(counts):
        return float(set(a.lower().split()) == set(b.lower().split()))

    def idf(term: str) -> float:
        in_how_many = sum(term in each for each in counts)
        return math.log((1 + 2) / (1 + in_how_many)) + 1

    first, second = ({term: n * idf(term) for term, n in each.items()} for each in counts)
    dot = math.fsum(weight * second.get(term, 0) for term, weight in first.items())
    norms = (math.sqrt(math.fsum(w * w for w in each.values())) for each in (first, second))
    return dot / math.prod(norms)


def jaccard(a: str, b: str) -> float:
    words1, words2 = set(a.lower().split()), set(b.lower().split())
    return len(words1 & words2) / len(words1 | words2) if words1 | words2 else 1.0


def lexical(a: str, b: str) -> float:
    """The stand-in: the share of words that the other text has, both ways, harmonic mean."""
    words1, words2 = a.lower().split(), b.lower().split()
    if not words1 and not words2:
        return 1.0
    in_other = sum(w in words2 for w in words1), sum(w in words1 for w in words2)
    if not all(in_other):
        return 0.0
    precision, recall = in_other[0] / len(words1), in_other[1] / len(words2)
    return 2 * precision * recall / (precision + recall)


def _parts(answer: str, reference: str, options: Options) -> dict[str, Value]:
    return {
        "semantic": lexical(answer, reference) if options.stand_in else None,
        "cosine": cosine(answer, reference),
        "jaccard": jaccard(answer, reference),
    }


def _weighted(parts: dict[str, Value]) -> float:
    """Over the parts that are there, their weights made to sum to 1."""
    there = {name: value for name, value in parts.items() if value is not None}
    total = math.fsum(WEIGHTS[name] for name in there)
    return math.fsum(WEIGHTS[name] * value for name, value in there.items()) / total


def time_score(record: Record) -> Value:
    t = record.get("duration_seconds")
    if t is None and record.get("latency_ms") is not None:
        t = record["latency_ms"] / 1000
    if t is None:
        return None
    return 1.0 if t < 1 else 1 / (1 + math.log(t))


def per_row(record: Record, options: Options) -> dict[str, Value]:
    """Every value of a record; all null where its call failed."""
    names = "cosine_similarity jaccard_similarity semantic_similarity output_similarity"
    values: dict[str, Value] = dict.fromkeys(names.split())
    values |= {"task_success": None, "time_score": None, "best_reference": None}
    if record.get("error"):
        return values
    values["time_score"] = time_score(record)
    answer, held_against = _text(record.get("answer")), references(record)
    if answer is None or not held_against:
        return values
    parts = [_parts(answer, each, options) for each in held_against]
    alike = [_weighted(each) for each in parts]
    best = next(i for i, value in enumerate(alike) if value >= max(alike) - 1e-12)
    values["best_reference"] = best
    for name, value in parts[best].items():
        values[f"{name}_similarity"] = value
    if options.renormalize or parts[best]["semantic"] is not None:
        values["output_similarity"] = alike[best]
        values["task_success"] = float(alike[best] >= options.threshold)
    return values
