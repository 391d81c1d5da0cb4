"""How much a passage is worded like an attempt to address a judge: a linear model of letters.

Passages are folded sentences, alone and in pairs; features are runs of 2 to 5 letters, hashed. The
weights come from `python -m benchmarks.injection_weights`, which learns them from the lists in
tests/judges/injections. Sums over passages are differences of one running sum: linear time.
"""

from __future__ import annotations

import re
from base64 import b85decode
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calipers.statistics.arrays import Floats

BITS = 12  # of a hash
_SIZES = (2, 3, 4, 5)
_PRIME, _MIXED = np.uint32(16_777_619), np.uint32(2_654_435_761)
_END = re.compile(r"[.!?;\n。！？]+\s*")
_LONGEST = 300  # characters of a passage
_SHORTEST = 4


class Passage(NamedTuple):
    """A part of a text, and how it is worded: above 0, as an attempt."""

    text: str
    score: float


def find_most_suspicious(folded: str) -> Passage | None:
    """Return the passage of a folded text that is worded most like an attempt; None if empty."""
    spans = np.array(list(list_passages(folded)), dtype=np.int64).reshape(-1, 2)
    if not len(spans):
        return None
    weights, bias = _load_weights()
    scores = sum_spans(folded, spans, weights) + bias
    best = int(scores.argmax())
    start, end = spans[best]
    return Passage(folded[start:end], float(scores[best]))


def list_passages(folded: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of sentences and of neighbouring pairs; a long one is cut into parts."""
    before = None
    for start, end in _split_sentences(folded):
        if end - start >= _SHORTEST:
            yield start, end
        if before is not None and end - before <= _LONGEST:
            yield before, end
        before = start


def _split_sentences(folded: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end in (*(found.end() for found in _END.finditer(folded)), len(folded)):
        for part in range(start, end, _LONGEST):
            yield part, min(part + _LONGEST, end)
        start = end


def hash_runs(folded: str) -> list[npt.NDArray[np.int64]]:
    """Return, for each size, the hash of the run of letters that begins at each position."""
    letters = np.frombuffer(folded.encode("utf-32-le", "replace"), dtype="<u4").astype(np.uint32)
    found, running = [], np.zeros(len(letters), dtype=np.uint32)
    for size in range(1, _SIZES[-1] + 1):
        many = max(0, len(letters) - size + 1)
        running = running[:many] * _PRIME + letters[size - 1 :]
        if size in _SIZES:
            mixed = (running ^ np.uint32(size)) * _MIXED
            found.append((mixed >> np.uint32(32 - BITS)).astype(np.int64))
    return found


def sum_spans(folded: str, spans: npt.NDArray[np.int64], weights: Floats) -> Floats:
    """Return the sum of the weights of each span's runs, over the root of their number."""
    total, runs = np.zeros(len(spans)), np.zeros(len(spans))
    for size, found in zip(_SIZES, hash_runs(folded), strict=True):
        summed = np.concatenate([[0.0], np.cumsum(weights[found])])
        starts = np.minimum(spans[:, 0], len(found))
        ends = np.maximum(starts, np.minimum(spans[:, 1] - size + 1, len(found)))
        total += summed[ends] - summed[starts]
        runs += ends - starts
    return total / np.sqrt(np.maximum(runs, 1))


@cache
def _load_weights() -> tuple[Floats, float]:
    from calipers.judges.injection_weights import BIAS, SCALE, WEIGHTS  # noqa: PLC0415 (learnt)

    weights = np.frombuffer(b85decode(WEIGHTS), dtype=np.int8).astype(np.float64)
    return weights * SCALE, BIAS
