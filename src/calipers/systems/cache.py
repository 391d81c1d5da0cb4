"""A cache of replies by request, shared between folders; only if a suite asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from calipers.support.cache import DiskCache, Say, hash_key
from calipers.systems.calls import Call, Reply, System, time_fields


class Cached:
    """A system whose replies are looked up first.

    Stored replies must be masked already. The number of the run is part of the key: repeats of a
    task are separate calls.
    """

    def __init__(
        self, system: System, folder: Path, of: Mapping[str, Any], say: Say, *, reads: bool
    ) -> None:
        self._system = system
        self._cache = DiskCache(folder, what="replies", say=say)
        self._of = of
        self._reads = reads

    async def __call__(self, call: Call) -> Reply:
        """Return the reply that is kept, or a new one, which then is."""
        key = self._make_key(call)
        if self._reads and (kept := self._cache.find(key, _load_reply)) is not None:
            return kept
        began = perf_counter()
        reply = await self._system(call)
        self._cache.keep(key, _dump_reply(reply, perf_counter() - began))
        return reply

    def _make_key(self, call: Call) -> str:
        asked: list[Any] = [] if call.system is None else [call.system]
        if call.messages or call.turns or call.tools:
            asked += [call.messages, call.turns, call.tools]
        if call.images:
            asked.append({name: image.sha256 for name, image in call.images.items()})
        if call.user is not None:
            asked.append(asdict(call.user))
        return hash_key(self._of, call.prompt, call.settings, call.record.get("run"), *asked)


def _dump_reply(reply: Reply, seconds: float) -> bytes:
    """Return the stored form of a reply, with the duration of the call."""
    kept = {
        "text": reply.text,
        "fields": {**reply.fields, **time_fields(seconds), "cached": True},
        "reasoning": reply.reasoning,
        "logprobs": [list(pair) for pair in reply.logprobs],
        "messages": list(reply.messages),
    }
    return json.dumps(kept).encode()


def _load_reply(content: bytes) -> Reply:
    """Return a stored reply; raise ValueError, TypeError or KeyError if it is damaged."""
    kept = json.loads(content)
    text, fields, reasoning = kept["text"], kept["fields"], kept["reasoning"]
    texts = isinstance(text, str | None) and isinstance(reasoning, str | None)
    if not (texts and isinstance(fields, dict)):
        raise TypeError
    logprobs = tuple((str(token), float(number)) for token, number in kept["logprobs"])
    messages = kept.get("messages", [])
    return Reply(
        text=text, fields=fields, reasoning=reasoning, logprobs=logprobs, messages=messages
    )
