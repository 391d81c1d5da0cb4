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
        self,
        suite: Suite,
        tasks: Tasks,
        tools: Sequence[Mapping[str, Any]] = (),
        images: ImageFiles | None = None,
    ) -> None:
        self._tools = tools
        self.images = images or ImageFiles()
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

    def identify(self, system: int, place: CallPlace) -> dict[str, Any]:
        """Return the fields that distinguish the record from all others."""
        tier = self.tiers[place.tier]
        return {
            "id": self.tasks.tasks[place.task]["id"],
            "model": self.suite.systems[system].name,
            **({} if tier is None else {"tier": tier.name}),
            "run": place.run,
        }

    def call(self, system: int, place: CallPlace) -> Call:
        """Return what the system is given; functions and commands find the prompt in the record."""
        task = self.tasks.tasks[place.task]
        record = {**task, **self.identify(system, place)}
        messages, turns = self._read_conversation(task)
        user = make_role(self.suite, task, place.run)
        prompt = "\n".join((*_list_texts(messages), *turns))
        if not prompt and not (user is not None and self._user_begins(place.tier)):
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
            tools=self._tools if self.suite.systems[system].model else (),
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
        return [
            {"role": each.role, "content": _fill(each.content, task)}
            for each in self.suite.messages
        ], turns

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
        fields = {
            name for text in (*filter(None, written), *texts) for name in Template(text).fields
        }
        for task in self.tasks.tasks:
            for name in sorted(fields):
                if task.get(name) is None:
                    raise UsageError(
                        f"a message names {{{name}}}, and the task {task['id']} has none",
                        fix=f"{nearest(name, task)} ({{{{{name}}}}} stands for itself)",
                    )
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
            if not (
                has_functions and all(task.get("input") is not None for task in self.tasks.tasks)
            ):
                self._prompts = [Template("") for _ in self.tiers]
            return
        for tier, prompt in enumerate(self._prompts):
            begins = self._user_begins(tier)
            for task in self.tasks.tasks:
                is_talk = task.get("turns") or task.get("messages") or self.suite.messages
                is_talk = is_talk or begins
                for name in () if is_talk else prompt.fields:
                    if task.get(name) is None:
                        raise UsageError(
                            f"the prompt names {{{name}}}, and the task {task['id']} has none",
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


def _fill(content: str | list[dict[str, Any]], task: Task) -> Any:
    """Return a message's content with its fields, those of its texts and images included."""
    if isinstance(content, str):
        return Template(content).fill(task)
    return [_fill_part(part, task) for part in content]


def _fill_part(part: dict[str, Any], task: Task) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {**part, "text": Template(part["text"]).fill(task)}
    if isinstance(url := get_url(part), str):
        return with_url(part, Template(url).fill(task))
    return part


def _list_templates(content: Any) -> list[str]:
    """Return the texts of a message that may hold fields: also where its images are."""
    parts = content if isinstance(content, list) else ()
    urls = [get_url(part) for part in parts if isinstance(part, Mapping)]
    return [*_list_content_texts(content), *(url for url in urls if isinstance(url, str))]


def _list_content_texts(content: Any) -> list[str]:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]


def _list_texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [text for each in messages for text in _list_content_texts(each.get("content"))]
