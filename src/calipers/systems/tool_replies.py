"""Replies of servers' tools, kept in a file of the folder until their call is done.

A conversation that failed after a tool was called is tried again from its start. The tool is not:
where the model calls the same tools with the same arguments in the same order, it hears what it
heard before. A reply that holds a key is not kept: masked, it would not be what the tool said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.records.task_data import RUN_NAMES
from calipers.systems.journal import Journal
from calipers.systems.redact import Mask

TOOL_REPLIES_FILE = ".tool_replies.jsonl"
_NAMES = ("id", *RUN_NAMES)
_KEY = "key"

Asked = tuple[str, Mapping[str, Any]]
"""A tool, and its arguments."""


class ToolReplies:
    """What was replied, by the conversation and all tools that it has called until then."""

    def __init__(self, file: Journal, mask: Mask) -> None:
        self._file = file
        self._mask = mask
        self._spans = {e[_KEY]: (start, end) for start, end, e in file.read_lines() if _KEY in e}

    def find(self, record: Mapping[str, Any], asked: Sequence[Asked]) -> dict[str, Any] | None:
        """Return the reply to the last of the calls; None where it was not called yet."""
        span = self._spans.get(_make_key(record, asked))
        return None if span is None else self._file.read_line(*span)

    def keep(
        self, record: Mapping[str, Any], asked: Sequence[Asked], reply: Mapping[str, Any]
    ) -> None:
        """Keep the reply to the last of the calls, before the model hears it."""
        if self._mask.mask_value(dict(reply)) == reply:
            key = _make_key(record, asked)
            self._spans[key] = self._file.add({_KEY: key, **reply})


def _make_key(record: Mapping[str, Any], asked: Sequence[Asked]) -> str:
    """Return what tells the last of a conversation's calls from all others."""
    names = [record.get(name) for name in _NAMES]
    text = json.dumps([names, *map(list, asked)], sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "replace")).hexdigest()


@contextmanager
def open_tool_replies(path: Path, mask: Mask) -> Iterator[ToolReplies]:
    """Open the file of replies; the run holds its folder's lock."""
    file = Journal(path)
    try:
        yield ToolReplies(file, mask)
    finally:
        file.close()
