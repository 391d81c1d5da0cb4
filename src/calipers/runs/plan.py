"""Systems × tiers × tasks × runs: the calls of a suite, each with its place in the order.

A system's calls are numbered, all tasks of the first run first, so that an interrupted run has
complete passes over the tasks. The number identifies the call everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calipers.records.tasks import Task, Tasks
from calipers.runs.suite import Suite, Tier
from calipers.runs.users import list_texts, make_role
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass
from calipers.support.templates import Template, escape_braces
from calipers.systems.answers import ASK
from calipers.systems.calls import Call
from calipers.systems.images import ImageFiles, get_url, with_url

_DEFAULT_PROMPT = "{input}"
_ROLES = ("system", "user", "assistant", "tool")

Key = tuple[str, str, str | None, int]
"""id, model, tier and run: what tells one record from another."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Which task, tier and run a call is of."""

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
        self.tiers: Sequence[Tier | None] = suite.tiers or [None]
        self._tier_at = {tier and tier.name: at for at, tier in enumerate(self.tiers)}
        self._task_at = {str(task["id"]): at for at, task in enumerate(tasks.tasks)}
        self._prompts = [Template(self._choose_prompt(tier)) for tier in self.tiers]
        self.per_system = len(tasks) * len(self.tiers) * suite.runs
        given = suite.prompt is not None or any(tier.prompt for tier in suite.tiers)
        self._shows_prompt = given or any(system.model for system in suite.systems)
        self._check_tasks()
        self._check_prompts()

    @property
    def calls(self) -> int:
        """How many there are in all."""
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
        """Return the names of a system and a tier, as in records."""
        named = self.tiers[tier]
        return self.suite.systems[system].name, None if named is None else named.name

    def identify(self, system: int, place: CallPlace) -> dict[str, Any]:
        """Return the fields that distinguish the record from all others."""
        model, tier = self.name_group(system, place.tier)
        return {
            "id": self.tasks.tasks[place.task]["id"],
            "model": model,
            **({} if tier is None else {"tier": tier}),
            "run": place.run,
        }

    def call(self, system: int, place: CallPlace) -> Call:
        """Return what the system is given; functions and commands find the prompt in the record."""
        task = self.tasks.tasks[place.task]
        record = {**task, **self.identify(system, place)}
        messages, turns = self._read_conversation(task)
        user = make_role(self.suite, task, place.run)
        said = [text for each in messages for text in _list_texts(each.get("content"))]
        prompt = "\n".join((*said, *turns))
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
        """Say whether a simulated user speaks first: nobody has written a prompt."""
        own = self.tiers[tier]
        return self.suite.user is not None and not (self.suite.prompt or (own and own.prompt))

    def _read_conversation(self, task: Task) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return a task's conversation, which replaces the suite's, and the user's turns."""
        given = task.get("messages")
        turns = tuple(map(str, task.get("turns") or ()))
        if given:
            return [dict(each) for each in given], turns
        written = self.suite.messages
        return [{"role": e.role, "content": _fill(e.content, task)} for e in written], turns

    def _fill_system(self, system: int, place: CallPlace) -> str | None:
        """Return the system message: the system's own, else the tier's, else the suite's."""
        tier = self.tiers[place.tier]
        written = self.suite.systems[system].system or (tier and tier.system) or self.suite.system
        return Template(written).fill(self.tasks.tasks[place.task]) if written else None

    def _choose_prompt(self, tier: Tier | None) -> str:
        prompt = (tier and tier.prompt) or self.suite.prompt or _DEFAULT_PROMPT
        asks = self.suite.confidence is not None and self.suite.confidence.ask
        return f"{prompt}\n{escape_braces(ASK)}" if asks else prompt

    def _check_tasks(self) -> None:
        """Refuse invalid conversations, and fields that a task lacks."""
        written = [self.suite.system, *(tier.system for tier in self.suite.tiers)]
        written += [system.system for system in self.suite.systems]
        texts = [text for each in self.suite.messages for text in _list_templates(each.content)]
        texts += list_texts(self.suite)
        texts += filter(None, written)
        fields = {name for text in texts for name in Template(text).fields}
        for task in self.tasks.tasks:
            for name in sorted(fields):
                require_field(task, name, "a message")
            _check_talk(task)
            make_role(self.suite, task)
            self.images.of(self._read_conversation(task)[0], task["id"])

    def _check_prompts(self) -> None:
        """Refuse a prompt with a field that a task lacks, before anything is paid for.

        Where nobody has written a prompt and no model is asked, there is one only for functions
        that take a text, and only where every task has an input.
        """
        if not self._shows_prompt:
            has_functions = any(system.python for system in self.suite.systems)
            inputs = (task.get("input") for task in self.tasks.tasks)
            if not has_functions or any(each is None for each in inputs):
                self._prompts = [Template("") for _ in self.tiers]
            return
        for tier, prompt in enumerate(self._prompts):
            begins = self._user_begins(tier)
            for task in self.tasks.tasks:
                is_talk = task.get("turns") or task.get("messages") or self.suite.messages
                for name in () if is_talk or begins else prompt.fields:
                    require_field(task, name, "the prompt")


def require_field(task: Task, name: str, named_by: str) -> None:
    """Raise UsageError if a task lacks a field that something names."""
    if task.get(name) is None:
        raise UsageError(
            f"{named_by} names {{{name}}}, and the task {task['id']} has none",
            fix=f"{nearest(name, task)} ({{{{{name}}}}} stands for itself)",
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


def _fill(content: str | list[dict[str, Any]] | dict[str, Any], task: Task) -> Any:
    """Return a message's content with its fields, those of its texts and images included."""
    if isinstance(content, str):
        return Template(content).fill(task)
    if isinstance(content, list):
        return [_fill(part, task) for part in content]
    if isinstance(content.get("text"), str):
        return {**content, "text": Template(content["text"]).fill(task)}
    if isinstance(url := get_url(content), str):
        return with_url(content, Template(url).fill(task))
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
