"""Traces of OpenTelemetry (GenAI), OpenInference and Arize Phoenix: a trace is a record.

Its tokens are those of the model calls, counted once: a span whose children count their own adds
nothing. `gen_ai.usage.input_tokens` has the cached ones in it, which records count apart. Phoenix
exports tables of spans (`get_spans_dataframe`), as CSV, JSON lines or Parquet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.records.fields import load_json, name_finish_reason
from calipers.records.logs.log import LogReader, LogRecord, Record
from calipers.records.logs.otel_spans import Span, TraceStore, is_spans, list_spans
from calipers.records.logs.parts import (
    ASSISTANT,
    USER,
    as_mapping,
    as_number,
    as_truth,
    find_last_said,
    keep_extra,
    parse_number,
    read_text,
    spread_scores,
    sum_usage,
)
from calipers.records.logs.shape import Row, name_scores, read_number, read_rows, read_score
from calipers.records.readers.joins import parse_cell
from calipers.records.readers.json_documents import (
    parse_places,
    stream_list,
    stream_objects,
    stream_places,
)
from calipers.records.readers.sniff import read_head
from calipers.support.plugins import register

OPERATION = "gen_ai.operation.name"
_KIND = "openinference.span.kind"
NOT_CALLS = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow")
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id")
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
TOKENS = (*_INPUT_TOKENS, *_OUTPUT_TOKENS)
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
TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args", "input.value")
_CONVENTIONS = (
    *("gen_ai.", "llm.", "input.", "output.", "openinference.", "calipers.", "ai.", "tool."),
    *("tag.", "session.", "agent.", "graph.", "http.", "server.", "telemetry.", "mlflow."),
)
HANDOFF = "handoff to "
_AGENTS = ("gen_ai.agent.name", "agent.name")
ANSWERS = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text", "output.value")
QUESTIONS = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt", "input.value")


def read_first_of(span: Span, names: Sequence[str]) -> Any:
    """Return the first of the attributes that the span has, or None."""
    return next(
        (span.attributes[name] for name in names if span.attributes.get(name) is not None), None
    )


def find_finish_reason(calls: Sequence[Span]) -> str | None:
    """Return why the last call ended, one of a list of reasons which may be JSON text."""
    found = [read_first_of(span, _FINISHED) for span in calls]
    last = next((value for value in reversed(found) if value is not None), None)
    if isinstance(last, str) and last.startswith("["):
        last = load_json(last, last)
    return name_finish_reason(last[0] if isinstance(last, list) and last else last)


def keep_attributes(root: Span) -> dict[str, Any]:
    """Return the further attributes and the metadata of a root span."""
    own = {
        name: value
        for name, value in root.attributes.items()
        if isinstance(value, str | int | float) and not name.startswith(_CONVENTIONS)
    }
    return keep_extra(parse_arguments(root.attributes.get("metadata")), own, used=("metadata",))


def read_own_fields(root: Span) -> dict[str, Any]:
    """Return what `calipers run` records about a call in the span that it writes."""
    own = {
        name.removeprefix("calipers."): value
        for name, value in root.attributes.items()
        if name.startswith("calipers.") and isinstance(value, str | int | float)
    }
    known = ("id", "model", "tier", "run", *(name for name in own if name.startswith("score_")))
    return {name: own[name] for name in known if name in own}


def is_tool(span: Span) -> bool:
    """Return True if the span is the call of a tool."""
    kind = str(span.attributes.get(_KIND) or "").upper()
    return (
        span.attributes.get(OPERATION) == "execute_tool"
        or kind == "TOOL"
        or "ai.toolCall.name" in span.attributes
    )


def is_handoff(span: Span) -> bool:
    """Return True if an agent hands over to another in this span."""
    return span.name.startswith(HANDOFF)


def is_workflow(span: Span) -> bool:
    """Return True if only the kind of a span is an agent's, as that of a workflow around agents."""
    return span.parent is None and not span.attributes.keys() - {_KIND}


def parse_arguments(value: Any) -> Any:
    """Return the arguments of a tool, which are JSON in a text."""
    return load_json(value, value) if isinstance(value, str) else value


def name_agent(span: Span) -> str | None:
    """Return the agent's name, if the span is an agent's work."""
    kind = str(span.attributes.get(_KIND) or "").upper()
    if span.attributes.get(OPERATION) == "invoke_agent" or kind == "AGENT":
        return read_text(read_first_of(span, _AGENTS)) or span.name
    # LangChain puts the agent's name on every span; the agent's own span is named after it.
    named = as_mapping(parse_arguments(span.attributes.get("metadata"))).get("lc_agent_name")
    return span.name if named is not None and named == span.name else None


def count_tokens(span: Span) -> dict[str, float | None]:
    """Return the tokens that the span counts, those of the cache apart."""
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
    return parse_number(read_first_of(span, names))


def find_text(spans: Iterable[Span], names: Sequence[str], role: str) -> str | None:
    """Return what a role said, from the first of the spans that has it."""
    given = (read_first_of(span, names) for span in spans)
    return next(
        filter(None, (find_last_said(value, role) for value in given if value is not None)), None
    )


_EVALUATION = "gen_ai.evaluation.result"
_PLACES = parse_places(
    "spans.[]",
    *(
        f"{resources}.[].{scopes}.[].spans.[]"
        for resources in ("resourceSpans", "resource_spans")
        for scopes in ("scopeSpans", "scope_spans")
    ),
)


def read_traces(spans: Iterable[Span]) -> Iterator[LogRecord]:
    """Yield a record for each trace that the spans, in whatever order they come, are of."""
    with TraceStore() as store:
        for span in spans:
            store.add(span)
        for (trace, its), done in store.list_traces():
            yield _Trace(trace, its).make_record(), done


def make_trace_record(spans: Sequence[Span]) -> Record:
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
        roots = [span for span in self._spans if span.parent not in self._by_id] or self._spans[:1]
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
            "input": find_text(asked, QUESTIONS, USER),
            "answer": find_text(said, ANSWERS, ASSISTANT),
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
        counting = [root for root in self._spans if read_first_of(root, TOKENS) is not None]
        models = [call for call in counting if call.attributes.get(OPERATION) not in NOT_CALLS]
        counting = models or counting
        outer = {above.id for call in counting for above in self._walk_parents(call)}
        return [call for call in counting if call.id not in outer]

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
        around = {above.id for key in found for above in self._walk_parents(self._by_id[key])}
        return {
            key: name
            for key, name in found.items()
            if key not in around or not is_workflow(self._by_id[key])
        }

    def _find_agent(self, span: Span, agents: Mapping[str, str]) -> str | None:
        return next(
            (agents[above.id] for above in self._walk_parents(span) if above.id in agents), None
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
            read_text(event.get("gen_ai.evaluation.name")) or "evaluation": as_number(
                event.get("gen_ai.evaluation.score.value")
            )
            for event in found
        }
        labels = {as_truth(event.get("gen_ai.evaluation.score.label")) for event in found} - {None}
        passed = labels.pop() if len(labels) == 1 else False if labels else None
        return {"passed": passed, **spread_scores(scores)}


register(
    LogReader(
        name="OpenTelemetry", fits=is_spans, records=lambda path, _: read_traces(_read_spans(path))
    )
)


_PHOENIX_TRACE_ID = "context.trace_id"
_PHOENIX_ATTRIBUTES = "attributes."
_PHOENIX_TIMES = ("start_time", "end_time")
_YEAR_2001 = 1e18  # nanoseconds since 1970
_PHOENIX_SCORE = re.compile(r"(?:eval|annotation)\.(?P<name>.+)\.score")


def _has_phoenix_columns(keys: Collection[str]) -> bool:
    return {"name", _PHOENIX_TRACE_ID, "context.span_id"} <= set(keys)


def _fits_phoenix(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and _has_phoenix_columns(first.keys())


def _read_phoenix_row(row: Row) -> Iterator[Span]:
    attributes = {
        name.removeprefix(_PHOENIX_ATTRIBUTES): parse_cell(value)
        for name, value in row.items()
        if name.startswith(_PHOENIX_ATTRIBUTES) and value is not None
    }
    if row.get("span_kind") is not None:
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    scores = {
        match["name"]: read_score(value)
        for name, value in row.items()
        if (match := _PHOENIX_SCORE.fullmatch(name)) is not None
    }
    context = {"trace_id": row.get(_PHOENIX_TRACE_ID), "span_id": row.get("context.span_id")}
    named = {f"calipers.{name}": value for name, value in name_scores(scores).items()}
    plain = {name: value for name, value in row.items() if "." not in name}
    times = {name: _format_time(plain[name]) for name in _PHOENIX_TIMES if plain.get(name)}
    span = {**plain, **times, "context": context, "attributes": {**attributes, **named}}
    return list_spans(span)


def _format_time(value: Any) -> str:
    """Return a time as OpenTelemetry writes it; pandas may count in milliseconds."""
    number = read_number(value)
    if number is None or number <= 0:
        return str(value)
    while number < _YEAR_2001:
        number *= 1_000
    return str(int(number))


def _read_phoenix(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    rows = read_rows(path, "", _has_phoenix_columns)
    return read_traces(span for row, _ in rows for span in _read_phoenix_row(row))


register(
    LogReader(
        name="Phoenix", fits=_fits_phoenix, records=_read_phoenix, tables=_has_phoenix_columns
    )
)
