"""Two runs or more, task by task: what changed, how sure that is, and which tasks flipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calipers.attributing import Sides, attribution
from calipers.comparisons import Across, Compared, MetricComparison, Pair
from calipers.engines.resampling import CODE, WeightedValues
from calipers.errors import EmptyError, UsageError
from calipers.flips import write_flips
from calipers.metrics import Metric
from calipers.metrics.declaration import CLUSTER, GROUP, TASK, Feature
from calipers.scoring import Options, sorted_keys
from calipers.stats.bootstrap import bca, weights
from calipers.stats.paired import holm, paired
from calipers.stats.power import Spread, detectable
from calipers.stats.unpaired import kruskal_wallis, unpaired
from calipers.tasks import VALUE, TaskRows, per_task, read_tasks

Floats = NDArray[np.float64]

SIGN_FLIPS = 10_000
RESAMPLES = 2_000  # of a metric that has no value per task
_CELLS = 1_000_000_000  # resamples × tasks: bounds the time
_FEWEST_RESAMPLES = 1_000
_TOO_FEW = 2


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What a user can ask of a comparison, beside how records are read."""

    unpaired: bool = False
    between: str | None = None
    attribute: bool = False
    flips: Path | None = None
    base_normalize: str | None = None


def compare_data(data: Sequence[Any], options: Options, asked: CompareOptions) -> Compared:
    """Compare all pairs of the data sets, or of the parts of one."""
    sides = _sides(data, options, asked)
    metrics = [
        metric for metric in sides[0].plan.metrics if all(side.measures(metric) for side in sides)
    ]
    if not metrics:
        raise UsageError(
            "no metric has its fields on every side", fix="see: calipers metrics, --map, --metric"
        )
    notices = tuple(_notices(sides))
    compare = _unpaired if asked.unpaired else _paired
    pairs = [
        compare(base, candidate, metrics, options) for base, candidate in combinations(sides, 2)
    ]
    if asked.attribute:
        pairs = [_attributed(pair, data, options, asked, metrics) for pair in pairs]
    several = asked.unpaired and len(sides) > _TOO_FEW
    flips = write_flips(sides[0], sides[1], asked.flips) if len(sides) == _TOO_FEW else {}
    return Compared(
        pairs=tuple(_corrected(pairs, metrics)),
        paired=not asked.unpaired,
        confidence=options.confidence,
        seed=options.seed,
        across=dict(_across(sides, metrics)) if several else {},
        flips=flips,
        notices=notices,
    )


def _sides(data: Sequence[Any], options: Options, asked: CompareOptions) -> list[TaskRows]:
    kept = ("answer", "target", "run")
    if asked.between is None:
        if len(data) < _TOO_FEW:
            raise UsageError(
                "one data set has nothing to be compared with",
                fix="name a second file, or split this one: --between model",
            )
        sides = [read_tasks(each, options, keep=kept) for each in data]
    else:
        if len(data) != 1:
            raise UsageError("--between splits one data set", fix="name one file")
        whole = read_tasks(data[0], options, keep=(*kept, asked.between))
        groups = whole.rows.drop_nulls(asked.between).partition_by(
            asked.between, as_dict=True, maintain_order=True
        )
        sides = [
            TaskRows(name=str(key), plan=whole.plan, rows=rows)
            for (key,), rows in sorted(groups.items(), key=lambda item: str(item[0][0]))
        ]
        if len(sides) < _TOO_FEW:
            raise UsageError(
                f"--between {asked.between}: all records have the same value, or none",
                fix="name a field that tells the runs apart",
            )
    for side in sides:
        if not side.records:
            raise EmptyError(f"no records in {side.name}", fix="check the file")
    return sides


def _notices(sides: Sequence[TaskRows]) -> Iterator[str]:
    for side in sides:
        if side.errors:
            yield f"{side.name}: {side.errors} failed calls are in no metric"


def _paired(
    base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options
) -> Pair:
    whole = _pair(base, candidate, metrics, options)
    if not whole.n_pairs:
        raise UsageError(
            f"{base.name} and {candidate.name} have no task in common",
            fix="tasks are paired by id: name the field with --map id=NAME, group alike, "
            "or compare them as independent samples with --unpaired",
        )
    if not options.by:
        return whole
    texts = set(base.rows[GROUP].unique()) & set(candidate.rows[GROUP].unique())
    groups = [
        replace(
            _pair(_group(base, text), _group(candidate, text), metrics, options),
            by=key,
        )
        for text, key in sorted_keys(texts, options.by).items()
    ]
    return replace(whole, groups=tuple(groups))


def _group(side: TaskRows, text: str) -> TaskRows:
    return replace(side, rows=side.rows.filter(pl.col(GROUP) == text))


def _pair(base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options) -> Pair:
    ours, theirs = (side.rows.select(TASK, "id").unique(TASK) for side in (base, candidate))
    common = ours.join(theirs, on=TASK, how="semi").select(TASK).sort(TASK)
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=common.height,
        only_base=_ids_without(ours, common),
        only_candidate=_ids_without(theirs, common),
        metrics={
            metric.name: _metric(base, candidate, metric, common, options) for metric in metrics
        },
    )


def _ids_without(tasks: pl.DataFrame, common: pl.DataFrame) -> tuple[str, ...]:
    return tuple(tasks.join(common, on=TASK, how="anti")["id"].sort())


def _metric(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
) -> MetricComparison:
    values = per_task(base, metric)
    others = per_task(candidate, metric)
    if values is None or others is None:
        return _resampled(base, candidate, metric, common, options)
    both = values.join(others, on=TASK, suffix="_candidate").sort(TASK)
    if not both.height:
        return MetricComparison(
            base=None, candidate=None, difference=None, n_pairs=0, reason="no pair has the value"
        )
    before, after = both[VALUE].to_numpy(), both[f"{VALUE}_candidate"].to_numpy()
    clusters = _clusters(base, both) if options.cluster else None
    found = paired(
        before,
        after,
        binary=_is_binary(metric, before, after),
        higher_is_better=None if metric.better is None else metric.better == "higher",
        confidence=options.confidence,
        seed=options.seed,
        resamples=_resamples(options, both.height, SIGN_FLIPS),
        clusters=clusters,
    )
    seen = None
    if found.stderr:
        spread = Spread(between=found.stderr**2 * both.height, within=None, tasks=both.height)
        seen = detectable(both.height, spread, confidence=options.confidence)
    return MetricComparison(
        base=float(before.mean()),
        candidate=float(after.mean()),
        difference=found.difference,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=found.interval,
        p_value=found.p_value,
        test=found.test,
        permutation_p=found.permutation_p,
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
        n_pairs=found.n_pairs,
        effect=found.effect,
        effect_name=found.effect_name,
        detectable=seen,
        reason=found.reason,
    )


def _is_binary(metric: Metric, *values: Floats) -> bool:
    """Shares of single runs; averages over several runs are numbers like others."""
    averaged = metric.averaged
    of_yes_or_no = not isinstance(averaged, Feature) or averaged.dtype == pl.Boolean
    return of_yes_or_no and all(bool(np.isin(each, (0.0, 1.0)).all()) for each in values)


def _clusters(base: TaskRows, both: pl.DataFrame) -> NDArray[np.int64]:
    """The cluster of each task; one without is a cluster of its own."""
    known = base.rows.group_by(TASK).agg(pl.col(CLUSTER).min())
    found = both.join(known, on=TASK, how="left", maintain_order="left")
    return found.select(pl.coalesce(CLUSTER, TASK)).to_series().to_numpy()


def _resamples(options: Options, tasks: int, usual: int) -> int:
    asked = options.resamples or usual
    return max(_FEWEST_RESAMPLES, min(asked, _CELLS // max(1, tasks)))


def _resampled(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
) -> MetricComparison:
    """A metric without a value per task: tasks are resampled, and swapped between the sides."""
    tasks = common.height
    codes = common.with_row_index(CODE).with_columns(pl.col(CODE).cast(pl.Int64))
    if options.cluster and tasks:
        order = pl.Series(CODE, np.unique(_clusters(base, common), return_inverse=True)[1])
        codes = codes.with_columns(order.cast(pl.Int64))
        tasks = int(order.n_unique())
    ours, theirs = (side.rows.join(codes, on=TASK) for side in (base, candidate))
    both = pl.concat([ours, theirs.with_columns(pl.col(CODE) + tasks)], how="diagonal_relaxed")
    values = WeightedValues(both, [metric], 2 * tasks)
    one = np.ones((1, tasks))
    none = np.zeros((1, tasks))

    def of(first: Floats, second: Floats) -> Floats:
        return values(np.hstack([first, second]))[metric.name]

    before, after = float(of(one, none)[0]), float(of(none, one)[0])
    found = MetricComparison(
        base=None if np.isnan(before) else before,
        candidate=None if np.isnan(after) else after,
        difference=None if np.isnan(after - before) else after - before,
        n_pairs=common.height,
        reason="too few pairs with the value",
    )
    if found.difference is None or tasks < _TOO_FEW:
        return found
    resamples = _resamples(options, tasks, RESAMPLES)
    seed = (options.seed, 0)
    drawn, swapped = [], []
    for block in weights(tasks, resamples, seed):
        zeros = np.zeros_like(block)
        drawn.append(of(zeros, block) - of(block, zeros))
        swap = (np.random.default_rng([*seed, len(drawn)]).random(block.shape) < 0.5).astype(float)  # noqa: PLR2004
        swapped.append(of(swap, 1 - swap) - of(1 - swap, swap))
    around = bca(found.difference, np.concatenate(drawn), np.zeros(tasks), options.confidence)
    if around is None:
        return replace(found, reason="no resample differs")
    moved = np.abs(np.concatenate(swapped))
    as_far = np.sum(moved >= abs(found.difference) * (1 - 1e-12))
    return replace(
        found,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval="paired bootstrap",
        p_value=float((as_far + 1) / (moved.size + 1)),
        test="permutation of sides per task",
        reason=None,
    )


def _unpaired(
    base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options
) -> Pair:
    def compared(metric: Metric) -> MetricComparison:
        values, others = per_task(base, metric), per_task(candidate, metric)
        if values is None or others is None:
            reason = "no value per task: its intervals are in calipers score"
            return MetricComparison(base=None, candidate=None, difference=None, reason=reason)
        before, after = values[VALUE].to_numpy(), others[VALUE].to_numpy()
        clusters: dict[str, Any] = {}
        if options.cluster:
            clusters = {
                "base_clusters": _clusters(base, values),
                "candidate_clusters": _clusters(candidate, others),
            }
        found = unpaired(
            before,
            after,
            binary=_is_binary(metric, before, after),
            confidence=options.confidence,
            **clusters,
        )
        by_rank = found.rank_p is not None
        return MetricComparison(
            base=float(before.mean()) if before.size else None,
            candidate=float(after.mean()) if after.size else None,
            difference=found.difference,
            low=found.low,
            high=found.high,
            stderr=found.stderr,
            interval=found.interval,
            p_value=found.rank_p if by_rank else found.p_value,
            test=found.rank_test if by_rank else found.test,
            n_base=found.n_base,
            n_candidate=found.n_candidate,
            effect=found.effect,
            effect_name=found.effect_name,
            effect_low=found.effect_low,
            effect_high=found.effect_high,
            reason=found.reason,
        )

    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=0,
        only_base=(),
        only_candidate=(),
        metrics={metric.name: compared(metric) for metric in metrics},
    )


def _across(sides: Sequence[TaskRows], metrics: Sequence[Metric]) -> Iterator[tuple[str, Across]]:
    for metric in metrics:
        tables = [per_task(side, metric) for side in sides]
        samples = [table[VALUE].to_numpy() for table in tables if table is not None]
        if len(samples) == len(sides):
            found = kruskal_wallis(samples)
            yield (
                metric.name,
                Across(
                    h=found.h,
                    p_value=found.p_value,
                    epsilon_squared=found.epsilon_squared,
                    n=found.n,
                    reason=found.reason,
                ),
            )


def _corrected(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> list[Pair]:
    """Holm's correction over all pairs and metrics; 1 − accuracy is no further test."""
    family = {metric.name: metric.averaged or metric.name for metric in metrics}
    tests: dict[tuple[int, Any], float | None] = {
        (number, family[name]): each.p_value
        for number, pair in enumerate(pairs)
        for name, each in pair.metrics.items()
    }
    adjusted = dict(zip(tests, holm(list(tests.values())), strict=True))
    return [
        replace(
            pair,
            metrics={
                name: replace(each, p_holm=adjusted[number, family[name]])
                for name, each in pair.metrics.items()
            },
            groups=tuple(_corrected(pair.groups, metrics)) if pair.groups else (),
        )
        for number, pair in enumerate(pairs)
    ]


def _attributed(
    pair: Pair,
    data: Sequence[Any],
    options: Options,
    asked: CompareOptions,
    metrics: Sequence[Metric],
) -> Pair:
    if len(data) != _TOO_FEW:
        raise UsageError("--attribute compares two runs", fix="name two files")
    sides = Sides.read(data[0], data[1], options, base_normalize=asked.base_normalize)
    parts: Mapping[str, Any] = {
        metric.name: attribution(sides, metric) for metric in metrics if metric.averaged is not None
    }
    return replace(
        pair,
        metrics={
            name: replace(each, attribution=parts.get(name)) for name, each in pair.metrics.items()
        },
    )
