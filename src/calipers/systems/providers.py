"""Models of any provider that pydantic-ai knows, by its names: anthropic:…, google:…, openai:….

The providers' SDKs send their requests through our aiohttp session where they allow that: its
connection pool is about ten times as fast.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
from httpx2 import HTTPError
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelRequest,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.providers import infer_provider, infer_provider_class
from pydantic_ai.tools import ToolDefinition

from calipers.records.fields import name_finish_reason
from calipers.support.errors import UsageError
from calipers.systems.calls import Call, Fault, Reply, ToolCall, make_token_fields
from calipers.systems.http import (
    MOST_BYTES,
    find_proxy,
    iterate_body,
    make_connection_fault,
    make_length_fault,
    make_status_fault,
)
from calipers.systems.images import load_images
from calipers.systems.reply_text import read_logprobs

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from pydantic_ai.messages import ModelResponse

_KINDS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.ClientError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
)
_PACKED = "gzip, deflate"
_UNPACKED = (b"content-encoding", b"content-length")  # aiohttp has unpacked the body


@contextmanager
def _as_httpx(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        kind = next(theirs for ours, theirs in _KINDS if isinstance(error, ours))
        raise kind(str(error) or type(error).__name__, request=request) from error


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends the SDKs' requests through a session of aiohttp, which somebody else closes."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the response is read as the caller wants it."""
        url = str(request.url)
        headers = dict(request.headers)  # one line each: some servers refuse two of a name
        headers["accept-encoding"] = _PACKED  # the SDKs' client may know more of them
        with _as_httpx(request):
            response = await self._session.request(
                request.method,
                url,
                headers=headers,
                data=await request.aread() or None,
                proxy=find_proxy(url),
                allow_redirects=False,
            )
        return httpx2.Response(
            status_code=response.status,
            headers=[
                header for header in response.raw_headers if header[0].lower() not in _UNPACKED
            ],
            stream=_Body(response, request),
            request=request,
        )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        with _as_httpx(self._request):
            async for piece in iterate_body(self._response):
                size += len(piece)
                if size > MOST_BYTES:
                    raise make_length_fault()
                yield piece

    async def aclose(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()  # nobody reads the rest


_THOUGHT = ("reasoning_tokens", "thoughts_tokens")  # OpenAI's name, and Google's
_RENAMED = {
    "google-gla": "google",
    "gemini": "google",
    "google-vertex": "google-cloud",
    "vertexai": "google-cloud",
    "grok": "xai",
}
_INSTALL = re.compile(r"pydantic-ai-slim\[([a-z-]+)\]")


class ProviderModel:
    """Asks a model by pydantic-ai's direct requests, over aiohttp where its SDK allows that."""

    def __init__(
        self,
        session: ClientSession,
        model: str,
        base_url: str | None,
        key: str | None,
        *,
        logprobs: bool,
    ) -> None:
        self._model = _open_model(session, model, base_url, key)
        # Attempts are counted by the run, so that the SDK must not make any of its own.
        self._settings = {"max_retries": 0, **({"openai_logprobs": True} if logprobs else {})}

    async def __call__(self, call: Call) -> Reply:
        """Return the model's text, its reasoning, and the tokens used."""
        settings: Any = {**call.settings, **self._settings}
        messages = _make_messages(call, await load_images(call))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of settings that this provider does not know
                response = await model_request(
                    self._model,
                    messages,
                    model_settings=settings,
                    model_request_parameters=_make_parameters(call),
                )
        except exceptions.ModelHTTPError as error:
            raise _make_http_fault(error) from error
        except exceptions.ModelAPIError as error:
            raise _make_api_fault(error) from error
        except exceptions.ContentFilterError as error:
            raise Fault("content_filter", str(error)) from error
        except (exceptions.UnexpectedModelBehavior, IndexError) as error:
            raise Fault("bad_response", str(error), again=True) from error
        except (OSError, HTTPError) as error:
            raise make_connection_fault(error) from error
        return _read_reply(response)


def _make_messages(call: Call, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the prompt, or a conversation, in pydantic-ai's types."""
    if messages:
        from calipers.systems.agents.pydantic_messages import convert_messages  # noqa: PLC0415 (an extra)

        return convert_messages(messages)
    system = [] if call.system is None else [SystemPromptPart(call.system)]
    return [ModelRequest(parts=[*system, UserPromptPart(call.prompt)])]


def _make_parameters(call: Call) -> Any:

    if not call.tools:
        return None
    tools = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=dict(tool["parameters"]),
        )
        for tool in call.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def _make_http_fault(error: Any) -> Fault:
    headers = dict(error.headers or {})
    if error.retry_after is not None:
        headers = {"retry-after-ms": str(error.retry_after * 1000)}
    return make_status_fault(error.status_code, headers, error.body or str(error))


def _make_api_fault(error: Exception) -> Fault:
    """Return the fault of our transport that an SDK reports as one of the network, or its own."""
    fault: BaseException | None = error
    while fault is not None and not isinstance(fault, Fault):
        fault = fault.__cause__ or fault.__context__
    if fault is not None:
        return fault
    if isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        return Fault("timeout", str(error), again=True, outage=True)
    if isinstance(error, exceptions.ModelConnectionError):
        return Fault("connection", str(error), again=True, outage=True)
    return Fault("bad_response", str(error), again=True)


def _read_reply(response: ModelResponse) -> Reply:

    usage = response.usage
    fields = make_token_fields(
        usage.input_tokens,
        usage.output_tokens,
        read=usage.cache_read_tokens,
        written=usage.cache_write_tokens,
    )
    if response.finish_reason == "content_filter":
        raise Fault("content_filter", "the reply was filtered", usage=fields)
    texts = [part for part in response.parts if isinstance(part, TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart)]
    return Reply(
        text="".join(part.content for part in texts),
        fields={**fields, **_read_details(response)},
        reasoning="\n".join(filter(None, thoughts)) or None,
        logprobs=_read_logprobs([response, *texts]),
        tool_calls=[
            ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_json_str())
            for part in response.parts
            if isinstance(part, ToolCallPart)
        ],
    )


def _read_details(response: ModelResponse) -> dict[str, Any]:
    """Return why the reply ended and its reasoning tokens, if the provider says so."""
    details = response.usage.details or {}
    thought = next((details[name] for name in _THOUGHT if details.get(name)), None)
    known = {
        "finish_reason": name_finish_reason(response.finish_reason),
        "reasoning_tokens": thought if isinstance(thought, int) else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _read_logprobs(parts: list[Any]) -> tuple[tuple[str, float], ...]:
    for part in parts:
        stated = (part.provider_details or {}).get("logprobs")
        if isinstance(stated, list) and stated:
            return read_logprobs(stated)
    return ()


def _open_model(session: ClientSession, model: str, base_url: str | None, key: str | None) -> Any:
    try:
        return infer_model(model, lambda name: _open_provider(session, name, base_url, key))
    except ImportError as error:
        extra = _INSTALL.search(str(error))
        package = f"pydantic-ai-slim[{extra[1]}]" if extra else "the provider's package"
        raise UsageError(
            f"{model} needs a package that is not installed", fix=f"pip install '{package}'"
        ) from error
    except (UserError, ValueError) as error:
        problem = " ".join(str(error).split(" To try Pydantic AI")[0].split())
        old, _, rest = model.partition(":")
        fix = "provider:model, and its key in the variable that api_key_env names"
        if old in _RENAMED:
            fix = f"the provider is called {_RENAMED[old]} now: {_RENAMED[old]}:{rest}"
        raise UsageError(f"{model}: {problem}", fix=fix) from error


def _open_provider(session: ClientSession, name: str, base_url: str | None, key: str | None) -> Any:

    if name.startswith("gateway/"):
        return infer_provider(name)
    kind = infer_provider_class(name)
    takes = inspect.signature(kind.__init__).parameters
    given: dict[str, Any] = {}
    where = "api_base" if "api_base" in takes else "base_url"  # one has a name of its own for it
    for option, value in ((where, base_url), ("api_key", key)):
        if value is not None:
            if option not in takes:
                raise UsageError(f"{name} takes no {option}", fix=f"leave {option} out")
            given[option] = value
    # Some SDKs want the first httpx, and keep their own connections.
    if "http_client" in takes and "httpx.AsyncClient" not in str(takes["http_client"].annotation):
        given["http_client"] = httpx2.AsyncClient(
            transport=AiohttpTransport(session), timeout=None, follow_redirects=False
        )
    return kind(**given)
