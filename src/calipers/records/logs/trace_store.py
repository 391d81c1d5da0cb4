"""Spans grouped by trace; those of a large log are kept in files, not in memory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Self
from zlib import crc32

from calipers.records.logs.spans import Span

HELD = 128 << 20  # characters of spans that are held in memory
_PARTS = 64  # files, each read as a whole in the end

Trace = tuple[str, list[Span]]


class TraceStore:
    """Collects spans in any order and returns them by trace."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._size = 0
        self._folder: TemporaryDirectory[str] | None = None
        self._files: list[IO[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, span: Span) -> None:
        """Keep a span."""
        self._spans.append(span)
        self._size += 500 + sum(
            len(value) for value in span.attributes.values() if isinstance(value, str | list)
        )
        if self._size > HELD:
            self._put_away()

    def list_traces(self) -> Iterator[tuple[Trace, float]]:
        """Yield each trace with its spans, and the share of all that is behind it."""
        if self._folder is None:
            yield from _group(self._spans, 0, 1)
            return
        self._put_away()
        for part, file in enumerate(self._files):
            file.seek(0)
            yield from _group([_load(line) for line in file], part, _PARTS)

    def _put_away(self) -> None:
        """Write what is held to the files, all spans of a trace to the same."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="calipers-")
            folder = Path(self._folder.name)
            self._files = [
                (folder / str(part)).open("w+", encoding="utf-8", errors="surrogatepass")
                for part in range(_PARTS)
            ]
        for span in self._spans:
            part = crc32(span.trace.encode("utf-8", "replace")) % _PARTS
            self._files[part].write(f"{json.dumps(asdict(span))}\n")
        self._spans, self._size = [], 0


def _group(spans: list[Span], part: int, parts: int) -> Iterator[tuple[Trace, float]]:
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        traces[span.trace].append(span)
    for place, trace in enumerate(traces.items(), start=1):
        yield trace, (part + place / len(traces)) / parts


def _load(line: str) -> Span:
    found: dict[str, Any] = json.loads(line)
    events = tuple((name, attributes) for name, attributes in found.pop("events"))
    return Span(**found, events=events)
