"""What a reliability diagram shows: per bin of confidence, how sure and how often right."""

from __future__ import annotations

from functools import cache

import narwhals as nw

from calipers.metrics.calibration import BINNED, confidence_bin
from calipers.metrics.declaration import GROUP, Aggregate, Frame, Totals

_SUMS = ("bin_n", "bin_confidence", "bin_right")


@cache
def reliability_of(bins: int) -> Aggregate:
    """Each bin's rows, confidence and right answers as totals of the group."""

    def finish(rows: Frame) -> Frame:
        columns = {
            _total(place, name): nw.when(nw.col(confidence_bin.name) == place)
            .then(nw.col(name))
            .otherwise(0)
            for place in range(bins)
            for name in _SUMS
        }
        sums = (nw.col(name).sum() for name in columns)
        return rows.with_columns(**columns).group_by(GROUP).agg(*sums)

    return Aggregate(
        features=BINNED.features,
        keys=BINNED.keys,
        where=BINNED.where,
        totals={name: BINNED.totals[name] for name in _SUMS},
        finish=(finish,),
    )


def reliability_bins(bins: int, totals: Totals) -> list[tuple[float, float, int, float, int]]:
    """Of each bin that holds rows: its ends, the rows, the mean confidence, the right ones."""
    found = []
    for place in range(bins):
        n, confidence, right = (totals.get(_total(place, name), 0) for name in _SUMS)
        if n:
            ends = place / bins, (place + 1) / bins
            found.append((*ends, int(n), float(confidence) / int(n), int(right)))
    return found


def _total(place: int, name: str) -> str:
    return f"reliability__{place}_{name}"
