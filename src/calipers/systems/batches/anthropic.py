"""Anthropic's message batches: requests in one body, results as JSON lines within 24 hours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.systems.batches.batch_model import EndedBatch, Outcome, Sending, wait_until
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.http import ApiClient, read_batch_id

BASE_URL = "https://api.anthropic.com"
_PATH = "/v1/messages/batches"
VERSION = "2023-06-01"
_MAX_TOKENS = 4096  # the API wants a number; pydantic-ai's default
_RENAMED = {"stop": "stop_sequences"}
_USAGE = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}
_CLOCKS_DIFFER = 3600  # seconds, by which the provider's may be behind
_AGAIN = ("rate_limit_error", "api_error", "overloaded_error", "timeout_error")


class AnthropicBatches:
    """Batches of messages."""

    def __init__(self, requests: ApiClient, model: str) -> None:
        self._requests = requests
        self._model = model

    async def make_request(self, call: Call) -> dict[str, Any]:
        """Return the parameters of a message.

        Raises:
            Fault: The call has tools or images, which a batch of messages is not given here.
        """
        messages = [dict(message) for message in call.messages]
        if call.tools or call.images or any(message.get("role") == "tool" for message in messages):
            problem = "a batch of Anthropic's takes texts alone, no tools and no images"
            raise Fault("bad_request", problem)
        system = [message["content"] for message in messages if message.get("role") == "system"]
        system += [] if call.system is None else [call.system]
        settings = {
            _RENAMED.get(name, name.removeprefix("anthropic_")): value
            for name, value in call.settings.items()
            if name not in ("extra_body", "extra_headers")
        }
        spoken = [message for message in messages if message.get("role") != "system"]
        return {
            "max_tokens": _MAX_TOKENS,
            **settings,
            **(call.settings.get("extra_body") or {}),
            "model": self._model,
            "messages": spoken or [{"role": "user", "content": call.prompt}],
            **({"system": "\n\n".join(system)} if system else {}),
        }

    async def submit(self, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Start a batch on the requests, each with the mark in its name."""
        listed = [
            {"custom_id": f"{name}-{mark}", "params": request} for name, request in requests.items()
        ]
        return read_batch_id(await self._requests.post(_PATH, {"requests": listed}))

    async def find_batch(self, sending: Sending, known: Collection[str]) -> str | None:
        """Return the batch whose results have the mark of the sending.

        The list, the newest first, tells no names: a batch of the same time and size is waited for
        until it has results.
        """
        async for batch in self._requests.read_list(_PATH, "after_id"):
            if _read_time(batch.get("created_at"), sending.at) < sending.at - _CLOCKS_DIFFER:
                return None
            name = str(batch.get("id"))
            is_like_it = _count_requests(batch) == len(sending.calls) and name not in known
            if is_like_it and await self._has_mark(name, sending.mark):
                return name
        return None

    async def _has_mark(self, batch: str, mark: str) -> bool:
        """Return True if the first result of a batch, once it is there, has the mark."""
        await wait_until(lambda: self.look(batch))
        async for line in self._requests.read_lines(f"{_PATH}/{batch}/results"):
            return str(line.get("custom_id")).endswith(f"-{mark}")
        raise Fault("bad_response", f"{batch} has ended, and has no results", again=True)

    async def look(self, batch: str) -> EndedBatch | None:
        """Return the batch once it has ended: every call has a result."""
        status = (await self._requests.get(f"{_PATH}/{batch}")).get("processing_status")
        if not isinstance(status, str):
            raise Fault("bad_response", f"{batch} has no status", again=True)
        return EndedBatch(batch) if status == "ended" else None

    async def read_results(self, ended: EndedBatch) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the results."""
        async for line in self._requests.read_lines(f"{_PATH}/{ended.name}/results"):
            name = str(line.get("custom_id")).partition("-")[0]
            yield name, _read_outcome(line.get("result"))


def _read_time(written: Any, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except ValueError:
        return otherwise


def _count_requests(batch: Mapping[str, Any]) -> int:
    counts = batch.get("request_counts")
    listed = counts.values() if isinstance(counts, dict) else ()
    return sum(count for count in listed if isinstance(count, int))


def _read_outcome(result: Any) -> Outcome:
    kind = result.get("type") if isinstance(result, dict) else None
    if kind == "succeeded":
        return _read_message(result.get("message"))
    if kind == "errored":
        error = result.get("error") or {}
        error = error.get("error", error) if isinstance(error, dict) else {}
        code, problem = str(error.get("type")), str(error.get("message") or "no reason is given")
        again = code in _AGAIN
        return Fault("server" if again else "bad_request", f"{code}: {problem}", again=again)
    if kind == "expired":
        return Fault("timeout", "the batch expired before it was answered", again=True)
    if kind == "canceled":
        return Fault("server", "the call was canceled at the provider", again=True)
    return Fault("bad_response", "a result that is none of those that the provider documents")


def _read_message(message: Any) -> Outcome:
    try:
        parts = [part for part in message["content"] if isinstance(part, dict)]
        texts = [part["text"] for part in parts if part.get("type") == "text"]
        thoughts = [part["thinking"] for part in parts if part.get("type") == "thinking"]
        usage = message.get("usage") or {}
        counts = {ours: usage.get(theirs) for ours, theirs in _USAGE.items()}
        text = "".join(texts)
    except (KeyError, TypeError, AttributeError):
        return Fault("bad_response", "a message that cannot be read")
    reason = name_finish_reason(message.get("stop_reason"))
    fields = {name: count for name, count in counts.items() if isinstance(count, int)}
    fields = {n: c for n, c in fields.items() if c or not n.startswith("cache")}
    return Reply(
        text=text,
        fields={**fields, **({} if reason is None else {"finish_reason": reason})},
        reasoning="\n".join(thoughts) or None,
    )
