"""Traces of OpenTelemetry (GenAI) and OpenInference: a trace is a record.

Its tokens are those of the model calls, counted once: a span whose children count their own adds
nothing. `gen_ai.usage.input_tokens` has the cached ones in it, which records count apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.records.heads import read_head
from calipers.records.json_places import parse_places, stream_places
from calipers.records.json_values import stream_list, stream_objects
from calipers.records.logs.conversations import ASSISTANT, USER
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_mapping,
    as_number,
    as_truth,
    read_text,
    spread_scores,
    sum_usage,
)
from calipers.records.logs.span_attributes import (
    ARGUMENTS,
    ASKED,
    HANDOFF,
    MODELS,
    NOT_CALLS,
    OPERATION,
    SAID,
    TOKENS,
    TOOLS,
    count_tokens,
    find_finish_reason,
    find_text,
    is_handoff,
    is_tool,
    is_workflow,
    keep_attributes,
    name_agent,
    parse_arguments,
    read_first_of,
    read_own_fields,
)
from calipers.records.logs.spans import Span, TraceStore, is_spans, list_spans
from calipers.support.registry import register

_EVALUATION = "gen_ai.evaluation.result"
_PLACES = parse_places(
    "spans.[]",
    *(
        f"{resources}.[].{scopes}.[].spans.[]"
        for resources in ("resourceSpans", "resource_spans")
        for scopes in ("scopeSpans", "scope_spans")
    ),
)


def read_traces(spans: Iterable[Span]) -> Iterator[Found]:
    """Yield a record for each trace that the spans, in whatever order they come, are of."""
    with TraceStore() as store:
        for span in spans:
            store.add(span)
        for (trace, its), done in store.list_traces():
            yield _Trace(trace, its).make_record(), done


def record_of(spans: Sequence[Span]) -> Record:
    """Return the record of some spans, all of one trace."""
    return _Trace("", spans).make_record()


def _read_spans(path: Path) -> Iterator[Span]:
    """Yield the spans of one JSON document, or of several in a row."""
    head = read_head(path)
    is_around = any(place[0] in as_mapping(head.first) for place in _PLACES)
    is_one = head.alone or not head.is_whole
    if head.is_array:
        for value, _ in stream_list(path, (), {}, large=True):
            yield from list_spans(value)
    elif is_around and is_one:
        for place, value, _ in stream_places(path, _PLACES):
            if place in _PLACES:
                yield from list_spans(value)
    else:
        for value, _ in stream_objects(path):
            yield from list_spans(value)


class _Trace:
    """The spans of one trace, as a tree."""

    def __init__(self, trace: str, spans: Sequence[Span]) -> None:
        self._id = trace
        self._spans = sorted(spans, key=lambda span: span.start or 0.0)
        self._by_id = {span.id: span for span in spans}

    def make_record(self) -> Record:
        # If spans are each other's parents there is no root: the first one is used.
        roots = [each for each in self._spans if each.parent not in self._by_id] or self._spans[:1]
        root = roots[0]
        calls = self._find_calls()
        models = Counter(read_text(read_first_of(span, MODELS)) for span in calls)
        seconds = self._measure_duration(roots)
        asked = [root, *calls]
        said = [root, *reversed(calls)]
        return {
            **keep_attributes(root),
            "id": self._id,
            "model": models.most_common(1)[0][0] if models else None,
            "input": find_text(asked, ASKED, USER),
            "answer": find_text(said, SAID, ASSISTANT),
            "finish_reason": find_finish_reason(calls),
            **self._sum_usage(calls),
            "latency_ms": None if seconds is None else seconds * 1000,
            "duration_seconds": seconds,
            "trace": self._make_trace(),
            **self._read_evaluations(),
            "error": next((span.message or "error" for span in roots if span.failed), None),
            "name": root.name,
            "conversation": read_text(
                read_first_of(root, ("gen_ai.conversation.id", "session.id"))
            ),
            "model_calls": len(calls),
            **read_own_fields(root),
        }

    def _find_calls(self) -> list[Span]:
        """Return the calls of models: the innermost spans that count tokens.

        An agent counts where nothing else in the trace does: its calls may hang elsewhere.
        """
        counting = [each for each in self._spans if read_first_of(each, TOKENS) is not None]
        models = [each for each in counting if each.attributes.get(OPERATION) not in NOT_CALLS]
        counting = models or counting
        outer = {above.id for each in counting for above in self._walk_parents(each)}
        return [each for each in counting if each.id not in outer]

    def _walk_parents(self, span: Span) -> Iterator[Span]:
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
            used = counts.setdefault(read_text(read_first_of(span, MODELS)) or "unknown", {})
            for name, value in count_tokens(span).items():
                if value is not None:
                    used[name] = (used.get(name) or 0) + value
        return sum_usage(counts)

    def _make_trace(self) -> dict[str, Any] | None:
        """Return the tools called, who called whom, and how often each agent worked, or None."""
        tools = [span for span in self._spans if is_tool(span) and not is_handoff(span)]
        agents = self._find_agents()
        calls = [
            {
                "tool_name": read_text(read_first_of(span, TOOLS)) or span.name,
                "args": parse_arguments(read_first_of(span, ARGUMENTS)),
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
            {"from": caller, "to": span.name.removeprefix(HANDOFF), "type": "handoff"}
            for span in self._spans
            if is_handoff(span) and (caller := self._find_agent(span, agents)) is not None
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
        found = {span.id: name for span in self._spans if (name := name_agent(span))}
        around = {above.id for each in found for above in self._walk_parents(self._by_id[each])}
        return {
            each: name
            for each, name in found.items()
            if each not in around or not is_workflow(self._by_id[each])
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


register(
    LogReader(
        name="OpenTelemetry", fits=is_spans, records=lambda path, _: read_traces(_read_spans(path))
    )
)
