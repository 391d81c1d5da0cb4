"""Judges at work: from a record to a judgement, whatever the judge's model does."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.judge.answers import BadAnswer, read_answer
from calipers.judge.cache import Cache
from calipers.judge.request import NothingToJudge, Request, request
from calipers.judge.rubrics import Rubric, Score, read_rubric
from calipers.runner.asking import Asking
from calipers.runner.pricing import Pricing, pricing_of
from calipers.suites import Judge
from calipers.systems import Call, Fault, Mask
from calipers.systems.opening import open_models

_ANSWERS = 3  # that a judge may give until one is good
_SPEAKS_SCHEMAS = ("openai", "openai-chat")
_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How judges are called."""

    concurrency: int = 32
    retries: int = 5
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge says of a record; `failed` where asking again may help."""

    fields: dict[str, Any]
    failed: bool = False


class WorkingJudge:
    """A judge that can be asked."""

    def __init__(
        self, judge: Judge, rubric: Rubric, asking: Asking, cache: Cache | None, mask: Mask
    ) -> None:
        self.judge = judge
        self.rubric = rubric
        self._asking = asking
        self._cache = cache
        self._mask = mask
        self._pricing: Pricing | None = pricing_of(judge)
        self._sends_schema = judge.model.partition(":")[0] in _SPEAKS_SCHEMAS

    async def __call__(self, record: Mapping[str, Any]) -> Judgement:
        """Judge a record; a judge that fails is told in the judgement, and stops nothing."""
        try:
            asked = request(self.rubric, record)
        except (NothingToJudge, ValueError) as problem:
            return Judgement(self._nothing(str(problem)))
        if self._cache is not None and (kept := self._cache.find(asked.prompt)) is not None:
            return Judgement(self._fields(asked, *kept, {"cost_usd": 0.0, "cached": True}))
        used: Counter[str] = Counter()
        try:
            scores, reason = await self._answer(asked, used)
        except (Fault, BadAnswer) as problem:
            why = self._mask(str(problem))
            return Judgement(self._fields(asked, None, why, self._spent(used)), failed=True)
        if self._cache is not None:
            self._cache.keep(asked.prompt, scores, reason)
        return Judgement(self._fields(asked, scores, reason, self._spent(used)))

    async def _answer(self, asked: Request, used: Counter[str]) -> tuple[dict[str, Score], str]:
        """An answer within its schema; a judge that gives none is told what was wrong."""
        prompt = asked.prompt
        for left in reversed(range(_ANSWERS)):
            reply = await self._reply(prompt, asked)
            used["calls"] += 1
            used["counted"] += "prompt_tokens" in reply and "completion_tokens" in reply
            used.update({name: reply.get(name) or 0 for name in _TOKENS})
            try:
                return read_answer(reply["text"], self.rubric)
            except BadAnswer as problem:
                if not left:
                    raise BadAnswer(f"{_ANSWERS} answers were refused: {problem}") from None
                prompt = asked.corrected(str(problem))
        raise AssertionError

    async def _reply(self, prompt: str, asked: Request) -> dict[str, Any]:
        """What the judge says; a server that knows no schemas is asked without."""
        try:
            reply = await self._asking(self._call(prompt, asked))
        except Fault as fault:
            if fault.kind != "bad_request" or fault.outage or not self._sends_schema:
                raise
            self._sends_schema = False
            reply = await self._asking(self._call(prompt, asked))
        return {**reply.fields, "text": reply.text or ""}

    def _call(self, prompt: str, asked: Request) -> Call:
        settings = dict(self.judge.settings)
        if self._sends_schema:
            schema = {"name": "judgement", "strict": True, "schema": dict(asked.schema)}
            form = {"response_format": {"type": "json_schema", "json_schema": schema}}
            settings["extra_body"] = {**form, **settings.get("extra_body", {})}
        return Call(record={}, prompt=prompt, settings=settings)

    def _fields(
        self,
        asked: Request,
        scores: dict[str, Score] | None,
        reason: str,
        spent: Mapping[str, Any],
    ) -> dict[str, Any]:
        graded = {} if scores is None else self.rubric.graded(scores)
        cut = {"cut": list(asked.cut)} if asked.cut else {}
        said = {"scores": scores, **graded, "reason": self._mask.exact(reason)}
        return {**self._name(), **said, "flags": list(asked.flags), **cut, **spent}

    def _nothing(self, reason: str) -> dict[str, Any]:
        nothing: dict[str, Any] = {"scores": None, "reason": reason, "flags": []}
        return {**self._name(), **nothing, **dict.fromkeys(_TOKENS[:2], 0), "cost_usd": 0.0}

    def _name(self) -> dict[str, Any]:
        return {
            "judge": self.judge.name,
            "rubric": self.rubric.name,
            "rubric_hash": self.rubric.hash,
            "model": self.judge.model,
        }

    def _spent(self, used: Counter[str]) -> dict[str, Any]:
        """Tokens of all answers, refused ones too, and their cost; none where one is unknown."""
        if not used["calls"] or used["counted"] < used["calls"]:
            return {}
        tokens = {name: used[name] for name in _TOKENS if used[name] or name in _TOKENS[:2]}
        cost = None if self._pricing is None else self._pricing.cost(tokens)
        return tokens if cost is None else {**tokens, "cost_usd": cost}


def rubrics_of(judges: Sequence[Judge], folder: Path) -> list[Rubric]:
    """The rubric of each judge, with its limit."""
    return [read_rubric(judge.rubric, folder).limited(judge.limit) for judge in judges]


@asynccontextmanager
async def open_judges(
    judges: Sequence[Judge],
    rubrics: Sequence[Rubric],
    pace: Pace,
    *,
    mask: Mask,
    cache: Path | None = None,
) -> AsyncIterator[list[WorkingJudge]]:
    """The judges, ready to be asked."""
    async with open_models(judges) as models:
        yield [
            WorkingJudge(
                judge,
                rubric,
                Asking(
                    model,
                    concurrency=pace.concurrency,
                    retries=pace.retries,
                    timeout_seconds=pace.timeout_seconds,
                ),
                None if cache is None else Cache(cache, rubric, _asked(judge)),
                mask,
            )
            for judge, rubric, model in zip(judges, rubrics, models, strict=True)
        ]


def _asked(judge: Judge) -> dict[str, Any]:
    return {"model": judge.model, "settings": judge.settings}


async def judged(judges: Sequence[WorkingJudge], record: dict[str, Any]) -> dict[str, Any]:
    """The record with the judgement of each judge."""
    if not judges:
        return record
    found = await asyncio.gather(*(judge(record) for judge in judges))
    return with_judgements(record, found)


def with_judgements(record: Mapping[str, Any], found: Sequence[Judgement]) -> dict[str, Any]:
    """The record with further judgements; its own, which may be JSON in a text, stay."""
    before = record.get("judgments")
    if isinstance(before, str):
        before = json.loads(before)
    own = before if isinstance(before, list) else []
    return {**record, "judgments": [*own, *(each.fields for each in found)]}
