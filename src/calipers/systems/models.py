"""Models that a suite names: OpenAI's chat protocol, several servers of one model, cached replies.

`open_model` returns what can be asked: a `ChatModel` where a `base_url` is given, otherwise a
provider's model through pydantic-ai (`systems/providers.py`); `open_batch_model` one that is asked
by the batch (`systems/batches/`). Through pydantic-ai and the OpenAI SDK a call takes 3.4 ms of
processor time, here 0.1 ms: at 5,000 calls a second that matters.

The cache stands below the tool loop: what is kept is one reply to one request. Tools, turns of the
user and simulated users are played every time, so that what they say now is what counts.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from calipers.records.fields import name_finish_reason
from calipers.support.errors import MissingExtraError, UsageError
from calipers.support.files import DiskCache, Say, hash_key
from calipers.systems.calls import Call, Fault, Reply, System, ToolCall
from calipers.systems.http import ApiClient, Post, encode_json, open_session, parse_body
from calipers.systems.images import load_images
from calipers.systems.keys import MaskedSystem, make_mask, read_api_key
from calipers.systems.pace import LONGEST_WAIT
from calipers.systems.redact import Mask
from calipers.systems.reply_text import read_logprobs
from calipers.systems.spec import Served, ServedModel, SystemSpec

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from calipers.systems.batches.batch_model import BatchModel

CHAT_PROVIDERS = ("openai", "openai-chat", "openrouter", "azure")
"""Providers whose models are asked straight where a `base_url` is given."""

_PATH = "/chat/completions"
_VERSION = "api-version"
_VERSION_ENV = "OPENAI_API_VERSION"
_RENAMED = {"stop_sequences": "stop"}  # from pydantic-ai's names of settings
_REASONING = ("reasoning_content", "reasoning")
_MOST_TOKENS = 10**15  # a larger number is not a count


class ChatModel:
    """Asks a model, one message at a time."""

    def __init__(
        self, session: ClientSession, name: str, base_url: str, key: str | None, *, logprobs: bool
    ) -> None:
        provider, _, model = name.partition(":")
        url = make_chat_url(provider, model, base_url)
        self._post = Post(session, url, make_key_header(provider, key))
        self._model = model
        self._logprobs = logprobs

    async def __call__(self, call: Call) -> Reply:
        """Return the model's text, its reasoning, and the tokens used."""
        body, headers = await make_body(call, self._model, logprobs=self._logprobs)
        posted = await self._post(encode_json(body), headers)
        return replace(read_reply(parse_body(posted.content)), seconds=posted.seconds)


def make_chat_url(provider: str, model: str, base_url: str) -> str:
    """Return the URL that requests go to; what a query string in `base_url` says stays there.

    Raises:
        UsageError: Azure needs the version of its API, and nothing says it.

    >>> make_chat_url("openai", "tiny", "http://127.0.0.1:8000/v1/?tenant=a")
    'http://127.0.0.1:8000/v1/chat/completions?tenant=a'
    >>> make_chat_url("azure", "mine", "https://x.example?api-version=2024-10-21")
    'https://x.example/openai/deployments/mine/chat/completions?api-version=2024-10-21'
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if provider == "azure" and not path.endswith("/v1"):
        if "/deployments/" not in path:
            path = f"{path.removesuffix('/openai')}/openai/deployments/{quote(model, safe='')}"
        if _VERSION not in dict(query):
            query.append((_VERSION, _read_version(base_url)))
    return urlunsplit(parts._replace(path=f"{path}{_PATH}", query=urlencode(query), fragment=""))


def make_key_header(provider: str, key: str | None) -> dict[str, str]:
    """Return the header that carries a key; none without one."""
    if key is None:
        return {}
    return {"api-key": key} if provider == "azure" else {"Authorization": f"Bearer {key}"}


def _read_version(base_url: str) -> str:
    if version := os.environ.get(_VERSION_ENV):
        return version
    host = urlsplit(base_url).hostname or "NAME.openai.azure.com"
    raise UsageError(
        "azure: nothing says which version of its API to speak",
        fix=f"set {_VERSION_ENV}, or write it into base_url: "
        f"https://{host}?{_VERSION}=2024-10-21; or take the path /openai/v1",
    )


async def make_body(
    call: Call, model: str, *, logprobs: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body of a chat completion, and the headers that its settings ask for."""
    body, headers = _make_request(call.settings)
    messages = list(await load_images(call)) or call.open_messages()
    body |= {"model": model, "messages": messages}
    if call.tools:
        body["tools"] = [{"type": "function", "function": dict(tool)} for tool in call.tools]
    return body | ({"logprobs": True} if logprobs else {}), headers


def _make_request(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    if not settings:
        return {}, {}
    further = dict(settings.get("extra_body") or {})
    headers = {str(k): str(v) for k, v in (settings.get("extra_headers") or {}).items()}
    body = {
        _RENAMED.get(name, name.removeprefix("openai_")): value
        for name, value in settings.items()
        if name not in ("extra_body", "extra_headers")
    }
    return {**body, **further}, headers


def read_reply(body: Any) -> Reply:
    """Return the reply in the body of a chat completion; raise a Fault where there is none."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = message.get("content")
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        problem = _find_error(body) or "no message in it"
        raise Fault("bad_response", problem, again=True) from error
    if finish == "content_filter" or message.get("refusal"):
        refusal = str(message.get("refusal") or "the reply was filtered")
        raise Fault("content_filter", refusal, usage=_read_tokens(body.get("usage")))
    fields: dict[str, Any] = {**_read_tokens(body.get("usage"))}
    if (reason := name_finish_reason(finish)) is not None:
        fields["finish_reason"] = reason
    return Reply(
        text=_read_text(text),
        fields=fields,
        reasoning=_read_reasoning(message),
        logprobs=_read_logprobs(choice.get("logprobs")),
        tool_calls=_read_tool_calls(message.get("tool_calls")),
    )


def _read_tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    try:
        return tuple(
            ToolCall(
                id=str(call["id"]),
                name=str(call["function"]["name"]),
                arguments=str(call["function"].get("arguments") or "{}"),
            )
            for call in calls or ()
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise Fault("bad_response", "tool calls that cannot be read", again=True) from error


def _read_text(content: Any) -> str:
    """Return the text of a message, which may come in parts; parts of other kinds are skipped."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str | None) for text in texts):
        raise Fault("bad_response", "the message's content is not text", again=True)
    return "".join(text for text in texts if text)


def _read_reasoning(message: Mapping[str, Any]) -> str | None:
    for name in _REASONING:
        if isinstance(reasoning := message.get(name), str) and reasoning:
            return reasoning
    return None


def _find_error(body: Any) -> str | None:
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return str(error) if error else None


def _read_tokens(usage: Any) -> dict[str, int]:
    """Return tokens as in records: those of the cache are not among those of the prompt."""
    if not isinstance(usage, dict):
        return {}
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    tokens = {}
    if (prompt := _count(usage, "prompt_tokens")) is not None:
        tokens["prompt_tokens"] = max(0, prompt - (cached or 0))
    if (completion := _count(usage, "completion_tokens")) is not None:
        tokens["completion_tokens"] = completion
    if cached:
        tokens["cache_read_tokens"] = cached
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    if thought is not None:
        tokens["reasoning_tokens"] = thought
    return tokens


def _count(counts: Any, name: str) -> int | None:
    """Return a count of tokens, whatever else stands there being none."""
    count = counts.get(name) if isinstance(counts, dict) else None
    return count if type(count) is int and 0 <= count < _MOST_TOKENS else None


def _read_logprobs(stated: Any) -> tuple[tuple[str, float], ...]:
    tokens = stated.get("content") if isinstance(stated, dict) else None
    return read_logprobs(tokens) if isinstance(tokens, list) else ()


_FIRST_REST = 0.5
_LONGEST_REST = 30.0
_MOST_DOUBLINGS = 10


@asynccontextmanager
async def open_models(models: Sequence[ServedModel]) -> AsyncIterator[list[System]]:
    """Open the models, in order."""
    mask = make_mask(models)
    async with open_session() as session:
        with mask_errors(mask):
            opened = [open_model(model.model, model, session, logprobs=False) for model in models]
        yield [MaskedSystem(system, mask) for system in opened]


@contextmanager
def mask_errors(mask: Mask) -> Iterator[None]:
    """Take keys out of what an SDK, or a file of Python, says when it cannot be loaded."""
    try:
        yield
    except UsageError as error:
        raise UsageError(mask(error.message), fix=mask(error.fix)) from None


def open_model(name: str, served: Served, session: ClientSession, *, logprobs: bool) -> System:
    """Return the model behind its own server or servers, or behind its provider's."""
    key = read_api_key(served)
    opened = [
        _open_at(url, name, key, session, logprobs=logprobs) for url in served.urls or (None,)
    ]
    return opened[0] if len(opened) == 1 else LeastLoaded(opened)


def _open_at(
    url: str | None, name: str, key: str | None, session: ClientSession, *, logprobs: bool
) -> System:
    if url is not None and name.partition(":")[0] in CHAT_PROVIDERS:
        return ChatModel(session, name, url, key, logprobs=logprobs)
    try:
        from calipers.systems.providers import ProviderModel  # noqa: PLC0415 (an extra)
    except ImportError:
        raise MissingExtraError(f"{name} needs pydantic-ai", extra="run") from None

    return ProviderModel(session, name, url, key, logprobs=logprobs)


def open_batch_model(
    system: SystemSpec,
    session: ClientSession,
    ledger: Path,
    say: Say,
    *,
    logprobs: bool,
    timeout_seconds: float,
) -> BatchModel:
    """Return a model that is asked by the batch; `ledger` remembers what waits at the provider."""
    from calipers.systems.batches import anthropic, openai  # noqa: PLC0415 (rare)
    from calipers.systems.batches.batch_model import BatchModel, BatchService, Ledger  # noqa: PLC0415

    provider, _, model = (system.model or "").partition(":")
    key = read_api_key(system) or os.environ.get(f"{provider.upper()}_API_KEY") or None
    is_anthropic = provider == "anthropic"
    if is_anthropic:
        headers = {"anthropic-version": anthropic.VERSION, **({"x-api-key": key} if key else {})}
    else:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
    base_url = next(iter(system.urls), None) or (anthropic if is_anthropic else openai).BASE_URL
    requests = ApiClient(session, base_url, headers, timeout_seconds)
    service: BatchService = (
        anthropic.AnthropicBatches(requests, model)
        if is_anthropic
        else openai.OpenAIBatches(requests, model, logprobs=logprobs)
    )
    return BatchModel(service, Ledger(ledger, system.name), say, system.name)


@dataclass(slots=True)
class _FleetServer:
    system: System
    in_flight: int = 0
    calls: int = 0
    failures: int = 0  # one after the other
    rests_until: float = 0.0


class LeastLoaded:
    """Several servers of one model: a call goes to the one with the fewest calls in flight.

    A server that cannot be reached would have none, and attract all calls: after a failure it is
    not used for a while, longer each time, as long as another one is available.
    """

    def __init__(self, systems: Sequence[System], clock: Callable[[], float] = monotonic) -> None:
        self._servers = [_FleetServer(system) for system in systems]
        self._clock = clock

    async def __call__(self, call: Call) -> Reply:
        """Return the reply of the server that was chosen."""
        server = self._choose()
        server.in_flight += 1
        server.calls += 1
        try:
            reply = await server.system(call)
        except Fault as fault:
            if fault.again:
                self._let_rest(server, fault.retry_after or 0.0)
            raise
        except asyncio.CancelledError:  # it took too long
            self._let_rest(server)
            raise
        else:
            server.failures = 0
            return reply
        finally:
            server.in_flight -= 1

    def _choose(self) -> _FleetServer:
        """Return a server that does not rest, the one with fewest calls; else the next to wake."""
        now = self._clock()
        awake = [server for server in self._servers if server.rests_until <= now]
        if not awake:
            return min(self._servers, key=lambda server: server.rests_until)
        return min(awake, key=lambda server: (server.in_flight, server.calls))

    def _let_rest(self, server: _FleetServer, at_least: float = 0.0) -> None:
        """Pause a server after a failure, so that the next call goes to another one."""
        rest = min(_LONGEST_REST, _FIRST_REST * 2 ** min(server.failures, _MOST_DOUBLINGS))
        server.failures += 1
        server.rests_until = self._clock() + max(rest, min(at_least, LONGEST_WAIT))


_FORMAT = 2  # of what is kept, and of its key


class CachedModel:
    """A model whose replies are looked up in a cache first.

    A reply that holds a key is not kept: masked, it would not be what the model said. The number of
    the run is part of the key: repeats of a task are separate calls.
    """

    def __init__(
        self,
        system: System,
        folder: Path,
        of: Mapping[str, Any],
        say: Say,
        mask: Mask,
        *,
        reads: bool,
    ) -> None:
        self._system = system
        self._cache = DiskCache(folder, what="replies", say=say)
        self._of = {"format": _FORMAT, **of}
        self._mask = mask
        self._reads = reads

    async def __call__(self, call: Call) -> Reply:
        """Return the cached reply, or a new one, which is then cached."""
        key = self._make_key(call)
        if self._reads and (kept := self._cache.find(key, _load_reply)) is not None:
            return kept
        began = perf_counter()
        reply = await self._system(call)
        seconds = perf_counter() - began if reply.seconds is None else reply.seconds
        content = _list_content(replace(reply, seconds=seconds))
        written = json.dumps(content)
        if json.dumps(self._mask.mask_value(content)) == written:
            self._cache.keep(key, written.encode())
        return reply

    def _make_key(self, call: Call) -> str:
        images = {name: image.sha256 for name, image in call.images.items()}
        asked = (call.system, call.prompt, call.messages, call.tools, images, call.settings)
        return hash_key(self._of, call.record.get("run"), *asked)


def _list_content(reply: Reply) -> dict[str, Any]:
    """Return what is kept of a reply, as JSON has it."""
    return {
        "text": reply.text,
        "fields": dict(reply.fields),
        "reasoning": reply.reasoning,
        "logprobs": [list(pair) for pair in reply.logprobs],
        "tool_calls": [[call.id, call.name, call.arguments] for call in reply.tool_calls],
        "messages": list(reply.messages),
        "seconds": reply.seconds,
    }


def _load_reply(content: bytes) -> Reply:
    """Return a stored reply; raise ValueError, TypeError or KeyError if it is damaged."""
    kept = json.loads(content)
    text, fields, reasoning = kept["text"], kept["fields"], kept["reasoning"]
    texts = isinstance(text, str | None) and isinstance(reasoning, str | None)
    if not (texts and isinstance(fields, dict)):
        raise TypeError
    return Reply(
        text=text,
        fields=fields,
        reasoning=reasoning,
        logprobs=tuple((str(token), float(number)) for token, number in kept["logprobs"]),
        tool_calls=tuple(
            ToolCall(id=str(number), name=str(name), arguments=str(arguments))
            for number, name, arguments in kept["tool_calls"]
        ),
        messages=kept["messages"],
        seconds=float(kept["seconds"]),
        is_cached=True,
    )
