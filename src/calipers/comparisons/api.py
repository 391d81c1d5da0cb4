"""Compare runs, plan the next one, and measure how far raters agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from calipers.comparisons.agree import Agreement, agree_data
from calipers.comparisons.compare import compare_data
from calipers.comparisons.compare_result import Compared
from calipers.comparisons.comparison_options import (
    AgreeOptions,
    CompareOptions,
    PowerOptions,
    RankOptions,
)
from calipers.comparisons.power import PowerAnalysis, power_data
from calipers.comparisons.rank import rank_data
from calipers.comparisons.rank_result import Ranking
from calipers.records.sinks import check_folder
from calipers.scores.resolve_options import declare_signature, resolve_options, split_own_options
from calipers.scores.result import require_figures

if TYPE_CHECKING:
    from calipers.support.keywords import (
        AgreeKeywords,
        CompareKeywords,
        PowerKeywords,
        RankKeywords,
    )


@declare_signature("agree", AgreeOptions)
def agree(data: Any, **options: Unpack[AgreeKeywords]) -> Agreement:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations.

    Args:
        data: A column per rater; or `judgments`; or, with `rater_field`, a row per rating.
        options: Listed below, and on docs/options.md.

    Returns:
        Each measure with its interval.

    >>> ratings = [{"human": "yes", "judge": "yes"}, {"human": "no", "judge": "yes"}]
    >>> agree(ratings, raters=["human", "judge"]).measures["percent_agreement"].value
    0.5
    """
    asked, others = split_own_options("agree", AgreeOptions, options)
    return agree_data(data, asked, resolve_options("agree", others))


@declare_signature("compare", CompareOptions)
def compare(*data: Any, **options: Unpack[CompareKeywords]) -> Compared:
    """Compare runs task by task, the first with the second; of more than two, all pairs.

    Args:
        data: Two or more runs, each as `score` takes records; or one, with `between`.
        options: Listed below, and on docs/options.md.

    Returns:
        Each pair with the difference of each metric, its interval and p-value.

    >>> base = [{"id": str(n), "correct": n < 6} for n in range(10)]
    >>> better = [{"id": str(n), "correct": n < 9} for n in range(10)]
    >>> found = compare(base, better).pairs[0].metrics["accuracy"]
    >>> round(found.difference, 2), found.test, round(found.p_value, 9)
    (0.3, 'mid-p McNemar', 0.125)
    """
    asked, others = split_own_options("compare", CompareOptions, options)
    return compare_data(data, resolve_options("compare", others, data), asked)


@declare_signature("rank", RankOptions)
def rank(*data: Any, **options: Unpack[RankKeywords]) -> Ranking:
    """Rank systems: values, ranks and pairs, with intervals that hold for all at once.

    Systems are told apart by `by`; without it by model, tier and variant, whichever have several
    values; otherwise, and with `by="file"`, each data set is one. They are compared on the tasks
    that all of them have.

    Args:
        data: Records, as `score` takes them, of all systems or of one each; or pairwise judgments,
            with the fields `model_a`, `model_b` and `winner`.
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
    asked, others = split_own_options("rank", RankOptions, options)
    chosen = resolve_options("rank", others, list(data))
    if chosen.figures is not None:
        require_figures("--figures")
        check_folder(chosen.figures, "--figures")
    ranking = rank_data(data, replace(chosen, figures=None), asked)
    if chosen.figures is not None:
        ranking.save_figures(chosen.figures)
    return ranking


@declare_signature("power", PowerOptions)
def power(data: Any, candidate: Any = None, **options: Unpack[PowerKeywords]) -> PowerAnalysis:
    """Plan how many tasks and runs it takes to see a difference, and say what `data` could see.

    Args:
        data: A run, as `score` takes records.
        candidate: A run of another system on the same tasks, from which the variance of the
            difference is measured; without one, it is assumed from `data`.
        options: Listed below, and on docs/options.md.

    Returns:
        Plans for each group and metric, and the difference that the run at hand could detect.

    >>> run = [{"id": str(n), "correct": n % 3 == 0} for n in range(90)]
    >>> found = power(run, delta=0.1).groups[0].metrics["accuracy"]
    >>> found.plans[0].tasks, round(found.detectable, 3)
    (179, 0.142)
    """
    asked, others = split_own_options("power", PowerOptions, options)
    return power_data(data, candidate, asked, resolve_options("power", others, data))
