"""Ask a judge's model about a record, and turn any reply into a judgment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from calipers.judges.answers import BadAnswer, JudgeAnswer, read_answer
from calipers.judges.request import CONFIDENCE, NothingToJudge, Request, request
from calipers.judges.rubrics import Rubric
from calipers.judges.spec import JudgeSpec
from calipers.support.cache import DiskCache, Say, hash_key
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.budget import Budget
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.masking import Mask
from calipers.systems.pace import Asking
from calipers.systems.pricing import Pricing, find_pricing

_ANSWERS = 3  # attempts to get a valid one from a judge
_SPEAKS_SCHEMAS = ("openai", "openai-chat")
_TEMPERATURE = "temperature"
_REFUSAL = 300  # characters that are kept of what a judge said instead of an answer
TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How judges are called."""

    concurrency: int = 32
    retries: int = 5
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Judgment:
    """A judgment of a record; `failed` if asking again may help."""

    fields: dict[str, Any]
    failed: bool = False
    calls: int = 0  # that were answered, and so may have been billed


class OutOfBudget(Exception):  # noqa: N818 (reads as a sentence: "raise OutOfBudget")
    """Another call might exceed the budget."""


@dataclass(frozen=True, slots=True)
class Purse:
    """The share of one model in the budget of all judges."""

    budget: Budget
    place: int  # of the model among all

    async def pay(self, asking: Asking, call: Call, pricing: Pricing | None) -> Reply:
        """Ask if the budget allows it; the cost counts even if no answer came."""
        prompt = f"{call.system or ''}{call.prompt}"
        reserved = await self.budget.reserve(self.place, pricing, prompt, call.settings)
        if reserved is None:
            raise OutOfBudget("the budget is spent")

        def settle(used: Mapping[str, Any]) -> None:
            cost = None if pricing is None else pricing.compute_cost(used)
            self.budget.settle(self.place, reserved, cost, prompt, used.get("prompt_tokens"))

        try:
            reply = await asking(call)
        except BaseException as error:
            if isinstance(error, Fault) and error.usage:
                settle(error.usage)
            else:
                self.budget.release(reserved)
            raise
        settle(reply.fields)
        return reply


class JudgmentCache:
    """Answers in a folder, by prompt, rubric and model, each parsed as strictly as a new one."""

    def __init__(self, folder: Path, judge: JudgeSpec, rubric: Rubric, say: Say) -> None:
        self._cache = DiskCache(folder, what="judgments", say=say)
        self._read = partial(read_answer, rubric=rubric, asks_confidence=judge.asks_confidence)
        settings = {**judge.default_settings, **judge.settings}
        asked = {"model": judge.model, "base_url": judge.base_url, "settings": settings}
        self._of = {"rubric_hash": rubric.hash, **asked}

    def find(self, prompt: str, sample: int) -> JudgeAnswer | None:
        """Return the stored answer to a prompt, by the number of the sample, or None."""
        key = self._make_key(prompt, sample)
        return self._cache.find(key, lambda content: self._read(content.decode()))

    def keep(self, prompt: str, sample: int, answer: JudgeAnswer) -> None:
        """Keep an answer."""
        content = answer.to_json().encode("utf-8", "replace")
        self._cache.keep(self._make_key(prompt, sample), content)

    def _make_key(self, prompt: str, sample: int) -> str:
        return hash_key(self._of, prompt, *([] if sample == 1 else [sample]))


@dataclass(kw_only=True)
class AskedModel:
    """A judge's model that can be asked."""

    judge: JudgeSpec
    rubric: Rubric
    asking: Asking
    cache: JudgmentCache | None
    mask: Mask
    purse: Purse | None = None

    def __post_init__(self) -> None:
        judge = self.judge
        self._pricing: Pricing | None = find_pricing(judge)
        self._sends_schema = judge.model.partition(":")[0] in _SPEAKS_SCHEMAS
        self._default = {} if _TEMPERATURE in judge.settings else judge.default_settings

    async def __call__(self, record: Mapping[str, Any], sample: int = 1) -> Judgment:
        """Judge a record; raise OutOfBudget where the budget does not allow a single call.

        A judge that fails is told in the judgment, and stops nothing.
        """
        try:
            asked = request(self.rubric, record, asks_confidence=self.judge.asks_confidence)
        except NothingToJudge as problem:
            spent = {**dict.fromkeys(TOKENS[:2], 0), "cost_usd": 0.0}
            said = {"scores": None, "reason": str(problem), "flags": list[str]()}
            return Judgment({**self._name(), **said, **spent})
        if self.cache is not None:
            kept = self.cache.find(asked.whole, sample)
            if kept is not None:
                return Judgment(self._make_judgment(asked, kept, {"cost_usd": 0.0, "cached": True}))
        used: Counter[str] = Counter()
        try:
            answer = await self._ask_for_answer(asked, sample, used)
        except (Fault, BadAnswer, OutOfBudget) as problem:
            if isinstance(problem, OutOfBudget) and not used["calls"]:
                raise
            fields = self._make_judgment(asked, self.mask(str(problem)), self._sum_spent(used))
            return Judgment(fields | self._read_refusal(problem), failed=True, calls=used["calls"])
        if self.cache is not None:
            self.cache.keep(asked.whole, sample, answer)
        fields = self._make_judgment(asked, answer, self._sum_spent(used))
        return Judgment(fields, calls=used["calls"])

    def _read_refusal(self, problem: Exception) -> dict[str, Any]:
        """Return what a judge that declined, or its provider, said."""
        said = problem.said if isinstance(problem, BadAnswer) else None
        if isinstance(problem, Fault) and problem.kind == "content_filter":
            said = problem.message
        return {} if said is None else {"refusal": self.mask(said)[:_REFUSAL]}

    async def _ask_for_answer(self, asked: Request, sample: int, used: Counter[str]) -> JudgeAnswer:
        """Return a valid answer; after an invalid one the judge is told what was wrong."""
        system = asked.system
        for left in reversed(range(_ANSWERS)):
            text = await self._ask(system, asked, sample, used)
            try:
                return read_answer(
                    text,
                    self.rubric,
                    asks_confidence=self.judge.asks_confidence,
                    judged=asked.texts,
                )
            except BadAnswer as problem:
                if not left:
                    why = f"{_ANSWERS} answers were refused: {problem}"
                    raise BadAnswer(why, problem.said) from None
                system = asked.correct(str(problem))
        raise AssertionError

    async def _ask(self, system: str, asked: Request, sample: int, used: Counter[str]) -> str:
        """Return the judge's reply; settings that its server refuses are left out from then on."""
        while True:
            sends_schema, default = self._sends_schema, self._default  # others may find out, too
            try:
                call = self._make_call(system, asked, sample)
                if self.purse is None:
                    reply = await self.asking(call)
                else:
                    reply = await self.purse.pay(self.asking, call, self._pricing)
            except Fault as fault:
                if fault.usage:
                    _count(used, fault.usage)
                if fault.kind != "bad_request" or fault.outage:
                    raise
                if default and _TEMPERATURE in fault.message.lower():
                    self._default = {}
                elif sends_schema:
                    self._sends_schema = False
                else:
                    raise
            else:
                _count(used, reply.fields)
                return reply.text or ""

    def _make_call(self, system: str, asked: Request, sample: int) -> Call:
        settings = {**self._default, **self.judge.settings}
        if isinstance(settings.get("seed"), int):
            settings["seed"] += sample - 1
        if self._sends_schema:
            schema = {"name": "judgment", "strict": True, "schema": dict(asked.schema)}
            form = {"response_format": {"type": "json_schema", "json_schema": schema}}
            settings["extra_body"] = {**form, **settings.get("extra_body", {})}
        return Call(record={}, prompt=asked.prompt, system=system, settings=settings)

    def _make_judgment(
        self, asked: Request, answer: JudgeAnswer | str, spent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the judgment from an answer or, without one, the reason."""
        if isinstance(answer, str):
            said: dict[str, Any] = {"scores": None, "reason": answer}
        else:
            graded = self.rubric.grade(answer.scores)
            sure = {} if answer.confidence is None else {CONFIDENCE: answer.confidence}
            reason = self.mask.mask_text(answer.reason)
            said = {"scores": answer.scores, **graded, "reason": reason, **sure}
        cut = {"cut": list(asked.cut)} if asked.cut else {}
        return {**self._name(), **said, "flags": list(asked.flags), **cut, **spent}

    def _name(self) -> dict[str, Any]:
        return {
            "judge": self.judge.name,
            "rubric": self.rubric.name,
            "rubric_hash": self.rubric.hash,
            "model": self.judge.model,
            **({"settings": own} if (own := self.judge.own_settings) else {}),
        }

    def _sum_spent(self, used: Counter[str]) -> dict[str, Any]:
        """Return tokens of all answers, refused ones too, and their cost; null if unknown."""
        if not used["calls"] or used["counted"] < used["calls"]:
            return {}
        tokens = {name: used[name] for name in TOKENS if used[name] or name in TOKENS[:2]}
        cost = None if self._pricing is None else self._pricing.compute_cost(tokens)
        return tokens if cost is None else {**tokens, "cost_usd": cost}


def _count(used: Counter[str], fields: Mapping[str, Any]) -> None:
    """Add what a call used; a call without usage leaves the sum unknown."""
    used["calls"] += 1
    used["counted"] += "prompt_tokens" in fields and "completion_tokens" in fields
    used.update({name: fields.get(name) or 0 for name in TOKENS})
