"""A trace in words, for a judge of plans: steps, decision points, tools with outcomes, hand-offs.

specs/003 leaves `extract_planning_decisions` open; this is ours. Whatever the length of the trace,
the summary keeps to a number of characters, and says what it leaves out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

_WORDS = 60  # characters of a name or a context
_SHARES = {"Tools": 0.15, "Decision points": 0.3, "Hand-offs": 0.2}  # steps have the rest
_OUTCOMES = {True: "succeeded", False: "failed"}
_LONGEST = 1e9  # seconds; more is not a duration
_COORDINATES = "handoff"


def summarize_trace(trace: Any, limit: int | None) -> str:
    """Return the summary of a trace, an object or its JSON, in at most `limit` characters.

    ValueError where it is neither.
    """
    found = _read(trace)
    calls, messages = _list_objects(found, "tool_calls"), _list_objects(found, "agent_interactions")
    head = _write_head(calls, messages, found.get("agent_tasks"))
    sections = {
        "Tools": list(_list_tools(calls)),
        "Decision points": list(_list_decisions(calls)),
        "Hand-offs": list(_list_hand_offs(messages)),
        "Steps": [f"{n}. {_describe_step(call)}" for n, call in enumerate(calls, 1)],
    }
    return _fit(head, {name: lines for name, lines in sections.items() if lines}, limit)


def _read(trace: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(trace) if isinstance(trace, str) else trace
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise ValueError("the record's trace is not an object")  # noqa: TRY004
    return found


def _list_objects(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = found.get(key)
    return [e for e in entries if isinstance(e, Mapping)] if isinstance(entries, list) else []


def _write_head(
    calls: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]], tasks: Any
) -> str:
    failed = sum(call.get("success") is False for call in calls)
    handed = sum(message.get("type") == _COORDINATES for message in messages)
    said = (
        f"{len(calls)} tool calls ({failed} failed), {len(messages)} messages ({handed} hand-offs)"
    )
    if isinstance(tasks, Mapping) and tasks:
        shares = ", ".join(
            f"{_shorten(agent)} {_shorten(count)}" for agent, count in list(tasks.items())[:10]
        )
        said += f"; tasks by agent: {shares}"
    return f"{said}."


def _list_tools(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    told: dict[str, Counter[Any]] = {}
    for call in calls:
        outcomes = told.setdefault(str(call.get("tool_name")), Counter())
        outcomes[success if isinstance(success := call.get("success"), bool) else None] += 1
    for tool, known in sorted(told.items(), key=lambda each: -each[1].total()):
        counts = [f"{known[is_good]} {word}" for is_good, word in _OUTCOMES.items()]
        how = ", ".join(counts) if known.keys() - {None} else "outcome unknown"
        yield f"{_shorten(tool)}: {known.total()}×, {how}"


def _list_decisions(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield where the agent had to decide: after a failure, a repetition, or a hand-off."""
    for at, (before, call) in enumerate(pairwise(calls), 2):
        tool, last = call.get("tool_name"), before.get("tool_name")
        if before.get("success") is False:
            how = "tried it again" if tool == last else f"turned to {_shorten(tool)}"
            yield f"step {at}: after {_shorten(last)} failed, {how} → {_describe_outcome(call)}"
        elif tool == last and call.get("context") == before.get("context"):
            yield f"step {at}: repeated {_shorten(tool)} on the same → {_describe_outcome(call)}"
        elif call.get("agent_id") != before.get("agent_id"):
            yield f"step {at}: {_shorten(call.get('agent_id'))} went on with {_shorten(tool)}"


def _list_hand_offs(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counted = Counter(
        (_shorten(m.get("from")), _shorten(m.get("to")), _shorten(m.get("type"))) for m in messages
    )
    ordered = sorted(counted.items(), key=lambda each: each[0][2] != _COORDINATES)
    for (sender, receiver, kind), times in ordered:
        yield f"{sender} → {receiver}: {kind}{f' {times}×' if times > 1 else ''}"


def _describe_step(call: Mapping[str, Any]) -> str:
    agent = f"[{_shorten(call['agent_id'])}] " if call.get("agent_id") is not None else ""
    context = f" for {_shorten(call['context'])}" if call.get("context") is not None else ""
    seconds: Any = call.get("duration")
    is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    took = f", {seconds:g} s" if is_time and 0 <= seconds <= _LONGEST else ""
    return f"{agent}{_shorten(call.get('tool_name'))}{context} → {_describe_outcome(call)}{took}"


def _describe_outcome(call: Mapping[str, Any]) -> str:
    success = call.get("success")
    return _OUTCOMES[success] if isinstance(success, bool) else "outcome unknown"


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split()) if value is not None else "unknown"
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 1]}…"


def _fit(head: str, sections: Mapping[str, Sequence[str]], limit: int | None) -> str:
    """Return the sections in order; room that one does not need goes to the next ones."""
    whole = "\n\n".join([head, *(_write_section(name, lines) for name, lines in sections.items())])
    if limit is None or len(whole) <= limit:
        return whole
    parts = [head[:limit]]
    left = limit - len(parts[0])
    for name, lines in sections.items():
        room = left if name == "Steps" else min(left, int(limit * _SHARES[name]))
        shown = _fit_lines(lines, room - len(name) - 4)
        if shown:
            parts.append(_write_section(name, shown))
            left -= len(parts[-1]) + 2
    return "\n\n".join(parts)


def _write_section(name: str, lines: Sequence[str]) -> str:
    return f"{name}:\n" + "\n".join(lines)


def _fit_lines(lines: Sequence[str], room: int) -> list[str]:
    """Return the lines that fit: the first and the last, and the number left out between."""
    if sum(len(line) + 1 for line in lines) <= room:
        return list(lines)
    room -= len(f"(… {len(lines)} left out …)") + 1
    if room < 0:
        return []
    first: list[str] = []
    last: list[str] = []
    for turn in range(len(lines)):
        line = lines[len(first)] if turn % 2 == 0 else lines[-1 - len(last)]
        room -= len(line) + 1
        if room < 0:
            break
        (first if turn % 2 == 0 else last).append(line)
    mark = f"(… {len(lines) - len(first) - len(last)} left out …)"
    return [*first, mark, *reversed(last)]
