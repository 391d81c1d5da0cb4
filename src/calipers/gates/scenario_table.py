"""A row per scenario: how its runs ended and its worst values, gathered while records are measured.

Rows are added up batch by batch: memory grows with the scenarios and not with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from calipers.engines.plan import FAILED, kept
from calipers.gates.judged_runs import JudgedTexts
from calipers.gates.policy_values import FINAL_SCORE, SAFETY
from calipers.gates.result import LISTED, Ids
from calipers.gates.rule_check import ScenarioRuns
from calipers.gates.task_values import TaskValues
from calipers.gates.undecided import Judgments, Undecided, spelled_alike, worse
from calipers.metrics import Metric, metric_named
from calipers.metrics.answers.accuracy import correct
from calipers.metrics.declare.declaration import CLUSTER, GROUP, Feature, Rank
from calipers.metrics.judged.who import FLAGGED, JUDGED_BY, PASSED, VALUES, judged_parts
from calipers.metrics.scenarios.behaviors import behaviors_expected, scenario_score
from calipers.metrics.scenarios.passing import ADVERSARIAL, passed
from calipers.metrics.thresholds import Threshold
from calipers.records.sinks import Watch
from calipers.scores.correction import Correct
from calipers.scores.keys import sorted_keys
from calipers.scores.results import ALL_FAILED, Group, Measured
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import rows_worth, wilson
from calipers.support.errors import DataError

ID, CATEGORY = "id", "category"
OUTCOMES = (passed, correct)  # whether a run passed; where nobody has said so, whether it was right

_SYSTEMS = ("model", "tier")
_KEPT = (CATEGORY, *_SYSTEMS)
_COUNTS = (
    *("runs", "errors", "passed", "failed", "judged_runs", "passes", "by_judges", "categorised"),
    *("unsettled", "flagged"),
)
_ONE_CATEGORY = "give every scenario one category, or another id: --map id=NAME"
_LOW, _HIGH, _OPEN = "__low", "__high", "__open"
_COVERAGE = "behavior_coverage"
_OF_COVERAGE = (_COVERAGE, "behavior_coverage_pooled", FINAL_SCORE)
_OF_ADVERSARIAL = (SAFETY, FINAL_SCORE)
_SUMMED = _N, _SUM, _SQUARES = "__n", "__sum", "__squares"
_ROWS_AT_ONCE = 200_000


class ScenarioTable:
    """Takes the rows of a run on their way, and answers when all of them have passed."""

    def __init__(
        self,
        metrics: Iterable[Metric],
        *,
        clustered: bool,
        named: Sequence[str] = (),
        optional: Sequence[str] = (),
    ) -> None:
        metrics = tuple(metrics)
        self._open = dict(_open_counts(metrics))
        self._texts = JudgedTexts(named)
        self._optional = tuple(optional)
        own = (own_feature(metric) for metric in metrics)
        self._features = tuple(dict.fromkeys(each.name for each in own if each is not None))
        means = (metric.averaged for metric in metrics)
        self._means = tuple(dict.fromkeys(each.name for each in means if isinstance(each, Feature)))
        self._clustered = clustered
        self._parts: list[pl.DataFrame] = []
        self._rows = 0

    @property
    def watch(self) -> Watch:
        """What it has to see of each row."""
        outcomes = (*(each.name for each in OUTCOMES), JUDGED_BY)
        counted = (name for of in self._open.values() for name in of.meta.root_names())
        named = (ID, GROUP, FAILED, *outcomes, behaviors_expected.name, *self._features, *counted)
        columns = {name: name for name in named} | {_kept(name): kept(name) for name in _KEPT}
        columns |= {CLUSTER: CLUSTER} if self._clustered else {}
        return Watch(kept=_KEPT, columns=columns, take=self._take)

    def _take(self, rows: pl.DataFrame) -> None:
        outcome = pl.coalesce(each.name for each in OUTCOMES)
        by_judges = pl.col(JUDGED_BY).str.contains(f'"{PASSED}":', literal=True)
        flagged = pl.col(JUDGED_BY).str.contains(f'"{FLAGGED}":["{PASSED}"', literal=True)
        values = (*map(_kept, _KEPT), *self._features)
        ran = ~pl.col(FAILED)
        is_expected = pl.col(behaviors_expected.name).is_not_null()
        part = rows.group_by(GROUP, ID).agg(
            pl.len().alias("runs"),
            pl.col(FAILED).sum().alias("errors"),
            outcome.sum().alias("passed"),
            (~outcome).sum().alias("failed"),
            pl.col(passed.name).count().alias("judged_runs"),
            pl.col(passed.name).sum().alias("passes"),
            by_judges.sum().alias("by_judges"),
            flagged.sum().alias("flagged"),
            (ran & is_expected & pl.col(passed.name).is_null()).sum().alias("unsettled"),
            (ran & pl.col(_kept(CATEGORY)).is_not_null()).sum().alias("categorised"),
            *(is_open.sum().alias(f"{value}{_OPEN}") for value, is_open in self._open.items()),
            *(pl.col(name).min().alias(f"{name}{_LOW}") for name in values),
            *(pl.col(name).max().alias(f"{name}{_HIGH}") for name in values),
            *(each for name in self._means for each in _moments(name)),
            (pl.col(CLUSTER).min() if self._clustered else pl.lit(None, pl.Int64)).alias(CLUSTER),
        )
        self._parts.append(part)
        self._texts.take(rows, category=_kept(CATEGORY))
        self._rows += part.height
        if self._rows > _ROWS_AT_ONCE:
            self._parts = [self._added_up()]
            self._texts.compact()
            self._rows = 0

    def _added_up(self) -> pl.DataFrame:
        """The parts as one: counts are summed, of values the lowest and the highest stay."""
        rows = pl.concat(self._parts, how="vertical_relaxed")
        lows, highs = ([n for n in rows.columns if n.endswith(end)] for end in (_LOW, _HIGH))
        opened = [f"{value}{_OPEN}" for value in self._open]
        added = rows.group_by(GROUP, ID).agg(
            pl.col(*_COUNTS, *opened, *(n for n in rows.columns if n.endswith(_SUMMED))).sum(),
            pl.col(*lows, CLUSTER).min(),
            pl.col(highs).max(),
        )
        return added.select(rows.columns)

    def beside(self, groups: Sequence[Group], by: Sequence[str]) -> list[ScenarioGroup]:
        """The scenarios of each group of the score."""
        if not groups:
            return []
        rows = self._added_up().sort(ID)
        parts = {
            str(text): part for (text,), part in rows.partition_by(GROUP, as_dict=True).items()
        }
        of_key = {tuple(key.values()): parts[text] for text, key in sorted_keys(parts, by).items()}
        judged = self._texts.by_group()
        return [
            ScenarioGroup(of_key[key], judged.get(str(of_key[key][GROUP][0])), self._optional)
            for key in (tuple(group.by.values()) for group in groups)
        ]


class ScenarioGroup:
    """The scenarios of one group of records, a row each."""

    def __init__(
        self,
        rows: pl.DataFrame,
        judgments: Judgments | None = None,
        optional: Sequence[str] = (),
    ) -> None:
        self.rows = rows
        self._judgments = judgments or Judgments(())
        self._optional = optional
        self._check_categories()

    def _check_categories(self) -> None:
        low, high = (f"{_kept(CATEGORY)}{end}" for end in (_LOW, _HIGH))
        torn = self.rows.filter(pl.col(low) != pl.col(high))
        if torn.height:
            scenario, one, other = torn.select(ID, low, high).row(0)
            raise DataError(
                f"the scenario {scenario} is of the category {one} in one record "
                f"and of {other} in another",
                fix=_ONE_CATEGORY,
            )
        partly = pl.col("categorised").is_between(1, pl.col("runs") - pl.col("errors") - 1)
        if (torn := self.rows.filter(partly)).height:
            scenario, one = torn.select(ID, low).row(0)
            raise DataError(
                f"the scenario {scenario} is of the category {one} in one record "
                "and of none in another",
                fix=_ONE_CATEGORY,
            )

    @property
    def count(self) -> int:
        """How many there are."""
        return self.rows.height

    def flagged(self) -> dict[str, int]:
        """Return how many runs of each category judges decided whose text speaks to them."""
        of = f"{_kept(CATEGORY)}{_LOW}"
        counted = self.rows.drop_nulls(of).group_by(of).agg(pl.col("flagged").sum())
        return dict(counted.iter_rows())

    def pooled(self) -> Iterator[str]:
        """Say where several systems count as runs of a scenario, which is rarely meant."""
        for name in _SYSTEMS:
            low, high = (pl.col(f"{_kept(name)}{end}") for end in (_LOW, _HIGH))
            if several := self.rows.filter(low != high).height:
                yield (
                    f"{several:,} scenarios were run by several {name}s, which count as one: "
                    f"--by {name} keeps them apart"
                )

    def named(self, ids: Iterable[str]) -> dict[str, ScenarioRuns]:
        """How the runs of these scenarios ended, of those that are there.

        A right answer stands in for a verdict, but not where expectations or judges were to tell.
        """
        found = self.rows.filter(pl.col(ID).is_in(list(ids)))
        counts = ("runs", "passed", "failed", "errors", "by_judges", "flagged")
        judgments = self._judgments
        return {
            row[ID]: ScenarioRuns(
                **{name: row[name] for name in counts},
                lacking=row["unsettled"]
                + judgments.failed_on(row[ID])
                + judgments.lacking(PASSED, scenario=row[ID]),
            )
            for row in found.select(ID, *counts, "unsettled").iter_rows(named=True)
        }

    def outcomes(self) -> dict[str, tuple[str, ...]]:
        """The ids of those that passed in all their runs, that failed in any, and the rest."""
        failed = pl.col("failed") > 0
        all_passed = pl.col("passed") == pl.col("runs")
        chosen = {"passed": all_passed, "failed": failed, "unknown": ~all_passed & ~failed}
        return {name: tuple(self.rows.filter(which)[ID]) for name, which in chosen.items()}

    def task_values(self) -> dict[str, TaskValues]:
        """Return the mean of each feature in each scenario that has it."""
        names = [name.removesuffix(_N) for name in self.rows.columns if name.endswith(_N)]
        return {name: _task_values(self.rows, name) for name in names}

    def clusters(self) -> dict[str, int]:
        """Return the cluster of each scenario that has one."""
        return dict(self.rows.drop_nulls(CLUSTER).select(ID, CLUSTER).iter_rows())

    def categories(self, confidence: float, correct: Correct | None) -> dict[str, Measured]:
        """The pass rate of each category, as `score --by category` has it, corrected if wanted."""
        of = f"{_kept(CATEGORY)}{_LOW}"
        parts = self.rows.drop_nulls(of).partition_by(of, as_dict=True)
        return {str(name): _pass_rate(part, confidence, correct) for (name,), part in parts.items()}

    def undecided(self, metric: str, category: str | None = None) -> Undecided:
        """Return how many runs have no value that the metric rests on, optional scenarios apart."""
        found = Undecided()
        for value in judged_parts(metric_named(metric)):
            if value == PASSED:
                of = ADVERSARIAL if metric in _OF_ADVERSARIAL else category
                found = worse(found, self._open(value, of))
            elif self._judgments.are_about(value):
                found = worse(found, self._open(value, None))
        return worse(found, self._open(_COVERAGE, None)) if metric in _OF_COVERAGE else found

    def _open(self, value: str, category: str | None) -> Undecided:
        rows = self.rows.filter(~pl.col(ID).is_in(list(self._optional)))
        if category is not None:
            rows = rows.filter(pl.col(f"{_kept(CATEGORY)}{_LOW}") == category)
        lacking = self._judgments.lacking(value, category=category, without=self._optional)
        by_judges = value in VALUES and self._judgments.are_about(value)
        count = int(rows[f"{value}{_OPEN}"].sum()) + lacking
        return Undecided(count, int((rows["runs"] - rows["errors"]).sum()), by_judges)

    def alike(self, category: str) -> dict[str, int]:
        """Return the categories that are spelled a little otherwise, and their runs."""
        of = f"{_kept(CATEGORY)}{_LOW}"
        counted = self.rows.drop_nulls(of).group_by(of).agg(pl.col("runs").sum())
        runs: dict[str, int] = dict(counted.iter_rows())
        return {name: runs[name] for name in spelled_alike(category, runs)}

    def failing(self, metric: str, threshold: Threshold, category: str | None = None) -> Ids:
        """The scenarios with a run that misses what is demanded of the metric."""
        missed = _missed(metric_named(metric), threshold)
        if missed is None:
            return Ids()
        rows = self.rows.filter(missed)
        if category is not None:
            rows = rows.filter(pl.col(f"{_kept(CATEGORY)}{_LOW}") == category)
        return Ids(rows.height, tuple(rows[ID].head(LISTED)))


def _open_counts(metrics: Sequence[Metric]) -> Iterator[tuple[str, pl.Expr]]:
    """Whether a run that did not fail lacks each value that the metrics may rest on."""
    ran = ~pl.col(FAILED)
    for value in dict.fromkeys((PASSED, *(v for each in metrics for v in judged_parts(each)))):
        yield value, ran & pl.col(VALUES[value].name).is_null()
    if any(metric.name in _OF_COVERAGE for metric in metrics):
        expected = (pl.col(behaviors_expected.name) > 0).fill_null(value=False)
        unknown = pl.col(scenario_score.name).is_null() & (expected | pl.col(passed.name).is_null())
        yield _COVERAGE, ran & unknown


def _moments(name: str) -> Iterator[pl.Expr]:
    """What a mean and its spread are made of."""
    value = pl.col(name).cast(pl.Float64)
    yield value.count().alias(f"{name}{_N}")
    yield value.sum().alias(f"{name}{_SUM}")
    yield (value * value).sum().alias(f"{name}{_SQUARES}")


def _task_values(rows: pl.DataFrame, name: str) -> TaskValues:
    known = rows.filter(pl.col(f"{name}{_N}") > 0)
    runs, total, squares = (
        known[f"{name}{end}"].cast(pl.Float64).to_numpy() for end in (_N, _SUM, _SQUARES)
    )
    return TaskValues(
        ids=tuple(known[ID]),
        runs=runs,
        means=total / runs,
        # Of equal values rounding leaves a little, which is nothing.
        squares=np.where(runs > 1, np.maximum(0.0, squares - total**2 / runs), 0.0),
    )


def own_feature(metric: Metric) -> Feature | None:
    """The value that each run has of its own, where the metric is made of such values."""
    if isinstance(metric.averaged, Feature):
        return metric.averaged
    if isinstance(metric.aggregate, Rank):
        return metric.aggregate.feature
    if metric.influence is not None and metric.influence.feature is not None:
        return metric.influence.feature
    return passed if passed in metric.aggregate.features and metric.better == "higher" else None


def _missed(metric: Metric, threshold: Threshold) -> pl.Expr | None:
    """Whether a scenario's worst value misses the threshold; of yes and no, whether one is bad."""
    feature = own_feature(metric)
    if feature is None or metric.better is None:
        return None
    more_is_good = (metric.better == "higher") != metric.complement
    worst = pl.col(f"{feature.name}{_LOW if more_is_good else _HIGH}")
    if feature.dtype == pl.Boolean:
        return worst != more_is_good
    met: pl.Expr = threshold.holds(1 - worst if metric.complement else worst)
    return ~met


def _pass_rate(rows: pl.DataFrame, confidence: float, correct: Correct | None) -> Measured:
    """The pass rate over the runs of some scenarios, each a cluster unless clusters are named."""
    called = int((rows["runs"] - rows["errors"]).sum())
    judged = rows.filter(pl.col("judged_runs") > 0)
    n = int(judged["judged_runs"].sum())
    if not n:
        reason = "no record of this category is known to pass or fail" if called else ALL_FAILED
        return Measured(value=None, n=0, missing=called, reason=reason)
    share = int(judged["passes"].sum()) / n
    cluster = pl.coalesce(pl.col(CLUSTER).cast(pl.String), pl.col(ID))
    # In order: sums of floats then give the same bits every time.
    effects = judged.group_by(cluster.alias(CLUSTER), maintain_order=True).agg(
        (pl.col("passes") - share * pl.col("judged_runs")).sum().alias("effect"),
        pl.col("judged_runs").sum().alias("size"),
    )
    clusters = Clusters.of_sizes(effects["size"].to_list())
    spread = float((effects["effect"] ** 2).sum()) / n**2
    around = wilson(share, n, spread, clusters, confidence)
    known = around.low is not None
    measured = Measured(
        value=share,
        n=n,
        missing=called - n,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval="wilson" if known else None,
        interval_reason=around.reason,
        worth=around.worth,
    )
    if correct is None:
        return measured
    size = rows_worth(share, n, spread, clusters)
    return correct(measured, size, int(judged["by_judges"].sum()))


def _kept(name: str) -> str:
    return f"_kept_{name}"
