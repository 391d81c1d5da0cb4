"""The bins of a reliability diagram: how confident, and how often right.

The bins are those of the ECE, whose totals they are.
"""

from __future__ import annotations

from calipers.metrics.calibration.confidence import RELIABILITY
from calipers.metrics.declare.declaration import Totals, name_kept_total


def list_bins(bins: int, totals: Totals) -> list[tuple[float, float, int, float, int]]:
    """Return, for each bin with rows: its edges, rows, mean confidence and right rows."""
    found = []
    for place in range(bins):
        n, confidence, right = (
            totals.get(name_kept_total(RELIABILITY, place, name), 0)
            for name in ("bin_n", "bin_confidence", "bin_right")
        )
        if n:
            ends = place / bins, (place + 1) / bins
            found.append((*ends, int(n), float(confidence) / int(n), int(right)))
    return found
