"""The scenarios of a gate, gathered while records are measured.

Counts by category are added up batch by batch, and most policies are decided by these. A narrow
row per run, some bits and the id, goes to temporary files, which are read where ids are asked for:
of scenarios that fail, that the policy names, or that a baseline keeps. Where scenarios have
several runs, these become a row per scenario in memory.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

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
_HELD_ROWS = 200_000  # runs in memory; more are written to a file
_ROWS = "rows"
Tables = list[pl.DataFrame]
_OF_JUDGES = (GROUP, CATEGORY, "scenario", JUDGED_BY, OPEN)


class RunFiles:
    """Narrow rows of runs, written to files a few at a time; the files are removed with it."""

    def __init__(self) -> None:
        self._files: list[Path] = []
        self._held: Tables = []
        self._folder: Path | None = None

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows; their columns may be others than those of the rows before."""
        self._held.append(rows)
        if sum(map(len, self._held)) > _HELD_ROWS:
            self._write()

    def _write(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="calipers-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        file = self._folder / f"{len(self._files):06}.arrow"
        # Texts as offsets into bytes: a third smaller than as views, and as quickly written.
        _pool(self._held).rechunk().write_ipc(file, compat_level=pl.CompatLevel.oldest())
        self._files.append(file)
        self._held = []

    def read(self) -> Iterator[pl.LazyFrame]:
        """Yield the rows of each file, then those in memory."""
        yield from map(pl.scan_ipc, self._files)
        if self._held:
            yield _pool(self._held).lazy()


def _pool(tables: Tables) -> pl.DataFrame:
    return pl.concat(tables, how="diagonal_relaxed")


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
        self._named = pl.Series(named, dtype=pl.String)
        self._optional = pl.Series(optional, dtype=pl.String)
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
        self._judged = Sum(_OF_JUDGES)
        self._runs = RunFiles()

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
            *_mark_judged(rows, ran),
            self._mark_optional(),
        )
        self._counts.add(self._count(rows))
        self._judged.add(_count_judged(rows.with_columns(categories), self._named))
        known = [n for n in self._types if rows[n].null_count() < rows.height]
        own = dict.fromkeys((GROUP, ID, RAN, *map(name_own, JUDGED), *known))
        codes = [name for name in self._codes if name in own]
        runs = rows.select(*own)
        self._runs.add(runs.with_columns(runs[name].shrink_dtype() for name in codes))

    def _mark_optional(self) -> pl.Expr:
        """Return whether the policy calls a run's scenario optional."""
        is_optional = (
            pl.col(ID).is_in(self._optional.implode())
            if len(self._optional)
            else pl.lit(value=False)
        )
        return is_optional.alias(OPTIONAL)

    def _count(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return what there is of each category, optional scenarios apart."""
        counts = {
            "runs": pl.len(),
            "errors": pl.col(FAILED).sum(),
            "judged_runs": pl.col(passed.name).count(),
            "passes": pl.col(passed.name).sum(),
            "passed_by_judges": pl.col(name_own("by_judges"))
            .filter(pl.col(passed.name).is_not_null())
            .sum(),
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

    def _add_up(self, tables: Iterable[pl.LazyFrame]) -> pl.DataFrame:
        """Return a row per scenario of the runs in these tables, one table after the other."""
        own = (GROUP, ID, *self._columns, *((CLUSTER,) if self._clustered else ()))
        scenarios: Tables = []
        waiting: Tables = []
        for table in tables:
            rows = ScenarioRows(partial(self._complete, table), is_of_runs=True).select(*own)
            waiting.append(add_up([rows]))
            if sum(map(len, waiting)) > max(2 * _HELD_ROWS, *map(len, scenarios), 0):
                scenarios, waiting = [add_up([*scenarios, *waiting])], []
        return add_up([*scenarios, *waiting])

    def _complete(self, runs: pl.LazyFrame) -> pl.LazyFrame:
        """Return the runs with the columns of which none has a value."""
        known = runs.collect_schema().names()
        return runs.with_columns(
            pl.lit(None, kind).alias(name)
            for name, kind in self._types.items()
            if name not in known
        )

    def split_groups(self, score: Score, by: Sequence[str]) -> list[ScenarioGroup]:
        """Return the scenarios of each group of the score, whose keys may be fewer than theirs."""
        if not score.groups:
            return []
        known = self._codes[GROUP].texts
        texts = _reduce_keys(known, by)
        number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        numbers = pl.Series(GROUP, [number[text] for text in texts], dtype=pl.Int32)

        def regroup(table: pl.LazyFrame) -> pl.LazyFrame:
            if texts == known:
                return table
            return table.with_columns(pl.lit(numbers).gather(pl.col(GROUP)).alias(GROUP))

        runs = map(regroup, self._runs.read())
        if score.has_repeats:
            rows = self._add_up(runs).lazy()
        else:
            rows = self._complete(pl.concat(runs, how="diagonal_relaxed"))
        select_group = _split(rows, len(number))
        counted, judged = (
            sum_tables([regroup(counts.table.lazy()).collect()], keys)
            for counts, keys in ((self._counts, _COUNTED), (self._judged, _OF_JUDGES))
        )
        counts = counted.partition_by(GROUP, as_dict=True)
        judgments = _group_judgments(judged)
        categories = self._codes[CATEGORY].texts
        keys = sort_keys(number, by)
        of_key = {tuple(key.values()): number[text] for text, key in keys.items()}
        return [
            ScenarioGroup(
                ScenarioRows(partial(select_group, code), is_of_runs=not score.has_repeats),
                counts[code,].drop(GROUP),
                categories=categories,
                clustered=self._clustered,
                means=self._means,
                judgments=judgments.get(code),
                optional=self._optional,
            )
            for code in (of_key[tuple(group.by.values())] for group in score.groups)
        ]


def _as_whole(counts: dict[str, pl.Expr]) -> list[pl.Expr]:
    return [count.cast(pl.Int64).alias(name) for name, count in counts.items()]


def _mark_judged(rows: pl.DataFrame, ran: pl.Expr) -> Iterator[pl.Expr]:
    """Yield whether judges decided a run, whether its text addressed them, and if nothing did."""
    named = {"by_judges": f'"{PASSED}":', "flagged": f'"{FLAGGED}":["{PASSED}"'}
    is_judged = rows[JUDGED_BY].null_count() < rows.height
    for name, text in named.items():
        there = pl.col(JUDGED_BY).str.contains(text, literal=True).fill_null(value=False)
        yield (there if is_judged else pl.lit(value=False)).alias(name_own(name))
    is_expected = pl.col(behaviors_expected.name).is_not_null()
    yield (ran & is_expected & pl.col(passed.name).is_null()).alias(name_own("unsettled"))


def _split(rows: pl.LazyFrame, count: int) -> Callable[[int], pl.LazyFrame]:
    """Return what selects the rows of one of so many groups, by its number."""
    if count == 1:
        return lambda _: rows
    if count <= FEW_GROUPS:  # each question picks them anew, which copies only what it asks for
        return lambda code: rows.filter(pl.col(GROUP) == code)

    @cache
    def sort_rows() -> tuple[pl.DataFrame, list[int]]:
        table = rows.collect(engine="in-memory").sort(GROUP, maintain_order=True)
        starts = table[GROUP].search_sorted(pl.Series(range(count + 1), dtype=pl.Int32))
        return table, starts.to_list()

    def select_slice(code: int) -> pl.LazyFrame:
        table, starts = sort_rows()
        return table[starts[code] : starts[code + 1]].lazy()

    return select_slice


def _count_judged(rows: pl.DataFrame, named: pl.Series) -> pl.DataFrame:
    """Return how many rows were judged, or were to be, by category and named scenario."""
    judged = rows.filter(~pl.col(FAILED) & pl.col(JUDGED_BY).is_not_null())
    scenario = pl.when(pl.col(ID).is_in(named.implode())).then(ID).cast(pl.String)
    return judged.group_by(
        GROUP,
        CATEGORY,
        scenario.alias("scenario"),
        JUDGED_BY,
        pl.col(passed.name).is_null().alias(OPEN),
    ).agg(pl.len().cast(pl.Int64).alias(_ROWS))


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
