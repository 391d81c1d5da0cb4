"""Audit of judges of pairs: bias by position, by length, and for the judge's own model.

Every pair is shown in both orders, so that the quality of the answers cancels out of the position
bias. A share of wins counts a tie as half.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from calipers.judges.audit import PreferenceAudit, PreferenceGroup
from calipers.judges.measures import measure_mean, measure_share
from calipers.judges.scored_bias import strip_provider
from calipers.records.sources import STDIN, open_sources
from calipers.records.tasks import read_records
from calipers.scores.keys import split_natural
from calipers.scores.options import Options
from calipers.scores.results import Measured
from calipers.statistics.arrays import Floats
from calipers.statistics.influence import Sampling
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

_SIDES = (("a", "b"), ("model_a", "model_b"))  # ours, and as arenas write them
_WINNERS = {"model_a": "a", "model_b": "b", "tie (bothbad)": "tie", "draw": "tie"}
_VALUES = {"a": 1.0, "b": -1.0, "tie": 0.0}
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
    """Say whether records are answers compared in pairs."""
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
    found = ([row.get(name) for name in sides] for sides in _SIDES)
    a, b = next((each for each in found if None not in each), (None, None))
    if a is None or winner not in (*_VALUES, None):
        raise DataError(
            f"pair {number}: winner is {json.dumps(winner)}, or a or b is missing",
            fix="a and b name the two systems; winner is a, b, tie or null",
        )
    listed = row.get("orders")
    listed = json.loads(listed) if isinstance(listed, str) else listed
    objects = [each for each in listed or () if isinstance(each, Mapping)]
    orders = {str(each.get("first")): each.get("winner") for each in objects}
    preference = row.get("preference")
    if preference is None and winner is not None:
        said = [_VALUES[str(each)] for each in orders.values() if each in _VALUES]
        preference = sum(said) / len(said) if said else _VALUES[winner]
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
    found = tuple(
        PreferenceGroup(
            by=dict(zip(options.by, key, strict=True)),
            systems=tuple(sorted({name for pair in own for name in (pair.a, pair.b)})),
            tasks=len({pair.id for pair in own}),
            judges=tuple(_audit_judges(own, options.confidence)),
        )
        for key, own in sorted(groups.items(), key=lambda each: split_natural(str(each[0])))
    )
    unswapped = sum(len(pair.orders) == 1 for pair in pairs)
    told = f"{unswapped:,} pairs were judged in one order: the place may have decided them"
    return found, (told,) if unswapped else ()


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
    share = partial(_measure, measure_share, sampling=sampling, of=len(own))
    mean = partial(_measure, measure_mean, sampling=sampling, of=len(own))
    several = len({(pair.a, pair.b) for pair in own}) > 1
    shares = [None if several or p.preference is None else (1 + p.preference) / 2 for p in own]
    ties = [None if pair.winner is None else pair.winner == "tie" for pair in own]
    orders = [[pair.orders.get(first) for first in ("a", "b")] for pair in own]
    consistent = [None if None in said else said[0] == said[1] for said in orders]
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


def _measure(
    measure: Callable[..., Measured], values: Iterable[float | None], **more: Any
) -> Measured:
    return measure(_as_array(values), **more)


def _as_array(values: Iterable[float | None]) -> Floats:
    return np.array([_NAN if each is None else float(each) for each in values])


def _measure_position(said: Sequence[str | None]) -> float | None:
    """Return how far the answer that stands first is preferred, over both orders: from −1 to 1."""
    if None in said:
        return None
    first, swapped = (_VALUES[str(each)] for each in said)
    return (first - swapped) / 2


def _has_longer_winner(pair: JudgedPair) -> bool | None:
    """Say whether the longer answer won; None where neither is longer, or neither won."""
    if pair.winner not in ("a", "b") or pair.lengths is None or len(set(pair.lengths)) == 1:
        return None
    return (pair.lengths[0] > pair.lengths[1]) == (pair.winner == "a")


def _measure_by_length(pairs: Sequence[JudgedPair], sampling: Sampling) -> dict[str, Measured]:
    """Return the longer answer's share of wins, by how many times longer it is."""
    ratios = [None if p.lengths is None else max(p.lengths) / max(min(p.lengths), 1) for p in pairs]
    won = _as_array(map(_has_longer_winner, pairs))
    found, least = {}, 1.0
    for name, most in _LONGER.items():
        inside = np.array([r is not None and least < r <= most for r in ratios])
        found[name] = measure_share(
            np.where(inside, won, _NAN),
            sampling=sampling,
            of=int(inside.sum()),
            empty="no decided pair differs so in length",
        )
        least = most
    return found


def _find_own_side(pair: JudgedPair) -> str | None:
    """Return the side whose answer the judge's own model gave; None where not exactly one."""
    own = strip_provider(pair.model)
    sides = [side for side in ("a", "b") if own and strip_provider(getattr(pair, side)) == own]
    return sides[0] if len(sides) == 1 else None


def _score_own_side(pair: JudgedPair) -> float | None:
    side = _find_own_side(pair)
    if side is None or pair.preference is None:
        return None
    return (1 + pair.preference * _VALUES[side]) / 2


def _subtract_others(
    own: Sequence[JudgedPair], others: Sequence[JudgedPair]
) -> Iterator[float | None]:
    """Return what the judge gives its own model's answers beyond what the others give them."""
    theirs: dict[tuple[str, str, str], list[float]] = {}
    for pair in others:
        if pair.preference is not None:
            theirs.setdefault(pair.key, []).append(pair.preference)
    for pair in own:
        side, said, share = _find_own_side(pair), theirs.get(pair.key), _score_own_side(pair)
        if side is None or share is None or not said:
            yield None
        else:
            yield share - (1 + float(np.mean(said)) * _VALUES[side]) / 2
