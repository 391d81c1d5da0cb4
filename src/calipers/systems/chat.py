"""Models behind servers that speak OpenAI's chat completions.

Requests go over connections of our own. Through pydantic-ai and the OpenAI SDK a call takes 3.4 ms
of processor time, here 0.1 ms: at 5,000 calls a second that matters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from calipers.records.fields import name_finish_reason
from calipers.support.errors import UsageError
from calipers.systems.answers import read_logprobs
from calipers.systems.calls import Call, Fault, Reply, ToolCall
from calipers.systems.images import load_images
from calipers.systems.posting import Post, Session
from calipers.systems.wire import as_json, parse_json

CHAT = ("openai", "openai-chat", "openrouter", "azure")
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
        self, session: Session, name: str, base_url: str, key: str | None, *, logprobs: bool
    ) -> None:
        provider, _, model = name.partition(":")
        url = make_chat_url(provider, model, base_url)
        self._post = Post(session, url, make_key_header(provider, key))
        self._model = model
        self._logprobs = logprobs

    async def __call__(self, call: Call) -> Reply:
        """Return the model's text, its reasoning, and the tokens used."""
        body, headers = await make_body(call, self._model, logprobs=self._logprobs)
        return read_reply(parse_json(await self._post(as_json(body), headers)))


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
        body["tools"] = [{"type": "function", "function": dict(each)} for each in call.tools]
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
        said = str(message.get("refusal") or "the reply was filtered")
        raise Fault("content_filter", said, usage=_read_tokens(body.get("usage")))
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


def _read_tool_calls(found: Any) -> tuple[ToolCall, ...]:
    if found is None:
        return ()
    try:
        return tuple(
            ToolCall(
                id=str(each["id"]),
                name=str(each["function"]["name"]),
                arguments=str(each["function"].get("arguments") or "{}"),
            )
            for each in found or ()
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise Fault("bad_response", "tool calls that cannot be read", again=True) from error


def _read_text(content: Any) -> str:
    """Return the text of a message, which may come in parts; parts of other kinds are skipped."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(each, str | None) for each in texts):
        raise Fault("bad_response", "the message's content is not text", again=True)
    return "".join(each for each in texts if each)


def _read_reasoning(message: Mapping[str, Any]) -> str | None:
    for name in _REASONING:
        if isinstance(found := message.get(name), str) and found:
            return found
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
    found = {}
    if (prompt := _count(usage, "prompt_tokens")) is not None:
        found["prompt_tokens"] = max(0, prompt - (cached or 0))
    if (completion := _count(usage, "completion_tokens")) is not None:
        found["completion_tokens"] = completion
    if cached:
        found["cache_read_tokens"] = cached
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    if thought is not None:
        found["reasoning_tokens"] = thought
    return found


def _count(counts: Any, name: str) -> int | None:
    """Return a count of tokens, whatever else stands there being none."""
    count = counts.get(name) if isinstance(counts, dict) else None
    return count if type(count) is int and 0 <= count < _MOST_TOKENS else None


def _read_logprobs(found: Any) -> tuple[tuple[str, float], ...]:
    tokens = found.get("content") if isinstance(found, dict) else None
    return read_logprobs(tokens) if isinstance(tokens, list) else ()
