"""Traces of OpenTelemetry (GenAI) and OpenInference: a trace is a record.

Its tokens are those of the model calls, counted once: a span whose children count their own adds
nothing. `gen_ai.usage.input_tokens` has the cached ones in it, which records count apart.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.heads import read_head
from calipers.records.json_values import stream_list, stream_objects
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_mapping,
    as_number,
    as_truth,
    keep_extra,
    parse_number,
    read_text,
    spread_scores,
    sum_usage,
)
from calipers.records.logs.spans import Span, is_spans, list_spans
from calipers.records.logs.texts import ASSISTANT, USER, read_said
from calipers.records.logs.trace_store import TraceStore
from calipers.support.registry import register

_OPERATION = "gen_ai.operation.name"
_KIND = "openinference.span.kind"
_EVALUATION = "gen_ai.evaluation.result"
_NOT_CALLS = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow")
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.model.id",
)
_INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_TOKENS = (*_INPUT_TOKENS, *_OUTPUT_TOKENS)
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
_FINISHED = ("gen_ai.response.finish_reasons", "ai.response.finishReason")
_TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args"),
    "input.value",
)
_CONVENTIONS = (
    *("gen_ai.", "llm.", "input.", "output.", "openinference.", "calipers.", "ai.", "tool."),
    *("tag.", "session.", "agent.", "graph.", "http.", "server.", "telemetry.", "mlflow."),
)
_ENVELOPES = ("resourceSpans", "resource_spans", "spans")
_HANDOFF = "handoff to "
_AGENTS = ("gen_ai.agent.name", "agent.name")
_SAID = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text", "output.value")
_ASKED = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt", "input.value")


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    return read_traces(_read_spans(path))


def read_traces(spans: Iterable[Span]) -> Iterator[Found]:
    """Yield a record for each trace that the spans, in whatever order they come, are of."""
    with TraceStore() as store:
        for span in spans:
            store.add(span)
        for (trace, its), done in store.list_traces():
            yield _Trace(trace, its).record(), done


def record_of(spans: Sequence[Span]) -> Record:
    """Return the record that spans tell of, all of one call."""
    return _Trace("", spans).record()


def _read_spans(path: Path) -> Iterator[Span]:
    """Yield the spans of one JSON document, or of several in a row."""
    head = read_head(path)
    inside = next((key for key in _ENVELOPES if key in as_mapping(head.first)), None)
    is_one = head.alone or not head.is_whole
    if head.is_array:
        for value, _ in stream_list(path, (), {}, large=True):
            yield from list_spans(value)
    elif inside is not None and is_one:
        for value, _ in stream_list(path, (inside,), {}, large=True):
            yield from list_spans({inside: [value]})
    else:
        for value, _ in stream_objects(path):
            yield from list_spans(value)


class _Trace:
    """The spans of one trace, and who is whose child."""

    def __init__(self, trace: str, spans: Sequence[Span]) -> None:
        self._id = trace
        self._spans = sorted(spans, key=lambda span: span.start or 0.0)
        self._by_id = {span.id: span for span in spans}

    def record(self) -> Record:
        # Where spans are each other's parents there is no root: the first is taken for it.
        roots = [each for each in self._spans if each.parent not in self._by_id] or self._spans[:1]
        root = roots[0]
        calls = self._find_calls()
        models = Counter(read_text(_of(span, _MODELS)) for span in calls)
        seconds = self._measure_duration(roots)
        asked = [root, *calls]
        said = [root, *reversed(calls)]
        return {
            **_keep_attributes(root),
            "id": self._id,
            "model": models.most_common(1)[0][0] if models else None,
            "input": _read_first(asked, _ASKED, USER),
            "answer": _read_first(said, _SAID, ASSISTANT),
            "finish_reason": _finish_reason(calls),
            **self._sum_usage(calls),
            "latency_ms": None if seconds is None else seconds * 1000,
            "duration_seconds": seconds,
            "trace": self._trace(),
            **self._read_evaluations(),
            "error": next((span.message or "error" for span in roots if span.failed), None),
            "name": root.name,
            "conversation": read_text(_of(root, ("gen_ai.conversation.id", "session.id"))),
            "model_calls": len(calls),
            **_read_own_fields(root),
        }

    def _find_calls(self) -> list[Span]:
        """Return the calls of models: the innermost spans that count tokens.

        An agent counts where nothing else in the trace does: its calls may hang elsewhere.
        """
        counting = [each for each in self._spans if _of(each, _TOKENS) is not None]
        models = [each for each in counting if each.attributes.get(_OPERATION) not in _NOT_CALLS]
        counting = models or counting
        outer = {above.id for each in counting for above in self._walk_parents(each)}
        return [each for each in counting if each.id not in outer]

    def _walk_parents(self, span: Span) -> Iterator[Span]:
        """Yield the span's parent, its parent, and so on."""
        seen = {span.id}
        while span.parent in self._by_id and span.parent not in seen:
            span = self._by_id[span.parent]
            seen.add(span.id)
            yield span

    def _measure_duration(self, roots: Sequence[Span]) -> float | None:
        """Return the seconds from the first root's start to the last one's end."""
        timed = [
            (span.start, span.seconds)
            for span in roots
            if span.start is not None and span.seconds is not None
        ]
        if not timed:
            return None
        return max(start + seconds for start, seconds in timed) - min(start for start, _ in timed)

    def _sum_usage(self, calls: Sequence[Span]) -> dict[str, Any]:
        counts: dict[str, dict[str, float | None]] = {}
        for span in calls:
            used = counts.setdefault(read_text(_of(span, _MODELS)) or "unknown", {})
            for name, value in _count_tokens(span).items():
                if value is not None:
                    used[name] = (used.get(name) or 0) + value
        return sum_usage(counts)

    def _trace(self) -> dict[str, Any] | None:
        """Return the tools called, who called whom, and how often each agent worked, or None."""
        tools = [span for span in self._spans if _is_tool(span) and not _is_handoff(span)]
        agents = self._find_agents()
        calls = [
            {
                "tool_name": read_text(_of(span, _TOOLS)) or span.name,
                "args": _arguments(_of(span, _ARGUMENTS)),
                "agent_id": self._find_agent(span, agents),
                "success": not span.failed,
                "duration": span.seconds,
                "timestamp": span.start,
            }
            for span in tools
        ]
        asked = [
            {"from": caller, "to": agents[span.id], "type": "task_request"}
            for span in self._spans
            if span.id in agents
            and (caller := self._find_agent(span, agents)) not in (None, agents[span.id])
        ]
        asked += [
            {"from": caller, "to": span.name.removeprefix(_HANDOFF), "type": "handoff"}
            for span in self._spans
            if _is_handoff(span) and (caller := self._find_agent(span, agents)) is not None
        ]
        if not calls and not agents:
            return None
        parts = {
            "tool_calls": [
                {name: value for name, value in call.items() if value is not None} for call in calls
            ],
            "agent_interactions": asked,
            "agent_tasks": dict(Counter(agents.values())),
        }
        return {name: part for name, part in parts.items() if part}

    def _find_agents(self) -> dict[str, str]:
        """Return the names of the agents by their spans; a workflow around agents is none."""
        found = {span.id: name for span in self._spans if (name := _name_agent(span))}
        around = {above.id for each in found for above in self._walk_parents(self._by_id[each])}
        return {
            each: name
            for each, name in found.items()
            if each not in around or not _is_workflow(self._by_id[each])
        }

    def _find_agent(self, span: Span, agents: Mapping[str, str]) -> str | None:
        return next(
            (agents[each.id] for each in self._walk_parents(span) if each.id in agents), None
        )

    def _read_evaluations(self) -> dict[str, Any]:
        """Return the scores of evaluations, and whether the run passed if one label says so."""
        found = [
            attributes
            for span in self._spans
            for name, attributes in span.events
            if name == _EVALUATION
        ]
        scores = {
            read_text(each.get("gen_ai.evaluation.name")) or "evaluation": as_number(
                each.get("gen_ai.evaluation.score.value")
            )
            for each in found
        }
        labels = {as_truth(each.get("gen_ai.evaluation.score.label")) for each in found} - {None}
        passed = labels.pop() if len(labels) == 1 else False if labels else None
        return {"passed": passed, **spread_scores(scores)}


def _of(span: Span, names: Sequence[str]) -> Any:
    return next(
        (span.attributes[name] for name in names if span.attributes.get(name) is not None), None
    )


def _finish_reason(calls: Sequence[Span]) -> str | None:
    """Return why the last call ended, one of a list of reasons which may be JSON text."""
    found = [_of(span, _FINISHED) for span in calls]
    last = next((each for each in reversed(found) if each is not None), None)
    if isinstance(last, str) and last.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            last = json.loads(last)
    return name_finish_reason(last[0] if isinstance(last, list) and last else last)


def _keep_attributes(root: Span) -> dict[str, Any]:
    """Return what a root says of its run in attributes of its own, and in its metadata."""
    own = {
        name: value
        for name, value in root.attributes.items()
        if isinstance(value, str | int | float) and not name.startswith(_CONVENTIONS)
    }
    return keep_extra(_arguments(root.attributes.get("metadata")), own, used=("metadata",))


def _read_own_fields(root: Span) -> dict[str, Any]:
    """Return what `calipers run` records about a call in the span that it writes."""
    names = {name: f"calipers.{name}" for name in ("id", "model", "tier", "run")}
    found = {name: root.attributes.get(theirs) for name, theirs in names.items()}
    scores = {
        name.removeprefix("calipers."): value
        for name, value in root.attributes.items()
        if name.startswith("calipers.score_")
    }
    return {
        name: value
        for name, value in {**found, **scores}.items()
        if isinstance(value, str | int | float)
    }


def _is_tool(span: Span) -> bool:
    kind = str(span.attributes.get(_KIND) or "").upper()
    return (
        span.attributes.get(_OPERATION) == "execute_tool"
        or kind == "TOOL"
        or "ai.toolCall.name" in span.attributes
    )


def _is_handoff(span: Span) -> bool:
    return span.name.startswith(_HANDOFF)


def _is_workflow(span: Span) -> bool:
    """Say whether a span tells nothing of an agent but its kind, as that around a whole run."""
    return span.parent is None and not span.attributes.keys() - {_KIND}


def _arguments(value: Any) -> Any:
    """Return the arguments of a tool, which are JSON in a text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _name_agent(span: Span) -> str | None:
    """Return the agent's name, if the span is an agent's work."""
    if span.attributes.get(_OPERATION) == "invoke_agent":
        return read_text(_of(span, _AGENTS)) or span.name
    if str(span.attributes.get(_KIND) or "").upper() == "AGENT":
        return read_text(_of(span, _AGENTS)) or span.name
    # LangChain tells every span which agent it is of: the agent's own has its name.
    named = as_mapping(_arguments(span.attributes.get("metadata"))).get("lc_agent_name")
    return span.name if named is not None and named == span.name else None


def _count_tokens(span: Span) -> dict[str, float | None]:
    read, written = _count(span, _CACHE_READ), _count(span, _CACHE_WRITE)
    prompt = _count(span, _INPUT_TOKENS)
    return {
        "prompt_tokens": None if prompt is None else max(0, prompt - (read or 0) - (written or 0)),
        "completion_tokens": _count(span, _OUTPUT_TOKENS),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": _count(span, _REASONING),
    }


def _count(span: Span, names: Sequence[str]) -> float | None:
    return parse_number(_of(span, names))


def _read_first(spans: Iterable[Span], names: Sequence[str], role: str) -> str | None:
    """Return what a role said in the first of the spans that tells it."""
    given = (_of(span, names) for span in spans)
    return next(filter(None, (read_said(each, role) for each in given if each is not None)), None)


register(LogReader(name="OpenTelemetry", fits=is_spans, records=_records))
