"""The scenarios of a gate, gathered while records are measured.

Counts by category are added up batch by batch. Beside them stands a narrow row per run, some bits
and the id; where scenarios have several runs these become a row per scenario, so that memory grows
with the scenarios and not with the records. Values of scenarios are kept for a baseline alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import polars as pl

from calipers.engines.group_codes import FEW_GROUPS, Codes
from calipers.engines.plan import FAILED, FAILURE, name_kept
from calipers.engines.totals import Sum, sum_tables
from calipers.gates.scenario_group import (
    COVERAGE,
    OF_COVERAGE,
    OPEN,
    SUCCEEDED,
    USED,
    ScenarioGroup,
    find_own_feature,
    list_used,
)
from calipers.gates.scenario_rows import (
    CATEGORY,
    ID,
    JUDGED,
    OPTIONAL,
    OUTCOME,
    RAN,
    SYSTEMS,
    ScenarioRows,
    add_up,
    name_columns,
    name_own,
)
from calipers.gates.undecided import JudgedRuns, Judgments
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, GROUP, Feature
from calipers.metrics.families.answers import correct
from calipers.metrics.families.repeated_runs import succeeded
from calipers.metrics.families.scenarios import (
    behaviors_expected,
    is_unchecked,
    listed_score,
    passed,
)
from calipers.metrics.provenance import FAILED as NO_JUDGMENT
from calipers.metrics.provenance import FLAGGED, JUDGED_BY, PASSED, VALUES, list_judged_parts
from calipers.records.sinks import Watch
from calipers.scores.groups import sort_keys
from calipers.scores.result import Score

OUTCOMES = (passed, correct)  # whether a run passed; where nobody has said so, whether it was right

_KEPT = {CATEGORY: "category", **SYSTEMS}
_COUNTED = (GROUP, CATEGORY, OPTIONAL)
_ROWS_AT_ONCE = 200_000
_MOSTLY = 0.9
_ROWS = "rows"
Tables = list[pl.DataFrame]
_OF_JUDGES = (GROUP, CATEGORY, "scenario", JUDGED_BY, OPEN)


class ScenarioTable:
    """Collects the rows of a run while they are measured, and returns its scenarios at the end."""

    def __init__(
        self,
        metrics: Iterable[Metric],
        *,
        clustered: bool,
        counts_failures: bool = False,
        named: Sequence[str] = (),
        optional: Sequence[str] = (),
        keeps_values: bool = False,
    ) -> None:
        metrics = tuple(metrics)
        self._open = dict(_open_counts(metrics))
        self._named = list(named)
        self._optional = list(optional)
        own = (find_own_feature(metric) for metric in metrics)
        features = {feature.name: feature.dtype for feature in own if feature is not None}
        means = (metric.averaged for metric in metrics if keeps_values)
        averaged = {mean.name: mean.dtype for mean in means if isinstance(mean, Feature)}
        self._means = tuple(averaged)
        self._columns = name_columns((*_KEPT, *features), averaged)
        self._used = {
            f"{part}{USED}": count
            for metric in metrics
            for part, count in list_used(metric).items()
        }
        self._clustered = clustered
        self._failures = (FAILURE,) if counts_failures else ()
        self._codes = {GROUP: Codes()} | {name: Codes() for name in _KEPT}
        self._types = {
            **dict.fromkeys(_KEPT, pl.Int32()),
            OUTCOME: pl.Boolean(),
            passed.name: pl.Boolean(),
            **features,
            **averaged,
            **({CLUSTER: pl.Int64()} if clustered else {}),
        }
        self._counts = Sum(_COUNTED)
        self._judged: list[pl.DataFrame] = []
        self._runs: list[pl.DataFrame] = []
        self._scenarios: list[pl.DataFrame] = []  # of earlier runs, where some have several
        self._waiting = 0
        self._most_waiting = _ROWS_AT_ONCE  # runs, before it is seen what they add up to

    @property
    def watch(self) -> Watch:
        """Return what it has to see of each row."""
        counts = (*self._open.values(), *self._used.values())
        named = (
            *(ID, GROUP, FAILED, *self._failures),
            *(outcome.name for outcome in OUTCOMES),
            *(JUDGED_BY, behaviors_expected.name),
            *(name for name in self._types if name not in (*_KEPT, OUTCOME)),
            *(name for count in counts for name in count.meta.root_names()),
        )
        columns = {name: name for name in named} | {
            own: name_kept(name) for own, name in _KEPT.items()
        }
        return Watch(kept=tuple(_KEPT.values()), columns=columns, take=self._take)

    def _take(self, rows: pl.DataFrame) -> None:
        categories = rows[CATEGORY]
        rows = rows.with_columns(codes.encode(rows[name]) for name, codes in self._codes.items())
        ran = ~pl.col(FAILED)
        rows = rows.with_columns(
            ran.alias(RAN),
            pl.coalesce(outcome.name for outcome in OUTCOMES).alias(OUTCOME),
            *_mark_judged(ran),
            pl.col(ID).is_in(self._optional).alias(OPTIONAL),
        )
        self._counts.add(self._count(rows))
        self._judged.append(_count_judged(rows.with_columns(categories), self._named))
        known = [n for n in self._types if rows[n].null_count() < rows.height]
        own = dict.fromkeys((GROUP, ID, RAN, *map(name_own, JUDGED), *known))
        codes = [name for name in self._codes if name in own]
        runs = rows.select(*own)
        self._runs.append(runs.with_columns(runs[name].shrink_dtype() for name in codes))
        self._waiting += rows.height
        if self._waiting > self._most_waiting:
            self._judged = [_sum_judged(self._judged)]
            if self._scenarios or _are_often_repeated(self._runs):
                self._scenarios, self._runs = self._add_up(self._runs, self._scenarios), []
            self._waiting = 0
            self._most_waiting = sum(map(len, (*self._runs, *self._scenarios)))

    def _count(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return what there is of each category, optional scenarios apart."""
        counts = {
            "runs": pl.len(),
            "errors": pl.col(FAILED).sum(),
            "judged_runs": pl.col(passed.name).count(),
            "passes": pl.col(passed.name).sum(),
            **{name: pl.col(name_own(name)).sum() for name in JUDGED},
            **{f"{value}{OPEN}": is_open.sum() for value, is_open in self._open.items()},
            **self._count_used(),
        }
        by_category = rows.group_by(*_COUNTED).agg(_as_whole(counts))
        return self._leave_out_failures(by_category, rows) if self._failures else by_category

    def _count_used(self) -> dict[str, pl.Expr]:
        """Return how many rows have the value of each metric."""
        return {"failures": pl.lit(0), **self._used}

    def _leave_out_failures(self, counted: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the counts with failed calls, which count as failures, apart from missing ones."""
        others = rows.filter(~pl.col(FAILURE)).group_by(_COUNTED).agg(_as_whole(self._used))
        failures = rows.group_by(*_COUNTED).agg(_as_whole({"failures": pl.col(FAILURE).sum()}))
        known = failures.join(others, on=_COUNTED, how="left", nulls_equal=True)
        names = ["failures", *self._used]
        joined = counted.drop(names).join(known, on=_COUNTED, how="left", nulls_equal=True)
        return joined.with_columns(pl.col(names).fill_null(0)).select(counted.columns)

    def _add_up(self, runs: Tables, scenarios: Tables) -> Tables:
        """Return one table with a row per scenario."""
        own = (GROUP, ID, *self._columns, *((CLUSTER,) if self._clustered else ()))
        of_runs = (pl.concat(runs, how="diagonal_relaxed"),) if runs else ()
        rows = (ScenarioRows(self._complete(of_run).lazy(), is_of_runs=True) for of_run in of_runs)
        return [add_up([*scenarios, *(row.select(*own) for row in rows)])]

    def _complete(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the runs with the columns of which none has a value."""
        return runs.with_columns(
            pl.lit(None, kind).alias(name)
            for name, kind in self._types.items()
            if name not in runs.columns
        )

    def split_groups(self, score: Score, by: Sequence[str]) -> list[ScenarioGroup]:
        """Return the scenarios of each group of the score, whose keys may be fewer than theirs."""
        if not score.groups:
            return []
        known = self._codes[GROUP].texts
        texts = _reduce_keys(known, by)
        number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        numbers = pl.Series(GROUP, [number[text] for text in texts], dtype=pl.Int32)

        def regroup(tables: Tables) -> Tables:
            if texts == known:
                return tables
            return [table.with_columns(numbers.gather(table[GROUP])) for table in tables]

        runs, per_scenario = regroup(self._runs), regroup(self._scenarios)
        is_of_runs = not per_scenario and not score.has_repeats
        if is_of_runs:
            rows = self._complete(pl.concat(runs, how="diagonal_relaxed"))
        else:
            [rows] = self._add_up(runs, per_scenario)
        scenarios = _split(rows, len(number))
        counts = sum_tables(regroup([self._counts.table]), _COUNTED).partition_by(
            GROUP, as_dict=True
        )
        judged = _group_judgments(_sum_judged(regroup(self._judged)))
        keys = sort_keys(number, by)
        of_key = {tuple(key.values()): number[text] for text, key in keys.items()}
        return [
            ScenarioGroup(
                ScenarioRows(scenarios[code], is_of_runs=is_of_runs),
                counts[code,].drop(GROUP),
                categories=self._codes[CATEGORY].texts,
                means=self._means,
                judgments=judged.get(code),
                optional=self._optional,
            )
            for code in (of_key[tuple(group.by.values())] for group in score.groups)
        ]


def _as_whole(counts: dict[str, pl.Expr]) -> list[pl.Expr]:
    return [count.cast(pl.Int64).alias(name) for name, count in counts.items()]


def _mark_judged(ran: pl.Expr) -> Iterator[pl.Expr]:
    """Yield whether judges decided a run, whether its text addressed them, and if nothing did."""
    of_judges = pl.col(JUDGED_BY).str
    by_judges = of_judges.contains(f'"{PASSED}":', literal=True)
    yield by_judges.fill_null(value=False).alias(name_own("by_judges"))
    flagged = of_judges.contains(f'"{FLAGGED}":["{PASSED}"', literal=True)
    yield flagged.fill_null(value=False).alias(name_own("flagged"))
    is_expected = pl.col(behaviors_expected.name).is_not_null()
    yield (ran & is_expected & pl.col(passed.name).is_null()).alias(name_own("unsettled"))


def _are_often_repeated(runs: Tables) -> bool:
    """Return True if about a tenth of the runs or more are of a scenario that has another."""
    rows = pl.concat(runs, how="diagonal_relaxed")
    different = rows.select(pl.struct(GROUP, ID).hash().approx_n_unique()).item()
    return bool(different < _MOSTLY * rows.height)


def _split(rows: pl.DataFrame, count: int) -> list[pl.LazyFrame]:
    """Return the rows of each of so many groups, by the groups' numbers."""
    if count == 1:
        return [rows.lazy()]
    if count <= FEW_GROUPS:  # each question picks them anew, which copies only what it asks for
        return [rows.lazy().filter(pl.col(GROUP) == code) for code in range(count)]
    rows = rows.sort(GROUP, maintain_order=True)
    starts = rows[GROUP].search_sorted(pl.Series(range(count + 1), dtype=pl.Int32)).to_list()
    return [rows[start:end].lazy() for start, end in pairwise(starts)]


def _count_judged(rows: pl.DataFrame, named: Sequence[str]) -> pl.DataFrame:
    """Return how many rows were judged, or were to be, by category and named scenario."""
    judged = rows.filter(~pl.col(FAILED) & pl.col(JUDGED_BY).is_not_null())
    scenario = pl.when(pl.col(ID).is_in(named)).then(ID).cast(pl.String)
    counted = judged.select(
        GROUP,
        JUDGED_BY,
        CATEGORY,
        scenario.alias("scenario"),
        pl.col(passed.name).is_null().alias(OPEN),
        pl.lit(1, pl.Int64).alias(_ROWS),
    )
    return _sum_judged([counted])


def _sum_judged(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(_OF_JUDGES).agg(pl.col(_ROWS).sum()).sort(_OF_JUDGES)


def _group_judgments(counted: pl.DataFrame) -> dict[int, Judgments]:
    runs: dict[int, list[JudgedRuns]] = {}
    for group, *run in counted.iter_rows():
        runs.setdefault(group, []).append(JudgedRuns(*run))
    return {group: Judgments(of_group) for group, of_group in runs.items()}


def _reduce_keys(groups: Sequence[str], by: Sequence[str]) -> list[str]:
    """Return each group with these fields only, where it has more."""
    keys = [json.loads(text) for text in groups]
    if all(len(key) == len(by) for key in keys):
        return list(groups)
    return [json.dumps({name: key[name] for name in by}) for key in keys]


def _open_counts(metrics: Sequence[Metric]) -> Iterator[tuple[str, pl.Expr]]:
    """Yield whether a run that did not fail lacks each value that the metrics may rest on."""
    ran = ~pl.col(FAILED)
    for value in dict.fromkeys(
        (PASSED, *(v for metric in metrics for v in list_judged_parts(metric)))
    ):
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
        unscored = pl.col(listed_score.name).is_null() | pl.col(is_unchecked.name)
        yield COVERAGE, ran & unscored & (expected | pl.col(passed.name).is_null())
