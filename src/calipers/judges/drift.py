"""Has a judge changed? Its judgments of the same answers in two runs, paired.

Providers replace models behind a name. If a judge's judgments of the same answers differ between
two runs, the cause is the judge: its rubric, its model, or chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from calipers.judges.audit import JudgeDrift
from calipers.judges.preferences import is_pairwise, read_pairs
from calipers.records.judgment_shape import get_judgments, identify_judge, record_hash
from calipers.records.tasks import read_records
from calipers.scores.options import Options
from calipers.statistics.paired import compare_paired, holm
from calipers.support.errors import DataError

_VALUES = ("weighted_score", "overall_score", "passed")
_LEAST = 2  # judgments in both runs

Key = tuple[str, ...]


class _Said(NamedTuple):
    """A judge's value for one answer, with its model, settings and rubric."""

    value: float
    who: tuple[str, str]


def measure_drift(
    before: Any, after: Any, options: Options
) -> tuple[tuple[JudgeDrift, ...], tuple[str, ...]]:
    """Return how each judge has changed on answers of both runs, and notes; DataError if none."""
    old, new = _read_judgments(before, options), _read_judgments(after, options)
    found: list[JudgeDrift] = []
    left = 0
    for judge, on in sorted(old.keys() & new.keys()):
        then, now = old[judge, on], new[judge, on]
        common = sorted(then.keys() & now.keys())
        left += len(now) - len(common)
        if len(common) >= _LEAST:
            found.append(_compare_judge(judge, on, common, then, now, options))
    if not found:
        raise DataError(
            "no answer was judged by the same judge in both runs",
            fix="--before is for judgments of the same records, with the same answers, by judges "
            "of the same names",
        )
    told = f"{left:,} judgments are of answers that --before does not hold"
    return tuple(_decide_drift(found, options.confidence)), (told,) if left else ()


def _read_judgments(data: Any, options: Options) -> dict[tuple[str, str], dict[Key, _Said]]:
    """Return the judgments of each judge and kind of value, by the answer they are of."""
    found: dict[tuple[str, str], dict[Key, _Said]] = {}
    if is_pairwise(data):
        for pair in read_pairs(data):
            if pair.preference is not None:
                key = (*pair.key, str(pair.answers))
                said = _Said(pair.preference, (pair.model, ""))
                found.setdefault((pair.judge, "preference"), {})[key] = said
        return found
    for record in read_records(data):
        seen = record | {name: record.get(theirs) for name, theirs in options.map.items()}
        for judge, on, answer, said in _list_judgments(seen):
            found.setdefault((judge, on), {})[answer] = said
    return found


def _list_judgments(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Key, _Said]]:
    answer = record.get("answer")
    told = tuple(str(record.get(name)) for name in ("id", "model", "tier", "run"))
    held = record_hash(told[0], None if answer is None else str(answer)) or ""
    for judgment in get_judgments(record):
        for on in _VALUES:
            value = judgment.get(on)
            if isinstance(value, int | float):
                key = (*told, held, str(judgment.get("sample", 1)))
                said = _Said(float(value), identify_judge(judgment))
                yield str(judgment.get("judge") or "judge"), on, key, said
                break


def _compare_judge(
    judge: str,
    on: str,
    common: Sequence[Key],
    then: Mapping[Key, _Said],
    now: Mapping[Key, _Said],
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
    common: Sequence[Key], then: Mapping[Key, _Said], now: Mapping[Key, _Said]
) -> str:
    before, after = ({side[key].who for key in common} for side in (then, now))
    if before == after:
        return ""
    models = [", ".join(sorted(who for who, _ in each)) for each in (before, after)]
    if models[0] != models[1]:
        return f"the model was {models[0]}, and is {models[1]}"
    return "the rubric is another one"


def _decide_drift(found: Sequence[JudgeDrift], confidence: float) -> Iterator[JudgeDrift]:
    """Yield each judge with its verdict: changed where its record or the adjusted test says so."""
    for each, adjusted in zip(found, holm([one.p_value for one in found]), strict=True):
        shifted = adjusted is not None and adjusted < 1 - confidence
        mean = "its judgments have shifted" if shifted else ""
        why = "; ".join(filter(None, (each.why, mean)))
        yield replace(
            each,
            p_adjusted=adjusted,
            changed="yes" if why else "not shown",
            why=why or "no shift beyond chance",
        )
