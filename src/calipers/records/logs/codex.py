"""Codex: rollouts, which are the JSON lines of a session, and the events of `codex exec --json`.

Counts of input tokens have the cached ones in them, those of output the reasoning ones. The last
`token_count` of a rollout has the sums of the session. Commands say by their exit code whether they
succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calipers.records.logs.coding_agents import Calls, EventTimes, read_tokens
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    list_objects,
    read_json_lines,
    read_text,
)
from calipers.records.logs.shape import Row, find_value, make_duration_fields
from calipers.records.readers.joins import parse_cell
from calipers.support.plugins import register

_NAME = "codex"
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
_WRITTEN = "cache_write_input_tokens"  # newer versions tell of it
_PUT_IN = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions")
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_NO_CALLS = ("agent_message", "reasoning", "todo_list", "error")  # items of the events


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    is_rollout = document.get("type") in _LINES and isinstance(document.get("payload"), dict)
    is_stream = document.get("type") == "thread.started" and "thread_id" in document
    return (is_rollout and "timestamp" in document) or is_stream


@dataclass
class _Rollout:
    """What is collected of a session while its lines are read."""

    name: str | None = None
    version: str | None = None
    model: str | None = None
    asked: str | None = None
    said: str | None = None
    failed: str | None = None
    turns: int = 0
    calls: Calls = field(default_factory=Calls)
    clock: EventTimes = field(default_factory=EventTimes)
    totals: Mapping[str, Any] = field(default_factory=dict)  # of a rollout, as it says
    sums: dict[str, float] = field(default_factory=dict)  # of the turns of a stream
    changed: set[str] = field(default_factory=set)

    def add(self, line: Row) -> None:
        """Take a line of a rollout, or an event."""
        self.clock.see(line.get("timestamp"))
        kind, payload = line.get("type"), as_mapping(line.get("payload"))
        if kind == "session_meta":
            self.name = self.name or read_text(payload.get("id"))
            self.version = self.version or read_text(payload.get("cli_version"))
        elif kind == "turn_context":
            self.model = self.model or read_text(payload.get("model"))
        elif kind == "response_item":
            self._add_item(payload, line.get("timestamp"))
        elif kind == "event_msg":
            self._add_message(payload)
        elif isinstance(kind, str):
            self._add_event(kind, line)

    def _add_item(self, item: Mapping[str, Any], at: Any) -> None:
        kind, key = item.get("type"), item.get("call_id")
        if kind in _CALLS:
            given = item.get("arguments", item.get("input", item.get("action")))
            self.calls.add(key, item.get("name") or kind, given, at)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            cell = parse_cell(item.get("output"))
            seconds = as_number(find_value(cell, "metadata.duration_seconds"))
            self.calls.settle(key, success=_find_success(cell), at=at, seconds=seconds)
        elif kind == "message" and item.get("role") == "assistant":
            self.said = read_text(item.get("content")) or self.said
        elif kind == "message" and item.get("role") == "user":
            texts = filter(None, map(read_text, as_list(item.get("content"))))
            own = [text for text in texts if not text.startswith(_PUT_IN)]
            self.asked = self.asked or "\n".join(own) or None

    def _add_message(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "token_count":
            totals = as_mapping(find_value(message, "info.total_token_usage")) or self.totals
            self.turns += totals != self.totals  # the same ones come again with the limits
            self.totals = totals
        elif kind == "user_message":
            self.asked = self.asked or read_text(message.get("message"))
        elif kind == "agent_message":
            self.said = read_text(message.get("message")) or self.said
        elif kind in ("error", "stream_error"):
            self.failed = read_text(message.get("message")) or str(kind)
        elif kind in ("task_complete", "turn_complete"):
            self.failed = None
            self.said = read_text(message.get("last_agent_message")) or self.said

    def _add_event(self, kind: str, event: Row) -> None:
        if kind == "thread.started":
            self.name = self.name or read_text(event.get("thread_id"))
        elif kind == "turn.completed":
            self.failed = None
            for name in (*_COUNTS, _WRITTEN):
                count = as_number(find_value(event, f"usage.{name}"))
                if count is not None or name != _WRITTEN:
                    self.sums[name] = self.sums.get(name, 0) + (count or 0)
        elif kind in ("turn.failed", "error"):
            said = find_value(event, "error.message | message")
            self.failed = read_text(said) or kind
        elif kind == "item.completed":
            self._add_done(as_mapping(event.get("item")))

    def _add_done(self, item: Mapping[str, Any]) -> None:
        """Take a finished item of the events: what was said, a command, a change of files."""
        kind = item.get("type") or item.get("item_type")
        if kind in ("agent_message", "assistant_message"):
            self.turns += 1
            self.said = read_text(item.get("text")) or self.said
        elif kind not in _NO_CALLS:
            given = item.get("command") or item.get("arguments") or item.get("query")
            self.calls.add(item.get("id"), read_text(item.get("tool")) or kind, given)
            code, ended = as_number(item.get("exit_code")), item.get("status")
            success = ended != "failed" if code is None else code == 0
            self.calls.settle(item.get("id"), success=success)
            if success and kind == "file_change":
                paths = (
                    read_text(change.get("path")) for change in list_objects(item.get("changes"))
                )
                self.changed |= {path for path in paths if path}

    @property
    def usage(self) -> Mapping[str, Any]:
        """The tokens of the whole session."""
        return self.totals or self.sums

    def make_record(self, path: Path) -> Record:
        """Return what the session tells."""
        counts = {name: as_number(self.usage.get(name)) for name in _COUNTS}
        told = self.calls.make_fields()
        return {
            "id": self.name or path.name.partition(".")[0],
            "model": self.model or _NAME,
            "variant": _NAME if self.model else None,
            "agent_version": self.version,
            "input": self.asked,
            "answer": self.said,
            "turns": self.turns,
            **read_tokens(
                counts["input_tokens"],
                counts["cached_input_tokens"],
                as_number(self.usage.get(_WRITTEN)),
            ),
            "completion_tokens": counts["output_tokens"],
            "reasoning_tokens": counts["reasoning_output_tokens"],
            **make_duration_fields(self.clock.seconds),
            **told,
            "files_changed": told["files_changed"] + len(self.changed),
            "error": self.failed,
        }


def _find_success(told: Any) -> bool | None:
    """Return whether the result of a call says that it succeeded; None if it does not say."""
    code = as_number(find_value(told, "metadata.exit_code | exit_code"))
    if code is None and isinstance(text := read_text(told), str):
        match = _EXIT_CODE.search(text)
        code = float(match[1]) if match else None
    return None if code is None else code == 0


def _read_session(path: Path) -> _Rollout:
    session = _Rollout()
    for line, _ in read_json_lines(path):
        session.add(line)
    return session


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    yield _read_session(path).make_record(path), 1.0


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the output tokens that the session counts, which have the reasoning ones in them."""
    count = as_number(_read_session(path).usage.get("output_tokens"))
    if count is not None:
        yield Figure(name="output_tokens", value=count, n=1, ours=("sum(completion_tokens)",))


register(
    LogReader(
        name="Codex",
        fits=_fits,
        records=_read_records,
        stated=_list_stated,
        find=find_files(*(f"{'*/' * depth}rollout-*.jsonl" for depth in range(4)), fits=_fits),
    )
)
