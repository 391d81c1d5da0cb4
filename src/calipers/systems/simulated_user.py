"""A user played by a model: it talks with a system until its goal is met or its turns run out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from time import perf_counter
from typing import Any

from pydantic import Field

from calipers.support.config.models import StrictModel
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.answers import split_thought
from calipers.systems.calls import Call, Fault, Reply, System, UserRole, add_usage
from calipers.systems.pricing import Pricing
from calipers.systems.spec import ServedModel, Settings, Text, allow

SIMULATED_USER = "simulated_user"  # the record's field
GOAL_MET, GAVE_UP, OUT_OF_TURNS = "goal_met", "gave_up", "max_turns"

_INSTRUCTIONS = """You play a person who talks with an assistant. Write only what this person \
says next, in their own words; never speak for the assistant.{persona}
The goal of this person: {goal}
Say one thing at a time, and give details when they are needed.
When the goal is met, write GOAL MET and nothing else. When it is clear that it cannot be met, \
write GIVE UP and nothing else."""
_BEGIN = "(The conversation begins.)"
_SILENCE = "(The assistant says nothing.)"
_ENDED = re.compile(r"(?:^|(?<=[\s*_#\[(\"]))(GOAL MET|GIVE UP)[\s*_.!\])\"]*\Z")
_ENDS = {"GOAL MET": GOAL_MET, "GIVE UP": GAVE_UP}


class TaskUser(StrictModel):
    """The user of one task; missing parts are taken from the suite."""

    persona: Text | None = allow("Who the user is, and how they talk.")
    goal: Text | None = allow("What the user wants to achieve.")
    max_turns: int | None = allow("Most turns of the user.", ge=1)


class UserSpec(ServedModel):
    """A user who is played by a model, and talks with each system."""

    persona: Text | None = allow("Who the user is, and how they talk; with {field}.")
    goal: Text | None = allow("What the user wants to achieve, with {field}; or in each task.")
    max_turns: int = Field(default=10, ge=1, description="Most turns of the user.")
    settings: Settings = Field(
        default_factory=dict, description="Settings of the model: temperature, max_tokens, …"
    )

    def settings_of(self, run: int) -> dict[str, Any]:
        """Return the settings of a run: the seed, 0 unless given, goes up with each; null: none."""
        settings = {"seed": 0, **self.settings}
        if isinstance(settings["seed"], int):
            settings["seed"] += run - 1
        return {name: value for name, value in settings.items() if value is not None}


def sum_user_cost(record: Mapping[str, Any]) -> float:
    """Return what the simulated user of a record cost, as far as that is known."""
    if SIMULATED_USER not in record:
        return 0.0
    found = record[SIMULATED_USER]
    cost = found.get("cost_usd") if isinstance(found, Mapping) else None
    return float(cost) if isinstance(cost, int | float) else 0.0


class SpokenText:
    """A model whose reply must be a text: an empty or truncated one may be asked for again."""

    def __init__(self, model: System) -> None:
        self._model = model

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, without what was thought aloud; a Fault where nothing is left."""
        reply = await self._model(call)
        text = split_thought(reply.text or "")[0].strip()
        if not text:
            raise Fault("bad_response", "an empty message", again=True, usage=reply.fields)
        return Reply(text=text, fields=reply.fields)


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """The model that plays the user, in many conversations at a time."""

    model: System
    name: str
    pricing: Pricing | None


@dataclass(slots=True)
class UserPart:
    """The user's part in one conversation: what was said, how it ended, what it took."""

    user: SimulatedUser
    role: UserRole
    turns: int = 0
    ended: str = OUT_OF_TURNS
    closing: str | None = None
    seconds: float = 0.0  # that the system waited for it
    sums: dict[str, float] = field(default_factory=dict)
    _is_priced: bool = True

    async def speak(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """Return what the user says next, or None where the conversation is over.

        Once its turns are over it is asked a last time, whether its goal is met.

        Raises:
            Fault: The model failed, or ended the conversation before it began.
        """
        text = await self._say(messages)
        found = _ENDED.search(text)
        if found is not None:
            if not any(each.get("role") == "assistant" for each in messages):
                raise _name_user(Fault("bad_response", "it ended the conversation before it began"))
            self.ended, self.closing = _ENDS[found[1]], text
            return None
        if self.turns >= self.role.max_turns:
            return None
        self.turns += 1
        return text

    async def _say(self, messages: Sequence[Mapping[str, Any]]) -> str:
        persona = f"\nThe person: {self.role.persona}" if self.role.persona else ""
        instructions = _INSTRUCTIONS.format(persona=persona, goal=self.role.goal)
        heard = [{"role": "system", "content": instructions}, *_as_heard(messages)]
        call = Call(record={}, prompt="", messages=heard, settings=self.role.settings)
        began = perf_counter()
        try:
            reply = await self.user.model(call)
        except Fault as fault:
            if fault.usage:
                self._count(fault.usage)
            raise _name_user(fault) from fault
        self.seconds += perf_counter() - began
        self._count(reply.fields)
        return reply.text or ""

    def _count(self, used: Mapping[str, Any]) -> None:
        add_usage(self.sums, used)
        pricing = self.user.pricing
        cost = None if pricing is None else pricing.compute_cost(used)
        if cost is None:
            self._is_priced = False
        else:
            self.sums["cost_usd"] = self.sums.get("cost_usd", 0.0) + cost

    def to_dict(self) -> dict[str, Any]:
        """Return what the record keeps."""
        sums = {k: v for k, v in self.sums.items() if k != "cost_usd" or self._is_priced}
        return {
            "model": self.user.name,
            **({} if self.role.persona is None else {"persona": self.role.persona}),
            "goal": self.role.goal,
            "max_turns": self.role.max_turns,
            "seed": self.role.settings.get("seed"),
            "turns": self.turns,
            "ended": self.ended,
            "goal_met": self.ended == GOAL_MET,
            **({} if self.closing is None else {"closing": self.closing}),
            **sums,
        }


def _as_heard(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation from the user's side, with the roles exchanged."""
    heard = [{"role": "user", "content": _BEGIN}]
    for each in messages:
        text = _read_text(each.get("content"))
        if each.get("role") == "user":
            heard.append({"role": "assistant", "content": text})
        elif each.get("role") == "assistant" and (text or not each.get("tool_calls")):
            heard.append({"role": "user", "content": text or _SILENCE})
    return heard


def _read_text(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(each if isinstance(each, str) else "(an image)" for each in parts)
    return content if isinstance(content, str) else ""


def _name_user(fault: Fault) -> Fault:
    """Return a fault that names the simulated user; the system is not asked again for it."""
    return Fault(fault.kind, f"the simulated user: {fault.message}", most=fault.most)
