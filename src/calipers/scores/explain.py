"""How the value of a metric was computed: enough to recompute it by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from statistics import variance
from typing import Any

import numpy as np
import polars as pl

from calipers.engines.features import copy_texts, number_rows
from calipers.engines.plan import FAILED, Plan, name_presence
from calipers.engines.polars_engine import sum_store
from calipers.engines.read_rows import measure_source, pick_engine
from calipers.engines.store import Store
from calipers.engines.totals import ERRORS, RECORDS, sum_keys, sum_tables
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, TASK, Aggregate, Feature, Need, Totals
from calipers.metrics.declare.settings import Settings
from calipers.metrics.provenance import IMPL_RATE, PASSED, list_judged_parts
from calipers.records.batch import refuse_bad
from calipers.records.fields import VARIANT
from calipers.records.nested_fields import (
    read_judgment_list,
    read_judgment_score,
    read_judgment_vote,
)
from calipers.records.sources import open_sources
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.scores.score import check_fields
from calipers.scores.score_plan import refuse_absent
from calipers.statistics.crossed import FEWEST, CrossedVariance, split_crossed
from calipers.statistics.power import Components, estimate_spread, split_variance
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError
from calipers.support.printing import Printed, Tabular, keep_scalars
from calipers.support.strict_json import to_finite
from calipers.support.version import __version__

SCHEMA = "calipers.explain/1"
_TABLE_ROWS = 20
_JUDGMENTS = "judgments"


@dataclass(frozen=True, kw_only=True)
class GroupExplanation:
    """One group's value and the rows and totals behind it."""

    by: Mapping[str, Any]
    value: float | None
    records: int
    errors: int
    n: int
    left_out: Mapping[str, int]  # why, and how many rows
    work: str  # the formula with the totals filled in
    table: pl.DataFrame | None  # what was counted per bin, answer or task: the largest first
    table_rows: int  # of how many
    weigh_most: pl.DataFrame  # the rows that move the value most
    variance: Components | None = None  # where the width of its interval comes from
    crossed: CrossedVariance | None = None  # where that of a run comes from: task, variant, run


_TEXT = "_text_"


@dataclass(frozen=True, kw_only=True)
class Explanation(Printed, Tabular):
    """A metric, explained on some data. Prints as text, in a notebook too."""

    metric: Metric
    groups: tuple[GroupExplanation, ...]

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to explain."""
        return EXIT_PASS if self.groups else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as Python values: the metric, and each group."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "metric": self.metric.name,
            "formula": self.metric.formula,
            "groups": [_group_dict(group) for group in self.groups],
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per group."""
        for group in self.groups:
            yield {**group.by, "metric": self.metric.name, **keep_scalars(_group_dict(group))}


def _group_dict(group: GroupExplanation) -> dict[str, Any]:
    return {
        "by": dict(group.by),
        "value": to_finite(group.value),
        "records": group.records,
        "errors": group.errors,
        "n": group.n,
        "left_out": dict(group.left_out),
        "work": group.work,
        "table": [] if group.table is None else group.table.to_dicts(),
        "most_influential": group.weigh_most.to_dicts(),
        **({} if group.crossed is None else {"variance": _show_shares(group.crossed)}),
    }


def _show_shares(found: CrossedVariance) -> dict[str, Any]:
    """Return the parts of the variance of one run, as shares that add up to 1."""
    parts = {
        "task": found.task,
        "variant": found.variant,
        "task_by_variant": found.together,
        "run": found.run,
        "rest": found.rest,
    }
    shares = {name: part / found.total for name, part in parts.items() if part is not None}
    counts = {"tasks": found.tasks, "variants": found.variants, "runs": found.runs}
    return {**shares, **counts}


def explain_data(data: Any, options: Options) -> Explanation:
    """Explain the one metric that the options name."""
    metric_named(options.metrics[0])  # a wrong name is reported before a wrong file
    sources = open_sources(data)
    plan = options.plan(sources)
    metric = plan.metrics[0]
    read = 0
    present: set[str] = set()
    noise: list[float] = []
    is_judged = not {PASSED, IMPL_RATE}.isdisjoint(list_judged_parts(metric))
    judged = (_JUDGMENTS,) if is_judged else ()
    quotes = metric.quotes
    texts = quotes.fields if quotes else ()
    quoted = dict.fromkeys(map(_name_text, texts), pl.String())
    engine = pick_engine(options.engine, sources)
    has_variants = any(VARIANT in source.columns() or VARIANT in options.map for source in sources)
    told = (VARIANT,) if has_variants else ()
    schema = {**plan.schema, "id": pl.String(), **dict.fromkeys(told, pl.String()), **quoted}
    with Store(schema) as store:
        for source in sources:
            wanted = plan.list_wanted(options.map, *judged, *told)
            columns = [*plan.schema, "id", *told, *judged, *texts]
            for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
                if options.on_bad != "skip":
                    refuse_bad(batch.bad)
                read += batch.rows.height
                own = batch.rows.rename({each: _name_text(each) for each in texts}).drop(*judged)
                store.add(number_rows(own, read))
                if is_judged:
                    noise += _list_noise(metric, batch.rows[_JUDGMENTS])
                present.update(
                    name for name in plan.watched if batch.rows[name_presence(name)].any()
                )
        groups = sum_store(store, plan)
        if read:
            check_fields(present, plan, sources, options.map)
        if any(group[RECORDS] > group[ERRORS] for group in groups.values()):
            refuse_absent(plan.metrics, present, sources, options.map)
        table = _count_keys(store, metric)
        explained = tuple(
            _explain_group(text, key, groups[text], plan, store, table, noise, options.rows)
            for text, key in sort_keys(groups, plan.by).items()
        )
    return Explanation(metric=metric, groups=explained)


def _list_noise(metric: Metric, judgments: pl.Series) -> list[float]:
    """Return, of each record with two judgments or more, the variance that they leave in its value.

    The variance among a record's judges, divided by their number.
    """
    value_of = read_judgment_vote if PASSED in list_judged_parts(metric) else read_judgment_score
    variances = []
    for row in judgments.is_not_null().arg_true():
        values = [value_of(judgment) for judgment in read_judgment_list(judgments[row])]
        known = [float(value) for value in values if value is not None]
        if len(known) > 1:
            variances.append(variance(known) / len(known))
    return variances


def _split_by_source(
    metric: Metric, rows: pl.DataFrame, noise: Sequence[float]
) -> Components | None:
    """Return the parts of the variance of a mean over rows; None if they cannot be told apart."""
    if not isinstance(metric.averaged, Feature):
        return None
    known: Any = rows.select(TASK, pl.col(metric.averaged.name).cast(pl.Float64)).drop_nulls()
    try:
        spread = estimate_spread(known[metric.averaged.name].to_numpy(), known[TASK].to_numpy())
    except DataError:  # a single task
        return None
    share = float(np.mean(1 / known[TASK].unique_counts().to_numpy()))
    return split_variance(spread, share, float(np.mean(noise)) if noise else None)


def _count_keys(store: Store, metric: Metric) -> pl.DataFrame | None:
    """Return what the metric's aggregate counts per key, over all rows, or None."""
    aggregate = metric.aggregate
    if not isinstance(aggregate, Aggregate) or not aggregate.keys:
        return None
    parts = (sum_keys(part.lazy(), aggregate).collect() for part in store.parts())
    return store.codes.decode_groups(sum_tables(parts, [GROUP, *aggregate.keys]))


def _explain_group(
    text: str,
    by: Mapping[str, Any],
    group: Totals,
    plan: Plan,
    store: Store,
    table: pl.DataFrame | None,
    noise: Sequence[float],
    rows: int,
) -> GroupExplanation:
    metric = plan.metrics[0]
    own = (pl.col(GROUP) == store.codes.number(text)) & ~pl.col(FAILED)
    n = int(group.get(metric.used or metric.rows, 0))
    refused = metric.refused(group) if metric.refused else None
    counted = None if table is None else table.filter(pl.col(GROUP) == text).drop(GROUP)
    mine = pl.concat([part.filter(own) for part in store.parts()])
    return GroupExplanation(
        by=by,
        value=float(metric.value(group)) if n and not refused else None,
        records=int(group[RECORDS]),
        errors=int(group[ERRORS]),
        n=n,
        left_out=_count_left_out(own, group, metric, n, store),
        work=refused or (_fill_formula(metric.work, group) if n else metric.empty),
        table=None if counted is None else _take_largest(counted, metric),
        table_rows=0 if counted is None else counted.height,
        weigh_most=_find_influential(own, group, metric, counted, store, rows, plan.settings),
        variance=_split_by_source(metric, mine, noise),
        crossed=_split_by_variant(metric, mine),
    )


def _split_by_variant(metric: Metric, rows: pl.DataFrame) -> CrossedVariance | None:
    """Return the parts of the variance of a run; None without several variants of common tasks."""
    if VARIANT not in rows.columns or not isinstance(metric.averaged, Feature):
        return None
    value = pl.col(metric.averaged.name).cast(pl.Float64).alias("_value")
    known = rows.select("id", VARIANT, value).drop_nulls()
    if known[VARIANT].n_unique() < FEWEST:
        return None
    labels = (known[name].rank("dense").to_numpy() for name in ("id", VARIANT))
    return split_crossed(known["_value"].to_numpy(), *labels)


def _fill_formula(work: str, group: Totals) -> str:
    """Return the formula over the totals with their numbers, in full precision."""
    return re.sub(r"\{(\w+)\}", lambda match: f"{group[match[1]]!r}", work)


def _count_left_out(
    own: pl.Expr, group: Totals, metric: Metric, n: int, store: Store
) -> dict[str, int]:
    """Return why rows were left out: each reason with its rows, a row under its first reason."""
    averaged = metric.averaged
    decisive = (averaged,) if isinstance(averaged, Feature) else metric.features
    unused = pl.any_horizontal(pl.col(feature.name).is_null() for feature in decisive)
    lacking: dict[str, pl.Expr] = {}
    so_far = pl.lit(value=True)
    for need in metric.needs:
        lacking[f"without {need}"] = so_far & ~_has_needs(need)
        so_far = so_far & _has_needs(need)
    counts: dict[str, int] = dict.fromkeys(lacking, 0)
    for part in store.parts() if lacking else ():
        left_out = part.filter(own & unused).select(
            check.sum().alias(reason) for reason, check in lacking.items()
        )
        for reason, count in left_out.row(0, named=True).items():
            counts[reason] += count
    missing = int(group[RECORDS]) - n - int(group[ERRORS])
    if missing < sum(counts.values()):  # parts that each need something else of a row
        counts = {}
    reasons = {"the call failed": int(group[ERRORS]), **counts}
    if missing > sum(counts.values()):
        reasons[f"otherwise ({metric.nulls})"] = missing - sum(counts.values())
    return {reason: count for reason, count in reasons.items() if count}


def _has_needs(need: Need) -> pl.Expr:
    choices = ((need,),) if isinstance(need, str) else need.choices
    return reduce(
        or_, (reduce(and_, (pl.col(name_presence(name)) for name in choice)) for choice in choices)
    )


def _take_largest(counted: pl.DataFrame, metric: Metric) -> pl.DataFrame:
    assert isinstance(metric.aggregate, Aggregate)
    first = next(iter(metric.aggregate.totals))
    return counted.select(pl.exclude("^_.*$")).sort(first, descending=True).head(_TABLE_ROWS)


def _find_influential(
    own: pl.Expr,
    group: Totals,
    metric: Metric,
    counted: pl.DataFrame | None,
    store: Store,
    rows: int,
    settings: Settings,
) -> pl.DataFrame:
    """Return the most influential rows, with their ids and per-row values."""
    if metric.weight is None or not group.get(metric.rows):
        return pl.DataFrame()
    stored = (feature for feature in metric.features if feature.stored)
    shown = [feature.name for feature in stored if feature.listed or counted is not None]
    quotes = metric.quotes
    texts = tuple(map(_name_text, quotes.fields)) if quotes else ()
    labels = {feature.name: feature.label for feature in metric.features}
    names = [name for name in dict.fromkeys(shown) if not name.startswith("_")]
    tables = []
    for part in store.parts():
        mine = part.filter(own)
        if counted is not None and isinstance(metric.aggregate, Aggregate):
            mine = mine.join(counted, on=list(metric.aggregate.keys))
        weighed = mine.with_columns(metric.weight(group).alias("_weight"))
        weighed = weighed.filter(pl.col("_weight").is_not_null())
        least = weighed["_weight"].top_k(rows).min()
        first = weighed.filter(pl.col("_weight") >= least).select("id", "_weight", *names, *texts)
        tables.append(_sort_by_weight(copy_texts(first), rows))
    best = _sort_by_weight(pl.concat(tables), rows)
    found_rows = best.select("id", *names).rename({name: labels[name] for name in names})
    if quotes is None:
        return found_rows
    own_names = best.select(pl.col(texts).name.map(_name_field))
    return found_rows.with_columns(
        own_names.select(quotes.expression(settings).alias(quotes.label)).to_series()
    )


def _name_text(field: str) -> str:
    """Return the column that keeps a field of the record, to be quoted."""
    return f"{_TEXT}{field}"


def _name_field(column: str) -> str:
    return column.removeprefix(_TEXT)


def _sort_by_weight(rows_found: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Return the rows of most weight; those that weigh the same by what they hold, not by place."""
    others = [name for name in rows_found.columns if name != "_weight"]
    ties = [pl.col(name).cast(pl.String) for name in others]
    descending = [True, *(False for _ in ties)]
    return rows_found.sort("_weight", *ties, descending=descending).head(rows)
