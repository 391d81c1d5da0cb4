"""Strengths by Bradley and Terry: of pairwise judgments, and of wins on common tasks.

A pairwise judgment is a record that names two systems and which of them a judge preferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np
import polars as pl

from calipers.comparisons.ranked_estimates import (
    Estimates,
    compare_values,
    estimate_values,
    order_systems,
)
from calipers.comparisons.rankings import Ranking, Strength
from calipers.comparisons.ratings import read_fields
from calipers.comparisons.task_matrix import TaskMatrix
from calipers.records.sources import Source
from calipers.scores.keys import split_natural
from calipers.scores.options import Options
from calipers.statistics.arrays import Whole
from calipers.statistics.bradley_terry import Comparisons, Strengths, fit_strengths
from calipers.support.errors import DataError, EmptyError, UsageError

METRIC = "bradley_terry"
WINNER = "winner"
_SIDES = (("model_a", "model_b"), ("a", "b"))
_FIRST, _SECOND = ("a", "model_a"), ("b", "model_b")
_TIES = ("tie", "draw", "both", "neither", "tie (bothbad)")
_RESULTS = dict.fromkeys(_FIRST, 1.0) | dict.fromkeys(_SECOND, 0.0) | dict.fromkeys(_TIES, 0.5)
_SHOWN = 60  # characters of a text from outside
_ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie


def has_judged_pairs(sources: Sequence[Source]) -> bool:
    """Say whether the records are pairwise judgments, by their fields."""
    columns = {name for source in sources for name in source.columns()}
    return WINNER in columns and any(columns.issuperset(sides) for sides in _SIDES)


def rank_judged_pairs(sources: Sequence[Source], options: Options) -> Ranking:
    """Rank the systems of pairwise judgments by their strengths; a tie is half a win for both.

    Raises:
        DataError: A judgment names neither of its systems, or one system twice.
        EmptyError: There is not a judgment.
        UsageError: A metric is asked for, or no chain of judgments joins all systems.
    """
    if options.metrics or options.by:
        raise UsageError(
            "pairwise judgments are ranked by the systems they name, and by who won",
            fix="leave --metric and --by out",
        )
    columns = {name for source in sources for name in source.columns()}
    sides = next(each for each in _SIDES if columns.issuperset(each))
    cluster = options.cluster or ("id" if "id" in columns else None)
    frame = read_fields(sources, (*sides, WINNER, *([cluster] if cluster else [])))
    judged = frame.drop_nulls([*sides, WINNER])
    if not judged.height:
        raise EmptyError("no pairwise judgment has a winner", fix="check the file")
    texts = judged.select(pl.col(*sides, WINNER).cast(pl.String))
    systems = sorted({*texts[sides[0]], *texts[sides[1]]}, key=split_natural)
    place = {name: number for number, name in enumerate(systems)}
    met = Comparisons(
        first=[place[name] for name in texts[sides[0]]],
        second=[place[name] for name in texts[sides[1]]],
        result=list(map(_score_result, *(texts[name] for name in (*sides, WINNER)))),
        clusters=None if cluster is None else _number_clusters(judged[cluster]),
    )
    try:
        found = fit_strengths(met, len(systems))
    except ValueError:
        raise UsageError(
            "the judgments fall into parts: no chain of comparisons joins all systems",
            fix="judge pairs of systems from different parts, or rank each part alone",
        ) from None
    strengths = _estimate_strengths(found, options)
    ranked = order_systems(
        Estimates(
            values=strengths,
            pairs=compare_values(
                found.values,
                found.covariance,
                found.clusters,
                options,
                names=systems,
                test="t on Bradley-Terry strengths",
            ),
            interval="t",
            n_tasks=found.clusters,
        ),
        by=[{"model": name} for name in systems],
        names=systems,
        metric=METRIC,
        better="higher",
        confidence=options.confidence,
        unit="log odds",
    )
    of = dict(zip(systems, strengths, strict=True))
    ordered = tuple(replace(each, strength=of[each.name]) for each in ranked.systems)
    return Ranking(
        metrics=(replace(ranked, systems=ordered),),
        by=("model",),
        confidence=options.confidence,
        seed=options.seed,
        notices=tuple(_list_notices(frame.height - judged.height, ties_added=found.ties_added)),
    )


def _score_result(first: str, second: str, winner: str) -> float:
    """Return 1 where the first system won, 0 where the second did, ½ for a tie.

    A side goes before a name: a system may be called b and stand on side a.
    """
    if first == second:
        raise DataError(
            f"a judgment compares {first[:_SHOWN]} with itself", fix="name two systems per record"
        )
    said = winner.strip().lower()
    if said in _RESULTS:
        return _RESULTS[said]
    if winner not in (first, second):
        raise DataError(
            f"{WINNER}: {winner[:_SHOWN]} is neither {first[:_SHOWN]} nor {second[:_SHOWN]}",
            fix=f"write the name of the system, or one of {', '.join(_FIRST + _SECOND)}, tie",
        )
    return float(winner == first)


def _number_clusters(values: pl.Series) -> Whole:
    """Return a number per value; a judgment without one stands alone."""
    row = pl.int_range(pl.len()).cast(pl.String)
    text = values.cast(pl.String).to_frame("text")
    keys = text.select(pl.coalesce(pl.lit("=") + pl.col("text"), row)).to_series()
    return keys.rank("dense").cast(pl.Int64).to_numpy()


def _list_notices(lost: int, *, ties_added: bool) -> Iterator[str]:
    if lost:
        yield f"{lost} judgments without a winner or without two systems are left out"
    if ties_added:
        yield (
            "some systems won, or lost, every comparison with the others, so that no finite "
            "strength fits best: each pair that met counts one further tie"
        )


def strengths_of_wins(
    matrix: TaskMatrix, names: Sequence[str], options: Options, *, higher_is_better: bool
) -> dict[str, Strength]:
    """Return the strength of each system by its wins, by name; equal values are a tie."""
    systems, tasks = matrix.values.shape
    first, second = np.triu_indices(systems, 1)
    ours, theirs = matrix.values[first], matrix.values[second]
    apart = ours - theirs
    size = np.maximum(np.abs(ours), np.abs(theirs))
    won = np.sign(np.where(np.abs(apart) > _ROUNDING * size, apart, 0.0))
    result = (1 + (won if higher_is_better else -won)) / 2
    clusters = np.arange(tasks) if matrix.clusters is None else matrix.clusters
    met = Comparisons(
        first=np.repeat(first, tasks),
        second=np.repeat(second, tasks),
        result=result.ravel(),
        clusters=np.tile(clusters, first.size),
    )
    return dict(zip(names, _estimate_strengths(fit_strengths(met, systems), options), strict=True))


def _estimate_strengths(found: Strengths, options: Options) -> list[Strength]:
    values = estimate_values(found.values, found.covariance, found.clusters, options)
    return [
        Strength(**asdict(each), win_rate=rate)
        for each, rate in zip(values, found.win_rates.tolist(), strict=True)
    ]
