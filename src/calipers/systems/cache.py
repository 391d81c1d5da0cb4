"""Replies that are kept by what was asked, for runs of other folders; only where a suite asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from calipers.support.cache import DiskCache, Say, key_of
from calipers.systems.calls import Call, Reply, System, time_fields


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
        self._cache = DiskCache(folder, what="replies", say=say)
        self._of = of
        self._reads = reads

    async def __call__(self, call: Call) -> Reply:
        """Return the reply that is kept, or a new one, which then is."""
        key = self._key(call)
        if self._reads and (kept := self._cache.find(key, _kept_reply)) is not None:
            return kept
        began = perf_counter()
        reply = await self._system(call)
        self._cache.keep(key, _content(reply, perf_counter() - began))
        return reply

    def _key(self, call: Call) -> str:
        asked: list[Any] = [] if call.system is None else [call.system]
        if call.messages or call.turns or call.tools:
            asked += [call.messages, call.turns, call.tools]
        if call.images:
            asked.append({name: image.sha256 for name, image in call.images.items()})
        if call.user is not None:
            asked.append(asdict(call.user))
        return key_of(self._of, call.prompt, call.settings, call.record.get("run"), *asked)


def _content(reply: Reply, seconds: float) -> bytes:
    """Return what is kept of a reply: with the time that it took, since to find it takes none."""
    kept = {
        "text": reply.text,
        "fields": {**reply.fields, **time_fields(seconds), "cached": True},
        "reasoning": reply.reasoning,
        "logprobs": [list(pair) for pair in reply.logprobs],
        "messages": list(reply.messages),
    }
    return json.dumps(kept).encode()


def _kept_reply(content: bytes) -> Reply:
    """Return a reply that was kept; ValueError, TypeError or KeyError for what is none."""
    kept = json.loads(content)
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
