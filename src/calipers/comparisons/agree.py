"""Agreement of raters: every measure that their ratings allow, for all of them and each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any, get_args

import numpy as np

from calipers.comparisons.options.agree import AgreeOptions
from calipers.comparisons.ratings import Ratings, read_ratings
from calipers.scores.options import Options
from calipers.statistics import agreement, correlation
from calipers.statistics.agreement import Level
from calipers.statistics.arrays import Floats
from calipers.statistics.estimates import Estimate
from calipers.statistics.influence import Sampling
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.tabular import Tabular, list_metric_rows
from calipers.support.version import __version__

SCHEMA = "calipers.agree/1"

_LEVELS: tuple[Level, ...] = get_args(Level)

_Measure = Callable[[Floats, Sampling], Estimate]

_OF_ALL: dict[str, tuple[Level, _Measure]] = {
    "percent_agreement": ("nominal", agreement.percent_agreement),
    "cohen_kappa_mean": ("nominal", agreement.mean_cohen_kappa),
    "fleiss_kappa": ("nominal", agreement.fleiss_kappa),
    **{
        f"krippendorff_alpha_{level}": (level, partial(agreement.krippendorff_alpha, level=level))
        for level in _LEVELS
    },
}
_OF_PAIRS: dict[str, tuple[Level, _Measure]] = {
    "percent_agreement": ("nominal", agreement.percent_agreement),
    "cohen_kappa": ("nominal", agreement.cohen_kappa),
    "spearman": ("ordinal", correlation.spearman),
    "kendall_tau_b": ("ordinal", correlation.kendall),
    "pearson": ("interval", correlation.pearson),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Two raters, and how far they agree on the units that both rated."""

    raters: tuple[str, str]
    measures: Mapping[str, Estimate]

    @property
    def n(self) -> int:
        """The units that both rated."""
        return self.measures["percent_agreement"].n

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one pair."""
        return {"raters": list(self.raters), "n": self.n, **to_plain(self.measures)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Printed, Tabular):
    """How far raters agree. Prints as a table, shows as HTML in a notebook."""

    seed: int
    confidence: float
    level: Level
    raters: tuple[str, ...]
    units: int
    clusters: int  # units of one cluster are one observation to every interval
    ratings: int
    errors: int
    measures: Mapping[str, Estimate]
    pairs: tuple[RaterPair, ...]

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.units else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        return {"schema": SCHEMA, "version": __version__, **to_plain_fields(self)}

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per measure, of all raters and of each pair."""
        every = [
            (self.raters, self.measures),
            *((each.raters, each.measures) for each in self.pairs),
        ]
        for raters, measures in every:
            yield from list_metric_rows({"raters": ", ".join(raters)}, to_plain(measures))


def agree_data(data: Any, asked: AgreeOptions, options: Options) -> Agreement:
    """Return the agreement of the raters in `data`."""
    found = read_ratings(data, asked, options.map)
    raters, confidence = found.raters, options.confidence
    measure = partial(_measure, found=found, level=asked.level, confidence=confidence)
    of_all = {n: m for n, m in _OF_ALL.items() if len(raters) > 2 or n != "cohen_kappa_mean"}  # noqa: PLR2004
    return Agreement(
        raters=raters,
        units=len(found.table),
        clusters=len(set(found.clusters.tolist())),
        ratings=int(np.count_nonzero(~np.isnan(found.table))),
        errors=found.errors,
        measures=measure(of_all, found.table),
        pairs=tuple(
            RaterPair(
                raters=(raters[a], raters[b]), measures=measure(_OF_PAIRS, found.table[:, [a, b]])
            )
            for a, b in combinations(range(len(raters)), 2)
        ),
        level=asked.level,
        confidence=confidence,
        seed=asked.seed,
    )


def _measure(
    measures: Mapping[str, tuple[Level, _Measure]],
    table: Floats,
    found: Ratings,
    level: Level,
    confidence: float,
) -> dict[str, Estimate]:
    """Return the measures that suit the level asked for; labels have no order and no distance."""
    sampling = Sampling(clusters=found.clusters, confidence=confidence)
    no_numbers = Estimate(value=None, n=0, reason=f"ratings are labels, such as {found.label}")
    return {
        name: no_numbers
        if found.label is not None and needed != "nominal"
        else measure(table, sampling)
        for name, (needed, measure) in measures.items()
        if _LEVELS.index(needed) <= _LEVELS.index(level)
    }
