"""The scenarios of one group of records, a row each, as a gate queries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from calipers.gates.baselines import FeatureByTask
from calipers.gates.policy_values import FINAL_SCORE, SAFETY
from calipers.gates.result import LISTED, Ids
from calipers.gates.undecided import Judgments, Undecided, choose_worse
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import CLUSTER, Feature, Rank
from calipers.metrics.judged.who import PASSED, VALUES, list_judged_parts
from calipers.metrics.scenarios.pass_at_k import succeeded
from calipers.metrics.scenarios.passing import ADVERSARIAL, passed
from calipers.metrics.thresholds import Threshold
from calipers.scores.correction import Correct
from calipers.scores.results import ALL_FAILED, Measured
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import count_worth, wilson
from calipers.support.errors import DataError
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

ID, CATEGORY = "id", "category"
SYSTEMS = ("model", "tier")
LOW, HIGH, OPEN = "__low", "__high", "__open"
SUMMED = N, SUM, SQUARES = "__n", "__sum", "__squares"
COVERAGE = "behavior_coverage"
SUCCEEDED = "succeeded"  # of pass@k: whether a run passed or, where nothing says so, was right
OF_COVERAGE = (COVERAGE, "behavior_coverage_pooled", FINAL_SCORE)

_OF_ADVERSARIAL = (SAFETY, FINAL_SCORE)


def name_own(name: str) -> str:
    """Return the column of a field of the records."""
    return f"_kept_{name}"


_CATEGORY = f"{name_own(CATEGORY)}{LOW}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRuns:
    """How the runs of one scenario ended; the rest is unknown."""

    runs: int
    passed: int
    failed: int
    errors: int
    by_judges: int = 0  # whose verdict is not recorded, but judges'
    flagged: int = 0  # of these, those whose text seems to address the judge
    lacking: int = 0  # that expectations or judges leave undecided, wholly or by one rubric


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
        low, high = (pl.col(f"{name_own(CATEGORY)}{end}") for end in (LOW, HIGH))
        partly = pl.col("categorised").is_between(1, pl.col("runs") - pl.col("errors") - 1)
        for is_torn, other in ((low != high, high), (partly, pl.lit("none"))):
            torn = rows.filter(is_torn).select(ID, low, other.alias("other"))
            if torn.height:
                scenario, one, another = torn.row(0)
                raise DataError(
                    f"the scenario {scenario} is of the category {one} in one record "
                    f"and of {another} in another",
                    fix="give every scenario one category, or another id: --map id=NAME",
                )

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self.rows.height

    def count_flagged(self) -> dict[str, int]:
        """Return, by category, the runs decided by judges whose text addresses the judge."""
        return self._sum_by_category("flagged")

    def note_pooled(self) -> Iterator[str]:
        """Say if several systems count as runs of a scenario, which is rarely intended."""
        for name in SYSTEMS:
            low, high = (pl.col(f"{name_own(name)}{end}") for end in (LOW, HIGH))
            if several := self.rows.filter(low != high).height:
                yield (
                    f"{several:,} scenarios were run by several {name}s, which count as one: "
                    f"--by {name} keeps them apart"
                )

    def find_runs(self, ids: Iterable[str]) -> dict[str, ScenarioRuns]:
        """Return how the runs of these scenarios ended, of those that exist.

        A right answer stands in for a verdict, but not where expectations or judges were to tell.
        """
        found = self.rows.filter(pl.col(ID).is_in(list(ids)))
        counts = ("runs", "passed", "failed", "errors", "by_judges", "flagged")
        judgments = self._judgments
        return {
            row[ID]: ScenarioRuns(
                **{name: row[name] for name in counts},
                lacking=row["unsettled"]
                + judgments.count_failed(row[ID])
                + judgments.count_lacking(PASSED, scenario=row[ID]),
            )
            for row in found.select(ID, *counts, "unsettled").iter_rows(named=True)
        }

    def list_outcomes(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of those that passed in all runs, that failed in any, and the rest."""
        failed = pl.col("failed") > 0
        all_passed = pl.col("passed") == pl.col("runs")
        chosen = {"passed": all_passed, "failed": failed, "unknown": ~all_passed & ~failed}
        return {name: tuple(self.rows.filter(which)[ID]) for name, which in chosen.items()}

    def measure_tasks(self) -> dict[str, FeatureByTask]:
        """Return the mean of each feature in each scenario that has it."""
        names = [name.removesuffix(N) for name in self.rows.columns if name.endswith(N)]
        return {name: _measure_tasks(self.rows, name) for name in names}

    def list_clusters(self) -> dict[str, int]:
        """Return the cluster of each scenario that has one."""
        return dict(self.rows.drop_nulls(CLUSTER).select(ID, CLUSTER).iter_rows())

    def measure_categories(self, confidence: float, correct: Correct | None) -> dict[str, Measured]:
        """Return the pass rate of each category, as `score --by category`, corrected if asked."""
        parts = self.rows.drop_nulls(_CATEGORY).partition_by(_CATEGORY, as_dict=True)
        return {str(name): _pass_rate(part, confidence, correct) for (name,), part in parts.items()}

    def count_undecided(self, metric: str, category: str | None = None) -> Undecided:
        """Return how many runs lack a value that the metric needs, optional scenarios aside."""
        found = Undecided()
        declared = metric_named(metric)
        for value in list_judged_parts(declared):
            if value == PASSED:
                of = ADVERSARIAL if metric in _OF_ADVERSARIAL else category
                open_ = SUCCEEDED if succeeded in declared.features else PASSED
                found = choose_worse(found, self._open(value, of, open_))
            elif self._judgments.are_about(value):
                found = choose_worse(found, self._open(value, None))
        return choose_worse(found, self._open(COVERAGE, None)) if metric in OF_COVERAGE else found

    def _open(self, value: str, category: str | None, column: str | None = None) -> Undecided:
        rows = self.rows.filter(~pl.col(ID).is_in(list(self._optional)))
        if category is not None:
            rows = rows.filter(pl.col(_CATEGORY) == category)
        lacking = self._judgments.count_lacking(value, category=category, without=self._optional)
        by_judges = value in VALUES and self._judgments.are_about(value)
        count = int(rows[f"{column or value}{OPEN}"].sum()) + lacking
        return Undecided(count, int((rows["runs"] - rows["errors"]).sum()), by_judges)

    def find_similar(self, category: str) -> dict[str, int]:
        """Return the categories that differ in case, spaces, - or _ alone, and their runs."""
        runs = sorted(self._sum_by_category("runs").items())
        return {n: count for n, count in runs if n != category and _fold(n) == _fold(category)}

    def _sum_by_category(self, column: str) -> dict[str, int]:
        known = self.rows.drop_nulls(_CATEGORY)
        return dict(known.group_by(_CATEGORY).agg(pl.col(column).sum()).iter_rows())

    def list_failing(self, metric: str, threshold: Threshold, category: str | None = None) -> Ids:
        """Return the scenarios with a run that misses the requirement on the metric."""
        missed = _mark_missed(metric_named(metric), threshold)
        if missed is None:
            return Ids()
        rows = self.rows.filter(missed)
        if category is not None:
            rows = rows.filter(pl.col(_CATEGORY) == category)
        return Ids(rows.height, tuple(rows[ID].head(LISTED)))


def _fold(name: str) -> str:
    return "".join(name.casefold().replace("-", " ").replace("_", " ").split())


def _measure_tasks(rows: pl.DataFrame, name: str) -> FeatureByTask:
    known = rows.filter(pl.col(f"{name}{N}") > 0)
    runs, total, squares = (
        known[f"{name}{end}"].cast(pl.Float64).to_numpy() for end in (N, SUM, SQUARES)
    )
    return FeatureByTask(
        ids=tuple(known[ID]),
        runs=runs,
        means=total / runs,
        # Of equal values rounding leaves a little, which is nothing.
        squares=np.where(runs > 1, np.maximum(0.0, squares - total**2 / runs), 0.0),
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


def _pass_rate(rows: pl.DataFrame, confidence: float, correct: Correct | None) -> Measured:
    """Return the pass rate over runs of some scenarios, each a cluster unless others are named."""
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
    size = count_worth(share, n, spread, clusters)
    return correct(measured, size, int(judged["by_judges"].sum()))
