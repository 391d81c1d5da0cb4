"""How long text similarity takes, against P's own code: scikit-learn and sets, pair by pair.

The pairs are reviews that two people wrote of the same paper (PeerRead), where they lie beside the
checkout; else generated texts of the same lengths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.contest import ROOT, by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

PEERREAD = ROOT.parent / "shared" / "data" / "reviews" / "peerread_review_pairs.jsonl"
FASTER_THAN_PAIR_BY_PAIR = Bar(10, at_least=True)
SAME = Bar(1e-9)
PAIRS = 800
WORDS = (300, 1500)  # of a generated text
VOCABULARY = 20_000
SEED = 3


def of_similarity(setup: Setup) -> Iterator[Figure]:
    path = _pairs(setup.folder)
    runs = by_turns(
        setup.rounds,
        calipers=contestant("calipers", path, "cosine_similarity"),
        pair_by_pair=contestant("scikit_cosine", path),
        one_vectorizer=contestant("scikit_one_vectorizer", path),
        both=contestant("calipers", path, "cosine_similarity", "jaccard_similarity"),
        jaccard=contestant("calipers", path, "jaccard_similarity"),
        sets=contestant("python_jaccard", path),
    )
    ours, peer = runs["calipers"], runs["pair_by_pair"]
    texts = f"{source()}, {path.stat().st_size / 1e6:.1f} MB"
    yield Figure(
        name="cosine: scikit-learn pair by pair / calipers",
        value=peer.seconds / ours.seconds,
        bar=FASTER_THAN_PAIR_BY_PAIR,
        detail=f"{versus(peer, ours)}, {texts}",
    )
    batch = runs["one_vectorizer"]
    yield Figure(
        name="cosine: scikit-learn, one vectoriser for all texts / calipers",
        value=batch.seconds / ours.seconds,
        detail=f"{versus(batch, ours)}; another number, not fitted on the pair",
    )
    sets, jaccard, both = runs["sets"], runs["jaccard"], runs["both"]
    yield Figure(
        name="Jaccard: Python's sets pair by pair / calipers",
        value=sets.seconds / jaccard.seconds,
        detail=versus(sets, jaccard),
    )
    yield Figure(
        name="cosine and Jaccard: pair by pair / calipers",
        value=(peer.seconds + sets.seconds) / both.seconds,
        detail=f"{peer.seconds + sets.seconds:.2f} s / {both.seconds:.2f} s",
    )
    for name, a, b in (("cosine", ours, peer), ("Jaccard", jaccard, sets)):
        yield Figure(
            name=f"numbers: {name} - that of P's code",
            value=largest_difference(a.values, b.values),
            unit="",
            bar=SAME,
            detail="the difference of the means",
        )


def source() -> str:
    return "PeerRead's pairs of reviews" if PEERREAD.exists() else "generated pairs"


def _pairs(folder: Path) -> Path:
    path = folder.resolve() / "pairs.jsonl"
    texts = reviews() if PEERREAD.exists() else generated()
    with path.open("w", encoding="utf-8") as file:
        for number, (answer, reference) in enumerate(texts):
            row = {"id": str(number), "model": "all", "answer": answer, "reference": reference}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def reviews() -> Iterator[tuple[str, str]]:
    """What two people wrote of the same paper."""
    with PEERREAD.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["text1"], row["text2"]


def generated() -> Iterator[tuple[str, str]]:
    """Words by Zipf's law: few are common, most are rare."""
    random = Random(SEED)
    letters = "etaoinshrdlucmfwypvbgkjqxzé"
    words = ["".join(random.choices(letters, k=random.randint(2, 11))) for _ in range(VOCABULARY)]
    words[:4] = ["the", "of", "and", "to"]
    weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
    for _ in range(PAIRS):
        first, second = (
            " ".join(random.choices(words, weights, k=random.randint(*WORDS))) for _ in range(2)
        )
        yield first, second
