"""A sample of an Inspect log as a record, or as much of one as is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.logs.conversations import list_calls
from calipers.records.logs.log import Record
from calipers.records.logs.parts import (
    OURS,
    as_list,
    as_mapping,
    as_number,
    as_truth,
    keep_extra,
    list_objects,
    place_target,
    read_text,
    spread_scores,
    sum_usage,
)

Sample = Mapping[str, Any]

_ATTACHMENT = "attachment://"
_NAMED = ("category", "capability")  # metadata that mean what the record's fields do
_COUNTS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cache_read_tokens": "input_tokens_cache_read",
    "cache_write_tokens": "input_tokens_cache_write",
    "reasoning_tokens": "reasoning_tokens",
    "cost_usd": "total_cost",
}
_SCORE = "score_"
_SCORERS = ("scorer", "scorers")


class SampleReader:
    """Converts the samples of one log to records; only the parts that wanted fields need."""

    def __init__(self, log: Mapping[str, Any], wanted: Collection[str] | None = None) -> None:
        about = as_mapping(log.get("eval"))
        self._model = about.get("model")
        self._task = about.get("task")
        self._tags = about.get("tags") or None
        grader = as_mapping(as_mapping(about.get("model_roles")).get("grader")).get("model")
        self._grader = None if grader is None else str(grader)
        found = list_objects(as_mapping(log.get("results")).get("scores"))
        # The log's scores and who gave each, the first of which counts.
        self._scorers = [(str(each.get("name")), str(each.get("scorer"))) for each in found]
        self._known_scores = {name for each in self._scorers for name in each}
        self._parts = self._choose(wanted)
        self._metadata = (
            None if wanted is None else {name.removeprefix("metadata_") for name in wanted}
        )

    def read(self, sample: Sample) -> Record:
        """Return the record of a sample."""
        record: Record = {}
        for part in self._parts:
            record |= part(sample)
        return record

    def _choose(self, wanted: Collection[str] | None) -> list[Callable[[Sample], Record]]:
        """Return the parts that are needed; what no other part gives is among the metadata."""
        parts: dict[Callable[[Sample], Record], tuple[str, ...]] = {
            self._read_metadata: _NAMED,
            self._identify: ("id", "model", "run", "task", "tags"),
            _ask: ("input",),
            self._decide: ("target", "expected", "correct", "error"),
            self._answer: ("answer", "cot"),
            _read_end: ("finish_reason", "limit"),
            _measure: ("latency_ms", "duration_seconds"),
            _make_trace: ("trace",),
            self._sum_usage: (*_COUNTS, "usage"),
            _read_scores: (_SCORE,),
        }
        if wanted is None:
            return list(parts)
        known = {name for names in parts.values() for name in names}
        others = {
            each for each in wanted if each not in known | OURS and not each.startswith(_SCORE)
        }
        scores = {_SCORE for each in wanted if each.startswith(_SCORE)}
        needed = {*wanted, *scores, *(_NAMED if others else ())}
        return [part for part, names in parts.items() if not needed.isdisjoint(names)]

    def _read_metadata(self, sample: Sample) -> Record:
        found = as_mapping(sample.get("metadata"))
        if not found:
            return {}
        named = {name: read_text(found[name]) for name in _NAMED if name in found}
        if self._metadata is not None:
            found = {name: each for name, each in found.items() if name in self._metadata}
        return {**named, **keep_extra(found, used=_NAMED)}

    def _identify(self, sample: Sample) -> Record:
        name = sample.get("id")
        return {
            "id": f"{self._task}/{name}" if self._task else name,
            "model": self._model,
            "run": sample.get("epoch"),
            "task": self._task,
            "tags": self._tags,
        }

    def _decide(self, sample: Sample) -> Record:
        """Return the verdict of the first scorer; a target only where texts may be compared."""
        scores = as_mapping(sample.get("scores"))
        correct, error = as_truth(self._find_main(scores).get("value")), _describe_error(sample)
        judged = error is None and bool(scores or self._scorers)
        target = place_target(_read_target(sample.get("target")), correct=correct, judged=judged)
        return {**target, "correct": correct, "error": error}

    def _answer(self, sample: Sample) -> Record:
        attached = as_mapping(sample.get("attachments"))
        completion, reasoning = _read_completion(sample, attached)
        first = self._find_main(as_mapping(sample.get("scores")))
        answer = _resolve(first.get("answer"), attached) or completion
        said = "\n".join(filter(None, (reasoning, completion)))
        return {"answer": answer, "cot": said if said.strip() != (answer or "").strip() else None}

    def _find_main(self, scores: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the first scorer's score; samples may have theirs in another order, or not all."""
        for name in self._scorers[0] if self._scorers else ():
            if name in scores:
                return as_mapping(scores[name])
        others = (score for name, score in scores.items() if name not in self._known_scores)
        return as_mapping(next(others, None))

    def _sum_usage(self, sample: Sample) -> Record:
        """Return what the models used, without what scorers did."""
        output = as_mapping(sample.get("output"))
        used = as_mapping(sample.get("model_usage")) or {"": output.get("usage")}
        if not any(used.values()):
            return {}
        counts = {model: _read_counts(each) for model, each in used.items()}
        for model, graded in self._list_graded(sample):
            own = counts.get(model)
            if own is None:
                continue
            counts[model] = {
                name: None if count is None else max(0, count - (graded[name] or 0))
                for name, count in own.items()
            }
            if model != self._model and not any(counts[model].values()):
                del counts[model]
        return sum_usage(counts)

    def _list_graded(self, sample: Sample) -> list[tuple[str, dict[str, float | None]]]:
        """Return what each model used for scorers, by the sample's events or the grader's role."""
        found = list(_list_scorer_calls(sample.get("events")))
        if found:
            return [(model, _read_counts(used)) for model, used in found]
        roles = as_mapping(sample.get("role_usage"))
        told = self._grader is not None and "grader" in roles
        return [(str(self._grader), _read_counts(roles["grader"]))] if told else []


def _ask(sample: Sample) -> Record:
    attached = as_mapping(sample.get("attachments"))
    return {"input": _read_input(sample.get("input"), attached)}


def _read_end(sample: Sample) -> Record:
    choices = as_list(as_mapping(sample.get("output")).get("choices"))
    reason = as_mapping(choices[0]).get("stop_reason") if choices else None
    limit = as_mapping(sample.get("limit")).get("type")
    return {"finish_reason": name_finish_reason(reason), "limit": limit}


def _measure(sample: Sample) -> Record:
    seconds = as_number(sample.get("working_time", sample.get("total_time")))
    return {
        "latency_ms": None if seconds is None else seconds * 1000,
        "duration_seconds": as_number(sample.get("total_time")),
    }


def _read_scores(sample: Sample) -> Record:
    scores = as_mapping(sample.get("scores"))
    return spread_scores({name: as_mapping(each).get("value") for name, each in scores.items()})


def _read_completion(
    sample: Mapping[str, Any], attached: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return the model's final reply, and its reasoning before it."""
    output = as_mapping(sample.get("output"))
    choices = as_list(output.get("choices"))
    content = as_mapping(as_mapping(choices[0]).get("message")).get("content") if choices else None
    parts = list(list_objects(content))
    if not parts:
        said = _resolve(output.get("completion") if content is None else content, attached)
        return said or None, None
    return _join(parts, "text", attached), _join(parts, "reasoning", attached)


def _join(parts: Iterable[Mapping[str, Any]], name: str, attached: Mapping[str, Any]) -> str | None:
    texts = (_resolve(part.get(name), attached) for part in parts)
    return "\n".join(filter(None, texts)) or None


def _read_input(given: Any, attached: Mapping[str, Any]) -> str | None:
    if not isinstance(given, list):
        return _resolve(given, attached)
    asked = [each for each in list_objects(given) if each.get("role") == "user"]
    content = asked[-1].get("content") if asked else None
    parts = [_resolve(part, attached) for part in (as_list(content) or [content])]
    return "\n".join(filter(None, parts)) or None


def _resolve(value: Any, attached: Mapping[str, Any]) -> str | None:
    found = read_text(value)
    if found is not None and found.startswith(_ATTACHMENT):
        return read_text(attached.get(found.removeprefix(_ATTACHMENT), found))
    return found


def _read_target(target: Any) -> str | None:
    several = isinstance(target, list) and bool(target)
    return read_text(target[0]) if several else read_text(target) or None


def _read_counts(used: Any) -> dict[str, float | None]:
    found = as_mapping(used)
    return {ours: as_number(found.get(theirs)) for ours, theirs in _COUNTS.items()}


def _make_trace(sample: Sample) -> Record:
    """Return the tools that were called, and whether each call succeeded; None without any."""
    calls = list_calls(as_list(sample.get("messages")))
    return {"trace": {"tool_calls": calls} if calls else None}


def _describe_error(sample: Mapping[str, Any]) -> str | None:
    if sample.get("error"):
        return read_text(as_mapping(sample["error"]).get("message")) or "exception"
    if sample.get("invalidation"):
        reason = read_text(as_mapping(sample["invalidation"]).get("reason"))
        return f"invalidated: {reason or 'no reason'}"
    return None


def _list_scorer_calls(events: Any) -> Iterator[tuple[str, Any]]:
    """Yield the model and the usage of each call that a scorer made, as far as events tell."""
    inside: set[str] = set()  # spans of scorers, and the spans in them
    steps = 0  # of scorers, in logs before spans
    for event in list_objects(events):
        kind = event.get("event")
        if kind == "span_begin":
            if event.get("type") in _SCORERS or str(event.get("parent_id")) in inside:
                inside.add(str(event.get("id")))
        elif kind == "step" and event.get("type") in _SCORERS:
            steps += 1 if event.get("action") == "begin" else -1
        elif kind == "model" and (steps > 0 or str(event.get("span_id") or "") in inside):
            yield str(event.get("model")), as_mapping(event.get("output")).get("usage")
