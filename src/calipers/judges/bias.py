"""Bias of judges: by position, by length, and for the judge's own model.

Answers that got scores are compared within a task. The mean of the other judges' scores of the same
answers is subtracted if there are any, so that the quality of the answers, as others see it,
cancels out. Answers compared in pairs are shown in both orders, so that quality cancels out of the
position bias; a share of wins counts a tie as half.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from calipers.judges.audit_result import PreferenceAudit, PreferenceGroup
from calipers.judges.judgment_table import (
    CHARS,
    CLUSTER,
    ID,
    JUDGE,
    MODEL,
    PASSED,
    RECORD,
    SCORE,
    SYSTEM,
)
from calipers.records.sources import STDIN, open_sources
from calipers.records.task_data import read_records
from calipers.scores.options import Options
from calipers.scores.result import Measured
from calipers.statistics.agreement import slope_within
from calipers.statistics.clusters import Floats
from calipers.statistics.estimates import Estimate, Sampling, estimate_share, spread
from calipers.statistics.intervals import standard_error
from calipers.statistics.paired import student
from calipers.support.errors import DataError
from calipers.support.names import split_natural


def measure_share(values: Floats, *, sampling: Sampling, of: int, empty: str) -> Measured:
    """Return the share of ones among the values that are there, with Wilson's interval."""
    there = ~np.isnan(values)
    share = estimate_share(values[there], sampling.keep(there), empty)
    return Measured(missing=of - share.n, **asdict(share))


def measure_mean(
    values: Floats, *, sampling: Sampling, of: int, empty: str, least: float = -1.0
) -> Measured:
    """Return the mean of the values that are there, with Student's interval within ±1."""
    there = ~np.isnan(values)
    mean = estimate_by_student(values[there], sampling.keep(there), empty)
    if mean.low is not None and mean.high is not None:
        mean = replace(mean, low=max(least, mean.low), high=min(1.0, mean.high))
    return Measured(missing=of - mean.n, **asdict(mean))


def estimate_by_student(values: Floats, sampling: Sampling, empty: str) -> Estimate:
    """Return the mean of values, a unit each, with Student's interval."""
    if not values.size:
        return Estimate(value=None, n=0, reason=empty)
    mean = float(np.average(values, weights=sampling.weights))
    squares, counted = spread(sampling.shares * (values - mean), sampling)
    stderr, freedom = standard_error(squares, counted), counted.degrees
    largest = float(np.abs(values).max())
    low, high, _, _ = student(
        mean, stderr, freedom, largest=largest, confidence=sampling.confidence
    )
    interval = None if low is None else "t"
    return Estimate(value=mean, low=low, high=high, stderr=stderr, interval=interval, n=len(values))


_VALUE, _OTHERS = "_value", "_others"
_FAMILIES = (
    *("claude", "command", "deepseek", "gemini", "gemma", "gpt", "grok", "llama"),
    *("mistral", "mixtral", "nova", "phi", "qwen"),
)
_WORD = re.compile(r"[a-z]+")
_ALONE = "no other judge, of another model, judged these answers"
_ONE_ANSWER = "no task has answers of different lengths that it scored"
_NO_OWN = "no task has answers of the judge's own model and of another"


def measure_scored_bias(
    judge: str, rows: pl.DataFrame, confidence: float
) -> Mapping[str, Measured]:
    """Return the effects of length and of its own model on a judge's scores.

    `rows` are those of all judges. Without any score, whether an answer passed counts, as 0 or 1.
    """
    own = _add_values(rows.filter(pl.col(JUDGE) == judge))
    of, family = own.height, name_family(str(own[MODEL][0]))
    own = own.drop_nulls(_VALUE)
    others = _add_values(rows.filter(pl.col(JUDGE) != judge))
    families = {name: name_family(name) for name in others[MODEL].unique()}
    theirs = (
        others.filter(pl.col(MODEL).replace_strict(families, default=None) != family)
        .group_by(RECORD)
        .agg(pl.col(_VALUE).mean().alias(_OTHERS))
        .drop_nulls()
    )
    beyond = own.join(theirs, on=RECORD, maintain_order="left").with_columns(
        pl.col(_VALUE) - pl.col(_OTHERS)
    )
    alone = None if beyond.height else _ALONE
    return {
        "length_slope": _measure_slope(own, confidence, of, _ONE_ANSWER),
        "length_bias": _measure_slope(beyond, confidence, of, alone or _ONE_ANSWER),
        "own_margin": _measure_margin(own, family, confidence, of, _NO_OWN),
        "self_preference": _measure_margin(beyond, family, confidence, of, alone or _NO_OWN),
    }


def name_family(model: str) -> str:
    """Return the family of a model: its members may recognize each other's answers.

    >>> name_family("openai:gpt-4o-mini"), name_family("meta-llama/Llama-3.1"), name_family("Own-2")
    ('gpt', 'llama', 'own-2')
    """
    bare = strip_provider(model)
    word = _WORD.match(bare)
    return word[0] if word is not None and word[0] in _FAMILIES else bare


def strip_provider(model: str) -> str:
    """Return a model's name without its provider: openai:gpt-4o and openai/gpt-4o are one model."""
    return model.rpartition(":")[2].rpartition("/")[2].casefold()


def _add_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the score of each, or 0 and 1 where no row has a score."""
    scored = rows[SCORE].null_count() < rows.height
    return rows.with_columns(pl.col(SCORE if scored else PASSED).cast(pl.Float64).alias(_VALUE))


def _measure_slope(rows: pl.DataFrame, confidence: float, of: int, empty: str) -> Measured:
    """Return how much more an answer gets than one half as long to the same task."""
    known = rows.filter(pl.col(CHARS) > 0)
    slope = slope_within(
        np.log2(known[CHARS].cast(pl.Float64).to_numpy()),
        known[_VALUE].to_numpy(),
        _number_labels(known[ID]),
        clusters=_number_labels(known[CLUSTER]),
        confidence=confidence,
    )
    if slope.slope is None:
        return Measured(value=None, n=0, missing=of, reason=empty)
    return Measured(
        value=slope.slope,
        n=slope.n,
        missing=of - slope.n,
        low=slope.low,
        high=slope.high,
        stderr=slope.stderr,
        interval=None if slope.low is None else "t",
    )


def _measure_margin(
    rows: pl.DataFrame, family: str, confidence: float, of: int, empty: str
) -> Measured:
    """Return the score of the own family's answers less that of others, a value per task.

    Every judgment of a task that has both is counted in n.
    """
    systems = {name: name_family(name) == family for name in rows[SYSTEM].drop_nulls().unique()}
    is_own = pl.col(SYSTEM).replace_strict(systems, default=None, return_dtype=pl.Boolean)
    tasks = (
        rows.with_columns(is_own.alias("own"))
        .group_by(ID, maintain_order=True)
        .agg(
            pl.col(CLUSTER).first(),
            pl.col("own").count().alias("judgments"),
            pl.col(_VALUE).filter("own").mean().alias("ours"),
            pl.col(_VALUE).filter(~pl.col("own")).mean().alias("theirs"),
        )
        .drop_nulls(("ours", "theirs"))
    )
    mean = measure_mean(
        (tasks["ours"] - tasks["theirs"]).to_numpy(),
        sampling=Sampling(clusters=_number_labels(tasks[CLUSTER]), confidence=confidence),
        of=tasks.height,
        empty=empty,
    )
    n = int(tasks["judgments"].sum())
    return replace(mean, n=n, missing=of - n)


def _number_labels(labels: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return labels.rank("dense").cast(pl.Int64).to_numpy()


_SIDES = (("a", "b"), ("model_a", "model_b"))  # ours, and as arenas write them
_WINNERS = {"model_a": "a", "model_b": "b", "tie (bothbad)": "tie", "draw": "tie"}
_PREFERENCES = {"a": 1.0, "b": -1.0, "tie": 0.0}
_LONGER = {"up to 1.5 times": 1.5, "up to 3 times": 3.0, "more": float("inf")}
_NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """A pair as one judge decided it."""

    id: str
    a: str
    b: str
    judge: str
    model: str  # of the judge
    preference: float | None  # from −1 for b to 1 for a
    winner: str | None
    orders: Mapping[str, str | None]  # who won, by who stood first
    lengths: tuple[int, int] | None
    answers: str | None
    by: tuple[Any, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What was compared."""
        return self.id, self.a, self.b


def is_pairwise(data: Any) -> bool:
    """Return True if records are answers compared in pairs."""
    given = data if isinstance(data, list | tuple) else [data]
    if isinstance(data, Iterator) or any(isinstance(e, str) and e == STDIN for e in given):
        return False  # a stream, which can be read only once
    columns = {name for source in open_sources(data) for name in source.columns()}
    named = any(columns.issuperset((*sides, "winner")) for sides in _SIDES)
    return named and "judgments" not in columns


def read_pairs(data: Any, by: Sequence[str] = ()) -> list[JudgedPair]:
    """Return the pairs in some data; DataError where a line does not say what, or who won."""
    return [_read_pair(row, number, by) for number, row in enumerate(read_records(data), 1)]


def _read_pair(row: Mapping[str, Any], number: int, by: Sequence[str]) -> JudgedPair:
    winner = _WINNERS.get(str(row.get("winner")), row.get("winner"))
    pairs = ([row.get(name) for name in sides] for sides in _SIDES)
    a, b = next((names for names in pairs if None not in names), (None, None))
    if a is None or winner not in (*_PREFERENCES, None):
        raise DataError(
            f"pair {number}: winner is {json.dumps(winner)}, or a or b is missing",
            fix="a and b name the two systems; winner is a, b, tie or null",
        )
    listed = row.get("orders")
    listed = json.loads(listed) if isinstance(listed, str) else listed
    objects = [order for order in listed or () if isinstance(order, Mapping)]
    orders = {str(order.get("first")): order.get("winner") for order in objects}
    preference = row.get("preference")
    if preference is None and winner is not None:
        verdicts = [_PREFERENCES[str(order)] for order in orders.values() if order in _PREFERENCES]
        preference = sum(verdicts) / len(verdicts) if verdicts else _PREFERENCES[winner]
    lengths = row.get("length_a"), row.get("length_b")
    return JudgedPair(
        id=str(row.get("id", number)),
        a=str(a),
        b=str(b),
        judge=str(row.get("judge") or "judge"),
        model=str(row.get("judge_model") or row.get("judge") or ""),
        preference=preference,
        winner=winner,
        orders=orders,
        lengths=None if None in lengths else (int(lengths[0] or 0), int(lengths[1] or 0)),
        answers=row.get("answers"),
        by=tuple(row.get(name) for name in by),
    )


def audit_preferences(
    data: Any, options: Options
) -> tuple[tuple[PreferenceGroup, ...], tuple[str, ...]]:
    """Return the audit of the judges of pairs in each group, and the notices."""
    pairs = read_pairs(data, options.by)
    groups: dict[tuple[Any, ...], list[JudgedPair]] = {}
    for pair in pairs:
        groups.setdefault(pair.by, []).append(pair)
    audits = tuple(
        PreferenceGroup(
            by=dict(zip(options.by, key, strict=True)),
            systems=tuple(sorted({name for pair in own for name in (pair.a, pair.b)})),
            tasks=len({pair.id for pair in own}),
            judges=tuple(_audit_judges(own, options.confidence)),
        )
        for key, own in sorted(groups.items(), key=lambda entry: split_natural(str(entry[0])))
    )
    unswapped = sum(len(pair.orders) == 1 for pair in pairs)
    notice = f"{unswapped:,} pairs were judged in one order: the place may have decided them"
    return audits, (notice,) if unswapped else ()


def _audit_judges(pairs: Sequence[JudgedPair], confidence: float) -> Iterator[PreferenceAudit]:
    by_judge: dict[str, list[JudgedPair]] = {}
    for pair in pairs:
        by_judge.setdefault(pair.judge, []).append(pair)
    for judge, own in sorted(by_judge.items()):
        tasks = {name: place for place, name in enumerate(dict.fromkeys(p.id for p in own))}
        clusters = np.array([tasks[pair.id] for pair in own], dtype=np.int64)
        sampling = Sampling(clusters=clusters, confidence=confidence)
        others = [pair for pair in pairs if pair.judge != judge]
        yield PreferenceAudit(
            judge=judge,
            pairs=len(own),
            failed=sum(pair.winner is None for pair in own),
            measures=_measure_judge(own, others, sampling),
            by_length=_measure_by_length(own, sampling),
        )


def _measure_judge(
    own: Sequence[JudgedPair], others: Sequence[JudgedPair], sampling: Sampling
) -> dict[str, Measured]:
    share = partial(_apply_measure, measure_share, sampling=sampling, of=len(own))
    mean = partial(_apply_measure, measure_mean, sampling=sampling, of=len(own))
    several = len({(pair.a, pair.b) for pair in own}) > 1
    shares = [None if several or p.preference is None else (1 + p.preference) / 2 for p in own]
    ties = [None if pair.winner is None else pair.winner == "tie" for pair in own]
    orders = [[pair.orders.get(first) for first in ("a", "b")] for pair in own]
    consistent = [None if None in order else order[0] == order[1] for order in orders]
    one_order = "no pair was judged in both orders"
    no_own = "none of the compared systems is the judge's own model"
    no_winner = "no pair has a winner"
    no_share = "several pairs of systems: calipers rank" if several else no_winner
    alike = "no decided pair has answers of different lengths"
    has_own = any(map(_find_own_side, own))
    alone = "nobody else judged the pairs with the judge's own model" if has_own else no_own
    return {
        "win_rate_a": mean(shares, least=0.0, empty=no_share),
        "tie_rate": share(ties, empty=no_winner),
        "consistency": share(consistent, empty=one_order),
        "position_bias": mean(map(_measure_position, orders), empty=one_order),
        "longer_win_rate": share(map(_has_longer_winner, own), empty=alike),
        "own_win_rate": mean(map(_score_own_side, own), least=0.0, empty=no_own),
        "self_preference": mean(_subtract_others(own, others), empty=alone),
    }


def _apply_measure(
    measure: Callable[..., Measured], values: Iterable[float | None], **more: Any
) -> Measured:
    return measure(_as_array(values), **more)


def _as_array(values: Iterable[float | None]) -> Floats:
    return np.array([_NAN if value is None else float(value) for value in values])


def _measure_position(winners: Sequence[str | None]) -> float | None:
    """Return how far the answer that stands first is preferred, over both orders: from −1 to 1."""
    if None in winners:
        return None
    first, swapped = (_PREFERENCES[str(winner)] for winner in winners)
    return (first - swapped) / 2


def _has_longer_winner(pair: JudgedPair) -> bool | None:
    """Return True if the longer answer won; None where neither is longer, or neither won."""
    if pair.winner not in ("a", "b") or pair.lengths is None or len(set(pair.lengths)) == 1:
        return None
    return (pair.lengths[0] > pair.lengths[1]) == (pair.winner == "a")


def _measure_by_length(pairs: Sequence[JudgedPair], sampling: Sampling) -> dict[str, Measured]:
    """Return the longer answer's share of wins, by how many times longer it is."""
    ratios = [None if p.lengths is None else max(p.lengths) / max(min(p.lengths), 1) for p in pairs]
    won = _as_array(map(_has_longer_winner, pairs))
    shares, least = {}, 1.0
    for name, most in _LONGER.items():
        inside = np.array([r is not None and least < r <= most for r in ratios])
        shares[name] = measure_share(
            np.where(inside, won, _NAN),
            sampling=sampling,
            of=int(inside.sum()),
            empty="no decided pair differs so in length",
        )
        least = most
    return shares


def _find_own_side(pair: JudgedPair) -> str | None:
    """Return the side whose answer the judge's own model gave; None where not exactly one."""
    own = strip_provider(pair.model)
    sides = [side for side in ("a", "b") if own and strip_provider(getattr(pair, side)) == own]
    return sides[0] if len(sides) == 1 else None


def _score_own_side(pair: JudgedPair) -> float | None:
    side = _find_own_side(pair)
    if side is None or pair.preference is None:
        return None
    return (1 + pair.preference * _PREFERENCES[side]) / 2


def _subtract_others(
    own: Sequence[JudgedPair], others: Sequence[JudgedPair]
) -> Iterator[float | None]:
    """Return what the judge gives its own model's answers beyond what the others give them."""
    theirs: dict[tuple[str, str, str], list[float]] = {}
    for pair in others:
        if pair.preference is not None:
            theirs.setdefault(pair.key, []).append(pair.preference)
    for pair in own:
        side, preference, share = _find_own_side(pair), theirs.get(pair.key), _score_own_side(pair)
        if side is None or share is None or not preference:
            yield None
        else:
            yield share - (1 + float(np.mean(preference)) * _PREFERENCES[side]) / 2
