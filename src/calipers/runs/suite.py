"""What a suite file says: the tasks, the systems to try on them, and how to call these."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from calipers.support.config.files import read_config, shown
from calipers.support.config.models import StrictModel, refuse
from calipers.support.patterns import groups_in
from calipers.support.strict_json import name_with_settings

EXAMPLE = "calipers init writes a suite to start from; calipers schema suite says what may stand"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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


class Price(StrictModel):
    """USD per million tokens."""

    input: Money
    output: Money
    cache_read: Money | None = None
    cache_write: Money | None = None


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


class Served(StrictModel):
    """How to reach a model, and what it costs."""

    base_url: Text | None = Field(
        default=None, description="Of a server that speaks as OpenAI's does."
    )
    api_key_env: Text | None = Field(
        default=None, description="The environment variable that holds the key; never the key."
    )
    price: Price | None = Field(default=None, description="Else the price list.")

    @field_validator("base_url")
    @classmethod
    def _is_a_url(cls, url: str | None) -> str | None:
        if url is not None:
            _check_url(url)
        return url

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        """What is no variable's name may be a key, and is not repeated."""
        if name is not None and not _VARIABLE.fullmatch(name):
            refuse(
                "what stands here is not the name of an environment variable",
                fix="write the variable's name, for example OPENAI_API_KEY, and never the key",
            )
        return name


def _hold_no_secrets(settings: dict[str, Any], at: tuple[str, ...] = ()) -> dict[str, Any]:
    """Settings are written into the results, and so must be free of keys."""
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


class System(Served):
    """One system under test: a model, a Python function, a command or a server."""

    name: Text = Field(description="Becomes `model` in the records.")
    model: Text | None = Field(
        default=None, description="provider:model, for example openai:gpt-4o"
    )
    python: Text | None = Field(default=None, description="FILE.py:FUNCTION beside the suite.")
    command: list[Text] | None = Field(
        default=None, min_length=1, description="The record on stdin, its fields on stdout, JSON."
    )
    http: Text | None = Field(
        default=None, description="A URL: the record is posted, its fields come back, JSON."
    )
    settings: Settings = Field(default_factory=dict, description="Of the model: temperature, …")
    files: list[Text] = Field(
        default_factory=list,
        description="Further files that its answers depend on, as paths or globs: prompts, …",
    )

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "says nothing of what to call"
            refuse(f"{self.name} {what}", fix=f"one of {', '.join(_KINDS)}")
        if self.python is not None:
            file, _, function = self.python.rpartition(":")
            if not (file and function.isidentifier()):
                refuse(
                    f"{self.python} is not FILE.py:FUNCTION",
                    fix="for example solver.py:answer",
                    at=("python",),
                )
        if self.model is None:
            of_models = ("base_url", "settings", *(() if self.http else ("api_key_env",)))
            for key in of_models:
                if getattr(self, key):
                    refuse(f"{self.name}: {key} is for models", fix=f"leave {key} out", at=(key,))
        if self.http is not None:
            _check_url(self.http, "http")
        if self.model is not None and ":" not in self.model:
            refuse(
                f"{self.model} names no provider",
                fix=f"for example openai:{self.model}",
                at=("model",),
            )
        return self


class Answer(StrictModel):
    """Where in a reply the answer is: what is before it is the chain of thought."""

    after: Text | None = None
    regex: Text | None = Field(
        default=None, description="Its first group is the answer; as Rust's regex."
    )

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.after is None) == (self.regex is None):
            refuse("either after or regex", fix='for example answer: {after: "ANSWER:"}')
        if self.regex is not None:
            self._check_regex(self.regex)
        return self

    @staticmethod
    def _check_regex(pattern: str) -> None:
        try:
            groups = groups_in(pattern)
        except ValueError as error:
            refuse(
                f"no regular expression that can be used: {error}",
                fix="for example ANSWER: (.*), in the syntax of Rust's regex",
                at=("regex",),
            )
        if not groups:
            refuse("no group holds the answer", fix="for example ANSWER: (.*)", at=("regex",))


class Tier(StrictModel):
    """A way to ask: it replaces the prompt, or settings, for each system."""

    name: Text
    prompt: Text | None = None
    settings: Settings = Field(default_factory=dict)


class Confidence(StrictModel):
    """Where `prob_correct` comes from: the model is asked, or its token probabilities tell."""

    ask: bool = Field(default=False, description="Adds a line to the prompt: CONFIDENCE: <0 to 1>.")
    logprobs: bool = Field(default=False, description="Of the answer's tokens, where there are any")

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if self.ask == self.logprobs:
            refuse("either ask or logprobs", fix="for example confidence: {ask: true}")
        return self


def _check_provider(model: str) -> str:
    if ":" not in model:
        refuse(f"{shown(model)} names no provider", fix=f"for example openai:{shown(model)}")
    return model


ProvidedModel = Annotated[Text, AfterValidator(_check_provider)]


class Escalate(Served):
    """The judge that is asked where the first one is unsure, or gives no usable answer."""

    model: ProvidedModel
    settings: Settings = Field(default_factory=dict, description="Of the model: temperature, …")
    near: float = Field(
        default=0.1,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="A score so close to the rubric's pass_at is unsure.",
    )
    confidence: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="The first judge is asked how sure it is, and below this it is not.",
    )
    flagged: bool = Field(
        default=True, description="Texts that seem to speak to the judge go to the second one."
    )


class Judge(Served):
    """A model that grades what the systems answered."""

    name: Text
    model: ProvidedModel
    rubric: Text = Field(
        description="technical_accuracy, constructiveness, planning_rationality, or a rubric file."
    )
    limit: int | None = Field(
        default=None, ge=100, description="Characters of a long text; else the rubric says it."
    )
    settings: Settings = Field(default_factory=dict, description="Of the model: temperature, …")
    samples: int = Field(
        default=1, ge=1, le=100, description="Judgements of each record; a seed counts up."
    )
    escalate: Escalate | None = Field(
        default=None, description="A second, better judge for what this one is unsure of."
    )

    @property
    def default_settings(self) -> dict[str, Any]:
        """What is sent where nothing else is said: several samples have to differ."""
        return {"temperature": 0} if self.samples == 1 else {}

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that make another judge of it: those that are not the default's."""
        default = self.default_settings
        return {
            name: value
            for name, value in self.settings.items()
            if name != "seed" and (name not in default or default[name] != value)
        }

    @property
    def models(self) -> list[Judge]:
        """The judge and, where it has one, the second one, each as a judge of its own."""
        if self.escalate is None:
            return [self]
        shared = {
            "name": self.name,
            "rubric": self.rubric,
            "limit": self.limit,
            "samples": self.samples,
        }
        second = self.escalate.model_dump(exclude={"near", "confidence", "flagged"})
        return [self, Judge.model_validate(shared | second)]

    @property
    def answerable(self) -> str:
        """Who answers for its judgements: the model, or both with what decides between them."""
        if (then := self.escalate) is None:
            return name_with_settings(self.model, self.own_settings)
        first, second = (name_with_settings(each.model, each.own_settings) for each in self.models)
        sure = "" if then.confidence is None else f", confidence {then.confidence:g}"
        flagged = "" if then.flagged else ", flags ignored"
        return f"{first} → {second} (near {then.near:g}{sure}{flagged})"


class Suite(StrictModel):
    """Everything `calipers run` is told."""

    description: str | None = None
    name: Text
    data: Text = Field(description="The tasks as records; the path is relative to the suite.")
    prompt: Text | None = Field(default=None, description="With {input}, or any field of a record.")
    answer: Answer | None = Field(default=None, description="Without it, all of the reply.")
    confidence: Confidence | None = Field(default=None, description="How prob_correct is got.")
    split_thinking: bool = Field(
        default=True,
        description="Whether <think>…</think> at the start of a reply is the chain of thought.",
    )
    systems: list[System] = Field(min_length=1)
    tiers: list[Tier] = Field(default_factory=list)
    runs: int = Field(default=1, ge=1, description="Of each task, by each system in each tier.")
    concurrency: int = Field(default=32, ge=1, description="Calls in flight at a time.")
    retries: int = Field(default=5, ge=0, description="On 429, 5xx, timeouts, broken connections.")
    timeout_seconds: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    budget_calls: int | None = Field(default=None, ge=1, description="In the folder, all runs.")
    cache: Text | None = Field(
        default=None, description="A folder of replies that other runs may use again."
    )
    judges: list[Judge] = Field(default_factory=list)
    policy: Text | None = Field(default=None, description="A gate to hold the run against.")

    @model_validator(mode="after")
    def _has_names_once(self) -> Self:
        for key in ("systems", "tiers", "judges"):
            seen: set[str] = set()
            for at, each in enumerate(getattr(self, key)):
                if each.name in seen:
                    refuse(f"two {key} are called {each.name}", fix="rename one", at=(key, at))
                seen.add(each.name)
        return self


def read_suite(path: str | Path) -> Suite:
    """The suite in a YAML or JSON file."""
    return Suite.of(read_config(path, example=EXAMPLE), example=EXAMPLE)
