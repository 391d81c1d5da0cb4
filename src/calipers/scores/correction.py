"""The judges of a group's judged values, and the means corrected for the judges' error."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from calipers.engines.codes import OTHERS
from calipers.engines.outcome import ROWS, TEXT
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, Totals
from calipers.metrics.declare.intervals import read_spread
from calipers.metrics.judged.rubrics import RUBRICS
from calipers.metrics.judged.who import ASPECTS, FLAGGED, IMPL_RATE, JUDGED_VALUES, RATED
from calipers.scores.calibration import PASSED, Calibration, Member, describe_overlap, read_members
from calipers.scores.groups import clip
from calipers.scores.results import Group, JudgedBy, Measured
from calipers.statistics.correction import correct_share, correct_with_ratings
from calipers.statistics.estimates import Corrected
from calipers.statistics.intervals import count_worth

_VALUES = {"pass_rate": PASSED, "impl_rate": IMPL_RATE, **{r.name: r.name for r in RUBRICS}}
"""The metrics that are plain means of a judged value."""

_ALL, _FLAGGED = -1, -2  # not positions of calibrations

Correct = Callable[[Measured, float, int], Measured]
"""A pass rate without the judge's error, by how many rows it is worth, and how many are judged."""


def list_judges(tally: pl.DataFrame) -> dict[str, tuple[JudgedBy, ...]]:
    """Return who made each judged value, by the text that stands for the group."""
    counted: dict[str, dict[tuple[str, tuple[Member, ...]], Counter[int]]] = {}
    for group, text, rows in tally.select(GROUP, TEXT, ROWS).iter_rows():
        values = dict.fromkeys(JUDGED_VALUES, ()) if text == OTHERS else json.loads(text)
        own = counted.setdefault(group, {})
        for value in JUDGED_VALUES:
            if value in values:
                key = value, tuple((model, rubric_hash) for model, rubric_hash in values[value])
                flagged = (_FLAGGED,) if value in values.get(FLAGGED, ()) else ()
                own.setdefault(key, Counter()).update(
                    dict.fromkeys((_ALL, *flagged, *values.get(RATED, ())), rows)
                )
    return {
        group: tuple(
            JudgedBy(
                value=value,
                members=members,
                rows=counts[_ALL],
                rated={place: n for place, n in counts.items() if place >= 0},
                flagged=counts[_FLAGGED],
            )
            for (value, members), counts in sorted(own.items())
        )
        for group, own in counted.items()
    }


def correct_group(
    group: Group, totals: Totals, calibrations: Sequence[Calibration], confidence: float
) -> Group:
    """Return the group with its judged means corrected, where a calibration allows it."""
    if not calibrations:
        return group
    metrics = {
        name: replace(
            measured,
            corrected=correct_mean(
                metric_named(name), measured, totals, group.judges, calibrations, confidence
            ),
        )
        for name, measured in group.metrics.items()
    }
    return replace(group, metrics=metrics)


def correct_mean(
    metric: Metric,
    measured: Measured,
    totals: Totals,
    judges: Sequence[JudgedBy],
    calibrations: Sequence[Calibration],
    confidence: float,
) -> Corrected | None:
    """Return the mean without the judge's error, or why not; None where nobody judged."""
    value = _VALUES.get(metric.name)
    who = [each for each in judges if each.value == value]
    if value is None or measured.value is None or not who or metric.influence is None:
        return None
    aspect = ASPECTS[value]
    told = _find_calibration(who, measured.n, calibrations, aspect)
    if isinstance(told, str):
        return Corrected(value=None, n=0, reason=told)
    found, overlap = told
    spread, clusters = read_spread(metric.influence.name, totals)
    if aspect == PASSED:
        assert found.verdicts is not None
        size = count_worth(measured.value, measured.n, spread, clusters)
        return correct_share(
            measured.value,
            size,
            found.verdicts,
            confidence=confidence,
            n=measured.n,
            overlap=overlap,
        )
    rated = found.moments[aspect]
    if measured.stderr is None or measured.scope is not None:  # or only of one task
        return Corrected(value=None, n=rated.n, reason="the judged mean has no standard error")
    around = correct_with_ratings(
        measured.value,
        measured.stderr,
        clusters.count,
        rated,
        confidence=confidence,
        n=measured.n,
        overlap=overlap,
        within=metric.range,
    )
    low, mean, high = (clip(metric, each) for each in (around.low, around.value, around.high))
    return replace(around, low=low, value=mean, high=high)


def use_corrected(group: Group) -> Group:
    """Return the group with the corrected means in place of the judges' own."""
    metrics = {
        name: each if each.corrected is None else _replace_measured(each, each.corrected)
        for name, each in group.metrics.items()
    }
    return replace(group, metrics=metrics)


def correct_part(
    judges: Sequence[JudgedBy], calibrations: Sequence[Calibration], confidence: float
) -> Correct:
    """Return the function that corrects the pass rate of a part of the group."""
    who = [each for each in judges if each.value == PASSED]

    def correct(share: Measured, size: float, judged: int) -> Measured:
        if share.value is None or not judged:
            return share
        of_part = [replace(each, rows=judged) for each in who]
        made = _find_calibration(of_part, share.n, calibrations, ASPECTS[PASSED])
        if not isinstance(made, str) and made[1]:  # how many are in this part is not counted
            made = f"{describe_overlap(*made, who[0].rows)}; score the others alone"
        if isinstance(made, str):
            return _replace_measured(share, Corrected(value=None, n=0, reason=made))
        found, _ = made
        assert found.verdicts is not None
        told = correct_share(share.value, size, found.verdicts, confidence=confidence)
        return _replace_measured(share, told)

    return correct


def _replace_measured(measured: Measured, found: Corrected) -> Measured:
    reason = None if found.value is not None else f"it cannot be corrected: {found.reason}"
    return Measured(
        value=found.value,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=found.interval,
        n=measured.n,
        missing=measured.missing,
        reason=reason,
    )


def _find_calibration(
    who: Sequence[JudgedBy], n: int, calibrations: Sequence[Calibration], aspect: str
) -> tuple[Calibration, int] | str:
    """Return the calibration of those who judged all of it, or why there is none.

    Also return how many of the records it was made from; one made from other records is preferred.
    """
    if len(who) > 1:
        return f"{len(who)} different judges or panels made the values"
    judged = who[0]
    if judged.rows != n:
        return f"judges made {judged.rows:,} of the {n:,} values, the others are recorded"
    bound = {
        place: each
        for place, each in enumerate(calibrations)
        if read_members(judged.members) == each.members
    }
    usable = {
        place: each
        for place, each in bound.items()
        if (each.verdicts is not None if aspect == PASSED else aspect in each.moments)
    }
    others = (each for place, each in usable.items() if not judged.rated.get(place))
    if (found := next(others, None)) is not None:
        return found, 0
    for place, calibration in usable.items():
        return calibration, judged.rated[place]
    if bound:
        return f"people gave no {aspect} when the judge was calibrated"
    names = ", ".join(f"{model} with rubric {of or 'unknown'}" for model, of in judged.members)
    return f"no calibration is of {names or 'these judges'}"
