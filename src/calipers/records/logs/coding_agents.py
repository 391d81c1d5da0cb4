"""What the logs of coding agents share: calls of tools with their results, files changed, times.

A call is told from its result by an id; it succeeded where the result does not say otherwise. A
file counts as changed where a tool that edits files was called with its path and did not fail: what
a command of the shell changes is not known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from calipers.records.logs.log import Record
from calipers.records.logs.parts import as_mapping, read_text
from calipers.records.readers.joins import parse_cell

_INSTANCE = re.compile(r"(?:^|/)(?P<owner>[A-Za-z0-9_.-]+?)__(?P<name>[A-Za-z0-9_.-]+)-\d+$")
_PATHS = ("file_path", "path", "notebook_path", "filename", "file", "target_file")
_EDITS = frozenset(
    (
        *("edit", "write", "multiedit", "notebookedit", "edit_file", "write_file", "create_file"),
        *("replace", "insert", "search_replace", "apply_diff", "write_to_file", "create", "update"),
    )
)
_EDITORS = frozenset(("str_replace_editor", "str_replace_based_edit_tool", "file_editor", "editor"))
_LOOKS = frozenset(("view", "undo_edit"))  # commands of an editor that leave no change
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_DIFFED = re.compile(r"^diff --git a/(.+?) b/", re.MULTILINE)


def name_repository(task: str | None) -> str | None:
    """Return the repository that the id of a task of SWE-bench names.

    >>> name_repository("django__django-11099"), name_repository("swe/sphinx-doc__sphinx-7")
    ('django/django', 'sphinx-doc/sphinx')
    >>> name_repository("hello-world")
    """
    match = _INSTANCE.search(task or "")
    return None if match is None else f"{match['owner']}/{match['name']}"


def read_instant(value: Any) -> float | None:
    """Return the seconds since 1970 of a time in ISO 8601, which is UTC where it has no zone.

    >>> read_instant("1970-01-01T00:00:01.5Z"), read_instant("soon")
    (1.5, None)
    """
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def measure_seconds(start: Any, end: Any) -> float | None:
    """Return the seconds from one time to another; None if one is not known or they go back."""
    begun, ended = read_instant(start), read_instant(end)
    return None if begun is None or ended is None or ended < begun else ended - begun


class EventTimes:
    """When a run began and ended, by the times that its events have."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._last: float | None = None

    def see(self, value: Any) -> None:
        """Take the time of an event, if it is one."""
        if (at := read_instant(value)) is not None:
            self._first = at if self._first is None else min(self._first, at)
            self._last = at if self._last is None else max(self._last, at)

    @property
    def seconds(self) -> float | None:
        """The seconds between the first and the last event; None where one time is all there is."""
        if self._first is None or self._last is None or self._first == self._last:
            return None
        return self._last - self._first


class Calls:
    """The calls of tools in a run, each with what its result says of it."""

    def __init__(self) -> None:
        self._made: list[Record] = []
        self._by_id: dict[str, Record] = {}

    def add(
        self,
        key: Any,
        name: Any,
        given: Any,
        at: Any = None,
        *,
        agent: str | None = None,
        success: bool | None = None,
    ) -> None:
        """Take a call; one whose id was seen already is the same call."""
        if not isinstance(name, str) or not name or (key is not None and str(key) in self._by_id):
            return
        call: Record = {"tool_name": name}
        args = parse_cell(given)
        if isinstance(args, dict):
            call["args"] = args
        elif (text := read_text(args)) is not None:
            call["context"] = text
        if isinstance(at, str):
            call["timestamp"] = at
        told = {"agent_id": agent, "success": success}
        call |= {part: value for part, value in told.items() if value is not None}
        self._made.append(call)
        if key is not None:
            self._by_id[str(key)] = call

    def settle(
        self, key: Any, *, success: bool | None, at: Any = None, seconds: float | None = None
    ) -> None:
        """Take the result of a call: whether it succeeded where that is said, and how long."""
        call = self._by_id.get(str(key))
        if call is None:
            return
        if success is not None:
            call["success"] = success
        took = measure_seconds(call.get("timestamp"), at) if seconds is None else seconds
        if took is not None:
            call["duration"] = took

    def make_fields(self) -> Record:
        """Return the trace, and how many files the calls changed."""
        tasks = Counter(call["agent_id"] for call in self._made if "agent_id" in call)
        told = {"agent_tasks": dict(tasks)} if tasks else {}
        return {
            "trace": {"tool_calls": self._made, **told},
            "files_changed": count_changed(self._made),
        }


def count_changed(calls: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of files that calls of editing tools changed.

    >>> edit = {"tool_name": "Edit", "args": {"file_path": "a.py"}}
    >>> count_changed([edit, edit, {"tool_name": "Read", "args": {"file_path": "b.py"}}])
    1
    >>> count_changed([{"tool_name": "apply_patch", "context": "*** Add File: a.py"}])
    1
    """
    changed: set[str] = set()
    for call in calls:
        if call.get("success") is not False:
            changed |= _list_changed(call)
    return len(changed)


def _list_changed(call: Mapping[str, Any]) -> set[str]:
    name, args = str(call.get("tool_name")).lower(), as_mapping(call.get("args"))
    texts = [call.get("context"), *args.values()]
    if "patch" in name:
        changed = {
            path for text in texts if isinstance(text, str) for path in _PATCHED.findall(text)
        }
        if changed:
            return changed
    edits = name in _EDITS or (name in _EDITORS and args.get("command") not in _LOOKS)
    path = next((args[key] for key in _PATHS if isinstance(args.get(key), str)), None)
    return {path} if edits and path else set()


def count_in_patch(patch: Any) -> int | None:
    """Return the number of files in a patch of git; None for what is not a text.

    >>> count_in_patch("diff --git a/x.py b/x.py")
    1
    """
    return len(set(_DIFFED.findall(patch))) if isinstance(patch, str) else None


def read_tokens(total: float | None, cached: float | None, written: float | None = None) -> Record:
    """Return tokens of a prompt from their sum, in which the cached ones are, each apart.

    >>> read_tokens(100, 60)
    {'prompt_tokens': 40, 'cache_read_tokens': 60}
    """
    found: Record = {}
    if total is not None:
        found["prompt_tokens"] = max(0, total - (cached or 0) - (written or 0))
    given = {"cache_read_tokens": cached, "cache_write_tokens": written}
    return found | {name: count for name, count in given.items() if count is not None}
