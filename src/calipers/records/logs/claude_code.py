"""Claude Code: the JSON lines of a session, and what `--output-format stream-json` or `json` gives.

A message comes in several lines, of which the last counts its tokens. The `result` at the end of a
stream has the totals of all models, also of agents that were started, and what it cost; a session
has neither, and old ones a cost per message. What a session was asked is its first message that
is neither a tool's result nor put in by the program. A file of streams has a record for each
session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.logs.coding_agents import Calls, EventTimes
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    list_objects,
    read_text,
    sum_usage,
)
from calipers.records.logs.shape import Row, make_duration_fields, read_rows

_NAME = "claude-code"
_SYNTHETIC = "<synthetic>"  # the model of messages that the program wrote itself
_COMMANDS = ("<command-", "<local-command-", "<system-reminder>", "Caveat: ")
_TOKENS = {  # by our name: in the usage of a message, and in that of a model
    "prompt_tokens": ("input_tokens", "inputTokens"),
    "completion_tokens": ("output_tokens", "outputTokens"),
    "cache_read_tokens": ("cache_read_input_tokens", "cacheReadInputTokens"),
    "cache_write_tokens": ("cache_creation_input_tokens", "cacheCreationInputTokens"),
}
_OWN_LINES = ("user", "assistant", "system", "queue-operation", "progress", "attachment")
_BEGINNINGS = ("init", "hook_started", "hook_response", "task_started")  # of a stream
_LEAD = "lead"  # the agent of a session that no other has started
_RAN_OUT = "error_max"  # begins what a run is said to have ended by that reached a limit


def _fits(document: Any) -> bool:
    """Return True if a JSON is the first line of a session or a stream, or a list of such."""
    first = as_mapping(document[0] if isinstance(document, list) and document else document)
    kind = first.get("type")
    if kind == "system" and ("session_id" in first or "agent_id" in first):
        is_other = "apiKeySource" in first and "tools" not in first  # Cursor writes such streams
        return first.get("subtype") in _BEGINNINGS and not is_other
    if kind == "result":
        return first.keys() >= {"session_id", "num_turns", "is_error"}
    if kind == "summary":
        return first.keys() == {"type", "summary", "leafUuid"}
    if kind == "file-history-snapshot":
        return "snapshot" in first
    is_line = kind in _OWN_LINES and not {"parentUuid", "operation"}.isdisjoint(first)
    return "sessionId" in first and is_line and isinstance(first["sessionId"], str)


def _is_main(document: Any) -> bool:
    return _fits(document) and as_mapping(document).get("isSidechain") is not True


@dataclass
class _ClaudeSession:
    """What is collected of a session while its lines are read."""

    name: str | None = None
    version: str | None = None
    model: str | None = None
    asked: str | None = None
    said: str | None = None
    ended: str | None = None
    is_stream: bool = False
    agents: dict[str, str] = field(default_factory=dict)  # by the call that started each
    calls: Calls = field(default_factory=Calls)
    clock: EventTimes = field(default_factory=EventTimes)
    turns: dict[str, None] = field(default_factory=dict)
    used: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)  # by message
    costs: dict[str, float] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)

    def add(self, line: Row) -> None:
        """Take a line."""
        kind, is_side = line.get("type"), _is_aside(line)
        self.name = self.name or read_text(line.get("sessionId") or line.get("session_id"))
        self.version = self.version or read_text(
            line.get("version") or line.get("claude_code_version")
        )
        self.clock.see(line.get("timestamp"))
        message = as_mapping(line.get("message"))
        if kind == "system":
            self._add_notice(line)
        elif kind == "assistant":
            self._add_reply(line, message, is_side=is_side)
        elif kind == "user":
            self._add_request(line, message, is_side=is_side)
        elif kind == "result":
            self.result = line

    def _add_notice(self, line: Row) -> None:
        if line.get("subtype") == "init":
            self.is_stream = True
            self.model = read_text(line.get("model")) or self.model
        elif line.get("subtype") == "task_started":
            told = read_text(line.get("description")) or read_text(line.get("agent_id"))
            self.agents[str(line.get("tool_use_id"))] = told or "agent"

    def _name_agent(self, line: Row) -> str:
        """Return who a line is of: the task that started the agent, else the lead."""
        if (parent := line.get("parent_tool_use_id")) is not None:
            return self.agents.get(str(parent), str(parent))
        return (read_text(line.get("agentId")) or "agent") if _is_aside(line) else _LEAD

    def _add_reply(self, line: Row, message: Mapping[str, Any], *, is_side: bool) -> None:
        model = read_text(message.get("model"))
        key = read_text(message.get("id")) or f"line {len(self.used)}"
        content = message.get("content")
        for part in list_objects(content):
            if part.get("type") == "tool_use":
                self.calls.add(
                    *(part.get("id"), part.get("name"), part.get("input"), line.get("timestamp")),
                    agent=self._name_agent(line),
                    success=True,  # unless its result says otherwise
                )
        if model == _SYNTHETIC:
            return
        if (usage := as_mapping(message.get("usage"))) and model is not None:
            self.used[key] = (model, usage)
        if (cost := as_number(line.get("costUSD"))) is not None:
            self.costs[key] = cost
        if not is_side:
            self.turns[key] = None
            self.model = self.model or model
            self.said = _read_said(content) or self.said
            self.ended = name_finish_reason(message.get("stop_reason")) or self.ended

    def _add_request(self, line: Row, message: Mapping[str, Any], *, is_side: bool) -> None:
        content = message.get("content")
        for part in list_objects(content):
            if part.get("type") == "tool_result":
                failed = part.get("is_error") is True
                self.calls.settle(
                    part.get("tool_use_id"), success=not failed, at=line.get("timestamp")
                )
        is_own = line.get("isMeta") is True or line.get("isCompactSummary") is True
        text = _read_said(content)
        if self.asked is None and text and not (is_side or is_own or text.startswith(_COMMANDS)):
            self.asked = text

    def make_record(self) -> Record:
        """Return what the session tells."""
        milliseconds = as_number(self.result.get("duration_ms"))
        ended = read_text(self.result.get("subtype"))
        said = read_text(self.result.get("result"))
        failed = self.result.get("is_error") is True and not str(ended).startswith(_RAN_OUT)
        turns = as_number(self.result.get("num_turns"))
        return {
            "session_id": self.name,
            "model": self.model or _NAME,
            "variant": _NAME if self.model else None,
            "agent_version": self.version,
            "input": self.asked,
            "answer": None if failed else said or self.said,
            "finish_reason": name_finish_reason(self.result.get("stop_reason")) or self.ended,
            "turns": len(self.turns) or turns,
            **self._count_tokens(),
            **make_duration_fields(
                self.clock.seconds if milliseconds is None else milliseconds / 1000
            ),
            **self.calls.make_fields(),
            "exit_status": ended,
            "error": (said or ended or "it ended with an error") if failed else None,
        }

    def _count_tokens(self) -> Record:
        """Return the tokens and the cost by the result of a stream, else by its messages."""
        by_model = as_mapping(self.result.get("modelUsage"))
        if by_model:
            return sum_usage(
                {
                    str(model): {
                        **_read_counts(as_mapping(used), 1),
                        "cost_usd": as_number(as_mapping(used).get("costUSD")),
                    }
                    for model, used in by_model.items()
                }
            ) | {"cost_usd": as_number(self.result.get("total_cost_usd"))}
        if whole := as_mapping(self.result.get("usage")):
            cost = as_number(self.result.get("total_cost_usd"))
            return {**_read_counts(whole, 0), "cost_usd": cost}
        sums: dict[str, dict[str, float | None]] = {}
        for model, usage in self.used.values():
            of_model = sums.setdefault(model, {})
            for name, count in _read_counts(usage, 0).items():
                before = of_model.get(name)
                of_model[name] = before if count is None else count + (before or 0)
        is_priced = bool(self.costs) and self.used.keys() <= self.costs.keys()
        return sum_usage(sums) | {"cost_usd": sum(self.costs.values()) if is_priced else None}


def _is_aside(line: Row) -> bool:
    """Return True if a line is of an agent that the session started."""
    return line.get("isSidechain") is True or line.get("parent_tool_use_id") is not None


def _read_said(content: Any) -> str | None:
    """Return the text of a message, without calls, results and thoughts."""
    if isinstance(content, str):
        return content or None
    texts = [read_text(part) for part in as_list(content) if as_mapping(part).get("type") == "text"]
    return "\n".join(filter(None, texts)) or None


def _read_counts(usage: Mapping[str, Any], spelling: int) -> dict[str, float | None]:
    return {name: as_number(usage.get(names[spelling])) for name, names in _TOKENS.items()}


def _iterate_sessions(path: Path) -> Iterator[tuple[_ClaudeSession, float]]:
    """Yield each session of a stream; the lines of a session file are one, whatever they name."""
    session, stream = _ClaudeSession(), None
    for line, done in read_rows(path, "", lambda _: True):
        name = line.get("session_id")
        if line.get("type") in ("system", "result") and isinstance(name, str):
            if stream not in (None, name):
                yield session, done
                session = _ClaudeSession()
            stream = name
        session.add(line)
    yield session, 1.0


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    for session, done in _iterate_sessions(path):
        has_run = session.turns or session.result
        name = session.name or path.name.partition(".")[0]
        yield ({"id": name, **session.make_record()} if has_run else None), done


def read_session(path: Path) -> Record:
    """Return what the last session in a file tells, without an id."""
    *_, (last, _done) = _iterate_sessions(path)
    return last.make_record()


def read_messages(lines: Iterable[Row]) -> Record:
    """Return what the lines of one session tell, without an id."""
    session = _ClaudeSession()
    for line in lines:
        session.add(line)
    return session.make_record()


def _is_unfinished(path: Path) -> bool:
    return any(session.is_stream and not session.result for session, _ in _iterate_sessions(path))


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield what the result of each stream says that it cost, together."""
    costs = [
        as_number(session.result.get("total_cost_usd")) for session, _ in _iterate_sessions(path)
    ]
    known = [cost for cost in costs if cost is not None]
    if known:
        yield Figure(name="total_cost_usd", value=sum(known), n=len(known), ours=("sum(cost_usd)",))


CLAUDE_CODE = LogReader(
    name="Claude Code",
    fits=_fits,
    records=_read_records,
    unfinished=_is_unfinished,
    stated=_list_stated,
    left_out="sessions in which no model was called were left out",
    find=find_files("*.jsonl", "*/*.jsonl", fits=_is_main),
)
"""Registered by `agent_runs.py`, where a session is part of a run with more files."""
