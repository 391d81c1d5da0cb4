"""The scenarios of one group of records, a row each, as a gate queries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from calipers.gates.baselines import FeatureByTask
from calipers.gates.policy_fields import FINAL_SCORE, SAFETY
from calipers.gates.result import LISTED, Ids
from calipers.gates.scenario_rows import (
    CATEGORY,
    HIGH,
    ID,
    LOW,
    MOMENTS,
    OPTIONAL,
    SQUARES,
    SUM,
    SYSTEMS,
    N,
    ScenarioRows,
)
from calipers.gates.undecided import Judgments, Undecided, choose_worse
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import CLUSTER, Feature, Rank
from calipers.metrics.families.answers import DECIDABLE, correct
from calipers.metrics.families.repeated_runs import succeeded
from calipers.metrics.families.scenarios import ADVERSARIAL, passed
from calipers.metrics.provenance import PASSED, VALUES, list_judged_parts
from calipers.metrics.thresholds import Threshold
from calipers.scores.calibration import Correct
from calipers.scores.guaranteed import OTHER_MEAN
from calipers.scores.result import ALL_FAILED, Measured
from calipers.statistics.clusters import Clusters
from calipers.statistics.guarantee import UNEQUAL, guarantee_mean
from calipers.statistics.intervals import count_worth, wilson
from calipers.support.errors import DataError, quote_name
from calipers.support.lazy_numpy import np

OPEN, USED, SHOULD = "__open", "__used", "__should"
COVERAGE = "behavior_coverage"
_EFFICIENCY = "token_efficiency"
SUCCEEDED = "succeeded"  # of pass@k: whether a run passed or, where nothing says so, was right
OF_COVERAGE = (COVERAGE, "behavior_coverage_pooled", FINAL_SCORE)

_TIMES = 10  # the median number of rows: a task with more decides a mean over rows
_OF_ADVERSARIAL = (SAFETY, FINAL_SCORE)
_OF_FINAL_SCORE = {  # the value of a row that each of its parts is made of
    "accuracy": "correct",
    SAFETY: "_adversarial_passed",
    COVERAGE: "scenario_score",
    "latency_p95_ms": "_normalized_latency",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRuns:
    """The runs of one scenario by outcome; the rest is unknown."""

    runs: int
    passed: int
    failed: int
    errors: int
    by_judges: int = 0  # whose verdict is not recorded, but judges'
    flagged: int = 0  # of these, those whose text seems to address the judge
    lacking: int = 0  # that expectations or judges leave undecided, wholly or by one rubric


class ScenarioGroup:
    """The scenarios of one group of records, and what there is of each category."""

    def __init__(
        self,
        rows: ScenarioRows,
        counts: pl.DataFrame,
        *,
        categories: Sequence[str],
        clustered: bool = False,
        means: Sequence[str] = (),
        judgments: Judgments | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        self._rows = rows
        self._counts = counts  # a row per category, optional scenarios apart
        self._names = categories
        self._clustered = clustered  # by other clusters than the scenarios
        self._means = means  # the features of which each scenario's mean is kept
        self._judgments = judgments or Judgments(())
        self._optional = frozenset(optional)
        self._missed: dict[tuple[str, Threshold | None], tuple[pl.Series, pl.Series]] = {}
        self._refuse_torn()

    def _refuse_torn(self) -> None:
        """Raise DataError where the runs of a scenario are of two categories."""
        if self._rows.is_of_runs:
            return
        low, high = (pl.col(f"{CATEGORY}{end}") for end in (LOW, HIGH))
        partly = pl.col("categorised").is_between(1, pl.col("runs") - pl.col("errors") - 1)
        names = (ID, f"{CATEGORY}{LOW}", f"{CATEGORY}{HIGH}")
        torn = self._rows.select(*names, where=(low != high) | partly).sort(ID)
        if torn.height:
            scenario, *codes = torn.row(0)
            one, *others = sorted({self._names[code] for code in codes})
            raise DataError(
                f"the scenario {quote_name(scenario)} is of the category {quote_name(one)} in one "
                f"record and of {quote_name(others[0]) if others else 'none'} in another",
                fix="give every scenario one category, or another id: --map id=NAME",
            )

    @cached_property
    def count(self) -> int:
        """The number of scenarios."""
        if self._rows.is_of_runs:
            return int(self._counts["runs"].sum())
        return self._rows.select("runs").height

    def find_heaviest(self) -> tuple[str, int, float] | None:
        """Return a task with more than ten times the median number of rows, both numbers."""
        if self._rows.is_of_runs:
            return None
        ran = pl.col("runs") - pl.col("errors")
        counts = self._rows.select(ID, "runs", "errors")
        rows = counts.select(ID, ran.alias("rows")).filter(pl.col("rows") > 0)
        heavy = rows.filter(pl.col("rows") > _TIMES * pl.col("rows").median())
        if not heavy.height:
            return None
        median = rows.select(pl.col("rows").median()).item()
        scenario, most = heavy.sort("rows", ID, descending=[True, False]).row(0)
        return str(scenario), int(most), float(median)

    def note_pooled(self) -> Iterator[str]:
        """Say if several systems count as runs of a scenario, which is rarely intended."""
        if self._rows.is_of_runs:
            return
        for own, name in SYSTEMS.items():
            low, high = f"{own}{LOW}", f"{own}{HIGH}"
            if several := self._rows.select(low, where=pl.col(low) != pl.col(high)).height:
                yield (
                    f"{several:,} scenarios were run by several {name}s, which count as one: "
                    f"--by {name} keeps them apart"
                )

    def find_runs(self, ids: Iterable[str]) -> dict[str, ScenarioRuns]:
        """Return how the runs of these scenarios ended, of those that exist.

        A right answer stands in for a verdict, but not where expectations or judges were to tell.
        """
        counts = ("runs", "passed", "failed", "errors", "by_judges", "flagged")
        rows = self._rows.select(ID, *counts, "unsettled", where=pl.col(ID).is_in(list(ids)))
        judgments = self._judgments
        return {
            row[ID]: ScenarioRuns(
                **{name: row[name] for name in counts},
                lacking=row["unsettled"]
                + judgments.count_failed(row[ID])
                + judgments.count_lacking(PASSED, scenario=row[ID]),
            )
            for row in rows.iter_rows(named=True)
        }

    def list_outcomes(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of those that passed in all runs, that failed in any, and the rest."""
        rows = self._rows.select(ID, "runs", "passed", "failed").sort(ID)
        failed = pl.col("failed") > 0
        all_passed = pl.col("passed") == pl.col("runs")
        chosen = {"passed": all_passed, "failed": failed, "unknown": ~all_passed & ~failed}
        return {name: tuple(rows.filter(which)[ID].to_list()) for name, which in chosen.items()}

    def measure_tasks(self) -> dict[str, FeatureByTask]:
        """Return the mean of each feature in each scenario that has it."""
        return {
            name: _measure_tasks(
                self._rows.select(ID, *(f"{name}{part}" for part in MOMENTS)).sort(ID), name
            )
            for name in self._means
        }

    def list_clusters(self) -> dict[str, int]:
        """Return the cluster of each scenario that has one."""
        return dict(self._rows.select(ID, CLUSTER).drop_nulls(CLUSTER).iter_rows())

    @cached_property
    def categories(self) -> dict[str, int]:
        """The categories by their names, as numbers."""
        present = self._counts[CATEGORY].drop_nulls().unique().to_list()
        return {self._names[code]: code for code in present}

    @cached_property
    def _totals(self) -> CategoryCounts:
        """What is counted of each category, optional scenarios too."""
        return CategoryCounts(self._counts)

    @cached_property
    def _of_others(self) -> CategoryCounts:
        """What is counted of each category, optional scenarios aside."""
        return CategoryCounts(self._counts.filter(~pl.col(OPTIONAL)))

    def count_categories(self) -> dict[str | None, int]:
        """Return the runs of each category; None is of those without one."""
        return {self._name(code): runs for code, runs in self._totals.list_runs()}

    def count_flagged(self, category: str) -> int:
        """Return the runs of a category decided by judges whose text addresses the judge."""
        return self._totals.of(self.categories[category])["flagged"]

    def _name(self, code: int | None) -> str | None:
        return None if code is None else self._names[code]

    def measure_category(
        self,
        category: str,
        confidence: float,
        correct: Correct | None,
        *,
        by_task: bool = False,
        guarantee: bool = False,
    ) -> Measured:
        """Return the pass rate of a category, as `score --by category`, corrected if asked.

        `guarantee`: with an interval that holds for any shape, or none.
        """
        code = self.categories[category]
        counts = self._totals.of(code)
        called, n = counts["runs"] - counts["errors"], counts["judged_runs"]
        if not n:
            reason = "no record of this category is known to pass or fail" if called else ALL_FAILED
            return Measured(value=None, n=0, missing=called, reason=reason)
        runs = self._select_tasks(code)
        if guarantee:
            rate = _pass_rate(runs, called - n, confidence, correct, by_task=by_task)
            return _guarantee(rate, runs, confidence, by_task=by_task, corrected=bool(correct))
        return _pass_rate(runs, called - n, confidence, correct, by_task=by_task)

    def _select_tasks(self, code: int) -> pl.DataFrame:
        """Return the runs with a verdict of each scenario of a category."""
        if self._rows.is_of_runs and not self._clustered:  # then numbers say it all
            counts = self._totals.of(code)
            place = pl.int_range(counts["judged_runs"])
            return pl.select(
                passes=(place < counts["passes"]).cast(pl.Int64),
                by_judges=(place < counts["passed_by_judges"]).cast(pl.Int64),
            ).with_columns(judged_runs=pl.lit(1, pl.Int64))
        rows, codes = self._judged_tasks
        return rows[_find_slice(codes, code)]

    @cached_property
    def _judged_tasks(self) -> tuple[pl.DataFrame, pl.Series]:
        """The runs with a verdict of each scenario, in the order of categories, and these."""
        own = f"{CATEGORY}{LOW}"
        clustered = (CLUSTER,) if self._clustered else ()
        names = (own, ID, "judged_runs", "passes", "by_judges", *clustered)
        rows = self._rows.select(*names).drop_nulls(own).filter(pl.col("judged_runs") > 0)
        rows = rows.sort(own, maintain_order=True)
        return rows, rows[own].cast(pl.Int64)

    def count_undecided(self, metric: str, category: str | None = None) -> Undecided:
        """Return how many runs lack a value that the metric needs, optional scenarios aside."""
        worst = Undecided()
        declared = metric_named(metric)
        for value in list_judged_parts(declared):
            if value == PASSED:
                of = ADVERSARIAL if metric in _OF_ADVERSARIAL else category
                open_ = SUCCEEDED if succeeded in declared.features else PASSED
                worst = choose_worse(worst, self._open(value, of, open_))
            elif self._judgments.are_about(value):
                worst = choose_worse(worst, self._open(value, None))
        return choose_worse(worst, self._open(COVERAGE, None)) if metric in OF_COVERAGE else worst

    def _open(self, value: str, category: str | None, column: str | None = None) -> Undecided:
        counts = self._find_counts(category)
        lacking = self._judgments.count_lacking(value, category=category, without=self._optional)
        by_judges = value in VALUES and self._judgments.are_about(value)
        count = counts.get(f"{column or value}{OPEN}", 0) + lacking
        return Undecided(count, counts.get("runs", 0) - counts.get("errors", 0), by_judges)

    def _find_counts(self, category: str | None) -> Mapping[str, int]:
        """Return what is counted of a category, or of all, optional scenarios aside."""
        if category is None:
            return self._of_others.all
        return self._of_others.of(self.categories.get(category, -1))

    def count_lacking(self, metric: str, category: str | None = None) -> list[Undecided]:
        """Return how many runs that should have a value have none, for each part of the metric.

        Those should that are of a category in which any run has one; optional scenarios aside.
        """
        counts = self._find_counts(category)
        shortfalls = []
        for part in list_used(metric_named(metric)):
            used, should = (counts.get(f"{part}{end}", 0) for end in (USED, SHOULD))
            shortfalls.append(Undecided(should - used, should, lacks=part))
        return shortfalls

    def list_failing(self, metric: str, threshold: Threshold, category: str | None = None) -> Ids:
        """Return the scenarios with a run that misses the requirement on the metric."""
        declared = metric_named(metric)
        feature, missed = find_own_feature(declared), _mark_missed(declared, threshold)
        if feature is None or missed is None:
            return Ids()
        key = metric, None if feature.dtype == pl.Boolean else threshold
        if key not in self._missed:
            self._missed[key] = self._select_missed(feature, missed)
        ids, codes = self._missed[key]
        if category is not None:
            code = self.categories.get(category)
            is_of = slice(0) if code is None else _find_slice(codes, code)
            ids = ids[is_of]
        return Ids(ids.len(), tuple(ids.bottom_k(LISTED).sort()))

    def _select_missed(self, feature: Feature, missed: pl.Expr) -> tuple[pl.Series, pl.Series]:
        """Return the ids of scenarios that miss a requirement by category, and these in order."""
        own = f"{CATEGORY}{LOW}"
        names = [f"{feature.name}{LOW}", f"{feature.name}{HIGH}"]
        rows = self._rows.select(ID, own, *names, having=missed).select(ID, own)
        rows = rows.with_columns(pl.col(own).cast(pl.Int64).fill_null(-1)).sort(own)
        return rows[ID], rows[own]


def _find_slice(codes: pl.Series, code: int) -> slice:
    """Return where a code is among codes in order."""
    return slice(codes.search_sorted(code, "left"), codes.search_sorted(code, "right"))


class CategoryCounts:
    """What is counted of each category, held as columns: there may be as many as scenarios."""

    def __init__(self, counts: pl.DataFrame) -> None:
        table = counts.group_by(CATEGORY).agg(pl.exclude(OPTIONAL).sum()).sort(CATEGORY)
        ran = pl.col("runs") - pl.col("errors") - pl.col("failures")
        used = [name for name in table.columns if name.endswith(USED)]
        self._table = table.with_columns(
            pl.when(pl.col(name) > 0)
            .then(ran)
            .otherwise(0)
            .alias(f"{name.removesuffix(USED)}{SHOULD}")
            for name in used
        )
        self._places = {code: place for place, code in enumerate(table[CATEGORY])}

    def of(self, code: int | None) -> Mapping[str, int]:
        """Return what is counted of a category; nothing where there are no runs of it."""
        place = self._places.get(code)
        return {} if place is None else self._table.row(place, named=True)

    @cached_property
    def all(self) -> Mapping[str, int]:
        """What is counted of all categories."""
        return self._table.drop(CATEGORY).sum().row(0, named=True)

    def list_runs(self) -> Iterator[tuple[int | None, int]]:
        """Yield the number of runs of each category."""
        return self._table.select(CATEGORY, "runs").iter_rows()


def _measure_tasks(rows: pl.DataFrame, name: str) -> FeatureByTask:
    known = rows.filter(pl.col(f"{name}{N}") > 0)
    runs, total, squares = (
        known[f"{name}{end}"].cast(pl.Float64).to_numpy() for end in (N, SUM, SQUARES)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # whoever compares refuses large values
        spread = squares - total**2 / runs
    return FeatureByTask(
        ids=tuple(known[ID].to_list()),
        runs=runs,
        means=total / runs,
        # Of equal values rounding leaves a little, which is nothing.
        squares=np.where(runs > 1, np.maximum(0.0, spread), 0.0),
    )


def find_own_feature(metric: Metric) -> Feature | None:
    """Return the value per run that the metric is based on, or None."""
    if isinstance(metric.averaged, Feature):
        return metric.averaged
    if isinstance(metric.aggregate, Rank):
        return metric.aggregate.feature
    if metric.influence is not None and metric.influence.feature is not None:
        return metric.influence.feature
    return passed if passed in metric.aggregate.features and metric.better == "higher" else None


def list_used(metric: Metric) -> dict[str, pl.Expr]:
    """Return the number of rows with a value, for the metric or for each part of a final score."""
    if metric.name == FINAL_SCORE:
        return {part: pl.col(value).count() for part, value in _OF_FINAL_SCORE.items()}
    aggregate = metric.aggregate
    if isinstance(aggregate, Rank):
        return {metric.name: pl.col(aggregate.feature.name).count()}
    if not aggregate.keys:
        return {metric.name: aggregate.totals[metric.rows]}
    assert aggregate.where is not None
    is_used = aggregate.where()
    if metric.name == _EFFICIENCY:
        is_used &= pl.col("total_tokens").is_not_null()
    if DECIDABLE in metric.needs:
        is_used &= pl.col(correct.name).is_not_null()
    return {metric.name: is_used.sum()}


def _mark_missed(metric: Metric, threshold: Threshold) -> pl.Expr | None:
    """Return whether a scenario's worst value misses the threshold, or a binary one is bad."""
    feature = find_own_feature(metric)
    if feature is None or metric.better is None:
        return None
    more_is_good = (metric.better == "higher") != metric.complement
    worst = pl.col(f"{feature.name}{LOW if more_is_good else HIGH}")
    if feature.dtype == pl.Boolean:
        return worst != more_is_good
    met: pl.Expr = threshold.holds(1 - worst if metric.complement else worst)
    return ~met


def _pass_rate(
    tasks: pl.DataFrame,
    missing: int,
    confidence: float,
    correct: Correct | None,
    *,
    by_task: bool,
) -> Measured:
    """Return the pass rate over runs of some scenarios, each a cluster unless others are named."""
    n = int(tasks["judged_runs"].sum())
    if by_task:  # a share of each, as if it had one run
        of_one = pl.col("passes") / pl.col("judged_runs"), pl.lit(1).alias("judged_runs")
        tasks, n = tasks.with_columns(*of_one), tasks.height
    share = float(tasks["passes"].sum()) / n
    squares = n * share * (1 - share)  # of runs that pass or fail
    if by_task:
        squares = float(((tasks["passes"] - share) ** 2).sum())
    tasks = _sum_clusters(tasks)
    sizes = tasks["judged_runs"].cast(pl.Float64).to_numpy()
    effects = tasks["passes"].to_numpy() - share * sizes
    clusters = Clusters.of_totals(effects, sizes, squares)
    spread = float(effects @ effects) / n**2
    around = wilson(share, n, spread, clusters, confidence)
    known = around.low is not None
    measured = Measured(
        value=share,
        n=n,
        missing=missing,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval="wilson" if known else None,
        interval_reason=around.reason,
        worth=around.worth,
    )
    if correct is None:
        return measured
    worth = count_worth(share, n, spread, clusters)
    return correct(measured, worth, int(tasks["by_judges"].sum()))


def _sum_clusters(tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of each cluster that is named, else of each scenario."""
    if CLUSTER in tasks.columns:
        cluster = pl.coalesce(pl.col(CLUSTER).cast(pl.String), pl.col(ID)).alias(CLUSTER)
        tasks = tasks.group_by(cluster).agg(pl.col("judged_runs", "passes", "by_judges").sum())
    # In order: sums of floats then give the same bits every time.
    return tasks.sort("judged_runs", "passes")


def _guarantee(
    rate: Measured, tasks: pl.DataFrame, confidence: float, *, by_task: bool, corrected: bool
) -> Measured:
    """Return a pass rate with its guaranteed interval; without one where nothing guarantees it."""
    if by_task:
        of_one = pl.col("passes") / pl.col("judged_runs"), pl.lit(1).alias("judged_runs")
        tasks = tasks.with_columns(*of_one)
    tasks = _sum_clusters(tasks)
    bare = replace(rate, low=None, high=None, interval=None, worth=None)
    if corrected:
        return replace(bare, interval_reason="no interval is guaranteed for corrected judgments")
    sizes = tasks["judged_runs"]
    if sizes.n_unique() > 1:
        reason = UNEQUAL if by_task or CLUSTER in tasks.columns else OTHER_MEAN
        return replace(bare, interval_reason=reason)
    around = guarantee_mean(
        (tasks["passes"] / sizes).cast(pl.Float64).to_numpy(),
        ends=(0.0, 1.0),
        confidence=confidence,
        is_share=sizes[0] == 1,
    )
    assert rate.value is not None
    return replace(
        bare,
        low=min(rate.value, around.low),
        high=max(rate.value, around.high),
        interval=around.method,
        interval_reason=None,
    )
