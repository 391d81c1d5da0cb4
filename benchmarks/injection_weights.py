"""Learn the weights of `calipers.judges.phrasing` from the development lists.

python -m benchmarks.injection_weights

Harmless passages are the harmless list and the documentation, without what the rules find there.
"""

from __future__ import annotations

import json
from base64 import b85encode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calipers.judges import phrasing
from calipers.judges.folding import fold, list_readings
from calipers.judges.injection import match_rules

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tests" / "judges" / "injections"
OUT = ROOT / "src" / "calipers" / "judges" / "injection_weights.py"
STRENGTH = 30.0  # of the fit: the inverse of the penalty
MARGIN = 0.97  # the probability above which a passage is flagged: 1.4 % of 2,680 real texts
_WIDTH = 80
_OWN = ("docs/*.md", "README.md", "examples/**/*.md", "examples/**/*.py", "src/calipers/**/*.py")


def main() -> None:
    """Fit, and write the weights as source."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (an extra)

    attempts, harmless = list(_listed("attempts")), list(_listed("harmless"))
    own = list(_own_texts())
    texts = [*attempts, *harmless, *own]
    labels = np.array([1] * len(attempts) + [0] * (len(texts) - len(attempts)))
    weights = np.array([1.0] * (len(attempts) + len(harmless)) + [0.1] * len(own))
    model = LogisticRegression(C=STRENGTH, max_iter=5000)
    model.fit(np.array([_features(each) for each in texts]), labels, sample_weight=weights)
    found = model.coef_[0]
    scale = float(np.abs(found).max() / 127)
    bias = float(model.intercept_[0] - np.log(MARGIN / (1 - MARGIN)))
    _write(np.round(found / scale).astype(np.int8), scale, bias)


def _listed(label: str) -> Iterator[str]:
    for line in (LISTS / f"{label}_development.jsonl").read_text(encoding="utf-8").splitlines():
        folded = fold(json.loads(line)["text"])
        yield [folded, *list_readings(folded)][-1 if label == "attempts" else 0]


def _own_texts() -> Iterator[str]:
    """The sentences of our own pages and modules, some of them about judges and scores."""
    seen = set()
    for pattern in _OWN:
        for path in sorted(ROOT.glob(pattern)):
            if path == OUT or "injection" in path.name:
                continue
            folded = fold(path.read_text(encoding="utf-8"))
            for start, end in phrasing.list_passages(folded):
                passage = folded[start:end]
                if passage not in seen and not match_rules([passage]):
                    seen.add(passage)
    yield from sorted(seen)[::4]


def _features(folded: str) -> npt.NDArray[np.float64]:
    counts = np.zeros(1 << phrasing.BITS)
    for found in phrasing.hash_runs(folded):
        counts += np.bincount(found, minlength=len(counts))
    shares: npt.NDArray[np.float64] = counts / np.sqrt(max(1.0, counts.sum()))
    return shares


def _write(weights: npt.NDArray[np.int8], scale: float, bias: float) -> None:
    text = b85encode(weights.tobytes()).decode()
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    OUT.write_text(
        '"""Weights of `phrasing`, as `python -m benchmarks.injection_weights` writes them."""\n\n'
        f"SCALE = {scale:.6g}\nBIAS = {bias:.6g}\nWEIGHTS = (\n"
        + "".join(f'    r"""{line}"""\n' for line in lines)
        + ")\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
