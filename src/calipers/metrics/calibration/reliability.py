"""What a reliability diagram shows: per bin of confidence, how sure and how often right.

The bins are those of the ECE, whose totals they are.
"""

from __future__ import annotations

from calipers.metrics.calibration.confidence import RELIABILITY
from calipers.metrics.declare.declaration import Totals, kept_total


def reliability_bins(bins: int, totals: Totals) -> list[tuple[float, float, int, float, int]]:
    """Of each bin that holds rows: its ends, the rows, the mean confidence, the right ones."""
    found = []
    for place in range(bins):
        n, confidence, right = (
            totals.get(kept_total(RELIABILITY, place, name), 0)
            for name in ("bin_n", "bin_confidence", "bin_right")
        )
        if n:
            ends = place / bins, (place + 1) / bins
            found.append((*ends, int(n), float(confidence) / int(n), int(right)))
    return found
