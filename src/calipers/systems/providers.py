"""Models of any provider that pydantic-ai knows, by its names: anthropic:…, google:…, openai:…."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calipers.records.fields import name_finish_reason
from calipers.support.errors import MissingExtraError, UsageError
from calipers.systems.agents.turn import count_tokens
from calipers.systems.answers import read_logprobs
from calipers.systems.calls import Call, Fault, Reply, ToolCall
from calipers.systems.images import load_images
from calipers.systems.posting import Session
from calipers.systems.wire import make_connection_fault, make_status_fault

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

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
        self, session: Session, model: str, base_url: str | None, key: str | None, *, logprobs: bool
    ) -> None:
        self._model = _open_model(session, model, base_url, key)
        # Attempts are counted by the run, so that the SDK must not make any of its own.
        self._settings = {"max_retries": 0, **({"openai_logprobs": True} if logprobs else {})}

    async def __call__(self, call: Call) -> Reply:
        """Return the model's text, its reasoning, and the tokens used."""
        from httpx2 import HTTPError  # noqa: PLC0415 (comes with pydantic-ai)
        from pydantic_ai import exceptions  # noqa: PLC0415 (an extra)
        from pydantic_ai.direct import model_request  # noqa: PLC0415

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


def _make_messages(call: Call, said: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the prompt, or a conversation, in pydantic-ai's types."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart  # noqa: PLC0415

    if said:
        from calipers.systems.pydantic_messages import from_openai  # noqa: PLC0415 (an extra)

        return from_openai(said)
    system = [] if call.system is None else [SystemPromptPart(call.system)]
    return [ModelRequest(parts=[*system, UserPromptPart(call.prompt)])]


def _make_parameters(call: Call) -> Any:
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415 (an extra)
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

    if not call.tools:
        return None
    tools = [
        ToolDefinition(
            name=each["name"],
            description=each["description"],
            parameters_json_schema=dict(each["parameters"]),
        )
        for each in call.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def _make_http_fault(error: Any) -> Fault:
    headers = dict(error.headers or {})
    if error.retry_after is not None:
        headers = {"retry-after-ms": str(error.retry_after * 1000)}
    return make_status_fault(error.status_code, headers, error.body or str(error))


def _make_api_fault(error: Exception) -> Fault:
    """Return the fault of our transport that an SDK reports as one of the network, or its own."""
    from pydantic_ai import exceptions  # noqa: PLC0415 (an extra)

    found: BaseException | None = error
    while found is not None and not isinstance(found, Fault):
        found = found.__cause__ or found.__context__
    if found is not None:
        return found
    if isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        return Fault("timeout", str(error), again=True, outage=True)
    if isinstance(error, exceptions.ModelConnectionError):
        return Fault("connection", str(error), again=True, outage=True)
    return Fault("bad_response", str(error), again=True)


def _read_reply(response: ModelResponse) -> Reply:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart  # noqa: PLC0415

    usage = response.usage
    fields = count_tokens(
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
    found = {
        "finish_reason": name_finish_reason(response.finish_reason),
        "reasoning_tokens": thought if isinstance(thought, int) else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_logprobs(parts: list[Any]) -> tuple[tuple[str, float], ...]:
    for part in parts:
        found = (part.provider_details or {}).get("logprobs")
        if isinstance(found, list) and found:
            return read_logprobs(found)
    return ()


def _open_model(session: Session, model: str, base_url: str | None, key: str | None) -> Any:
    try:
        from pydantic_ai.exceptions import UserError  # noqa: PLC0415 (an extra)
        from pydantic_ai.models import infer_model  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(f"{model} needs pydantic-ai", extra="run") from None
    try:
        return infer_model(model, lambda name: _open_provider(session, name, base_url, key))
    except ImportError as error:
        extra = _INSTALL.search(str(error))
        package = f"pydantic-ai-slim[{extra[1]}]" if extra else "the provider's package"
        raise UsageError(
            f"{model} needs a package that is not installed", fix=f"pip install '{package}'"
        ) from error
    except (UserError, ValueError) as error:
        said = " ".join(str(error).split(" To try Pydantic AI")[0].split())
        old, _, rest = model.partition(":")
        fix = "provider:model, and its key in the variable that api_key_env names"
        if old in _RENAMED:
            fix = f"the provider is called {_RENAMED[old]} now: {_RENAMED[old]}:{rest}"
        raise UsageError(f"{model}: {said}", fix=fix) from error


def _open_provider(session: Session, name: str, base_url: str | None, key: str | None) -> Any:
    from pydantic_ai.providers import infer_provider, infer_provider_class  # noqa: PLC0415

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
        import httpx2  # noqa: PLC0415 (comes with pydantic-ai)

        from calipers.systems.transport import AiohttpTransport  # noqa: PLC0415

        given["http_client"] = httpx2.AsyncClient(
            transport=AiohttpTransport(session.client), timeout=None, follow_redirects=False
        )
    return kind(**given)
