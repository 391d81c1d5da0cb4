"""Judges at work: one model, or a cheap one and a better one for unsure judgments; panels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from calipers.judges.ask import (
    AskedModel,
    BudgetShare,
    Judgment,
    JudgmentCache,
    OutOfBudget,
    Pace,
)
from calipers.judges.judge_spec import Escalate, JudgeSpec
from calipers.judges.request import CONFIDENCE
from calipers.judges.rubrics import Rubric, read_rubric
from calipers.records.fields import BILLED_TOKENS
from calipers.records.nested_fields import FAILED_JUDGMENT, add_judgments
from calipers.support.config import shown
from calipers.support.errors import UsageError
from calipers.support.files import Say
from calipers.systems.budget import Budget
from calipers.systems.models import open_models
from calipers.systems.pace import RetryingModel
from calipers.systems.redact import Mask

_FIRST = ("model", "scores", "weighted_score", "passed", "overall_score", "reason", CONFIDENCE)
_GRADED = ("weighted_score", "passed", "overall_score", "criteria_scores", CONFIDENCE)
_USED = (*BILLED_TOKENS, "cost_usd")
_MOST_INVALID = 5  # judgments without a valid answer, where there was none before
_NO_ANSWER = f"has given no valid answer to {_MOST_INVALID} records"
_ROUNDING = 1e-9  # 0.8 is 0.1 from 0.7


class WorkingJudge:
    """A judge at work: one model or a cascade of two, as many samples as are wanted.

    One that has answered several times, and never with what was asked for, is not asked further.
    """

    def __init__(self, judge: JudgeSpec, models: Sequence[AskedModel], say: Say) -> None:
        self.judge = judge
        self.rubric = models[0].rubric
        self._models = models
        self._say = say
        self._is_valid = False  # an answer of it was
        self._invalid = 0  # answers until then

    async def __call__(self, record: Mapping[str, Any], sample: int = 1) -> Judgment:
        """Return one judgment of a record, with who made it; raise OutOfBudget if not allowed."""
        if self.is_given_up:
            why = f"not asked: {self.judge.name} {_NO_ANSWER}"
            judgment = Judgment(self._models[0].pass_over(why), failed=True)
        else:
            judgment = await self._ask(record, sample)
            self._note_answer(judgment)
        if self.judge.samples > 1:
            judgment.fields.update(sample=sample, samples=self.judge.samples)
        if judgment.failed:
            judgment.fields[FAILED_JUDGMENT] = True
        return judgment

    @property
    def is_given_up(self) -> bool:
        """Return True if it has answered several times, and never with what was asked for."""
        return not self._is_valid and self._invalid >= _MOST_INVALID

    def _note_answer(self, judgment: Judgment) -> None:
        self._is_valid |= judgment.fields["scores"] is not None
        self._invalid += (
            judgment.failed and judgment.calls > 0
        )  # it said something, but nothing of use
        if self.is_given_up and self._invalid == _MOST_INVALID:
            reason = shown(judgment.fields.get("refusal") or judgment.fields["reason"])
            others = "and is not asked about the others"
            self._say(f"{self.judge.name} {_NO_ANSWER}, {others}; it said: {reason}")

    async def _ask(self, record: Mapping[str, Any], sample: int) -> Judgment:
        first = await self._models[0](record, sample)
        judgment, then = first, self.judge.escalate
        if then is not None:
            judgment = await self._settle(record, sample, first, then)
            judgment.fields["cascade"] = self.judge.answerable
        return judgment

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
            unsettled = {name: field for name, field in first.fields.items() if name not in _GRADED}
            unsettled |= {"scores": None, "reason": str(problem), "escalated": why}
            return Judgment(unsettled, failed=True, calls=first.calls)
        before = {key: first.fields[key] for key in _FIRST if key in first.fields}
        kept = {key: value for key, value in second.fields.items() if key not in _USED}
        spent = _sum_spent([first.fields, second.fields])
        fields = {**kept, **spent, "escalated": why, "first": before}
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
        {"model": judgment["model"], **{name: judgment[name] for name in _USED if name in judgment}}
        for judgment in judgments
    ]
    known = [name for name in _USED if any(name in use for use in usage)]
    whole = [n for n in known if n in BILLED_TOKENS[2:] or all(n in use for use in usage)]
    return {**{n: sum(use.get(n, 0) for use in usage) for n in whole}, "usage": usage}


def list_rubrics(judges: Sequence[JudgeSpec], folder: Path) -> list[Rubric]:
    """Return the rubric of each judge, with its limit."""
    rubrics = [read_rubric(judge.rubric, folder).set_limit(judge.limit) for judge in judges]
    for judge, rubric in zip(judges, rubrics, strict=True):
        then = judge.escalate
        if then is not None and rubric.pass_at is None and then.confidence is None:
            raise UsageError(
                f"{judge.name}: the rubric {rubric.name} has no pass_at to be near to",
                fix="escalate: {confidence: 0.7} asks the first judge how sure it is",
            )
    return rubrics


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
    """Open the judges, within a budget; `say` receives problems with the cache and with judges."""
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
                        asking=RetryingModel(next(systems), **asdict(pace)),
                        cache=None if cache is None else JudgmentCache(cache, model, rubric, say),
                        mask=mask,
                        purse=None if budget is None else BudgetShare(budget, next(places)),
                    )
                    for model in judge.models
                ],
                say,
            )
            for judge, rubric in zip(judges, rubrics, strict=True)
        ]


async def judge_record(judges: Sequence[WorkingJudge], record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the judgment of each judge."""
    judgments = await asyncio.gather(
        *(judge(record, at) for judge in judges for at in range(1, judge.judge.samples + 1))
    )
    return add_judgments(record, [judgment.fields for judgment in judgments])
