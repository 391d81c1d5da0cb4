"""Compare runs, plan the next one, and measure how far raters agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.comparisons.agree import Agreement, agree_data
from calipers.comparisons.metric_power import REPEATS, Aim
from calipers.comparisons.power import PowerAnalysis, power_data
from calipers.comparisons.ranking import Better, RankOptions, rank_data
from calipers.comparisons.rankings import Ranking
from calipers.comparisons.ratings import Where
from calipers.comparisons.results import Compared
from calipers.comparisons.runs import CompareOptions, compare_data
from calipers.records.sinks import check_folder
from calipers.scores.choices import read_options
from calipers.scores.results import require_figures
from calipers.scores.signatures import declare_signature
from calipers.statistics.power import CORRELATION
from calipers.support.arguments import as_names, as_path_if_any

if TYPE_CHECKING:
    from calipers.scores.keywords import CompareKeywords, PowerKeywords, RankKeywords


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
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations.

    Args:
        data: A column per rater; or `judgments`; or, with `rater_field`, a row per rating.
        raters: Columns with one rater's ratings each, or names of judges; by default all judges.
        unit: The fields that identify what was rated; by default each row is one unit.
        value: Which rating: weighted_score (the default), passed or scores.NAME of judgments; a
            column with `rater_field`.
        rater_field: The field that holds the rater, where there is a row per rating.
        level: Type of the ratings: labels, ranks or numbers.
        confidence: Confidence level of the intervals.
        cluster: Fields; units that share their values are dependent.
        seed: Recorded in the output; nothing is resampled.

    Returns:
        Each measure with its interval.

    >>> ratings = [{"human": "yes", "judge": "yes"}, {"human": "no", "judge": "yes"}]
    >>> agree(ratings, raters=["human", "judge"]).measures["percent_agreement"].value
    0.5
    """
    where = Where(
        raters=as_names("raters", raters, example='["human", "judge"]'),
        unit=as_names("unit", unit, example='"id"'),
        rater_field=rater_field,
        value=value,
        cluster=as_names("cluster", cluster, example='"id"'),
    )
    return agree_data(data, where, level=level, confidence=confidence, seed=seed)


@declare_signature("compare")
def compare(
    *data: Any,
    unpaired: bool = False,
    between: str | None = None,
    attribute: bool = False,
    base_normalize: Literal["numeric", "text"] | None = None,
    flips: str | Path | None = None,
    margin: float | str | None = None,
    **options: Unpack[CompareKeywords],
) -> Compared:
    """Compare runs task by task, the first with the second; of more than two, all pairs.

    Args:
        data: Two or more runs, each as `score` takes records; or one, with `between`.
        unpaired: Treat the runs as independent samples: rank tests, Cliff's delta.
        between: Compare the parts of one data set that this field tells apart.
        attribute: Split the change: model, scorer, tasks added and removed.
        base_normalize: With `attribute`: how the base's answers were compared when it was scored.
        flips: A .jsonl file for the tasks that flipped.
        margin: Test whether the candidate is worse by more than this, in the metric's unit (`0.02`,
            `"2%"`), and whether both are equivalent.
        options: Listed below, and on docs/options.md.

    Returns:
        Each pair with the difference of each metric, its interval and p-value.

    >>> base = [{"id": str(n), "correct": n < 6} for n in range(10)]
    >>> better = [{"id": str(n), "correct": n < 9} for n in range(10)]
    >>> found = compare(base, better).pairs[0].metrics["accuracy"]
    >>> round(found.difference, 2), found.test, round(found.p_value, 9)
    (0.3, 'mid-p McNemar', 0.125)
    """
    asked = CompareOptions(
        unpaired=unpaired,
        between=between,
        attribute=attribute,
        base_normalize=base_normalize,
        flips=as_path_if_any("flips", flips),
        margin=margin,
    )
    return compare_data(data, read_options("compare", options, data), asked)


@declare_signature("rank")
def rank(
    *data: Any,
    better: Better | None = None,
    tasks: str | bool = False,
    bradley_terry: bool = False,
    unpaired: bool = False,
    **options: Unpack[RankKeywords],
) -> Ranking:
    """Rank systems: values, ranks and pairs, with intervals that hold for all at once.

    Systems are told apart by `by`; without it by model and tier, whichever has several values;
    otherwise, and with `by="file"`, each data set is one. They are compared on the tasks that all
    of them have.

    Args:
        data: Records, as `score` takes them, of all systems or of one each; or pairwise judgments,
            with the fields `model_a`, `model_b` and `winner`.
        better: Whether higher or lower values are better, for metrics that do not say so.
        tasks: Also give each system's value by this field of the tasks; True: by category, or
            by task where there is none.
        bradley_terry: Also give each system's strength by its wins on common tasks.
        unpaired: Treat the systems as independent samples, each with all of its own tasks.
        options: Listed below, and on docs/options.md.

    Returns:
        For each metric the systems from the best down, and every pair of them.

    >>> solved = {"small": 50, "large": 80, "huge": 82}
    >>> records = [
    ...     {"id": str(n), "model": model, "correct": n < most}
    ...     for model, most in solved.items()
    ...     for n in range(100)
    ... ]
    >>> [(each.name, each.rank_low, each.rank_high, each.group) for each in rank(records).systems]
    [('huge', 1, 2, 'a'), ('large', 1, 2, 'a'), ('small', 3, 3, 'b')]
    """
    asked = RankOptions(better=better, tasks=tasks, bradley_terry=bradley_terry, unpaired=unpaired)
    chosen = read_options("rank", options, list(data))
    if chosen.figures is not None:
        require_figures("--figures")
        check_folder(chosen.figures, "--figures")
    ranking = rank_data(data, replace(chosen, figures=None), asked)
    if chosen.figures is not None:
        ranking.save_figures(chosen.figures)
    return ranking


@declare_signature("power")
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
    **options: Unpack[PowerKeywords],
) -> PowerAnalysis:
    """Plan how many tasks and runs it takes to see a difference, and say what `data` could see.

    Args:
        data: A run, as `score` takes records.
        candidate: A run of another system on the same tasks, from which the variance of the
            difference is measured; without one, it is assumed from `data`.
        delta: The difference to detect; by default 0.05, or 5 % of a value outside [0, 1].
        width: Also plan for an interval of the value that is so wide, from low to high.
        power: Probability of detecting the difference.
        confidence: Confidence level of the test that is planned.
        correlation: Correlation of the two systems' task scores, without a `candidate`.
        runs: Runs of each task to plan for.
        options: Listed below, and on docs/options.md.

    Returns:
        Plans for each group and metric, and the difference that the run at hand could detect.

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
    return power_data(data, candidate, aim, read_options("power", options, data))
