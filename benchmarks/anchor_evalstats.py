"""Their side of `benchmarks.anchor_intervals`; runs in the environment that has evalstats.

As its `method="auto"` does for single means: Wilson for right or wrong, else a t interval on the
scale of the log odds; several runs of a task are averaged first.
"""

import json
import sys

import numpy as np
from evalstats.core.resampling import logit_t_ci_1d, wilson_ci  # type: ignore[import-not-found]


def main() -> None:
    """Print the bounds of every data set as JSON."""
    asked = json.loads(sys.argv[2])
    alpha = 1 - asked["confidence"]
    found: dict[str, list[list[float]]] = {}
    for name, sets in np.load(sys.argv[1]).items():
        for means in sets.mean(axis=2):
            if name in asked["binary"]:
                low, high = wilson_ci(float(means.sum()), len(means), alpha)
            else:
                low, high = logit_t_ci_1d(means, alpha)
            found.setdefault(name, []).append([float(low), float(high)])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
