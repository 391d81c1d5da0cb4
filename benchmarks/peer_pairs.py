"""evalstats on pairs, in an environment of its own: reads data sets, writes intervals.

Run as `python peer_pairs.py FOLDER`: `KIND-NUMBER.npz` becomes `KIND-NUMBER.npy`. Its own choice of
method is used, as its `compare` resolves it for the kind of data.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

KINDS = {"binary": "binary", "bounded": "bounded_01", "ratings": "likert"}
SEVERAL = 3  # runs, from which on it has a method for several


def main() -> None:
    from evalstats.config import resolve_auto_analyze_methods  # type: ignore[import-not-found]  # noqa: PLC0415
    from evalstats.core.paired import pairwise_differences  # type: ignore[import-not-found]  # noqa: PLC0415

    warnings.simplefilter("ignore")
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        kind = path.name.partition("-")[0]
        found = []
        arrays = np.load(path)
        for base, candidate in zip(arrays["base"], arrays["candidate"], strict=True):
            even = base.shape == candidate.shape and np.isfinite(base + candidate).all()
            scores, of = np.stack([candidate, base]) if even else None, KINDS[kind]
            if scores is None:  # it takes as many runs of every task: the means then
                scores, of = np.stack([np.nanmean(candidate, 1), np.nanmean(base, 1)]), "bounded_01"
            elif scores.shape[2] < SEVERAL:
                scores = scores.mean(axis=2)
            method, _ = resolve_auto_analyze_methods(of, scores.shape[1], scores.ndim > SEVERAL - 1)
            result = pairwise_differences(
                scores, 0, 1, method=method, score_range=(0, 1), rng=np.random.default_rng(0)
            )
            found.append((result.ci_low, result.ci_high))
        np.save(path.with_suffix(".npy"), np.array(found))


if __name__ == "__main__":
    main()
