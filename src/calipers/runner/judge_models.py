"""A judge's model at work: from a record to a judgement, whatever the model does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calipers.judge.answers import Answer, BadAnswer, read_answer
from calipers.judge.cache import Cache
from calipers.judge.request import CONFIDENCE, NothingToJudge, Request, request
from calipers.judge.rubrics import Rubric
from calipers.runner.asking import Asking
from calipers.runner.pricing import Pricing, pricing_of
from calipers.suites import Judge
from calipers.systems import Call, Fault, Mask, System

_ANSWERS = 3  # that a judge may give until one is good
_SPEAKS_SCHEMAS = ("openai", "openai-chat")
TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How judges are called."""

    concurrency: int = 32
    retries: int = 5
    timeout_seconds: float = 120.0

    def asking(self, system: System) -> Asking:
        """A model that is asked so."""
        return Asking(
            system,
            concurrency=self.concurrency,
            retries=self.retries,
            timeout_seconds=self.timeout_seconds,
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge says of a record; `failed` where asking again may help."""

    fields: dict[str, Any]
    failed: bool = False


class AskedModel:
    """A judge's model that can be asked."""

    def __init__(
        self, judge: Judge, rubric: Rubric, asking: Asking, cache: Cache | None, mask: Mask
    ) -> None:
        self.judge = judge
        self._asks_confidence = asks_confidence(judge)
        self.rubric = rubric
        self._asking = asking
        self._cache = cache
        self._mask = mask
        self._pricing: Pricing | None = pricing_of(judge)
        self._sends_schema = judge.model.partition(":")[0] in _SPEAKS_SCHEMAS

    async def __call__(self, record: Mapping[str, Any], sample: int = 1) -> Judgement:
        """Judge a record; a judge that fails is told in the judgement, and stops nothing."""
        try:
            asked = request(self.rubric, record, asks_confidence=self._asks_confidence)
        except NothingToJudge as problem:
            return Judgement(self._nothing(str(problem)))
        if self._cache is not None:
            kept = self._cache.find(asked.prompt, sample)
            if kept is not None:
                return Judgement(self._fields(asked, kept, {"cost_usd": 0.0, "cached": True}))
        used: Counter[str] = Counter()
        try:
            answer = await self._answer(asked, sample, used)
        except (Fault, BadAnswer) as problem:
            why = self._mask(str(problem))
            return Judgement(self._fields(asked, why, self._spent(used)), failed=True)
        if self._cache is not None:
            self._cache.keep(asked.prompt, sample, answer)
        return Judgement(self._fields(asked, answer, self._spent(used)))

    async def _answer(self, asked: Request, sample: int, used: Counter[str]) -> Answer:
        """An answer within its schema; a judge that gives none is told what was wrong."""
        prompt = asked.prompt
        for left in reversed(range(_ANSWERS)):
            reply = await self._reply(prompt, asked, sample)
            used["calls"] += 1
            used["counted"] += "prompt_tokens" in reply and "completion_tokens" in reply
            used.update({name: reply.get(name) or 0 for name in TOKENS})
            try:
                return read_answer(
                    reply["text"], self.rubric, asks_confidence=self._asks_confidence
                )
            except BadAnswer as problem:
                if not left:
                    raise BadAnswer(f"{_ANSWERS} answers were refused: {problem}") from None
                prompt = asked.corrected(str(problem))
        raise AssertionError

    async def _reply(self, prompt: str, asked: Request, sample: int) -> dict[str, Any]:
        """What the judge says; a server that knows no schemas is asked without."""
        with_schema = self._sends_schema  # others in flight may find out meanwhile
        try:
            reply = await self._asking(self._call(prompt, asked, sample))
        except Fault as fault:
            if fault.kind != "bad_request" or fault.outage or not with_schema:
                raise
            self._sends_schema = False
            reply = await self._asking(self._call(prompt, asked, sample))
        return {**reply.fields, "text": reply.text or ""}

    def _call(self, prompt: str, asked: Request, sample: int) -> Call:
        settings = dict(self.judge.settings)
        if isinstance(settings.get("seed"), int):
            settings["seed"] += sample - 1
        if self._sends_schema:
            schema = {"name": "judgement", "strict": True, "schema": dict(asked.schema)}
            form = {"response_format": {"type": "json_schema", "json_schema": schema}}
            settings["extra_body"] = {**form, **settings.get("extra_body", {})}
        return Call(record={}, prompt=prompt, settings=settings)

    def _fields(
        self, asked: Request, answer: Answer | str, spent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The judgement by an answer, or without one, and then why."""
        if isinstance(answer, str):
            said: dict[str, Any] = {"scores": None, "reason": answer}
        else:
            graded = self.rubric.graded(answer.scores)
            sure = {} if answer.confidence is None else {CONFIDENCE: answer.confidence}
            reason = self._mask.exact(answer.reason)
            said = {"scores": answer.scores, **graded, "reason": reason, **sure}
        cut = {"cut": list(asked.cut)} if asked.cut else {}
        return {**self._name(), **said, "flags": list(asked.flags), **cut, **spent}

    def _nothing(self, reason: str) -> dict[str, Any]:
        nothing: dict[str, Any] = {"scores": None, "reason": reason, "flags": []}
        return {**self._name(), **nothing, **dict.fromkeys(TOKENS[:2], 0), "cost_usd": 0.0}

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
        tokens = {name: used[name] for name in TOKENS if used[name] or name in TOKENS[:2]}
        cost = None if self._pricing is None else self._pricing.cost(tokens)
        return tokens if cost is None else {**tokens, "cost_usd": cost}


def asks_confidence(judge: Judge) -> bool:
    """Say whether the first model is asked how sure it is."""
    return judge.escalate is not None and judge.escalate.confidence is not None
