"""A sample of an Inspect log as a record, or as much of one as is wanted.

One score decides `correct`: the first that says right or wrong about every sample that has it. A
score with fractions is a mean of its own, `score_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.logs.log import Figure, Record
from calipers.records.logs.parts import (
    OURS,
    as_list,
    as_mapping,
    as_number,
    as_truth,
    keep_extra,
    list_calls,
    list_objects,
    parse_number,
    place_target,
    read_text,
    spread_scores,
    sum_usage,
)
from calipers.support.errors import DataError

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
# What Inspect counts a grade as.
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_MEANS = (None, "mean")  # reducers of epochs that leave the mean what it is
_MEAN_METRICS = ("accuracy", "mean")
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def list_scorers(log: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the scores that the log's results are about, each with the scorer that gave it."""
    scores = list_objects(as_mapping(log.get("results")).get("scores"))
    return list(
        dict.fromkeys((str(score.get("name")), str(score.get("scorer"))) for score in scores)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreUse:
    """How the scores of one log are used: which one decides, and which are no numbers."""

    decisive: str | None  # the key in a sample's scores
    texts: frozenset[str]  # fields of scores that hold other texts than grades
    keys: tuple[str, ...]  # of all scores, in the order of the log's results
    parted: frozenset[str]  # of those that have several parts


def choose_scores(samples: Iterable[Sample], log: Mapping[str, Any]) -> ScoreUse:
    """Return how scores are used, given all samples or their summaries, and the log around them."""
    undecided: set[str] = set()
    texts: set[str] = set()
    parted: set[str] = set()
    seen: dict[str, bool] = {}  # by key: whether any sample has a value
    for sample in samples:
        for key, score in as_mapping(sample.get("scores")).items():
            value = as_mapping(score).get("value")
            has_value = not _is_missing(value)
            seen[key] = seen.get(key, False) or has_value
            if has_value and as_truth(value) is None:
                undecided.add(key)
            if isinstance(value, dict):
                parted.add(key)
            parts = spread_scores({key: value})
            texts.update(name for name, part in parts.items() if isinstance(_read_value(part), str))
    named = [key for pair in list_scorers(log) for key in pair if key in seen]
    keys = tuple(dict.fromkeys((*named, *seen)))
    decisive = (key for key in keys if seen[key] and key not in undecided)
    return ScoreUse(
        decisive=next(decisive, None),
        texts=frozenset(texts),
        keys=keys,
        parted=frozenset(parted),
    )


def _is_missing(value: Any) -> bool:
    """Return True if a sample was not scored: null, or NaN."""
    return value is None or value != value  # noqa: PLR0124 (only NaN is not itself)


def _read_value(value: Any) -> Any:
    """Return what Inspect counts a score as, or the score itself where it is another text."""
    if not isinstance(value, str):
        return value
    number = _GRADES.get(value, _WORDS.get(value.lower()))
    number = parse_number(value) if number is None else number
    return value if number is None else number


def list_figures(log: Mapping[str, Any], use: ScoreUse) -> Iterator[Figure]:
    """Yield what the log's results state: each metric of each score, under its reducer."""
    results = as_mapping(log.get("results"))
    epochs = as_number(as_mapping(as_mapping(log.get("eval")).get("config")).get("epochs")) or 1
    scores = list(list_objects(results.get("scores")))
    by_mean = {_identify(entry) for entry in scores if entry.get("reducer") in _MEANS}
    for score in scores:
        reducer = score.get("reducer")
        is_mean = epochs == 1 or reducer in _MEANS
        means_too = not is_mean and _identify(score) in by_mean
        count = as_number(score.get("scored_samples"))
        for name, metric in as_mapping(score.get("metrics")).items():
            value = as_number(as_mapping(metric).get("value"))
            if value is None:
                continue
            parts = (score.get("name"), None if is_mean else reducer, name)
            about_same = name in _MEAN_METRICS and not means_too
            yield Figure(
                name="/".join(str(part) for part in parts if part),
                value=value,
                n=None if count is None else int(count),
                ours=_name_ours(score, use) if about_same else (),
                reason="" if is_mean else f"the log reduces epochs by {reducer}",
            )


def _identify(score: Mapping[str, Any]) -> tuple[str, str]:
    return str(score.get("name")), str(score.get("scorer"))


def _name_ours(score: Mapping[str, Any], use: ScoreUse) -> tuple[str, ...]:
    """Return the metrics of ours that are the mean of a score; none where no sample has it."""
    name, scorer = _identify(score)
    key = name if name in use.keys else scorer
    if key not in use.keys:
        return ()
    field = f"{_SCORE}{key}_{name}" if key != name and key in use.parted else f"{_SCORE}{key}"
    return ("accuracy", field) if key == use.decisive else (field,)


class SampleReader:
    """Converts the samples of one log to records; only the parts that wanted fields need.

    `choose` looks through all samples for how their scores are used, where that is needed.
    """

    def __init__(
        self,
        log: Mapping[str, Any],
        choose: Callable[[], ScoreUse],
        wanted: Collection[str] | None = None,
    ) -> None:
        self._choose_scores = choose
        about = as_mapping(log.get("eval"))
        self._model = about.get("model")
        self._task = about.get("task")
        self._tags = about.get("tags") or None
        grader = as_mapping(as_mapping(about.get("model_roles")).get("grader")).get("model")
        self._grader = None if grader is None else str(grader)
        self._parts = self._choose(wanted)
        self._metadata = (
            None if wanted is None else {name.removeprefix("metadata_") for name in wanted}
        )

    @cached_property
    def _use(self) -> ScoreUse:
        return self._choose_scores()

    @property
    def members(self) -> set[str]:
        """Which parts of a sample are read, of those that a chunked log has in other files."""
        files = {
            self._read_metadata: "metadata",
            _make_trace: "messages",
            self._sum_usage: "events",
        }
        return {name for part, name in files.items() if part in self._parts}

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
            self._read_scores: (_SCORE,),
        }
        if wanted is None:
            return list(parts)
        known = {name for names in parts.values() for name in names}
        others = {
            name for name in wanted if name not in known | OURS and not name.startswith(_SCORE)
        }
        scores = {_SCORE for name in wanted if name.startswith(_SCORE)}
        needed = {*wanted, *scores, *(_NAMED if others else ())}
        return [part for part, names in parts.items() if not needed.isdisjoint(names)]

    def _read_metadata(self, sample: Sample) -> Record:
        found = as_mapping(sample.get("metadata"))
        if not found:
            return {}
        named = {name: read_text(found[name]) for name in _NAMED if name in found}
        if self._metadata is not None:
            found = {name: value for name, value in found.items() if name in self._metadata}
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
        """Return the verdict of the score that decides; texts are never compared instead."""
        value = self._find_main(sample).get("value")
        correct, error = as_truth(value), _describe_error(sample)
        decisive = self._use.decisive
        if decisive is None:
            correct = None
        elif correct is None and not _is_missing(value):
            raise DataError(
                f"sample {sample.get('id')}: its {decisive} is {value!r}; "
                "the summaries of the log have only right and wrong",
                fix="have Inspect write the log again: inspect log convert",
            )
        judged = decisive is None or error is None
        target = place_target(_read_target(sample.get("target")), correct=correct, judged=judged)
        return {**target, "correct": correct, "error": error}

    def _answer(self, sample: Sample) -> Record:
        attached = as_mapping(sample.get("attachments"))
        completion, reasoning = _read_completion(sample, attached)
        answer = _resolve(self._find_main(sample).get("answer"), attached) or completion
        said = "\n".join(filter(None, (reasoning, completion)))
        return {"answer": answer, "cot": said if said.strip() != (answer or "").strip() else None}

    def _find_main(self, sample: Sample) -> Mapping[str, Any]:
        """Return the score that decides, or the first where none does."""
        key = self._use.decisive or next(iter(self._use.keys), "")
        return as_mapping(as_mapping(sample.get("scores")).get(key))

    def _read_scores(self, sample: Sample) -> Record:
        """Return each score, grades as the numbers that Inspect counts them as."""
        scores = as_mapping(sample.get("scores"))
        fields = spread_scores(
            {key: as_mapping(score).get("value") for key, score in scores.items()}
        )
        texts = self._use.texts
        return {
            name: value if name in texts else _read_value(value) for name, value in fields.items()
        }

    def _sum_usage(self, sample: Sample) -> Record:
        """Return what the models used, without what scorers did."""
        output = as_mapping(sample.get("output"))
        used = as_mapping(sample.get("model_usage")) or {"": output.get("usage")}
        if not any(used.values()):
            return {}
        counts = {model: _read_counts(usage) for model, usage in used.items()}
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
    asked = [message for message in list_objects(given) if message.get("role") == "user"]
    content = asked[-1].get("content") if asked else None
    parts = [_resolve(part, attached) for part in (as_list(content) or [content])]
    return "\n".join(filter(None, parts)) or None


def _resolve(value: Any, attached: Mapping[str, Any]) -> str | None:
    text = read_text(value)
    if text is not None and text.startswith(_ATTACHMENT):
        return read_text(attached.get(text.removeprefix(_ATTACHMENT), text))
    return text


def _read_target(target: Any) -> str | None:
    several = isinstance(target, list) and bool(target)
    return read_text(target[0]) if several else read_text(target) or None


def _read_counts(used: Any) -> dict[str, float | None]:
    used = as_mapping(used)
    return {ours: as_number(used.get(theirs)) for ours, theirs in _COUNTS.items()}


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
