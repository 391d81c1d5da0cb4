"""Ask a judge's model about a record, and turn its reply into a judgment.

Replies are read tolerantly and scored strictly. Prose around the JSON, a thought aloud before it, a
code fence, further keys and numbers in quotes do no harm. Every score has to be there and on its
scale. What may be somebody else's answer is refused: two that differ, one beside a part of another,
and one that stands in the judged text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from calipers.judges.judge_spec import JudgeSpec
from calipers.judges.request import (
    CONFIDENCE,
    NOT_APPLICABLE,
    NothingToJudge,
    Request,
    make_request,
)
from calipers.judges.rubrics import Rubric, Score
from calipers.records.fields import BILLED_TOKENS
from calipers.support.files import DiskCache, Say, hash_key
from calipers.systems.budget import Budget, Pricing, find_pricing
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.pace import RetryingModel
from calipers.systems.redact import Mask

MOST_TEXT = 200_000  # characters; more is not an answer
_MOST_TRIES = 1_000  # braces that begin no object
_REASON = 2000  # characters of a reason that are kept
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_SCORES = re.compile(r"\\*[\"']scores\\*[\"']\s*:")
_PLANTED = re.compile(
    r"\\*[\"']reason\\*[\"']\s*:\s*\\*[\"'](.{0,2000}?)\\*[\"']\s*[,}]", re.DOTALL
)
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,18})?")


class BadAnswer(ValueError):  # noqa: N818 (reads as a sentence: "raise BadAnswer")
    """A reply that cannot be used; the text says why, in our words.

    `said` is the reply where it holds no answer at all, as when a model declines.
    """

    def __init__(self, why: str, reply: str | None = None) -> None:
        self.said = reply
        super().__init__(why)


class JudgeAnswer(NamedTuple):
    """The score of each criterion or item, None where it does not apply, and the reason."""

    scores: dict[str, Score]
    reason: str
    confidence: float | None = None  # where it was asked for

    def to_json(self) -> str:
        """Return the answer as a judge would have written it."""
        sure = {} if self.confidence is None else {CONFIDENCE: self.confidence}
        answer = {"reason": self.reason, "scores": self.scores, **sure}
        return json.dumps(answer, ensure_ascii=False)


def read_answer(
    text: str, rubric: Rubric, *, asks_confidence: bool = False, judged: Sequence[str] = ()
) -> JudgeAnswer:
    """Return what a judge's reply says of the judged texts.

    BadAnswer where it holds no answer, or one that cannot be used; the message says why.
    """
    thought = _THOUGHT.match(text)
    reply = text[thought.end() :] if thought else text
    answers: list[JudgeAnswer] = []
    for graded, written in find_objects(reply):
        if "scores" in graded:
            answers.append(_parse_answer(graded, rubric, asks_confidence=asks_confidence))
            reply = reply.replace(written, "", 1)
    if not answers and _SCORES.search(reply):
        raise BadAnswer("it is not a whole JSON object")
    if not answers:
        raise BadAnswer("it holds no JSON object with scores", reply.strip())
    if any(answer._replace(reason="") != answers[-1]._replace(reason="") for answer in answers):
        raise BadAnswer("it holds two answers that differ")
    if _SCORES.search(reply):
        raise BadAnswer("beside one answer it holds a part of another")
    if any(_is_quoted(answer, judged) for answer in answers):
        raise BadAnswer("it repeats an answer from the judged text")
    return answers[-1]


def find_objects(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each whole object that is not part of another, and its text.

    Raises:
        BadAnswer: the text is too long, has too many braces, or an object has a key twice or a
            number that is not finite.

    >>> [found for found, _ in find_objects('I say {"a": 1}, not {2}.')]
    [{'a': 1}]
    """
    if len(text) > MOST_TEXT:
        raise BadAnswer(f"it is longer than {MOST_TEXT:,} characters")
    decoder = json.JSONDecoder(
        object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
    )
    at, tries = text.find("{"), 0
    while at >= 0:
        try:
            decoded, end = decoder.raw_decode(text, at)
        except BadAnswer:
            raise
        except (ValueError, RecursionError):
            end, tries = at + 1, tries + 1
            if tries > _MOST_TRIES:
                raise BadAnswer("it has too many braces that begin no JSON object") from None
        else:
            yield decoded, text[at:end]
        at = text.find("{", end)


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise BadAnswer("a key is there twice")
        mapping[key] = value
    return mapping


def _refuse_constant(_: str) -> NoReturn:
    raise BadAnswer("a score is not a finite number")


def _is_quoted(answer: JudgeAnswer, texts: Sequence[str]) -> bool:
    """Return True if a text contains an answer with the same reason: it was quoted, not given."""
    own = _normalize(answer.reason)
    return any(
        _normalize(planted[1])[:_REASON] == own
        for text in texts
        if _SCORES.search(text)
        for planted in _PLANTED.finditer(text)
    )


def _normalize(reason: str) -> str:
    """Return a reason without marks and spaces, which a quotation may change."""
    return "".join(filter(str.isalnum, reason.casefold()))


def _parse_answer(
    graded: Mapping[str, Any], rubric: Rubric, *, asks_confidence: bool
) -> JudgeAnswer:
    """Return an object as an answer; further keys are not read."""
    keys = ("reason", CONFIDENCE) if asks_confidence else ("reason",)
    if missing := [key for key in keys if key not in graded]:
        raise BadAnswer(f"it has no {missing[0]}")
    if not isinstance(graded["reason"], str):
        raise BadAnswer("reason is not text")
    scores = graded["scores"]
    if not isinstance(scores, dict):
        raise BadAnswer("scores is not an object")
    if missing := [name for name in rubric.names if name not in scores]:
        raise BadAnswer(f"scores lacks {missing[0]}")
    read = {name: _read_score(scores[name], name, rubric) for name in rubric.names}
    answer = JudgeAnswer(read, graded["reason"].strip()[:_REASON])
    if not asks_confidence:
        return answer
    sure = _read_number(graded[CONFIDENCE])
    if sure is None or not 0 <= sure <= 1:
        raise BadAnswer(f"{CONFIDENCE} is not a number from 0 to 1")
    return answer._replace(confidence=float(sure))


def _read_number(value: Any) -> int | float | None:
    """Return the number that stands there, or in a text that is nothing else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _read_score(value: Any, name: str, rubric: Rubric) -> Score:
    low, high = rubric.get_range(name)
    if rubric.may_not_apply(name) and (value is None or value == NOT_APPLICABLE):
        return None
    number = _read_number(value)
    if number is None:
        raise BadAnswer(f"{name} is not a number")
    if not low <= number <= high or not isfinite(number):
        raise BadAnswer(f"{name} is outside {low:g} to {high:g}")
    if rubric.is_all_or_nothing(name) and number not in (low, high):
        raise BadAnswer(f"{name} is neither {low:g} nor {high:g}")
    return number


_ANSWERS = 3  # attempts to get a valid one from a judge
_SPEAKS_SCHEMAS = ("openai", "openai-chat")
_TEMPERATURE = "temperature"
_REFUSAL = 300  # characters that are kept of what a judge said instead of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace at which judges are called."""

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
class BudgetShare:
    """The share of one model in the budget of all judges."""

    budget: Budget
    place: int  # of the model among all

    async def pay(self, asking: RetryingModel, call: Call, pricing: Pricing | None) -> Reply:
        """Ask if the budget allows it; the cost counts even where no answer came back."""
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
            if isinstance(error, Fault) and _is_answered(error):
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
    asking: RetryingModel
    cache: JudgmentCache | None
    mask: Mask
    purse: BudgetShare | None = None

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
            asked = make_request(self.rubric, record, asks_confidence=self.judge.asks_confidence)
        except NothingToJudge as problem:
            return Judgment(self.pass_over(str(problem)))
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

    def pass_over(self, reason: str) -> dict[str, Any]:
        """Return the judgment of a record for which the model is not asked."""
        spent = {**dict.fromkeys(BILLED_TOKENS[:2], 0), "cost_usd": 0.0}
        unscored = {"scores": None, "reason": reason, "flags": list[str]()}
        return {**self._name(), **unscored, **spent}

    def _read_refusal(self, problem: Exception) -> dict[str, Any]:
        """Return what a judge that declined, or its provider, said."""
        reply = problem.said if isinstance(problem, BadAnswer) else None
        if isinstance(problem, Fault) and problem.kind == "content_filter":
            reply = problem.message
        return {} if reply is None else {"refusal": self.mask(reply)[:_REFUSAL]}

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
                if _is_answered(fault):
                    _count_usage(used, fault.usage)
                if fault.kind != "bad_request" or fault.outage:
                    raise
                if default and _TEMPERATURE in fault.message.lower():
                    self._default = {}
                elif sends_schema:
                    self._sends_schema = False
                else:
                    raise
            else:
                _count_usage(used, reply.fields)
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
            graded_fields: dict[str, Any] = {"scores": None, "reason": answer}
        else:
            graded = self.rubric.grade(answer.scores)
            sure = {} if answer.confidence is None else {CONFIDENCE: answer.confidence}
            reason = self.mask.mask_text(answer.reason)
            graded_fields = {"scores": answer.scores, **graded, "reason": reason, **sure}
        cut = {"cut": list(asked.cut)} if asked.cut else {}
        return {**self._name(), **graded_fields, "flags": list(asked.flags), **cut, **spent}

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
        tokens = {
            name: used[name] for name in BILLED_TOKENS if used[name] or name in BILLED_TOKENS[:2]
        }
        cost = None if self._pricing is None else self._pricing.compute_cost(tokens)
        return tokens if cost is None else {**tokens, "cost_usd": cost}


def _is_answered(fault: Fault) -> bool:
    """Return True if something came back, and so may have been billed."""
    return bool(fault.usage) or fault.kind == "bad_response"


def _count_usage(used: Counter[str], fields: Mapping[str, Any]) -> None:
    """Add what a call used; a call without usage leaves the sum unknown."""
    used["calls"] += 1
    used["counted"] += "prompt_tokens" in fields and "completion_tokens" in fields
    used.update({name: fields.get(name) or 0 for name in BILLED_TOKENS})
