"""Judges at work: one model, or a cheap one and a better one for unsure judgments; panels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from calipers.judges.models import (
    TOKENS,
    AskedModel,
    Judgment,
    JudgmentCache,
    OutOfBudget,
    Pace,
    Purse,
)
from calipers.judges.request import CONFIDENCE
from calipers.judges.rubrics import Rubric, read_rubric
from calipers.judges.spec import Escalate, JudgeSpec
from calipers.records.judgment_shape import FAILED, add_judgments
from calipers.support.cache import Say
from calipers.support.errors import UsageError
from calipers.systems.budget import Budget
from calipers.systems.masking import Mask
from calipers.systems.opening import open_models
from calipers.systems.pace import Asking

_FIRST = ("model", "scores", "weighted_score", "passed", "overall_score", "reason", CONFIDENCE)
_GRADED = ("weighted_score", "passed", "overall_score", "criteria_scores", CONFIDENCE)
_USED = (*TOKENS, "cost_usd")
_ROUNDING = 1e-9  # 0.8 is 0.1 from 0.7


class WorkingJudge:
    """A judge at work: one model or a cascade of two, as many samples as are wanted."""

    def __init__(self, judge: JudgeSpec, models: Sequence[AskedModel]) -> None:
        self.judge = judge
        self.rubric = models[0].rubric
        self._models = models

    async def __call__(self, record: Mapping[str, Any], sample: int = 1) -> Judgment:
        """Return one judgment of a record, with who made it; raise OutOfBudget if not allowed."""
        first = await self._models[0](record, sample)
        found, then = first, self.judge.escalate
        if then is not None:
            found = await self._settle(record, sample, first, then)
            found.fields["cascade"] = self.judge.answerable
        if self.judge.samples > 1:
            found.fields.update(sample=sample, samples=self.judge.samples)
        if found.failed:
            found.fields[FAILED] = True
        return found

    async def _settle(
        self, record: Mapping[str, Any], sample: int, first: Judgment, then: Escalate
    ) -> Judgment:
        """Return the first judgment or, if that is unsure, the second along with the first."""
        nobody_could = first.fields["scores"] is None and not first.failed
        why = None if nobody_could else explain_unsure(first.fields, self.rubric, then)
        if why is None:
            return first
        try:
            second = await self._models[1](record, sample)
        except OutOfBudget as problem:
            told = {name: each for name, each in first.fields.items() if name not in _GRADED}
            told |= {"scores": None, "reason": str(problem), "escalated": why}
            return Judgment(told, failed=True, calls=first.calls)
        before = {key: first.fields[key] for key in _FIRST if key in first.fields}
        said = {key: value for key, value in second.fields.items() if key not in _USED}
        spent = _sum_spent([first.fields, second.fields])
        fields = {**said, **spent, "escalated": why, "first": before}
        return Judgment(fields, second.failed, calls=first.calls + second.calls)


def explain_unsure(judgment: Mapping[str, Any], rubric: Rubric, then: Escalate) -> str | None:
    """Return why the second judge is asked after the first one's judgment; None if it is not."""
    if judgment["scores"] is None:
        return f"no answer that can be used: {judgment['reason']}"
    if then.flagged and judgment["flags"]:
        return f"flagged: {judgment['flags'][0]}"
    sure = judgment.get(CONFIDENCE)
    if then.confidence is not None and sure is not None and sure < then.confidence:
        return f"confidence {sure:g} is below {then.confidence:g}"
    score = judgment.get("weighted_score")
    line = rubric.pass_at
    if line is not None and score is not None and abs(score - line) <= then.near + _ROUNDING:
        return f"score {score:.3g} is within {then.near:g} of {line:g}"
    return None


def _sum_spent(judgments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over two models, and each model's own; unknown if a part is."""
    usage = [
        {"model": each["model"], **{name: each[name] for name in _USED if name in each}}
        for each in judgments
    ]
    known = [name for name in _USED if any(name in each for each in usage)]
    whole = [n for n in known if n in TOKENS[2:] or all(n in each for each in usage)]
    return {**{n: sum(each.get(n, 0) for each in usage) for n in whole}, "usage": usage}


def list_rubrics(judges: Sequence[JudgeSpec], folder: Path) -> list[Rubric]:
    """Return the rubric of each judge, with its limit."""
    found = [read_rubric(judge.rubric, folder).set_limit(judge.limit) for judge in judges]
    for judge, rubric in zip(judges, found, strict=True):
        then = judge.escalate
        if then is not None and rubric.pass_at is None and then.confidence is None:
            raise UsageError(
                f"{judge.name}: the rubric {rubric.name} has no pass_at to be near to",
                fix="escalate: {confidence: 0.7} asks the first judge how sure it is",
            )
    return found


@asynccontextmanager
async def open_judges(
    judges: Sequence[JudgeSpec],
    rubrics: Sequence[Rubric],
    pace: Pace,
    *,
    mask: Mask,
    say: Say,
    cache: Path | None = None,
    budget: Budget | None = None,
) -> AsyncIterator[list[WorkingJudge]]:
    """Open the judges, within a budget; `say` receives problems with the cache."""
    every = [model for judge in judges for model in judge.models]
    async with open_models(every) as opened:
        systems = iter(opened)
        places = count()
        yield [
            WorkingJudge(
                judge,
                [
                    AskedModel(
                        judge=model,
                        rubric=rubric,
                        asking=Asking(next(systems), **asdict(pace)),
                        cache=None if cache is None else JudgmentCache(cache, model, rubric, say),
                        mask=mask,
                        purse=None if budget is None else Purse(budget, next(places)),
                    )
                    for model in judge.models
                ],
            )
            for judge, rubric in zip(judges, rubrics, strict=True)
        ]


async def judge_record(judges: Sequence[WorkingJudge], record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the judgment of each judge."""
    found = await asyncio.gather(
        *(judge(record, at) for judge in judges for at in range(1, judge.judge.samples + 1))
    )
    return add_judgments(record, [each.fields for each in found])
