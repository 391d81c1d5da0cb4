"""The suite file: the tasks, the systems to call on them, and how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from calipers.judges.spec import JudgeSpec
from calipers.metrics.checks.written import WrittenChecks, resolve_from
from calipers.metrics.in_files import OwnMetric, declare_metrics
from calipers.runs.sampling import SampleSpec
from calipers.scores.settings_block import MetricSettings
from calipers.support.config.files import read_config
from calipers.support.config.models import StrictModel, refuse
from calipers.support.patterns import count_groups
from calipers.systems.simulated_user import UserSpec
from calipers.systems.spec import Served, Settings, SystemSpec, Text, allow

EXAMPLE = "calipers init writes a suite to start from; calipers schema suite lists the allowed keys"


class Answer(StrictModel):
    """How to find the answer in a reply; the text before it is the chain of thought."""

    after: Text | None = allow("The answer follows the last occurrence of this text.")
    regex: Text | None = allow("The first group is the answer; in the syntax of Rust's regex.")

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.after is None) == (self.regex is None):
            refuse("either after or regex", fix='for example answer: {after: "ANSWER:"}')
        try:
            groups = None if self.regex is None else count_groups(self.regex)
        except ValueError as error:
            refuse(
                f"no regular expression that can be used: {error}",
                fix="for example ANSWER: (.*), in the syntax of Rust's regex",
                at=("regex",),
            )
        if groups == 0:
            refuse("no group holds the answer", fix="for example ANSWER: (.*)", at=("regex",))
        return self


class Tier(StrictModel):
    """A tier: another prompt, or other settings, for every system."""

    name: Text = Field(description="The field `tier` of the records.")
    prompt: Text | None = allow("The prompt, instead of the suite's.")
    system: Text | None = allow("The system message, instead of the suite's.")
    settings: Settings = Field(
        default_factory=dict, description="Settings that override those of each system."
    )


class Message(StrictModel):
    """A message of a conversation, in OpenAI's shape; texts may hold {field}."""

    role: Literal["system", "user", "assistant"]
    content: str | list[dict[str, Any]]


class Confidence(StrictModel):
    """The source of `prob_correct`: the model states it, or its token probabilities give it."""

    ask: bool = Field(
        default=False, description="Ask the model for a line CONFIDENCE: <0 to 1> in its reply."
    )
    logprobs: bool = Field(
        default=False, description="Use the mean probability of the answer's tokens."
    )

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if self.ask == self.logprobs:
            refuse("either ask or logprobs", fix="for example confidence: {ask: true}")
        return self


class Suite(StrictModel):
    """Everything a suite file can say."""

    description: str | None = allow("For people; it has no effect.")
    name: Text = Field(description="Name of the suite, and of its folder in results/.")
    data: Text = Field(
        description="The tasks: a file of records, a folder of YAML files, or hf://datasets/…; "
        "the path is relative to the suite."
    )
    sample: SampleSpec | None = allow("Use a random part of the tasks, drawn by a seed.")
    prompt: Text | None = allow("The prompt, with {input} or any other field of the task.")
    system: Text | None = allow("The system message before the prompt; may hold {field}.")
    messages: list[Message] = Field(
        default_factory=list,
        description="A conversation instead of the prompt; a task's own `messages` replace it.",
    )
    user: UserSpec | None = allow("A model that plays the user; a task's own `user` overrides it.")
    tools: Text | None = allow("A file of tools that models may call.")
    max_turns: int = Field(
        default=10, ge=1, description="Most replies of a system to one task, tool calls included."
    )
    answer: Answer | None = allow("How to find the answer; by default the whole reply.")
    confidence: Confidence | None = allow("How to get prob_correct; by default it is not recorded.")
    split_thinking: bool = Field(
        default=True,
        description="Whether <think>…</think> at the start of a reply is the chain of thought.",
    )
    systems: list[SystemSpec] = Field(min_length=1)
    tiers: list[Tier] = Field(default_factory=list)
    runs: int = Field(default=1, ge=1, description="Runs of each task by each system in each tier.")
    concurrency: int = Field(default=32, ge=1, description="Most calls in flight at a time.")
    retries: int = Field(
        default=5,
        ge=0,
        description="Attempts after the first, on 429, 5xx, timeouts and broken connections.",
    )
    timeout_seconds: float = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="Limit of one whole call."
    )
    budget_usd: float | None = allow(
        "Most that all runs of the folder may cost together.", gt=0, allow_inf_nan=False
    )
    budget_calls: int | None = allow(
        "Most calls that all runs of the folder may make together.", ge=1
    )
    cache: Text | None = allow("A folder that caches replies for this and other runs.")
    judges: list[JudgeSpec] = Field(default_factory=list)
    policy: Text | None = allow("The policy file of a gate that decides on the run.")
    metric_settings: MetricSettings = Field(default_factory=dict)
    metrics: list[OwnMetric] = Field(
        default_factory=list, description="User-defined metrics, by name."
    )
    checks: WrittenChecks = Field(
        default_factory=tuple, description="Checks of every reply; a task's own `checks` are added."
    )

    @property
    def served(self) -> Iterator[Served]:
        """Everything that is called: the systems, the user, and every model of the judges."""
        yield from self.systems
        if self.user is not None:
            yield self.user
        for judge in self.judges:
            yield from judge.models

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.messages and (self.prompt or any(tier.prompt for tier in self.tiers)):
            fix = "put the prompt into messages"
            refuse("either prompt or messages", fix=fix, at=("messages",))
        if self.user is not None and self.user.max_turns > self.max_turns:
            refuse(
                f"the user may speak {self.user.max_turns} times, and a system may reply "
                f"{self.max_turns} times",
                fix=f"max_turns: {self.user.max_turns} in the suite, or fewer for the user",
                at=("user", "max_turns"),
            )
        for key in ("systems", "tiers", "judges"):
            seen: set[str] = set()
            for at, each in enumerate(getattr(self, key)):
                if each.name in seen:
                    refuse(f"two {key} are called {each.name}", fix="rename one", at=(key, at))
                seen.add(each.name)
        return self


def read_suite(path: str | Path) -> Suite:
    """Return the suite in a YAML or JSON file."""
    folder = Path(path).parent
    config = read_config(path, example=EXAMPLE)
    with resolve_from(folder):
        suite = Suite.of(config, example=EXAMPLE)
    declare_metrics(config, folder)
    return suite


def gate_fields(suite: Suite) -> tuple[str, ...]:
    """Return the fields whose groups the gate decides on one by one."""
    return choose_fields(suite, least=2)


def choose_fields(suite: Suite, *, least: int) -> tuple[str, ...]:
    """Return the fields that distinguish a suite's results, if there are at least so many."""
    model = ("model",) if len(suite.systems) >= least else ()
    return (*model, *(("tier",) if len(suite.tiers) >= least else ()))
