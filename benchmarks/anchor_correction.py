"""`python -m benchmarks.anchor_correction`: corrected means beside PPI++ as its paper has it.

Coverage and mean width of 95 % intervals on the same data sets. The peer is the power-tuned mean of
Angelopoulos et al. (2023, arXiv 2311.01453) with its normal interval, written here from the paper:
independent records, rated ones apart from the scored.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np

from calipers.statistics.correction import compute_moments, correct_with_ratings
from calipers.statistics.estimates import Sampling
from tests.statistics.correction_shapes import SHAPES, Floats, Scores

_Z = 1.959963984540054


def ppi_plus_plus(judged: Floats, judge: Floats, people: Floats) -> tuple[float, float]:
    """The paper's interval: judged records, and the judge's and people's scores of the rated."""
    n, size = len(people), len(judged)
    both = np.cov(people, judge)
    pooled = np.concatenate([judge, judged]).var(ddof=1)
    power = min(1.0, max(0.0, both[0, 1] / ((1 + n / size) * pooled))) if pooled else 0.0
    value = power * judged.mean() + (people - power * judge).mean()
    variance = power**2 * judged.var(ddof=1) / size + (people - power * judge).var(ddof=1) / n
    reach = _Z * np.sqrt(variance)
    return float(value - reach), float(value + reach)


def compared(shape: Scores, datasets: int) -> tuple[float, float, float, float]:
    """Coverage and mean width: theirs, then ours."""
    rng = np.random.default_rng(7)
    bounds = []
    for _ in range(datasets):
        judge, people = shape.draw(rng, shape.rated)
        judged, _ = shape.draw(rng, shape.records)
        error = float(judged.std(ddof=1) / np.sqrt(shape.records))
        ours = correct_with_ratings(
            float(judged.mean()),
            error,
            shape.records,
            compute_moments(judge, people, Sampling(clusters=np.arange(shape.rated))),
            confidence=0.95,
            within=shape.within,
        )
        own = (float("nan") if end is None else end for end in (ours.low, ours.high))
        bounds.append((*ppi_plus_plus(judged, judge, people), *own))
    low, high, own_low, own_high = np.array(bounds).T
    truth = shape.truth
    return (
        float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean()),
        float(((own_low <= truth) & (truth <= own_high)).mean()),
        float((own_high - own_low).mean()),
    )


def shapes() -> list[Scores]:
    """The shapes that the paper's interval is for: rated records apart from the scored."""
    return [each for each in SHAPES if isinstance(each, Scores) and not each.among]


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=1000, help="data sets per shape")
    datasets = parser.parse_args().datasets
    print(
        "| judge | rated | judged | PPI++ (width) | Calipers (width) |\n|---|---:|---:|---:|---:|"
    )
    for shape in shapes():
        theirs, width, ours, own_width = compared(shape, datasets)
        print(
            f"| {shape.name} | {shape.rated} | {shape.records:,} "
            f"| {theirs:.1%} ({width:.3f}) | {ours:.1%} ({own_width:.3f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
