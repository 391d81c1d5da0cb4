"""Replies that are kept by what was asked, for runs of other folders; only where a suite asks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from calipers.support.whole_files import whole
from calipers.systems.calls import Call, Reply, System, time_fields

Say = Callable[[str], None]


class Cached:
    """A system whose replies are looked up first.

    What it keeps is what the system gives, which must be masked already. The run's number is part
    of the question: the repeats of a task are calls of their own.
    """

    def __init__(
        self,
        system: System,
        folder: Path,
        of: Mapping[str, Any],
        say: Say,
        *,
        reads: bool = True,
    ) -> None:
        self._system = system
        self._folder = folder
        self._of = of
        self._say = say
        self._reads = reads
        self._is_writable = True

    async def __call__(self, call: Call) -> Reply:
        """The reply that is kept, or a new one, which then is."""
        path = self._path(call)
        if self._reads:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                return _kept_reply(json.loads(path.read_bytes()))
        began = perf_counter()
        reply = await self._system(call)
        self._keep(path, reply, perf_counter() - began)
        return reply

    def _path(self, call: Call) -> Path:
        asked = [self._of, call.prompt, call.settings, call.record.get("run")]
        asked += [] if call.system is None else [call.system]
        if call.messages or call.turns or call.tools:
            asked += [call.messages, call.turns, call.tools]
        name = sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"

    def _keep(self, path: Path, reply: Reply, seconds: float) -> None:
        """A reply that was paid for is never lost to a cache that cannot hold it."""
        if not self._is_writable:
            return
        try:
            self._write(path, reply, seconds)
        except OSError as error:
            self._is_writable = False
            self._say(f"{self._folder}: {error.strerror}; replies are not kept in this cache")

    def _write(self, path: Path, reply: Reply, seconds: float) -> None:
        """With the time that the system took: to find it again takes none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {
            "text": reply.text,
            "fields": {**reply.fields, **time_fields(seconds), "cached": True},
            "reasoning": reply.reasoning,
            "logprobs": [list(pair) for pair in reply.logprobs],
            "messages": list(reply.messages),
        }
        with whole(path, private=True) as beside:
            beside.write_text(json.dumps(kept), encoding="utf-8")


def _kept_reply(kept: Any) -> Reply:
    """Return a reply that was kept; ValueError, TypeError or KeyError for what is none."""
    text, fields, reasoning = kept["text"], kept["fields"], kept["reasoning"]
    if not (
        isinstance(text, str | None)
        and isinstance(fields, dict)
        and isinstance(reasoning, str | None)
    ):
        raise TypeError
    logprobs = tuple((str(token), float(number)) for token, number in kept["logprobs"])
    messages = kept.get("messages", [])
    return Reply(
        text=text, fields=fields, reasoning=reasoning, logprobs=logprobs, messages=messages
    )
