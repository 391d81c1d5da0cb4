"""The nested fields of a record: its trace, its token usage, its judgments, its optimal tools.

Each `read_…` takes a Python value or its JSON text and raises BadValue with the place of what is
wrong. Usage is read in any of the shapes that tools write: a mapping from model to counts, a list
of counts each with its `model`, or the counts of the record's own model, as a provider's reply has
them.

>>> read_trace({"tool_calls": [{"tool_name": "search"}, {"context": "look it up"}]})
Traceback (most recent call last):
calipers.records.fields.BadValue: tool_calls[1].tool_name is missing
>>> read_tool_map('{"find": 3}')
Traceback (most recent call last):
calipers.records.fields.BadValue: find: 3 is not the name of a tool
>>> read_usage('{"small": {"input_tokens": 10, "output_tokens": 2}, "large": {"costUSD": 0.25}}')[1]
{'model': 'large', 'cost_usd': 0.25}
>>> read_usage('{"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}')
[{'prompt_tokens': 10.0, 'completion_tokens': 2.0}]
>>> read_judgments('[{"judge": "a", "weighted_score": 1.5}]')
Traceback (most recent call last):
calipers.records.fields.OutsideRange: judgment 1: weighted_score: 1.5 is outside [0, 1]
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import polars as pl

from calipers.records.fields import (
    FIELDS,
    BadValue,
    Field,
    Kind,
    Number,
    OutsideRange,
    dump_json,
    is_null,
    is_text,
    keep_first_key,
    load_nested,
)
from calipers.support.strict_json import name_with_settings

_SHOWN = 60  # characters of a name or a number in a message
_EXACT_WHOLE = 2**63

CALLS_TYPE = pl.List(
    pl.Struct({"tool_name": pl.String(), "context": pl.String(), "agent_id": pl.String()})
)
MESSAGES_TYPE = pl.List(pl.Struct({"from": pl.String(), "to": pl.String(), "type": pl.String()}))

TRACE_TYPE = pl.Struct(
    {"tool_calls": CALLS_TYPE, "agent_interactions": MESSAGES_TYPE, "agent_tasks": pl.String()}
)
"""Traces as Polars reads them: an object of any keys is left as its JSON text."""


class TracedCall(NamedTuple):
    """One call of a tool."""

    tool_name: str
    context: str | None
    agent_id: str | None = None


class TracedMessage(NamedTuple):
    """One message; whom it is from, or to, may be unknown."""

    sender: str | None
    receiver: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class Trace:
    """What one run did; None for a part that its trace lacks. Other keys of a trace are ignored.

    Without `agent_tasks`, the calls of each agent are its tasks, where calls name their agents.
    """

    tool_calls: tuple[TracedCall, ...] | None
    agent_interactions: tuple[TracedMessage, ...] | None
    agent_tasks: Mapping[str, float] | None

    @property
    def agents(self) -> set[str]:
        """The agents that are named anywhere."""
        called = (call.agent_id for call in self.tool_calls or ())
        spoke = (name for m in self.agent_interactions or () for name in (m.sender, m.receiver))
        return {name for name in (*called, *spoke, *(self.agent_tasks or ())) if name is not None}


def read_trace(value: Any) -> Trace | None:
    """Return a trace from an object or its JSON text; None for null; raise BadValue otherwise."""
    try:
        if is_text(value):
            value = _parse_trace(value)
        return None if is_null(value) else _read_trace(_check_object(value, ""))
    except RecursionError:
        raise BadValue("nested too deep") from None


def _read_trace(found: Mapping[str, Any]) -> Trace:
    listed, said = _list_objects(found, "tool_calls"), _list_objects(found, "agent_interactions")
    calls = None if listed is None else tuple(_read_call(*call) for call in listed)
    messages = None if said is None else tuple(_read_message(*message) for message in said)
    tasks = _read_tasks(found.get("agent_tasks"))
    if tasks is None:
        by_agent = Counter(call.agent_id for call in calls or () if call.agent_id is not None)
        tasks = {agent: float(count) for agent, count in by_agent.items()} or None
    return Trace(calls, messages, tasks)


def _parse_trace(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=keep_first_key)
    except ValueError as error:
        problem = error.msg.removesuffix(" at") if isinstance(error, json.JSONDecodeError) else ""
        raise BadValue(f"not JSON: {problem or error}") from None


def _read_call(call: Mapping[str, Any], place: str) -> TracedCall:
    agent = call.get("agent_id")
    if "tool_name" not in call and isinstance(call.get("function"), Mapping):  # as OpenAI's
        function = call["function"]
        call = {"tool_name": function.get("name"), "context": function.get("arguments")}
    name = _read_text(call.get("tool_name"), f"{place}.tool_name")
    if name is None:
        raise BadValue(f"{place}.tool_name is {'null' if 'tool_name' in call else 'missing'}")
    named = None if isinstance(agent, Mapping | list | tuple) else _read_text(agent, place)
    return TracedCall(name, _read_context(call.get("context"), f"{place}.context"), named)


def _read_context(value: Any, place: str) -> str | None:
    """Return what a call was made for or with: a text, or anything else as its JSON text."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return _read_text(value, place)


def _read_message(message: Mapping[str, Any], place: str) -> TracedMessage:
    return TracedMessage(
        *(_read_text(message.get(key), f"{place}.{key}") for key in ("from", "to", "type"))
    )


def _read_tasks(tasks: Any) -> dict[str, float] | None:
    if is_null(tasks):
        return None
    return {
        str(agent): _read_count(count, f"agent_tasks[{_shorten(json.dumps(str(agent)))}]")
        for agent, count in _check_object(tasks, "agent_tasks").items()
        if count is not None  # tables of objects fill up with nulls what other rows have
    }


def _read_count(value: Any, place: str) -> float:
    number = _read_number(value)
    if number is None:
        raise BadValue(f"{place} is {_describe_kind(value)}, not a number")
    if not math.isfinite(number):
        raise BadValue(f"{place} is {_describe_kind(value)}, not a finite number")
    if number < 0:
        raise BadValue(f"{place} is {_describe_kind(value)}, negative")
    return number


def _list_objects(
    trace: Mapping[str, Any], key: str
) -> Iterator[tuple[Mapping[str, Any], str]] | None:
    """Return the objects of a list, each with its place; None if there is no list."""
    value = trace.get(key)
    if is_null(value):
        return None
    if not isinstance(value, list | tuple):
        raise BadValue(f"{key} is {_describe_kind(value)}, not a list")
    places = (f"{key}[{index}]" for index in range(len(value)))
    return (
        (_check_object(entry, place), place) for entry, place in zip(value, places, strict=True)
    )


def _check_object(value: Any, place: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise BadValue(f"{place} is {_describe_kind(value)}, not an object".removeprefix(" is "))


def _read_text(value: Any, place: str) -> str | None:
    """Return a text; a number or a boolean as its JSON text."""
    if is_null(value):
        return None
    if is_text(value):
        return value
    if isinstance(value, bool):
        return json.dumps(value)
    number = _read_number(value)
    if number is None or not math.isfinite(number):
        raise BadValue(f"{place} is {_describe_kind(value)}, not a text")
    whole = number.is_integer() and abs(number) < _EXACT_WHOLE
    return str(int(value)) if isinstance(value, int) else str(int(number) if whole else number)


def _read_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Number | int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _describe_kind(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return _shorten(json.dumps(value))
    if isinstance(value, Number):
        return _shorten(value)
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "an object"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def read_tool_map(value: Any) -> Mapping[str, str]:
    """Return the tools by context, of an object or its JSON; BadValue says what is wrong."""
    parsed = load_nested(value, "not JSON")
    if not isinstance(parsed, Mapping) or not parsed:
        raise BadValue('no object of contexts and tools, for example {"*": "search"}')
    for context, tool in parsed.items():
        if not is_text(tool):
            raise BadValue(f"{context}: {dump_json(tool)[:60]} is not the name of a tool")
    return parsed


_TOKEN_NAMES = {  # ours, then those of Anthropic, OpenAI, Claude Code and Inspect
    "prompt_tokens": ("input_tokens", "inputTokens"),
    "completion_tokens": ("output_tokens", "outputTokens"),
    "cache_read_tokens": (
        *("cache_read_input_tokens", "cacheReadInputTokens", "input_tokens_cache_read"),
    ),
    "cache_write_tokens": (
        *("cache_creation_input_tokens", "cacheCreationInputTokens", "input_tokens_cache_write"),
    ),
    "cost_usd": ("costUSD", "total_cost_usd", "total_cost"),
}
_DETAILS = ("prompt_tokens_details", "input_tokens_details")  # of OpenAI's
_CACHED = "cached_tokens"  # in these: they are among those of the prompt
_COUNT_NAMES = {
    "total_tokens",
    *_TOKEN_NAMES,
    *(name for names in _TOKEN_NAMES.values() for name in names),
}

_NOT_COUNTS = "not a mapping from model to its tokens"

ModelUsage = dict[str, Any]


def read_usage(usage: Any) -> list[ModelUsage]:
    """Return the calls in a record's `usage`, or its JSON; raise BadValue with the reason."""
    return list(list_usage(load_nested(usage, _NOT_COUNTS)))


def list_usage(usage: Any) -> Iterator[ModelUsage]:
    """Yield each model's counts in a decoded usage; without `model` if it is not named."""
    if isinstance(usage, Mapping) and not _COUNT_NAMES.isdisjoint(usage):
        yield read_counts(usage)
        return
    if isinstance(usage, Mapping):
        entries: Iterable[tuple[Any, Any]] = usage.items()
    elif isinstance(usage, list):
        entries = (
            (entry.get("model") if isinstance(entry, Mapping) else None, entry) for entry in usage
        )
    else:
        raise BadValue(_NOT_COUNTS)
    for model, counts in entries:
        if not isinstance(model, str) or not isinstance(counts, Mapping):
            raise BadValue("an entry that is not a model with its tokens")
        yield {"model": model, **read_counts(counts)}


def read_counts(counts: Mapping[str, Any]) -> dict[str, float]:
    """Return tokens and cost of one call, under the record's names."""
    tokens: dict[str, float] = {}
    for ours, theirs in _TOKEN_NAMES.items():
        name = next((name_ for name_ in (ours, *theirs) if counts.get(name_) is not None), None)
        if name is not None:
            tokens[ours] = _read_token_count(ours, counts[name], name)
    if "cache_read_tokens" not in tokens and (cached := _count_cached(counts)):
        tokens["cache_read_tokens"] = cached
        if "prompt_tokens" in tokens:
            tokens["prompt_tokens"] = max(0.0, tokens["prompt_tokens"] - cached)
    return tokens


def _count_cached(counts: Mapping[str, Any]) -> float | None:
    for group in _DETAILS:
        details = counts.get(group)
        if isinstance(details, Mapping) and details.get(_CACHED) is not None:
            return _read_token_count("cache_read_tokens", details[_CACHED], f"{group}.{_CACHED}")
    return None


def _read_token_count(ours: str, value: Any, place: str) -> float:
    try:
        count: float = FIELDS[ours].read(value)
    except BadValue as problem:
        raise BadValue(f"{place}: {problem}") from None
    return count


FAILED_JUDGMENT = "failed"  # of a judgment that may be better when asked for again
REASON_FIELDS = ("reasoning", "reasons", "reason", "explanation", "feedback")  # as judges call them
_WEIGHTED_SCORE = Field("weighted_score", Kind.NUMBER, low=0, high=1)


def read_judgment_list(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """Return the judgments in a list or its JSON; raise BadValue with the reason otherwise."""
    parsed = load_nested(judgments, "not JSON")
    if not isinstance(parsed, list | tuple):
        raise BadValue("no list of judgments")
    for place, judgment in enumerate(parsed, start=1):
        if not isinstance(judgment, Mapping):
            raise BadValue(f"judgment {place} is not an object")
    return [flatten_judgment(judgment) for judgment in parsed]


_SUMMARY = "summary"
_OF_SUMMARY = {  # ours, and what T's judge protocol calls it
    "passed": "passed",
    "weighted_score": "weighted_score",
    "confidence": "overall_confidence",
}
_SCORED = ("categories", "requirements")  # by name, each with a score and a confidence


def flatten_judgment(judgment: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a judgment with the fields of a flat one, as T's judge protocol may nest them.

    What is there already stays.

    >>> of_protocol = {"summary": {"weighted_score": 0.85, "passed": True}}
    >>> flatten_judgment(of_protocol)["weighted_score"]
    0.85
    >>> flatten_judgment({"categories": {"clarity": {"score": 0.5}}})["scores"]
    {'clarity': 0.5}
    """
    if _SUMMARY not in judgment and judgment.keys().isdisjoint(_SCORED):
        return judgment
    flat = dict(judgment)
    told = judgment.get(_SUMMARY)
    summary = told if isinstance(told, Mapping) else {}
    for ours, theirs in _OF_SUMMARY.items():
        if flat.get(ours) is None and summary.get(theirs) is not None:
            flat[ours] = summary[theirs]
    if flat.get("scores") is None:
        groups = [group for key in _SCORED if isinstance(group := judgment.get(key), Mapping)]
        scores = {
            str(name): entry.get("score")
            for group in groups
            for name, entry in group.items()
            if isinstance(entry, Mapping)
        }
        flat |= {"scores": scores} if scores else {}
    if flat.get("judge") is None and judgment.get("judge_model") is not None:
        flat["judge"] = judgment["judge_model"]
    return flat


def read_judgment_vote(judgment: Mapping[str, Any]) -> bool | None:
    """Return whether the run passed, by this judge."""
    vote: bool | None = _read_judgment_field(FIELDS["passed"], judgment)
    return vote


def read_judgment_score(judgment: Mapping[str, Any]) -> float | None:
    """Return the judge's weighted score, in [0, 1]."""
    score: float | None = _read_judgment_field(_WEIGHTED_SCORE, judgment)
    return score


def read_judgment_confidence(judgment: Mapping[str, Any]) -> float | None:
    """Return how confident the judge is, a number from 0; None for anything else."""
    number = _read_number(judgment.get("confidence"))
    return number if number is not None and 0 <= number < math.inf else None


def list_judging_usage(judgment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what judging used: tokens or a cost of each model; empty if not recorded."""
    model = str(judgment.get("model") or judgment.get("judge"))
    if judgment.get("usage") is not None:
        return [{"model": model, **call} for call in list_usage(judgment["usage"])]
    counts = read_counts(judgment)
    return [{"model": model, **counts}] if counts else []


def identify_judge(judgment: Mapping[str, Any]) -> tuple[str, str]:
    """Return what identifies the judge of a judgment, and the hash of the rubric.

    The judge is a cascade, a model with its settings, or a name; a judge that is asked several
    times per record is another one.
    """
    names = (judgment.get(key) for key in ("cascade", "model", "judge"))
    who = next((str(name) for name in names if name not in (None, "")), "an unnamed judge")
    settings = judgment.get("settings")
    if isinstance(settings, Mapping) and not judgment.get("cascade"):
        who = name_with_settings(who, settings)
    samples = judgment.get("samples")
    who = f"{who} × {samples}" if isinstance(samples, int) and samples > 1 else who
    rubric_hash = judgment.get("rubric_hash")
    return who, "" if rubric_hash is None else str(rubric_hash)


def identify_rubric(judgment: Mapping[str, Any]) -> str:
    """Return what identifies a judgment's rubric: its hash, else its name, else nothing."""
    identities = (judgment.get(key) for key in ("rubric_hash", "rubric"))
    return next((str(identity) for identity in identities if identity not in (None, "")), "")


def is_empty_judgment(judgment: Mapping[str, Any]) -> bool:
    """Return True if a judgment holds no verdict and no score."""
    scores = judgment.get("scores")
    of_criteria = scores.values() if isinstance(scores, Mapping) else ()
    values = (*map(judgment.get, ("passed", "weighted_score", "overall_score")), *of_criteria)
    return all(value is None for value in values)


def hash_record(name: str | None, answer: str | None) -> str | None:
    """Return what identifies a judged record: 64 bits of a hash of its id and its answer.

    >>> hash_record("q1", "42")
    'deb0082edd617f1a'
    """
    if name is None:
        return None
    return sha256(json.dumps([name, answer]).encode()).hexdigest()[:16]


def read_judgments(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """Return the judgments, fully checked; raise BadValue with what is wrong with which."""
    parsed = read_judgment_list(judgments)
    for place, judgment in enumerate(parsed, start=1):
        try:
            read_judgment_vote(judgment)
            read_judgment_score(judgment)
            list_judging_usage(judgment)
        except BadValue as problem:
            raise type(problem)(f"judgment {place}: {problem}") from None
    return parsed


JUDGMENTS = "judgments"


def drop_outside_scores(judgments: Any) -> str:
    """Return judgments as JSON, without the weighted scores that are outside [0, 1]."""
    kept = []
    for judgment in read_judgment_list(judgments):
        flat = dict(judgment)
        try:
            read_judgment_score(flat)
        except OutsideRange:
            flat["weighted_score"] = None
            if isinstance(summary := flat.get(_SUMMARY), Mapping):
                flat[_SUMMARY] = {**summary, "weighted_score": None}
        kept.append(flat)
    read_judgments(kept)
    return dump_json(kept)


def _read_judgment_field(field: Field, judgment: Mapping[str, Any]) -> Any:
    try:
        return field.read(judgment.get(field.name))
    except BadValue as problem:
        raise type(problem)(f"{field.name}: {problem}") from None


def get_judgments(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the judgments that a record of ours holds."""
    found = record.get("judgments")
    inside = found if isinstance(found, list) else []
    return [dict(flatten_judgment(part)) for part in inside if isinstance(part, dict)]


def add_judgments(
    record: Mapping[str, Any], judgments: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the record with further judgments; its own, which may be JSON in a text, stay."""
    before = record.get("judgments")
    if isinstance(before, str):
        before = json.loads(before)
    own = before if isinstance(before, list) else []
    return {**record, "judgments": [*own, *judgments]}


def sum_judging_cost(record: Mapping[str, Any]) -> float:
    """Return what the judges of a record cost, as far as known."""
    if "judgments" not in record:
        return 0.0
    return sum(judgment.get("cost_usd") or 0.0 for judgment in get_judgments(record))
