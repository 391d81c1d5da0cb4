"""Audit of judges: each judge's scores, against the other judges and against its own items."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from calipers.judges import audit as results
from calipers.judges.audit import Audit
from calipers.judges.drift import measure_drift
from calipers.judges.measures import measure_mean, measure_share
from calipers.judges.options import AuditOptions
from calipers.judges.preferences import audit_preferences, is_pairwise
from calipers.judges.scored_bias import measure_scored_bias
from calipers.judges.table import (
    CHARS,
    CLUSTER,
    FAILED,
    FLAGGED,
    ID,
    ITEMS,
    JUDGE,
    PASSED,
    PROBLEM,
    RECORD,
    ROUNDING,
    SCORE,
    SYSTEM,
    WHERE,
    JudgedRecords,
    read_judgments,
)
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.statistics import agreement, correlation
from calipers.statistics.arrays import Floats
from calipers.statistics.estimates import Estimate
from calipers.statistics.influence import Sampling
from calipers.support.quick_dataclasses import dataclass

_GROUP = "_group"
_MOST_IN_PAIRS = 20  # judges: 190 pairs
_ROUNDING = 1e-9  # of a sum of items
_SAME = 1e-12  # a smaller difference is rounding
_ONE_JUDGE = "only one judge: there is no other to compare with"
_NO_JUDGE = "there are no judgments"
_TOO_MANY = f"more than {_MOST_IN_PAIRS} judges: pairs of them are not compared"

_Measure = Callable[[Floats, Sampling], Estimate]
_ON_PASSED: dict[str, _Measure] = {
    "percent_agreement": agreement.percent_agreement,
    "cohen_kappa_mean": agreement.mean_cohen_kappa,
    "fleiss_kappa": agreement.fleiss_kappa,
    "krippendorff_alpha_nominal": partial(agreement.krippendorff_alpha, level="nominal"),
}
_ON_SCORE: dict[str, _Measure] = {
    "krippendorff_alpha_interval": partial(agreement.krippendorff_alpha, level="interval"),
}
_PAIR_ON_PASSED: dict[str, _Measure] = {
    "percent_agreement": agreement.percent_agreement,
    "cohen_kappa": agreement.cohen_kappa,
}
_PAIR_ON_SCORE: dict[str, _Measure] = {"spearman": correlation.spearman}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """A group's judgments as tables: a row per judged record, a column per judge, NaN for none."""

    judges: tuple[str, ...]
    ids: pl.DataFrame  # of the records: id, where
    tables: Mapping[str, Floats]
    sampling: Sampling

    @property
    def incomparable(self) -> str | None:
        """Why the judges cannot be compared, if so."""
        return (_NO_JUDGE, _ONE_JUDGE)[len(self.judges)] if len(self.judges) < 2 else None  # noqa: PLR2004


def audit_data(data: Any, options: Options, asked: AuditOptions) -> Audit:
    """Audit the judges of the records in `data`; the worst of each judge's mismatches are named.

    Answers compared in pairs are audited for bias by position, by length and for the judge's own
    model. Judgments of the same answers by an earlier run tell whether a judge has changed.
    """
    before = asked.before
    drift, told = ((), ()) if before is None else measure_drift(before, data, options)
    groups: tuple[results.AuditGroup, ...] = ()
    preferences: tuple[results.PreferenceGroup, ...] = ()
    if is_pairwise(data):
        preferences, notices = audit_preferences(data, options)
    else:
        judged = read_judgments(data, options, asked.weights)
        groups, notices = tuple(_audit_groups(judged, options, asked.worst)), judged.notices
        if any(len(group.judges) > _MOST_IN_PAIRS for group in groups):
            notices = (*notices, _TOO_MANY)
    return Audit(
        groups=groups,
        preferences=preferences,
        drift=drift,
        confidence=options.confidence,
        seed=options.seed,
        notices=(*notices, *told),
    )


def _audit_groups(
    judged: JudgedRecords, options: Options, worst: int
) -> Iterator[results.AuditGroup]:
    by = tuple(dict.fromkeys(options.by))
    keys = zip(*(judged.records[name] for name in by), strict=True) if by else ()
    texts = [json.dumps(dict(zip(by, key, strict=True))) for key in keys]
    records = judged.records.with_columns(
        pl.Series(_GROUP, texts if by else ["{}"] * judged.records.height, pl.String),
        pl.int_range(pl.len(), dtype=pl.Int64).alias(RECORD),
    )
    places = records.select(RECORD, _GROUP, ID, WHERE, CLUSTER, SYSTEM, CHARS)
    rows = judged.judgments.join(places, on=RECORD, maintain_order="left")
    parts = rows.partition_by(_GROUP, as_dict=True)
    sizes = records.group_by(_GROUP).agg(pl.len(), pl.col(FAILED).sum()).rows_by_key(_GROUP)
    for text, key in sort_keys(sizes, by).items():
        [(size, errors)] = sizes[text]
        own = parts.get((text,), rows.clear())
        panel = _make_panel(own, options.confidence)
        yield results.AuditGroup(
            by=key,
            records=size,
            errors=errors,
            judged=panel.ids.height,
            flagged=own.filter(FLAGGED)[RECORD].n_unique(),
            clusters=len(set(panel.sampling.clusters.tolist())),
            judges=tuple(_judge(panel, place, own, worst) for place in range(len(panel.judges))),
            agreement=_measure_agreement(panel),
        )


def _make_panel(rows: pl.DataFrame, confidence: float) -> _Panel:
    judges = rows[JUDGE].unique().sort()
    columns = rows[JUDGE].cast(pl.Enum(judges)).to_physical().to_numpy()
    _, first, units = np.unique(rows[RECORD].to_numpy(), return_index=True, return_inverse=True)
    ids = rows.select(ID, WHERE, CLUSTER)[first]
    clusters = ids[CLUSTER].cast(pl.Enum(ids[CLUSTER].unique().sort())).to_physical()
    tables = {}
    for name in (PASSED, SCORE, ITEMS, ROUNDING):
        tables[name] = np.full((len(first), len(judges)), np.nan)
        values = rows[name].cast(pl.Float64).fill_null(float("nan"))
        tables[name][units, columns] = values.to_numpy()
    return _Panel(
        judges=tuple(judges),
        ids=ids.drop(CLUSTER),
        tables=tables,
        sampling=Sampling(clusters=clusters.cast(pl.Int64).to_numpy(), confidence=confidence),
    )


def _judge(panel: _Panel, place: int, every: pl.DataFrame, worst: int) -> results.JudgeAudit:
    judge = panel.judges[place]
    rows = every.filter(pl.col(JUDGE) == judge)
    passed, score, items, tolerance = (table[:, place] for table in panel.tables.values())
    apart = score - items
    equal = np.where(np.isnan(apart), np.nan, np.abs(apart) <= tolerance + _ROUNDING)
    share = partial(measure_share, sampling=panel.sampling, of=rows.height)
    mean = partial(measure_mean, sampling=panel.sampling, of=rows.height)
    others = panel.incomparable or "no record has its value and another judge's"
    no_items = "no judgment carries items"
    unsummed = rows.drop_nulls(PROBLEM)
    if unsummed.height:
        no_items = f"the items of {unsummed.height:,} judgments give no sum"
    return results.JudgeAudit(
        judge=judge,
        judgments=rows.height,
        flagged=int(rows[FLAGGED].sum()),
        missing=panel.ids.height - rows.height,
        measures={
            "pass_rate": share(passed, empty="no judgment says whether it passed"),
            "mean_score": mean(score, least=0.0, empty="no judgment has a weighted_score"),
            "bias": mean(_subtract_others(panel.tables[SCORE], place), empty=others),
            "pass_bias": mean(_subtract_others(panel.tables[PASSED], place), empty=others),
            "items_equal": share(equal, empty=no_items),
            "items_difference": mean(apart, empty=no_items),
            **measure_scored_bias(judge, every, panel.sampling.confidence),
        },
        items=results.ItemsCheck(
            checked=int(np.count_nonzero(~np.isnan(equal))),
            equal=int(np.count_nonzero(equal == 1)),
            unsummed=unsummed.height,
            without=rows.filter(pl.col(ITEMS).is_null() & pl.col(PROBLEM).is_null()).height,
            worst=tuple(_find_worst(panel, place, equal, worst)),
            problems=tuple(
                results.Unsummed(id=task, where=where, reason=reason)
                for task, where, reason in unsummed[:worst].select(ID, WHERE, PROBLEM).iter_rows()
            ),
        ),
    )


def _find_worst(panel: _Panel, place: int, equal: Floats, most: int) -> Iterator[results.Mismatch]:
    """Yield the scores that are farthest from their items; the first of equally far ones."""
    unequal = np.flatnonzero(equal == 0)
    score, items = panel.tables[SCORE][:, place], panel.tables[ITEMS][:, place]
    apart = np.round(np.abs(score - items)[unequal], 12)  # as far apart but for rounding
    for unit in unequal[np.argsort(-apart, kind="stable")][:most].tolist():
        task, where = panel.ids.row(unit)
        yield results.Mismatch(
            id=task,
            where=where,
            score=float(score[unit]),
            items=float(items[unit]),
            difference=float(score[unit] - items[unit]),
        )


def _subtract_others(table: Floats, place: int) -> Floats:
    """Return a judge's value minus the mean of the others', on the records that have both."""
    own = table[:, place]
    given = ~np.isnan(table)
    others = given.sum(axis=1) - given[:, place]
    total = np.nansum(table, axis=1) - np.nan_to_num(own)
    apart = own - np.divide(total, others, out=np.full(len(own), np.nan), where=others > 0)
    return np.where(np.abs(apart) < _SAME, 0.0, apart)


def _measure_agreement(panel: _Panel) -> results.JudgesAgreement:
    passed, score = panel.tables[PASSED], panel.tables[SCORE]
    refused = panel.incomparable
    compared = len(panel.judges) if len(panel.judges) <= _MOST_IN_PAIRS else 0
    pairs = [
        results.PairAgreement(
            judges=(panel.judges[places[0]], panel.judges[places[1]]),
            passed=_measure(_PAIR_ON_PASSED, passed[:, places], panel.sampling),
            weighted_score=_measure(_PAIR_ON_SCORE, score[:, places], panel.sampling),
        )
        for places in map(list, combinations(range(compared), 2))
    ]
    return results.JudgesAgreement(
        passed=_measure(_ON_PASSED, passed, panel.sampling, refused),
        weighted_score=_measure(_ON_SCORE, score, panel.sampling, refused),
        pairs=tuple(pairs),
    )


def _measure(
    measures: Mapping[str, _Measure], table: Floats, sampling: Sampling, refused: str | None = None
) -> dict[str, Estimate]:
    """Return each measure of agreement; the mean over pairs only for several, not too many."""
    found = {}
    for name, measure in measures.items():
        reason = refused
        if name == "cohen_kappa_mean":
            if table.shape[1] == 2:  # noqa: PLR2004 (the pair has it)
                continue
            reason = reason or (_TOO_MANY if table.shape[1] > _MOST_IN_PAIRS else None)
        found[name] = (
            measure(table, sampling) if reason is None else Estimate(value=None, n=0, reason=reason)
        )
    return found
