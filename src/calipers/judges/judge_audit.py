"""Audit of judges: each one's scores against the other judges, its own items and an earlier run.

Providers replace models behind a name. If a judge's judgments of the same answers differ between
two runs, the cause is the judge: its rubric, its model, or chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from calipers.judges import audit_result as results
from calipers.judges.audit_result import Audit, JudgeDrift
from calipers.judges.bias import (
    audit_preferences,
    is_pairwise,
    measure_mean,
    measure_scored_bias,
    measure_share,
    read_pairs,
)
from calipers.judges.judge_options import AuditOptions
from calipers.judges.judgment_table import (
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
    collect_judgments,
)
from calipers.records.nested_fields import get_judgments, hash_record, identify_judge
from calipers.records.task_data import read_records
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.statistics import agreement
from calipers.statistics.clusters import Floats
from calipers.statistics.estimates import Estimate, Sampling
from calipers.statistics.paired import compare_paired, holm
from calipers.support.errors import DataError

_VALUES = ("weighted_score", "overall_score", "passed")
_LEAST = 2  # judgments in both runs

AnswerKey = tuple[str, ...]


class _JudgedValue(NamedTuple):
    """A judge's value for one answer, with its model, settings and rubric."""

    value: float
    who: tuple[str, str]


def measure_drift(
    before: Any, after: Any, options: Options
) -> tuple[tuple[JudgeDrift, ...], tuple[str, ...]]:
    """Return how each judge has changed on answers of both runs, and notes; DataError if none."""
    old, new = _read_judgments(before, options), _read_judgments(after, options)
    drifts: list[JudgeDrift] = []
    left = 0
    for judge, on in sorted(old.keys() & new.keys()):
        then, now = old[judge, on], new[judge, on]
        common = sorted(then.keys() & now.keys())
        left += len(now) - len(common)
        if len(common) >= _LEAST:
            drifts.append(_compare_judge(judge, on, common, then, now, options))
    if not drifts:
        raise DataError(
            "no answer was judged by the same judge in both runs",
            fix="--before is for judgments of the same records, with the same answers, by judges "
            "of the same names",
        )
    notice = f"{left:,} judgments are of answers that --before does not hold"
    return tuple(_decide_drift(drifts, options.confidence)), (notice,) if left else ()


def _read_judgments(
    data: Any, options: Options
) -> dict[tuple[str, str], dict[AnswerKey, _JudgedValue]]:
    """Return the judgments of each judge and kind of value, by the answer they are of."""
    judgments: dict[tuple[str, str], dict[AnswerKey, _JudgedValue]] = {}
    if is_pairwise(data):
        for pair in read_pairs(data):
            if pair.preference is not None:
                key = (*pair.key, str(pair.answers))
                judged = _JudgedValue(pair.preference, (pair.model, ""))
                judgments.setdefault((pair.judge, "preference"), {})[key] = judged
        return judgments
    for record in read_records(data):
        seen = record | {name: record.get(theirs) for name, theirs in options.map.items()}
        for judge, on, answer, judged in _list_judgments(seen):
            judgments.setdefault((judge, on), {})[answer] = judged
    return judgments


def _list_judgments(
    record: Mapping[str, Any],
) -> Iterator[tuple[str, str, AnswerKey, _JudgedValue]]:
    answer = record.get("answer")
    identity = tuple(str(record.get(name)) for name in ("id", "model", "tier", "variant", "run"))
    held = hash_record(identity[0], None if answer is None else str(answer)) or ""
    for judgment in get_judgments(record):
        for on in _VALUES:
            value = judgment.get(on)
            if isinstance(value, int | float):
                key = (*identity, held, str(judgment.get("sample", 1)))
                judged = _JudgedValue(float(value), identify_judge(judgment))
                yield str(judgment.get("judge") or "judge"), on, key, judged
                break


def _compare_judge(
    judge: str,
    on: str,
    common: Sequence[AnswerKey],
    then: Mapping[AnswerKey, _JudgedValue],
    now: Mapping[AnswerKey, _JudgedValue],
    options: Options,
) -> JudgeDrift:
    values = [np.array([side[key].value for key in common]) for side in (then, now)]
    tasks, numbers = np.unique([key[0] for key in common], return_inverse=True)
    result = compare_paired(
        *values,
        binary=on == "passed",
        higher_is_better=None,
        confidence=options.confidence,
        seed=options.seed,
        clusters=None if len(tasks) == len(common) else numbers,
        reach=2.0 if on == "preference" else 1.0,
    )
    return JudgeDrift(
        judge=judge,
        on=on,
        n=len(common),
        differing=int(np.count_nonzero(values[0] != values[1])),
        changed="not shown",
        why=_describe_change(common, then, now),
        difference=result.difference,
        low=result.low,
        high=result.high,
        p_value=result.p_value,
        test=result.test,
        reason=result.reason,
    )


def _describe_change(
    common: Sequence[AnswerKey],
    then: Mapping[AnswerKey, _JudgedValue],
    now: Mapping[AnswerKey, _JudgedValue],
) -> str:
    before, after = ({side[key].who for key in common} for side in (then, now))
    if before == after:
        return ""
    models = [", ".join(sorted(who for who, _ in versions)) for versions in (before, after)]
    if models[0] != models[1]:
        return f"the model was {models[0]}, and is {models[1]}"
    return "the rubric is another one"


def _decide_drift(drifts: Sequence[JudgeDrift], confidence: float) -> Iterator[JudgeDrift]:
    """Yield each judge with its verdict: changed where its record or the adjusted test says so."""
    for drift, adjusted in zip(drifts, holm([one.p_value for one in drifts]), strict=True):
        shifted = adjusted is not None and adjusted < 1 - confidence
        mean = "its judgments have shifted" if shifted else ""
        why = "; ".join(filter(None, (drift.why, mean)))
        yield replace(
            drift,
            p_adjusted=adjusted,
            changed="yes" if why else "not shown",
            why=why or "no shift beyond chance",
        )


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
_PAIR_ON_SCORE: dict[str, _Measure] = {"spearman": agreement.spearman}


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
    drift, drift_notices = ((), ()) if before is None else measure_drift(before, data, options)
    groups: tuple[results.AuditGroup, ...] = ()
    preferences: tuple[results.PreferenceGroup, ...] = ()
    if is_pairwise(data):
        preferences, notices = audit_preferences(data, options)
    else:
        judged = collect_judgments(data, options, asked.weights)
        groups, notices = tuple(_audit_groups(judged, options, asked.worst)), judged.notices
        if any(len(group.judges) > _MOST_IN_PAIRS for group in groups):
            notices = (*notices, _TOO_MANY)
    return Audit(
        groups=groups,
        preferences=preferences,
        drift=drift,
        confidence=options.confidence,
        seed=options.seed,
        notices=(*notices, *drift_notices),
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
            judges=tuple(
                _audit_judge(panel, place, own, worst) for place in range(len(panel.judges))
            ),
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


def _audit_judge(panel: _Panel, place: int, every: pl.DataFrame, worst: int) -> results.JudgeAudit:
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
            passed=_measure_each(_PAIR_ON_PASSED, passed[:, places], panel.sampling),
            weighted_score=_measure_each(_PAIR_ON_SCORE, score[:, places], panel.sampling),
        )
        for places in map(list, combinations(range(compared), 2))
    ]
    return results.JudgesAgreement(
        passed=_measure_each(_ON_PASSED, passed, panel.sampling, refused),
        weighted_score=_measure_each(_ON_SCORE, score, panel.sampling, refused),
        pairs=tuple(pairs),
    )


def _measure_each(
    measures: Mapping[str, _Measure], table: Floats, sampling: Sampling, refused: str | None = None
) -> dict[str, Estimate]:
    """Return each measure of agreement; the mean over pairs only for several, not too many."""
    by_name = {}
    for name, measure in measures.items():
        reason = refused
        if name == "cohen_kappa_mean":
            if table.shape[1] == 2:  # noqa: PLR2004 (the pair has it)
                continue
            reason = reason or (_TOO_MANY if table.shape[1] > _MOST_IN_PAIRS else None)
        by_name[name] = (
            measure(table, sampling) if reason is None else Estimate(value=None, n=0, reason=reason)
        )
    return by_name
