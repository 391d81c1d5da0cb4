"""Findings about values: labels, unread or truncated answers, confidence, units, judges."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np
import polars as pl

from calipers.doctor import facts as f
from calipers.doctor.facts import ANSWER, CORRECT, EQUAL, RECORDED, TARGET, Facts
from calipers.doctor.result import Finding, format_share
from calipers.statistics.unpaired import spearman

_LEAST = 5  # answers to base a finding on
_MOST = 0.9
_FEW_DENIED = 0.02  # of the answers that equal their target
_ENOUGH = 30  # records to tell accuracy from chance
_LABELS = 6  # distinct targets at most: more are free text, not labels
_FAR_BELOW_CHANCE = -5.0  # standard errors below chance
_AMONG = 0.95  # of the answers that are labels
_MANY_MISSING = 0.05
_MANY_HELD = 0.3  # of the wrong answers hold the target: it was not taken out of the text
_ENOUGH_TASKS = 20
_ALONE = 0.95  # of the answers, where no target says what they should be
_MORE = 0.4  # above the share of the most common target
_MANY_CUT = 0.01  # replies of exactly the greatest length
_SHORT = 100  # characters: shorter texts share their length by chance
_FEW_TOKENS = 16
_MID_WORD = 0.8  # of them end in the middle of a sentence


def find_swapped_labels(facts: Facts) -> Iterator[Finding]:
    """Yield where a recorded `correct`, or the targets, contradict the answers."""
    for system, rows in facts.by_system().items():
        yield from _find_contradicted(facts, system, rows)
        yield from _find_below_chance(facts, system, rows)


def _find_contradicted(facts: Facts, system: str, rows: pl.DataFrame) -> Iterator[Finding]:
    """Yield answers that equal their target and are recorded as wrong."""
    both = rows.drop_nulls([EQUAL, RECORDED])
    equal, unequal = both.filter(EQUAL), both.filter(~pl.col(EQUAL))
    denied, granted = equal.filter(~pl.col(RECORDED)), unequal.filter(RECORDED)
    if denied.height < max(_LEAST, _FEW_DENIED * equal.height):
        return
    swapped = denied.height > _MOST * equal.height and granted.height > _MOST * unequal.height
    says = f"{format_share(denied.height, equal.height)} answers that equal their target are "
    says += "recorded as wrong"
    says += ", and nearly all others as right: correct looks swapped" if swapped else ""
    yield facts.make_finding(
        "labels",
        "problem" if swapped else "warning",
        says,
        fix="check how correct was made; without the field, answer and target are compared",
        rows=denied,
        of=equal,
        system=system,
    )


def _find_below_chance(facts: Facts, system: str, rows: pl.DataFrame) -> Iterator[Finding]:
    """Yield an accuracy below what guessing gives, where there are few labels."""
    known = rows.drop_nulls([ANSWER, TARGET, CORRECT])
    labels = known[TARGET].value_counts()
    if known.height < _ENOUGH or not 2 <= labels.height <= _LABELS:  # noqa: PLR2004
        return
    if known[ANSWER].is_in(labels[TARGET].implode()).mean() < _AMONG:  # type: ignore[operator]
        return
    answers = known[ANSWER].value_counts().rename({"count": "answers"})
    both = labels.join(answers, left_on=TARGET, right_on=ANSWER)
    chance = float((both["count"] * both["answers"]).sum()) / known.height**2
    right = float(known[CORRECT].mean())  # type: ignore[arg-type]
    error = sqrt(chance * (1 - chance) / known.height)
    if not error or (right - chance) / error > _FAR_BELOW_CHANCE:
        return
    yield facts.make_finding(
        "labels",
        "problem",
        f"accuracy is {100 * right:.3g} %, guessing the same labels gives "
        f"{100 * chance:.3g} %: the labels look swapped",
        fix="check which label stands for what in answer and in target",
        rows=known.filter(~pl.col(CORRECT)),
        of=known,
        system=system,
    )


def find_unread(facts: Facts) -> Iterator[Finding]:
    """Yield, per system, missing answers, and answers counted wrong that contain the target."""
    for system, rows in facts.by_system().items():
        asked = rows.filter(pl.col(TARGET).is_not_null() & pl.col(RECORDED).is_null())
        none = asked.filter(pl.col(ANSWER).is_null())
        if asked.height > none.height >= max(_LEAST, _MANY_MISSING * asked.height):
            yield facts.make_finding(
                "unread answers",
                "warning",
                f"{format_share(none.height, asked.height)} records with a target have no "
                "answer, and count as wrong",
                fix="check the suite's answer: rule, or read another field: --map answer=NAME",
                rows=none,
                of=asked,
                system=system,
            )
        wrong = asked.filter(~pl.col(CORRECT) & pl.col(ANSWER).is_not_null())
        held = wrong.filter(f.HOLDS)
        if held.height >= max(_LEAST, _MANY_HELD * wrong.height):
            yield facts.make_finding(
                "unread answers",
                "problem",
                f"{format_share(held.height, wrong.height)} answers that count as wrong hold "
                "the target beside other text",
                fix="take the answer out of the text: --set answer=last-number, "
                "--set answer_after='ANSWER:' or --set answer_regex=PATTERN",
                rows=held,
                of=wrong,
                system=system,
            )


def find_constant(facts: Facts) -> Iterator[Finding]:
    """Yield systems that give one answer to tasks whose targets differ."""
    for system, rows in facts.by_system().items():
        known = rows.drop_nulls(ANSWER)
        if known[f.TASK].n_unique() < _ENOUGH_TASKS:
            continue
        answer, count = known[ANSWER].value_counts(sort=True).row(0)
        targets = known[TARGET].drop_nulls()
        limit = _ALONE
        if len(targets) == known.height:
            usual = targets.value_counts(sort=True).row(0)[1]
            limit = usual / known.height + _MORE
        if count >= limit * known.height:
            yield facts.make_finding(
                "constant answers",
                "warning",
                f"{format_share(count, known.height)} answers are the same",
                fix="look at them: a failed call, a refusal or a broken prompt may answer so",
                rows=known.filter(pl.col(ANSWER) == answer),
                of=known,
                system=system,
            )


def find_truncated(facts: Facts) -> Iterator[Finding]:
    """Yield, per system, replies that ended at the token limit, or look as if they had."""
    for system, rows in facts.by_system().items():
        marked = rows.filter(f.TRUNCATED)
        cut, why = marked, "ended at the token limit (finish_reason is length)"
        if not marked.height:
            cut, why = _find_longest(rows)
        if cut.height:
            yield facts.make_finding(
                "truncated replies",
                "warning",
                f"{format_share(cut.height, rows.height)} replies {why}",
                fix="raise max_tokens, and call the truncated replies again",
                rows=cut,
                of=rows,
                system=system,
            )


def _find_longest(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return replies of one greatest length that look cut off, if any, and what is odd."""
    for length, mid_word, unit in (
        (f.CHARS, f.MID_WORD, "characters"),
        (f.COT_CHARS, f.COT_MID_WORD, "characters of reasoning"),
        (f.COMPLETION, None, "tokens"),
    ):
        cut = _select_longest(rows, length, mid_word)
        if cut is not None:
            longest = f"{int(cut[length][0]):,} {unit}"
            return cut, f"have exactly {longest}, which none exceeds: they look cut off"
    return rows.clear(), ""


def _select_longest(rows: pl.DataFrame, length: str, mid_word: str | None) -> pl.DataFrame | None:
    """Return the replies of the greatest length, where they are many, differ, and end mid-word."""
    known = rows.drop_nulls(length)
    longest = float(known.select(pl.col(length).cast(pl.Float64).max()).item() or 0)
    if longest < (_FEW_TOKENS if mid_word is None else _SHORT):
        return None
    cut = known.filter(pl.col(length) == longest)
    if cut.height < max(_LEAST, _MANY_CUT * known.height) or cut.height == known.height:
        return None
    if mid_word is None:
        # A cap stands out: the next shorter lengths are rarer by far.
        near = known.filter(pl.col(length) >= 0.9 * longest).height - cut.height
        return cut if near < cut.height else None
    texts = cut[ANSWER].n_unique() if length == f.CHARS else cut[f.TASK].n_unique()
    ends = cut[mid_word].mean()
    is_cut = texts >= _LEAST and isinstance(ends, float) and ends >= _MID_WORD
    return cut if is_cut else None


_ENOUGH_STATED = 20  # probabilities
_EACH = 20  # right and wrong answers
_REVERSED = 0.4  # area under the curve
_FAR_BELOW_HALF = 5.0  # standard errors below a half
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
    return area if area < _REVERSED and (0.5 - area) / error > _FAR_BELOW_HALF else None


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
    median = rows.select(value.median()).item() if rows.height >= _ENOUGH_MEASURED else None
    return median if isinstance(median, float) else None


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
