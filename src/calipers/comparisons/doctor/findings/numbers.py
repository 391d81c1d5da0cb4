"""Numbers of records: confidence, cost and time, and scores that follow an answer's length."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np
import polars as pl

from calipers.comparisons.doctor import facts as f
from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.results import Finding
from calipers.statistics.rank_tests import spearman

_ENOUGH_STATED = 20  # probabilities
_EACH = 20  # right and wrong answers
_REVERSED = 0.4  # area under the curve
_FAR = 5.0  # standard errors below a half
_ENOUGH_MEASURED = 10  # costs or times
_DEAREST, _CHEAPEST = 2_000.0, 0.001  # USD per million tokens
_FASTEST = 20_000.0  # tokens per second: faster is no model's pace
_THOUSAND = (500.0, 2_000.0)
_ENOUGH_JUDGED = 50  # answers
_STRONG = 0.4  # rank correlation
_LEAST_P = 1e-4


def find_odd_confidence(facts: Facts) -> Iterator[Finding]:
    """Yield a `prob_correct` that is constant, or higher for wrong answers than for right ones."""
    for system, rows in facts.by_system().items():
        known = rows.drop_nulls(f.CONFIDENCE)
        if known.height < _ENOUGH_STATED:
            continue
        if known[f.CONFIDENCE].n_unique() == 1:
            says = f"prob_correct is {known[f.CONFIDENCE][0]:g} in all {known.height:,} records: "
            says += "it tells nothing about single answers"
            fix = "check how the confidence is read out of the reply"
        elif (area := _find_reversed(known.drop_nulls(f.CORRECT))) is not None:
            says = "wrong answers are stated with more confidence than right ones (AUROC "
            says += f"{area:.2f}): is prob_correct the probability of an error?"
            fix = "check its direction; 1 − value where it is the probability of an error"
        else:
            continue
        yield facts.make_finding(
            "confidence", "warning", says, fix=fix, rows=known, of=known, system=system
        )


def _find_reversed(rows: pl.DataFrame) -> float | None:
    """Return the area under the ROC curve where it lies far below a half, else None."""
    right = rows.filter(f.CORRECT).height
    wrong = rows.height - right
    if min(right, wrong) < _EACH:
        return None
    ranks = rows.select(pl.col(f.CONFIDENCE).rank("average"), f.CORRECT)
    total = float(ranks.filter(f.CORRECT)[f.CONFIDENCE].sum())
    area = (total - right * (right + 1) / 2) / (right * wrong)
    error = sqrt((right + wrong + 1) / (12 * right * wrong))
    return area if area < _REVERSED and (0.5 - area) / error > _FAR else None


def find_odd_units(facts: Facts) -> Iterator[Finding]:
    """Yield costs per token that no model has, and times that contradict tokens or each other."""
    tokens = pl.col(f.PROMPT).fill_null(0) + pl.col(f.COMPLETION).fill_null(0)
    priced = facts.ended.filter((pl.col(f.COST) > 0) & (tokens > 0))
    price = _find_median(priced, pl.col(f.COST) / tokens * 1e6)
    if price is not None and not _CHEAPEST <= price <= _DEAREST:
        unit = "cents or millionths of a dollar" if price > _DEAREST else "thousands of dollars"
        says = f"cost_usd comes to {price:,.3g} USD per million tokens (median): is it in {unit}?"
        yield _make_unit_finding(facts, priced, says, "give the cost in US dollars")
    both = facts.ended.filter((pl.col(f.LATENCY) > 0) & (pl.col(f.DURATION) > 0))
    ratio = _find_median(both, pl.col(f.DURATION) * 1000 / pl.col(f.LATENCY))
    if ratio is not None and _THOUSAND[0] <= ratio <= _THOUSAND[1]:
        says = "duration_seconds is about 1000 times latency_ms: one is in the other's unit"
        fix = "give latency_ms in milliseconds, duration_seconds in seconds"
        yield _make_unit_finding(facts, both, says, fix)
        return
    spoken = facts.ended.filter((pl.col(f.LATENCY) > 0) & (pl.col(f.COMPLETION) > 0))
    pace = _find_median(spoken, pl.col(f.COMPLETION) * 1000 / pl.col(f.LATENCY))
    if pace is not None and pace > _FASTEST:
        says = f"{pace:,.0f} completion tokens per second (median): latency_ms looks like seconds"
        yield _make_unit_finding(facts, spoken, says, "give latency_ms in milliseconds")


def _find_median(rows: pl.DataFrame, value: pl.Expr) -> float | None:
    """Return the median of a value over the rows; None where they are few."""
    found = rows.select(value.median()).item() if rows.height >= _ENOUGH_MEASURED else None
    return found if isinstance(found, float) else None


def _make_unit_finding(facts: Facts, rows: pl.DataFrame, says: str, fix: str) -> Finding:
    return facts.make_finding("units", "warning", says, fix=fix, rows=rows, of=facts.ended)


def find_lengthy_judge(facts: Facts) -> Iterator[Finding]:
    """Yield a finding where length goes with the score within tasks and equal correctness."""
    known = facts.ended.drop_nulls([f.SCORE, f.CHARS])
    keys = [f.TASK, f.CORRECT]
    several = known.filter((pl.len().over(keys) > 1) & (pl.col(f.SCORE).n_unique() > 1))
    if several.height < _ENOUGH_JUDGED:
        return
    # What is left of both once the task, and whether the answer is right, are accounted for.
    score, chars = (
        several.select(pl.col(name).rank() - pl.col(name).rank().mean().over(keys))
        .to_series()
        .to_numpy()
        for name in (f.SCORE, f.CHARS)
    )
    if not (np.ptp(score) and np.ptp(chars)):
        return
    correlation, p_value = spearman(score, chars)
    if not (correlation >= _STRONG and p_value < _LEAST_P):
        return
    yield facts.make_finding(
        "judge favours length",
        "warning",
        f"of several answers to one task the longer one gets the higher score (rank "
        f"correlation {correlation:.2f} over {several.height:,} answers)",
        fix="judge in pairs and audit: calipers judge --pairwise A B, then judge audit",
        rows=several.sort(f.CHARS, descending=True, maintain_order=True),
        of=known,
    )
