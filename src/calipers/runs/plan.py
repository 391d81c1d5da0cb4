"""Systems × tiers × tasks × runs: the calls of a suite, each with its place in the order.

A system's calls are numbered, all tasks of the first run first, so that an interrupted run has
complete passes over the tasks. The number identifies the call everywhere. What a call contains is
put together here as well (prompt, conversation, images, the simulated user's role), and what all
calls would cost is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calipers.records.column_hints import list_paths, suggest_fields, write_map
from calipers.records.task_data import Task, Tasks
from calipers.runs.suite import Prompt, Suite, Tier
from calipers.support.config import ConfigFile
from calipers.support.errors import UsageError, nearest
from calipers.support.field_paths import Template, escape_braces, look_up
from calipers.systems.budget import (
    Pricing,
    SuiteEstimate,
    SystemEstimate,
    estimate_tokens,
    find_pricing,
    limit_output,
)
from calipers.systems.calls import Call, UserRole
from calipers.systems.conversations import TaskUser
from calipers.systems.images import ImageFiles, get_url, replace_url
from calipers.systems.reply_text import ASK_CONFIDENCE

_USER_FIELD = "user"
_USER_EXAMPLE = "for example user: {goal: has the order cancelled}; the suite names the model"


def list_user_texts(suite: Suite) -> list[str]:
    """Return what the suite says of the user; it may hold {field}."""
    spec = suite.user
    return [] if spec is None else [text for text in (spec.persona, spec.goal) if text]


def make_user_role(suite: Suite, task: Task, run: int = 1) -> UserRole | None:
    """Return the part that a model plays in a task; None if no user is simulated.

    Raises:
        UsageError: The task's `user` is not understood, or nobody says what the user wants.
    """
    spec, user = suite.user, task.get(_USER_FIELD)
    if spec is None:
        if isinstance(user, Mapping) and user.keys() & {"goal", "persona"}:
            raise UsageError(
                f"the task {task['id']} has a user, and the suite says nothing of who plays it",
                fix="user: {model: openai:gpt-4o-mini} in the suite",
            )
        return None
    own = _read_task_user(task, user)
    if task.get("turns"):
        if own != TaskUser():
            raise UsageError(
                f"the task {task['id']} has both turns and a user", fix="leave one of them out"
            )
        return None
    goal = own.goal or (spec.goal and Template(spec.goal).fill(task))
    if not goal:
        raise UsageError(
            f"the task {task['id']}: nothing says what the user wants to reach",
            fix="user: {goal: …} in the task, or in the suite",
        )
    most = own.max_turns or spec.max_turns
    if most > suite.max_turns:
        raise UsageError(
            f"the task {task['id']}: the user may speak {most} times, and a system may reply "
            f"{suite.max_turns} times",
            fix=f"max_turns: {most} in the suite",
        )
    return UserRole(
        goal=goal,
        persona=own.persona or (Template(spec.persona).fill(task) if spec.persona else None),
        max_turns=most,
        settings=spec.settings_of(run),
    )


def _read_task_user(task: Task, user: Any) -> TaskUser:
    if user is None:
        return TaskUser()
    return TaskUser.of(ConfigFile(f"the task {task['id']}: user", user), example=_USER_EXAMPLE)


_DEFAULT_PROMPT = "{input}"
_ROLES = ("system", "user", "assistant", "tool")

Key = tuple[str, str, str | None, int]
"""id, model, tier or variant, and run: what tells one record of a suite from another."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The task, tier and run of a call."""

    task: int
    tier: int
    run: int


class CallPlan:
    """All calls of a suite."""

    def __init__(
        self, suite: Suite, tasks: Tasks, tools: Sequence[Mapping[str, Any]], images: ImageFiles
    ) -> None:
        self.tools = tools
        self.images = images
        self.suite = suite
        self.tasks = tasks
        self.tiers: Sequence[Tier | Prompt | None] = suite.conditions or [None]
        self._tier_at = {tier and tier.name: at for at, tier in enumerate(self.tiers)}
        self._task_at = {str(task["id"]): at for at, task in enumerate(tasks.tasks)}
        self._prompts = [Template(self._choose_prompt(tier)) for tier in self.tiers]
        self.per_system = len(tasks) * len(self.tiers) * suite.runs
        given = suite.prompt is not None or any(condition.prompt for condition in suite.conditions)
        self._shows_prompt = given or any(system.model for system in suite.systems)
        self._check_tasks()
        self._check_prompts()

    def add_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Add the tools of servers to those of the suite that models are offered."""
        own = [tool for tool in self.tools if tool not in tools]
        self.tools = (*own, *tools)

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return self.per_system * len(self.suite.systems)

    def place(self, number: int) -> CallPlace:
        """Return the system, tier, task and run of the call of that number."""
        rest, task = divmod(number, len(self.tasks))
        run, tier = divmod(rest, len(self.tiers))
        return CallPlace(task, tier, run + 1)

    def number(self, key: Key) -> int | None:
        """Return the number of the call whose record has that key; None if there is none."""
        task, tier = self._task_at.get(key[0]), self._tier_at.get(key[2])
        if task is None or tier is None or not 1 <= key[3] <= self.suite.runs:
            return None
        return self.number_place(CallPlace(task, tier, key[3]))

    def number_place(self, place: CallPlace) -> int:
        """Return the number of the call at this place."""
        return ((place.run - 1) * len(self.tiers) + place.tier) * len(self.tasks) + place.task

    def find_task(self, name: str) -> int:
        """Return the position of the task with that id."""
        return self._task_at[name]

    def fill_prompt(self, place: CallPlace) -> str:
        """Return the prompt for a model."""
        return self._prompts[place.tier].fill(self.tasks.tasks[place.task])

    def merge_settings(self, system: int, place: CallPlace) -> dict[str, Any]:
        """Return the system's settings, overridden by the tier's, with a seed for each run."""
        tier = self.tiers[place.tier]
        settings = {**self.suite.systems[system].settings, **(tier.settings if tier else {})}
        if isinstance(settings.get("seed"), int):
            settings["seed"] += place.run - 1
        return settings

    def name_group(self, system: int, tier: int) -> tuple[str, str | None]:
        """Return the names of a system and a tier or prompt, as in records."""
        named = self.tiers[tier]
        return self.suite.systems[system].name, None if named is None else named.name

    def identify(self, system: int, place: CallPlace) -> dict[str, Any]:
        """Return the fields that distinguish the record from all others."""
        model, tier = self.name_group(system, place.tier)
        return {
            "id": self.tasks.tasks[place.task]["id"],
            "model": model,
            **({} if tier is None else {self.suite.condition_field: tier}),
            "run": place.run,
        }

    def call(self, system: int, place: CallPlace) -> Call:
        """Return what the system is given; functions and commands find the prompt in the record."""
        task = self.tasks.tasks[place.task]
        record = {**task, **self.identify(system, place)}
        messages, turns = self._read_conversation(task)
        user = make_user_role(self.suite, task, place.run)
        texts = [text for message in messages for text in _list_texts(message.get("content"))]
        prompt = "\n".join((*texts, *turns))
        if not prompt and (user is None or not self._user_begins(place.tier)):
            prompt = self.fill_prompt(place)
        if prompt and self._shows_prompt:
            record.setdefault("prompt", prompt)
        return Call(
            record=record,
            prompt=prompt,
            system=self._fill_system(system, place),
            settings=self.merge_settings(system, place),
            messages=messages,
            turns=turns,
            tools=self.tools if self.suite.systems[system].model else (),
            images=self.images.of(messages, task["id"]),
            user=user,
        )

    def _user_begins(self, tier: int) -> bool:
        """Return True if a simulated user speaks first: nobody has written a prompt."""
        own = self.tiers[tier]
        return self.suite.user is not None and not (self.suite.prompt or (own and own.prompt))

    def _read_conversation(self, task: Task) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return a task's conversation, which replaces the suite's, and the user's turns."""
        given = task.get("messages")
        turns = tuple(map(str, task.get("turns") or ()))
        if given:
            return [dict(message) for message in given], turns
        written = self.suite.messages
        return [{"role": e.role, "content": _fill_content(e.content, task)} for e in written], turns

    def _fill_system(self, system: int, place: CallPlace) -> str | None:
        """Return the system message: the system's own, else the tier's, else the suite's."""
        tier = self.tiers[place.tier]
        written = self.suite.systems[system].system or (tier and tier.system) or self.suite.system
        return Template(written).fill(self.tasks.tasks[place.task]) if written else None

    def _choose_prompt(self, tier: Tier | Prompt | None) -> str:
        prompt = (tier and tier.prompt) or self.suite.prompt or _DEFAULT_PROMPT
        asks = self.suite.confidence is not None and self.suite.confidence.ask
        return f"{prompt}\n{escape_braces(ASK_CONFIDENCE)}" if asks else prompt

    def _check_tasks(self) -> None:
        """Refuse invalid conversations, and fields that a task lacks."""
        written = [self.suite.system, *(condition.system for condition in self.suite.conditions)]
        written += [system.system for system in self.suite.systems]
        texts = [
            text for message in self.suite.messages for text in _list_templates(message.content)
        ]
        texts += list_user_texts(self.suite)
        texts += filter(None, written)
        fields = {name for text in texts for name in Template(text).fields}
        for task in self.tasks.tasks:
            for name in sorted(fields):
                require_field(task, name, "a message")
            _check_talk(task)
            make_user_role(self.suite, task)
            self.images.of(self._read_conversation(task)[0], task["id"])

    def _check_prompts(self) -> None:
        """Refuse a prompt with a field that a task lacks, before anything is paid for.

        Where nobody has written a prompt and no model is asked, there is one only for functions
        that take a text, and only where every task that is no conversation has an input.
        """
        plain = [task for task in self.tasks.tasks if not self._is_talk(task)]
        if not self._shows_prompt:
            has_functions = any(system.python for system in self.suite.systems)
            if not has_functions or any(task.get("input") is None for task in plain):
                self._prompts = [Template("") for _ in self.tiers]
            return
        for tier, prompt in enumerate(self._prompts):
            for task in () if self._user_begins(tier) else plain:
                for name in prompt.fields:
                    require_field(task, name, "the prompt")

    def _is_talk(self, task: Task) -> bool:
        """Return True if a conversation stands in place of the prompt."""
        return bool(task.get("turns") or task.get("messages") or self.suite.messages)


def require_field(task: Task, name: str, named_by: str) -> None:
    """Raise UsageError if a task lacks a field that something names."""
    if look_up(task, name) is None:
        column = suggest_fields(list(task)).get(name)
        fix = nearest(name, list_paths(task)) if column is None else write_map({name: column})
        raise UsageError(
            f"{named_by} names {{{name}}}, and the task {task['id']} has none",
            fix=f"{fix} ({{{{{name}}}}} stands for itself)",
        )


def _check_talk(task: Task) -> None:
    turns, messages = task.get("turns"), task.get("messages")
    if turns is not None and not (
        isinstance(turns, list) and turns and all(isinstance(e, str) and e for e in turns)
    ):
        raise UsageError(
            f"the task {task['id']}: turns is not a list of texts", fix='turns: ["first", "then"]'
        )
    if messages is not None and not (
        isinstance(messages, list)
        and all(isinstance(e, Mapping) and e.get("role") in _ROLES for e in messages)
        and all(isinstance(e.get("content"), str | list | None) for e in messages)
    ):
        raise UsageError(
            f"the task {task['id']}: messages is not a conversation",
            fix='messages: [{"role": "user", "content": "…"}]',
        )


def _fill_content(content: str | list[dict[str, Any]] | dict[str, Any], task: Task) -> Any:
    """Return a message's content with its fields, those of its texts and images included."""
    if isinstance(content, str):
        return Template(content).fill(task)
    if isinstance(content, list):
        return [_fill_content(part, task) for part in content]
    if isinstance(content.get("text"), str):
        return {**content, "text": Template(content["text"]).fill(task)}
    if isinstance(url := get_url(content), str):
        return replace_url(content, Template(url).fill(task))
    return content


def _list_templates(content: Any) -> list[str]:
    """Return the texts of a message that may hold fields: also where its images are."""
    parts = content if isinstance(content, list) else ()
    urls = [get_url(part) for part in parts if isinstance(part, Mapping)]
    return [*_list_texts(content), *(url for url in urls if isinstance(url, str))]


def _list_texts(content: Any) -> list[str]:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]


def estimate_suite(plan: CallPlan, prices: Sequence[Pricing | None]) -> SuiteEstimate:
    """Count the calls, and price those of models."""
    estimates = (
        _estimate_model(plan, at, prices[at])
        if system.model is not None
        else SystemEstimate(name=system.name, calls=plan.per_system)
        for at, system in enumerate(plan.suite.systems)
    )
    return SuiteEstimate(systems=(*estimates, *_estimate_user(plan), *_estimate_judges(plan)))


def _estimate_user(plan: CallPlan) -> Iterator[SystemEstimate]:
    """Yield the calls of the simulated user, at most: its turns, and whether its goal is met."""
    if (spec := plan.suite.user) is not None:
        pricing = find_pricing(spec)
        yield SystemEstimate(
            name="simulated user, at most",
            calls=plan.calls * (spec.max_turns + 1),
            price=None if pricing is None else pricing.source,
        )


def _estimate_judges(plan: CallPlan) -> Iterator[SystemEstimate]:
    """Yield the calls of each judge's models; what they will read is not known yet."""
    for judge in plan.suite.judges:
        for at, model in enumerate(judge.models):
            pricing = find_pricing(model)
            yield SystemEstimate(
                name=f"{model.model}, where unsure" if at else f"{judge.name} (judge)",
                calls=plan.calls * judge.samples,
                price=None if pricing is None else pricing.source,
            )


def _estimate_model(plan: CallPlan, system: int, pricing: Pricing | None) -> SystemEstimate:
    tokens = output = 0
    bounded = True
    for tier in range(len(plan.tiers)):
        settings = plan.merge_settings(system, CallPlace(0, tier, 1))
        most = limit_output(settings)
        bounded = bounded and most is not None
        output += (most or 0) * len(plan.tasks)
        for task in range(len(plan.tasks)):
            tokens += estimate_tokens(plan.fill_prompt(CallPlace(task, tier, 1)))
    tokens, output = tokens * plan.suite.runs, output * plan.suite.runs
    return SystemEstimate(
        name=plan.suite.systems[system].name,
        calls=plan.per_system,
        input_tokens=tokens,
        output_tokens=output if bounded else None,
        input_usd=None if pricing is None else _price_calls(pricing, tokens, 0, plan.per_system),
        most_usd=_price_calls(pricing, tokens, output, plan.per_system)
        if pricing and bounded
        else None,
        price=None if pricing is None else pricing.source,
    )


def _price_calls(pricing: Pricing, tokens: int, output: int, calls: int) -> float:
    """Return the cost, priced call by call: long prompts may cost more per token."""
    return pricing.price_tokens(input=tokens / calls, output=output / calls) * calls
