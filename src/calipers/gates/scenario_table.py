"""A row per scenario: outcome and worst values of its runs, gathered while records are measured.

Rows are added up batch by batch: memory grows with the scenarios and not with the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from calipers.engines.plan import FAILED, name_kept
from calipers.gates.scenario_group import (
    CATEGORY,
    COVERAGE,
    HIGH,
    ID,
    LOW,
    OF_COVERAGE,
    OPEN,
    SQUARES,
    SUCCEEDED,
    SUM,
    SUMMED,
    SYSTEMS,
    N,
    ScenarioGroup,
    find_own_feature,
    name_own,
)
from calipers.gates.undecided import JudgedRuns, Judgments
from calipers.metrics import Metric
from calipers.metrics.answers.accuracy import correct
from calipers.metrics.declare.declaration import CLUSTER, GROUP, Feature
from calipers.metrics.judged.who import FAILED as NO_JUDGMENT
from calipers.metrics.judged.who import FLAGGED, JUDGED_BY, PASSED, VALUES, list_judged_parts
from calipers.metrics.scenarios.behaviors import behaviors_expected, is_unchecked, scenario_score
from calipers.metrics.scenarios.pass_at_k import succeeded
from calipers.metrics.scenarios.passing import passed
from calipers.records.sinks import Watch
from calipers.scores.keys import sort_keys
from calipers.scores.results import Group

OUTCOMES = (passed, correct)  # whether a run passed; where nobody has said so, whether it was right

_KEPT = (CATEGORY, *SYSTEMS)
_COUNTS = (
    *("runs", "errors", "passed", "failed", "judged_runs", "passes", "by_judges", "categorised"),
    *("unsettled", "flagged"),
)
_ROWS_AT_ONCE = 200_000
_ROWS = "rows"
_OF_JUDGES = (GROUP, CATEGORY, "scenario", JUDGED_BY, OPEN)


class ScenarioTable:
    """Collects the rows of a run while they are measured, and returns its scenarios at the end."""

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
        self._named = list(named)
        self._judged: list[pl.DataFrame] = []
        self._optional = tuple(optional)
        own = (find_own_feature(metric) for metric in metrics)
        self._features = tuple(dict.fromkeys(each.name for each in own if each is not None))
        means = (metric.averaged for metric in metrics)
        self._means = tuple(dict.fromkeys(each.name for each in means if isinstance(each, Feature)))
        self._clustered = clustered
        self._parts: list[pl.DataFrame] = []
        self._rows = 0
        self._most_rows = _ROWS_AT_ONCE  # that wait to be added up: no more than there are sums

    @property
    def watch(self) -> Watch:
        """Return what it has to see of each row."""
        outcomes = (*(each.name for each in OUTCOMES), JUDGED_BY)
        counted = (name for of in self._open.values() for name in of.meta.root_names())
        named = (ID, GROUP, FAILED, *outcomes, behaviors_expected.name, *self._features, *counted)
        columns = {name: name for name in named} | {
            name_own(name): name_kept(name) for name in _KEPT
        }
        columns |= {CLUSTER: CLUSTER} if self._clustered else {}
        return Watch(kept=_KEPT, columns=columns, take=self._take)

    def _take(self, rows: pl.DataFrame) -> None:
        outcome = pl.coalesce(each.name for each in OUTCOMES)
        by_judges = pl.col(JUDGED_BY).str.contains(f'"{PASSED}":', literal=True)
        flagged = pl.col(JUDGED_BY).str.contains(f'"{FLAGGED}":["{PASSED}"', literal=True)
        values = (*map(name_own, _KEPT), *self._features)
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
            (ran & pl.col(name_own(CATEGORY)).is_not_null()).sum().alias("categorised"),
            *(is_open.sum().alias(f"{value}{OPEN}") for value, is_open in self._open.items()),
            *(pl.col(name).min().alias(f"{name}{LOW}") for name in values),
            *(pl.col(name).max().alias(f"{name}{HIGH}") for name in values),
            *(each for name in self._means for each in _list_moments(name)),
            (pl.col(CLUSTER).min() if self._clustered else pl.lit(None, pl.Int64)).alias(CLUSTER),
        )
        self._parts.append(part)
        self._judged.append(_count_judged(rows, self._named))
        self._rows += part.height
        if self._rows > self._most_rows:
            self._parts = [self._sum_parts()]
            self._judged = [_sum_judged(self._judged)]
            self._rows = 0
            self._most_rows = max(_ROWS_AT_ONCE, self._parts[0].height)

    def _sum_parts(self) -> pl.DataFrame:
        """Return the parts as one: sums of counts, minima and maxima of values."""
        rows = pl.concat(self._parts, how="vertical_relaxed")
        if rows.select(pl.struct(GROUP, ID).hash().n_unique()).item() == rows.height:
            return rows
        lows, highs = ([n for n in rows.columns if n.endswith(end)] for end in (LOW, HIGH))
        opened = [f"{value}{OPEN}" for value in self._open]
        added = rows.group_by(GROUP, ID).agg(
            pl.col(*_COUNTS, *opened, *(n for n in rows.columns if n.endswith(SUMMED))).sum(),
            pl.col(*lows, CLUSTER).min(),
            pl.col(highs).max(),
        )
        return added.select(rows.columns)

    def split_groups(self, groups: Sequence[Group], by: Sequence[str]) -> list[ScenarioGroup]:
        """Return the scenarios of each group of the score."""
        if not groups:
            return []
        whole = self._sum_parts()
        self._parts = [_reduce_keys(whole, by)]
        rows = (whole if self._parts[0] is whole else self._sum_parts()).sort(ID)
        parts = {
            str(text): part for (text,), part in rows.partition_by(GROUP, as_dict=True).items()
        }
        of_key = {tuple(key.values()): parts[text] for text, key in sort_keys(parts, by).items()}
        judged = _group_judgments(_sum_judged([_reduce_keys(_sum_judged(self._judged), by)]))
        return [
            ScenarioGroup(of_key[key], judged.get(str(of_key[key][GROUP][0])), self._optional)
            for key in (tuple(group.by.values()) for group in groups)
        ]


def _count_judged(rows: pl.DataFrame, named: Sequence[str]) -> pl.DataFrame:
    """Return how many rows were judged, or were to be, by category and named scenario."""
    judged = rows.filter(~pl.col(FAILED) & pl.col(JUDGED_BY).is_not_null())
    scenario = pl.when(pl.col(ID).is_in(named)).then(ID).cast(pl.String)
    told = judged.select(
        GROUP,
        JUDGED_BY,
        pl.col(name_own(CATEGORY)).alias(CATEGORY),
        scenario.alias("scenario"),
        pl.col(passed.name).is_null().alias(OPEN),
        pl.lit(1, pl.Int64).alias(_ROWS),
    )
    return _sum_judged([told])


def _sum_judged(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(_OF_JUDGES).agg(pl.col(_ROWS).sum()).sort(_OF_JUDGES)


def _group_judgments(counted: pl.DataFrame) -> dict[str, Judgments]:
    runs: dict[str, list[JudgedRuns]] = {}
    for group, *run in counted.iter_rows():
        runs.setdefault(group, []).append(JudgedRuns(*run))
    return {group: Judgments(each) for group, each in runs.items()}


def _reduce_keys(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows with groups of these fields only, where they came by more."""
    keys = {text: json.loads(text) for text in rows[GROUP].unique()}
    if all(len(key) == len(by) for key in keys.values()):
        return rows
    coarse = {t: json.dumps({name: key[name] for name in by}) for t, key in keys.items()}
    return rows.with_columns(pl.col(GROUP).replace_strict(coarse, return_dtype=pl.String))


def _open_counts(metrics: Sequence[Metric]) -> Iterator[tuple[str, pl.Expr]]:
    """Yield whether a run that did not fail lacks each value that the metrics may rest on."""
    ran = ~pl.col(FAILED)
    for value in dict.fromkeys((PASSED, *(v for each in metrics for v in list_judged_parts(each)))):
        yield value, ran & pl.col(VALUES[value].name).is_null()
    if any(succeeded in metric.features for metric in metrics):
        # Where expectations, checks or judges were to tell, a right answer is no verdict.
        silent = pl.col(JUDGED_BY).str.contains(f'"{NO_JUDGMENT}":', literal=True)
        is_unsettled = pl.any_horizontal(
            pl.col(succeeded.name).is_null(),
            pl.col(behaviors_expected.name).is_not_null(),
            pl.col(is_unchecked.name),
            silent.fill_null(value=False),
        )
        yield SUCCEEDED, ran & pl.col(passed.name).is_null() & is_unsettled
    if any(metric.name in OF_COVERAGE for metric in metrics):
        expected = (pl.col(behaviors_expected.name) > 0).fill_null(value=False)
        unknown = pl.col(scenario_score.name).is_null() & (expected | pl.col(passed.name).is_null())
        yield COVERAGE, ran & unknown


def _list_moments(name: str) -> Iterator[pl.Expr]:
    value = pl.col(name).cast(pl.Float64)
    yield value.count().alias(f"{name}{N}")
    yield value.sum().alias(f"{name}{SUM}")
    yield (value * value).sum().alias(f"{name}{SQUARES}")
