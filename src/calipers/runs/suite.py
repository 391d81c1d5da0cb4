"""The suite file: tasks, systems and how to call them; the tools file; their JSON Schema.

`read_suite` reads `suite.yaml` into a `Suite`, `read_tools` the tools.yaml that a suite may name,
and `make_schema` gives editors what both may contain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from calipers.gates.policy import make_model
from calipers.judges.judge_spec import JudgeSpec
from calipers.metrics.config_fields import OwnMetric, WrittenChecks, declare_metrics, resolve_from
from calipers.records.derived_fields import TIMES
from calipers.records.fields import FIELDS, REPORTED, Author
from calipers.records.task_data import GIVEN_FIELDS, RUN_FIELDS, RUN_NAMES, TASK, Task, Tasks
from calipers.scores.settings_block import MetricSettings
from calipers.support.config import ConfigFile, read_config
from calipers.support.errors import UsageError, nearest
from calipers.support.field_paths import split_root
from calipers.support.patterns import count_groups
from calipers.support.strict_model import StrictModel, refuse
from calipers.support.user_code import load_function
from calipers.support.version import __version__
from calipers.systems.conversations import Tool, UserSpec
from calipers.systems.spec import McpServerSpec, Served, Settings, SystemSpec, Text, allow

Names = Annotated[
    list[Text], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
]


class SampleSpec(StrictModel):
    """A random sample of the tasks."""

    n: int = Field(ge=1, description="Number of tasks to draw.")
    seed: int = Field(default=0, ge=0, description="Random seed: another seed draws other tasks.")
    by: Names = Field(
        default_factory=list,
        description="A field, or a list of fields, to stratify by: category, …",
    )


def draw_sample(tasks: Tasks, sample: SampleSpec) -> Tasks:
    """Return the tasks that the seed draws, in the order of the data.

    Which ones depends on the seed and the ids alone: with a larger n, or in data with more tasks,
    most of them are drawn again, and what was kept of them can be used.

    Raises:
        UsageError: No task has a field of `by`.
    """
    _refuse_unknown(tasks.tasks, sample.by)
    if sample.n >= len(tasks):
        note = f"sample: n is {sample.n}, and there are {len(tasks)} tasks: all are taken"
        return replace(tasks, notices=(*tasks.notices, note), drawn_from=len(tasks))
    groups: dict[str, list[int]] = {}
    for at, task in enumerate(tasks.tasks):
        groups.setdefault(_group(task, sample.by), []).append(at)
    taken = _allot([len(group) for group in groups.values()], sample.n)
    drawn: list[int] = []
    for members, count in zip(groups.values(), taken, strict=True):
        lots = sorted(members, key=lambda at: _draw_lot(sample.seed, tasks.tasks[at]))
        drawn += lots[:count]
    empty = [name for name, count in zip(groups, taken, strict=True) if not count]
    notes = [
        f"sample: {len(drawn):,} of {len(tasks):,} tasks are run; the verdict is on these alone"
    ]
    notes += [f"sample: no task is drawn of {', '.join(empty)}"] if empty else []
    return replace(
        tasks,
        tasks=[tasks.tasks[at] for at in sorted(drawn)],
        notices=(*tasks.notices, *notes),
        drawn_from=len(tasks),
    )


def _refuse_unknown(tasks: Sequence[Task], by: Sequence[str]) -> None:
    for name in by:
        if all(task.get(name) is None for task in tasks):
            fields = {field for task in tasks for field in task}
            raise UsageError(f"sample: no task has {name}", fix=nearest(name, sorted(fields)))


def _group(task: Task, by: Sequence[str]) -> str:
    values = [task.get(name) for name in by]
    return " / ".join(
        value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in values
    )


def _allot(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of each group are taken: its share of n, by the largest remainder.

    >>> _allot([60, 30, 10], 5)
    [3, 2, 0]
    """
    total = sum(sizes)
    taken = [size * n // total for size in sizes]
    remainders = sorted(range(len(sizes)), key=lambda at: (-(sizes[at] * n % total), at))
    for at in remainders[: n - sum(taken)]:
        taken[at] += 1
    return taken


def _draw_lot(seed: int, task: Task) -> str:
    return sha256(f"{seed} {task['id']}".encode()).hexdigest()


EXAMPLE = "calipers init writes a suite to start from; calipers schema suite lists the allowed keys"


class AnswerSpec(StrictModel):
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

    name: str = Field(description="The field `tier` of the records.")
    prompt: Text | None = allow("The prompt, instead of the suite's.")
    system: Text | None = allow("The system message, instead of the suite's.")
    settings: Settings = Field(
        default_factory=dict, description="Settings that override those of each system."
    )


class Prompt(StrictModel):
    """A prompt that is compared with others: a variant of every system."""

    name: str = Field(description="The field `variant` of the records.")
    prompt: Text = Field(description="The prompt, with {input} or any other field of the task.")
    system: Text | None = allow("The system message, instead of the suite's.")
    settings: Settings = Field(
        default_factory=dict, description="Settings that override those of each system."
    )


_MEASURED = (
    *("latency_ms", "duration_seconds", *TIMES),
    *(REPORTED, "simulated_user", "cached", "attempts"),
)

_VERDICTS = [name for name, field in FIELDS.items() if field.author is Author.VERDICT]
_ALIKE = 0.9  # how much a name is like another if it is a misspelling of it


class Message(StrictModel):
    """A message of a conversation, in OpenAI's shape; texts may hold {field}."""

    role: Literal["system", "user", "assistant"]
    content: str | list[dict[str, Any]]


class ConfidenceSpec(StrictModel):
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
    map: dict[Text, Text] = Field(
        default_factory=dict,
        description="Fields of a task, each with the name that the data has for it, as --map: "
        "{input: Question, target: Gold Answer}; `choices[0].text` reaches into lists.",
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
    mcp: list[McpServerSpec] = Field(
        default_factory=list, description="MCP servers whose tools models may call, beside `tools`."
    )
    max_turns: int = Field(
        default=10, ge=1, description="Most replies of a system to one task, tool calls included."
    )
    answer: AnswerSpec | None = allow("How to find the answer; by default the whole reply.")
    confidence: ConfidenceSpec | None = allow(
        "How to get prob_correct; by default it is not recorded."
    )
    split_thinking: bool = Field(
        default=True,
        description="Whether <think>…</think> at the start of a reply is the chain of thought.",
    )
    systems: list[SystemSpec] = Field(min_length=1)
    prompts: list[Prompt] = Field(
        default_factory=list,
        description="Prompts to compare, each a variant of every system; the first is the base.",
    )
    tiers: list[Tier] = Field(default_factory=list)
    runs: int = Field(
        default=1, ge=1, description="Runs of each task by each system in each tier or prompt."
    )
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

    trust: list[Text] = Field(
        default_factory=list,
        description="Fields of a system's own reply that count, such as observed_behaviors; "
        "what else it says of itself is kept as `reported` and decides nothing.",
    )

    @property
    def served(self) -> Iterator[Served | McpServerSpec]:
        """Everything that is called: systems, servers of tools, the user, the judges' models."""
        yield from self.systems
        yield from self.mcp
        if self.user is not None:
            yield self.user
        for judge in self.judges:
            yield from judge.models

    @property
    def conditions(self) -> Sequence[Tier | Prompt]:
        """Under what each system is called: the tiers, or the prompts; a suite has one of them."""
        return self.prompts or self.tiers

    @property
    def condition_field(self) -> Literal["tier", "variant"]:
        """The field of the records that names the condition."""
        return "variant" if self.prompts else "tier"

    @model_validator(mode="after")
    def _maps_tasks_and_compares_prompts(self) -> Self:
        for name in self.map:
            if split_root(name)[0] in (*RUN_FIELDS, *RUN_NAMES, TASK):
                problem = f"{name} is what the run writes: the data cannot give it"
                refuse(problem, fix="target is what an answer should be", at=("map", name))
        for other in ("prompt", "tiers"):
            if self.prompts and getattr(self, other):
                refuse(f"either {other} or prompts", fix=f"leave {other} out", at=("prompts",))
        return self

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.messages and (
            self.prompt or any(condition.prompt for condition in self.conditions)
        ):
            fix = "put the prompt into messages"
            refuse("either prompt or messages", fix=fix, at=("messages",))
        if self.user is not None and self.user.max_turns > self.max_turns:
            refuse(
                f"the user may speak {self.user.max_turns} times, and a system may reply "
                f"{self.max_turns} times",
                fix=f"max_turns: {self.user.max_turns} in the suite, or fewer for the user",
                at=("user", "max_turns"),
            )
        for key in ("systems", "prompts", "tiers", "judges"):
            seen: set[str] = set()
            for at, entry in enumerate(getattr(self, key)):
                if entry.name in seen:
                    refuse(f"two {key} are called {entry.name}", fix="rename one", at=(key, at))
                seen.add(entry.name)
        for at, name in enumerate(self.trust):
            if (problem := self.find_distrust(name)) is not None:
                refuse(f"{name} cannot be trusted: {problem}", fix="leave it out", at=("trust", at))
        return self

    def find_distrust(self, name: str) -> str | None:
        """Return why a system's own word for a field can never count."""
        if name in GIVEN_FIELDS or name in ("checks", TASK):
            return "the task gives it, and a system that could change it would grade itself"
        if name in _MEASURED:
            return "it is measured"
        if split_root(name)[1]:
            return f"trust is in whole fields, here {split_root(name)[0]}"
        if name not in FIELDS and (meant := get_close_matches(name.lower(), _VERDICTS, 1, _ALIKE)):
            return f"the field is called {meant[0]}"
        if name == "judgments" and self.judges:
            return "the suite's judges give them"
        return None


def read_suite(path: str | Path) -> Suite:
    """Return the suite in a YAML or JSON file."""
    folder = Path(path).parent
    config = read_config(path, example=EXAMPLE)
    with resolve_from(folder):
        suite = Suite.of(config, example=EXAMPLE)
    declare_metrics(config, folder)
    return suite


def list_gate_fields(suite: Suite) -> tuple[str, ...]:
    """Return the fields whose groups the gate decides on one by one."""
    return list_distinguishing_fields(suite, least=2)


def list_distinguishing_fields(suite: Suite, *, least: int) -> tuple[str, ...]:
    """Return the fields that distinguish a suite's results, if there are at least so many."""
    model = ("model",) if len(suite.systems) >= least else ()
    has_several = len(suite.conditions) >= least
    return (*model, *((suite.condition_field,) if has_several else ()))


TOOLS_EXAMPLE = (
    "for example - {name: look_up, description: …, parameters: {type: object}, "
    'python: "tools.py:look_up"}'
)


class ToolSpec(StrictModel):
    """A tool, as written in the file."""

    name: Text
    description: str = ""
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="The arguments, as JSON Schema.",
    )
    python: Text | None = allow("FILE.py:FUNCTION beside the file.")
    reply: str | None = allow("A fixed reply, whatever the arguments.")

    @model_validator(mode="after")
    def _check_way(self) -> ToolSpec:
        if (self.python is None) == (self.reply is None):
            refuse(f"{self.name}: either python or reply", fix=TOOLS_EXAMPLE)
        return self


class _ToolFile(StrictModel):
    tools: list[ToolSpec] = Field(min_length=1)


def read_tools(path: Path) -> list[ToolSpec]:
    """Return the tools in a YAML or JSON file: a list, or an object with the key `tools`.

    Raises:
        UsageError: A mistake, with file and line; or two tools of one name.
    """
    config = read_config(path, example=TOOLS_EXAMPLE)
    if isinstance(config.value, list):
        lines = {("tools", *place): line for place, line in config.lines.items()}
        config = ConfigFile(config.source, {"tools": config.value}, lines)
    tools = _ToolFile.of(config, example=TOOLS_EXAMPLE).tools
    for at, tool in enumerate(tools):
        if tool.name in [other.name for other in tools[:at]]:
            raise UsageError(f"{path}: two tools are called {tool.name}", fix="rename one")
    return tools


def open_tools(path: Path) -> dict[str, Tool]:
    """Return the tools of a file by name, their functions loaded."""
    return {
        tool.name: Tool(
            None if tool.python is None else load_function(tool.python, path.parent), tool.reply
        )
        for tool in read_tools(path)
    }


def describe_tools(path: Path) -> list[Mapping[str, Any]]:
    """Return what a model is told of the tools."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in read_tools(path)
    ]


def list_tool_files(path: Path) -> Iterator[Path]:
    """Yield the Python files that the tools call."""
    for tool in read_tools(path):
        if tool.python is not None:
            yield (path.parent / tool.python.rpartition(":")[0]).resolve()


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Files that are surely ours; `suite.yaml` and `policy.yaml` may be anyone's.
SCHEMA_FILE_NAMES = {
    "suite": ("*.calipers.yaml", "*.calipers.yml", "calipers.yaml", "calipers.yml"),
    "policy": ("*.calipers-policy.yaml", "*.calipers-policy.yml"),
}


def make_schema(what: str) -> dict[str, Any]:
    """Return the schema of a `suite` or `policy` file; nothing is served at its `$id`."""
    schema = Suite.model_json_schema() if what == "suite" else make_model().model_json_schema()
    head = {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:calipers:schema:{what}:{__version__}",
        "title": f"Calipers {what}",
    }
    return {**head, **{key: value for key, value in schema.items() if key != "title"}}


def list_schema_catalog() -> list[dict[str, Any]]:
    """Return the entries for SchemaStore's catalogue, with the addresses that it gives."""
    about = {"suite": "A Calipers suite: what to run and measure"}
    about["policy"] = "A Calipers policy: what a run must show to pass"
    return [
        {
            "name": f"Calipers {what}",
            "description": about[what],
            "fileMatch": list(names),
            "url": f"https://www.schemastore.org/calipers-{what}.json",
        }
        for what, names in SCHEMA_FILE_NAMES.items()
    ]
