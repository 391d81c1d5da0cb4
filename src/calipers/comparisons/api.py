"""Compare runs, plan the next one, and measure how far raters agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.comparisons.agree import Agreement, agree_data
from calipers.comparisons.agree import Options as AgreeOptions
from calipers.comparisons.power import PowerAnalysis, power_data
from calipers.comparisons.ratings import Where
from calipers.comparisons.results import Compared
from calipers.comparisons.runs import CompareOptions, compare_data
from calipers.comparisons.sizing import REPEATS, Aim
from calipers.scores.choices import Choices, with_choices
from calipers.scores.options import Options
from calipers.statistics.power import CORRELATION
from calipers.support.arguments import names, path_of

if TYPE_CHECKING:
    from calipers.scores.choices import PolicyLike


def agree(
    data: Any,
    *,
    raters: Sequence[str] = (),
    unit: str | Sequence[str] = (),
    value: str | None = None,
    rater_field: str | None = None,
    level: Literal["nominal", "ordinal", "interval"] = "interval",
    confidence: float = 0.95,
    cluster: str | Sequence[str] = (),
    seed: int = 0,
) -> Agreement:
    """How far raters agree: percent, kappas, Krippendorff's alphas, correlations, with intervals.

    `data` has a column per rater; or `judgments`; or, with `rater_field`, a row per rating. `unit`
    names the fields that tell one rated thing from another; without it, each row is one.

    >>> ratings = [{"human": "yes", "judge": "yes"}, {"human": "no", "judge": "yes"}]
    >>> agree(ratings, raters=["human", "judge"]).measures["percent_agreement"].value
    0.5
    """
    where = Where(
        raters=names(raters),
        unit=names(unit),
        rater_field=rater_field,
        value=value,
        cluster=names(cluster),
    )
    options = AgreeOptions(where=where, level=level, confidence=confidence, seed=seed)
    return agree_data(data, options)


def compare(
    *data: Any,
    by: str | Sequence[str] = (),
    profile: str | None = None,
    metrics: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    unpaired: bool = False,
    between: str | None = None,
    attribute: bool = False,
    base_normalize: Literal["numeric", "text"] | None = None,
    flips: str | Path | None = None,
    margin: float | str | None = None,
    weight: Literal["task", "row"] = "task",
    tasks: Literal["sampled", "fixed"] = "sampled",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    policy: PolicyLike | None = None,
    **choices: Unpack[Choices],
) -> Compared:
    """Compare runs task by task, the first with the second; of more than two, all pairs.

    With a `margin` each metric says whether the candidate is not worse by more than that, in the
    metric's unit (`0.02`, `"2%"`), and whether the two are equivalent. `weight` says whether every
    task counts the same or every row, as in `score`. With `tasks="fixed"` only the noise of runs
    counts: the difference is that on these very tasks.

    >>> base = [{"id": str(n), "correct": n < 6} for n in range(10)]
    >>> better = [{"id": str(n), "correct": n < 9} for n in range(10)]
    >>> found = compare(base, better).pairs[0].metrics["accuracy"]
    >>> round(found.difference, 2), found.test, found.p_value
    (0.3, 'mid-p McNemar', 0.125)
    """
    options = Options(
        by=names(by),
        profile=profile,
        metrics=tuple(metrics),
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        weight=weight,
        tasks=tasks,
    )
    asked = CompareOptions(
        unpaired=unpaired,
        between=between,
        attribute=attribute,
        base_normalize=base_normalize,
        flips=path_of(flips),
        margin=margin,
    )
    return compare_data(data, with_choices(options, choices, policy), asked)


def power(
    data: Any,
    candidate: Any = None,
    *,
    delta: float | None = None,
    width: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    correlation: float = CORRELATION,
    runs: Sequence[int] = REPEATS,
    metrics: Sequence[str] = (),
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    policy: PolicyLike | None = None,
    **choices: Unpack[Choices],
) -> PowerAnalysis:
    """How many tasks and runs it takes to see a difference, and what the run in `data` could see.

    With a `candidate`, a run of another system on the same tasks, the variance of the difference is
    measured; without one, the other system is taken to vary like this one, with that `correlation`.
    With a `width`, `width_plans` says how many tasks make the value's interval that narrow.

    >>> run = [{"id": str(n), "correct": n % 3 == 0} for n in range(90)]
    >>> found = power(run, delta=0.1).groups[0].metrics["accuracy"]
    >>> found.plans[0].tasks, round(found.detectable, 3)
    (179, 0.142)
    """
    aim = Aim(
        delta=delta,
        width=width,
        power=power,
        confidence=confidence,
        correlation=correlation,
        runs=tuple(runs),
    )
    options = Options(
        by=names(by),
        metrics=tuple(metrics),
        renames=rename or {},
        on_bad=on_bad,
    )
    return power_data(data, candidate, aim, with_choices(options, choices, policy))
