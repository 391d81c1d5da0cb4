"""The systems of a suite: models, functions, commands and servers, and systems of plug-ins."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from calipers.support.config import shown
from calipers.support.options import require_callable, require_type
from calipers.support.plugins import Registry, add_registry
from calipers.support.strict_model import StrictModel, refuse


@dataclass(frozen=True, eq=False)
class FunctionSystem:
    """A function that answers, `def answer(record: dict) -> str | dict`, under a name."""

    name: str
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        fix = 'for example FunctionSystem("desk", answer)'
        require_type("FunctionSystem: name", self.name, str, expected="a text", fix=fix)
        require_callable("FunctionSystem: function", self.function, fix=fix)

    @property
    def definition(self) -> Hashable:
        """The name and the code, to tell whether two are the same."""
        code = getattr(self.function, "__code__", None)
        return self.name, self.function if code is None else (code.co_code, str(code.co_consts))

    @property
    def file(self) -> Path | None:
        """The file that the function stands in, where there is one."""
        try:
            source = inspect.getsourcefile(inspect.unwrap(self.function))
        except TypeError:
            return None
        return None if source is None else Path(source)


SYSTEMS: Registry[FunctionSystem] = Registry("system")
add_registry(FunctionSystem, SYSTEMS)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BATCH_PROVIDERS = ("openai", "anthropic")
_KINDS = ("model", "python", "command", "http")
_SECRET = re.compile(r"authorization|api[-_]?key|secret|password|cookie", re.IGNORECASE)

_SECRET_PARAMETER = re.compile(
    rf".*({_SECRET.pattern}).*|(.*[-_])?(key|token|sig|signature|auth|pat|code)", re.IGNORECASE
)

_SECRET_HEADER = re.compile(
    rf"{_SECRET.pattern}|(^|[-_])(key|token|auth|pat|session|signature)$|token|subscription",
    re.IGNORECASE,
)

Text = Annotated[str, Field(min_length=1)]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def allow(description: str, **limits: Any) -> Any:
    """Declare a key that may be there; it is null where it is left out."""
    return Field(default=None, description=description, **limits)


class PriceSpec(StrictModel):
    """USD per million tokens."""

    input: Money = Field(description="Of tokens of the prompt.")
    output: Money = Field(description="Of tokens of the completion.")
    cache_read: Money | None = allow("Of tokens read from the provider's cache.")
    cache_write: Money | None = allow("Of tokens written to the provider's cache.")


def _check_url(url: str, *at: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        refuse(f"{shown(url)} is no URL", fix="for example http://127.0.0.1:8000/v1", at=at)
    named = (name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if parts.username or parts.password or any(_SECRET_PARAMETER.fullmatch(n) for n in named):
        refuse(
            "a URL that holds a key or a password, which is written into the results",
            fix="name the environment variable that holds the key: api_key_env",
            at=at,
        )


def _check_variable(name: str | None) -> str | None:
    """Refuse what is not a variable's name, without repeating it, since it may be a key."""
    if name is not None and not _VARIABLE.fullmatch(name):
        refuse(
            "what stands here is not the name of an environment variable",
            fix="write the variable's name, for example OPENAI_API_KEY, and never the key",
        )
    return name


Variable = Annotated[Text, AfterValidator(_check_variable)]


def list_urls(given: str | list[str] | None) -> list[str]:
    """Return the URLs, whether there are none, one or several."""
    return [given] if isinstance(given, str) else list(given or ())


class Served(StrictModel):
    """A model by name: where it is reached, its key and its price."""

    base_url: Text | Annotated[list[Text], Field(min_length=1)] | None = allow(
        "URL of a server with an OpenAI-compatible API, or a list of several."
    )
    api_key_env: Variable | None = allow(
        "The environment variable that holds the key; never the key."
    )
    price: PriceSpec | None = allow("Price of the model; by default that of the price list.")

    @field_validator("base_url", mode="before")
    @classmethod
    def _check_urls(cls, given: Any) -> Any:
        urls = given if isinstance(given, list) else [given]
        if given is not None and not (urls and all(isinstance(address, str) for address in urls)):
            refuse("neither a URL nor a list of URLs", fix="for example http://127.0.0.1:8000/v1")
        for url in list_urls(given):
            _check_url(url)
        return given

    @property
    def urls(self) -> list[str]:
        """The servers that it names."""
        return list_urls(self.base_url)

    @property
    def key_variables(self) -> set[str]:
        """The environment variables whose values are kept out of the results."""
        return set() if self.api_key_env is None else {self.api_key_env}


def _hold_no_secrets(settings: dict[str, Any], at: tuple[str, ...] = ()) -> dict[str, Any]:
    """Refuse settings that contain keys, since settings are written into the results."""
    secret = _SECRET_HEADER if at[-1:] == ("extra_headers",) else _SECRET
    for name, value in settings.items():
        if secret.search(str(name)):
            refuse(
                f"{name} is for a key, and what stands here is written into the results",
                fix="name the environment variable that holds the key: api_key_env",
                at=(*at, name),
            )
        if isinstance(value, dict):
            _hold_no_secrets(value, (*at, name))
    return settings


Settings = Annotated[dict[str, Any], AfterValidator(_hold_no_secrets)]


class SystemSpec(Served):
    """One system under test: a model, a Python function, a command or a server."""

    name: str = Field(description="Becomes `model` in the records.")
    mode: Literal["batch"] | None = allow(
        "batch: answers within a day, at half the listed price (openai, anthropic)."
    )
    model: Text | None = allow("provider:model, for example openai:gpt-4o")
    python: Text | None = allow(
        "FILE.py:NAME beside the suite, a function or an agent; or a plug-in's system."
    )
    otel: bool = Field(
        default=False, description="Record the OpenTelemetry spans of a call as its trace."
    )
    command: list[Text] | None = allow(
        "A program: the record as JSON on stdin, fields of the record on stdout.", min_length=1
    )
    http: Text | None = allow("A URL: the record is posted as JSON, fields of it come back.")
    system: Text | None = allow("The system message, instead of the suite's or the tier's.")
    settings: Settings = Field(
        default_factory=dict, description="Settings of the model: temperature, max_tokens, …"
    )
    files: list[Text] = Field(
        default_factory=list,
        description="Further files that its answers depend on, as paths or globs: prompts, …",
    )

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.otel and self.python is None:
            refuse(f"{self.name}: otel is for python", fix="leave otel out", at=("otel",))
        provider = (self.model or "").partition(":")[0]
        if self.mode == "batch" and provider not in _BATCH_PROVIDERS:
            problem = f"{self.name}: mode: batch is for models of {' and '.join(_BATCH_PROVIDERS)}"
            refuse(problem, fix="leave mode out", at=("mode",))
        return self

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "says nothing of what to call"
            refuse(f"{self.name} {what}", fix=f"one of {', '.join(_KINDS)}")
        if self.python is not None:
            file, colon, function = self.python.rpartition(":")
            problem, fix = f"{self.python} is not FILE.py:FUNCTION", "for example solver.py:answer"
            if colon and not (file and function.isidentifier()):
                refuse(problem, fix=fix, at=("python",))
            if not colon and self.python not in SYSTEMS.read_all():
                fix = f"{fix}; a plug-in is named with --plugin FILE.py"
                refuse(f"{problem}, nor a registered system", fix=fix, at=("python",))
        if self.model is None:
            for key in ("base_url", "settings", *(() if self.http else ("api_key_env",))):
                if getattr(self, key):
                    refuse(f"{self.name}: {key} is for models", fix=f"leave {key} out", at=(key,))
        if self.http is not None:
            _check_url(self.http, "http")
        if self.model is not None and ":" not in self.model:
            problem = f"{self.model} does not name a provider"
            refuse(problem, fix=f"for example openai:{self.model}", at=("model",))
        return self


class McpServerSpec(StrictModel):
    """A server of the Model Context Protocol, whose tools are offered to models."""

    command: list[Text] | None = allow(
        "A program that speaks the protocol on stdin and stdout; started in the suite's folder.",
        min_length=1,
    )
    url: Text | None = allow("A server that speaks the protocol by streamable HTTP.")
    name: Text | None = allow("What it is called in messages and traces.")
    tools: list[Text] | None = allow("The tools that models are offered; by default all.")
    env: list[Variable] = Field(
        default_factory=list,
        description="Environment variables that a command is given, beside PATH and HOME.",
    )
    api_key_env: Variable | None = allow(
        "The environment variable whose value is sent to a URL as Authorization: Bearer."
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, allow_inf_nan=False, description="Limit of its start, and of each call."
    )

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            refuse("either command or url", fix="for example command: [python, server.py]")
        if self.url is not None:
            _check_url(self.url, "url")
        for key, has, other in (
            ("env", self.env, "command"),
            ("api_key_env", self.api_key_env, "url"),
        ):
            if has and getattr(self, other) is None:
                refuse(f"{key} is for a {other}", fix=f"leave {key} out", at=(key,))
        return self

    @property
    def label(self) -> str:
        """Its name: that given, else the program's last file, or the host."""
        if self.name is not None:
            return self.name
        if self.url is not None:
            return urlsplit(self.url).netloc
        words = [word for word in self.command or () if not word.startswith("-")]
        return Path(words[-1] if words else "server").name

    @property
    def urls(self) -> list[str]:
        """The servers that it names."""
        return list_urls(self.url)

    @property
    def key_variables(self) -> set[str]:
        """The environment variables whose values are kept out of the results."""
        return {*self.env, *filter(None, (self.api_key_env,))}


def _check_provider(model: str) -> str:
    if ":" not in model:
        refuse(f"{shown(model)} does not name a provider", fix=f"for example openai:{shown(model)}")
    return model


ProvidedModel = Annotated[Text, AfterValidator(_check_provider)]


class ServedModel(Served):
    """A model that is called, and how to reach it."""

    model: ProvidedModel


NamedModel = SystemSpec | ServedModel
"""What may name a model: a system under test, or a judge."""
