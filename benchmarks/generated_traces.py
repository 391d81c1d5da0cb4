"""Traces of runs: 5 to 50 tools and as many agents, calls and messages at random, seeded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

SEED = 30
MODELS = ("gpt-4o-mini", "claude-sonnet-4")
TYPES = (
    "coordination",
    "status_update",
    "handoff",
    "task_request",
    "result_delivery",
    "data_transfer",
    "chat",
)
_FEWEST, _MOST = 5, 50


def lines(rows: int, agents: int = 0) -> Iterator[str]:
    """Yield records as JSON lines; each trace has so many agents, or 5 to 50."""
    random = Random(SEED)
    for number in range(rows):
        record = {
            "id": f"task-{number:08}",
            "model": MODELS[number % len(MODELS)],
            "trace": _trace(random, agents or random.randint(_FEWEST, _MOST)),
        }
        yield json.dumps(record) + "\n"


def _trace(random: Random, size: int) -> dict[str, Any]:
    tools = [f"tool_{number}" for number in range(size)]
    agents = [f"agent_{number}" for number in range(size)]
    calls = random.choices(tools, k=random.randint(size, 2 * size))
    return {
        "tool_calls": [
            {
                "tool_name": tool,
                "context": f"step {step} of the plan",
                "agent_id": random.choice(agents),
                "success": random.random() < 0.9,
                "duration": round(random.random(), 3),
                "timestamp": 1_700_000_000 + step,
            }
            for step, tool in enumerate(calls)
        ],
        "agent_interactions": [
            {
                "from": random.choice(agents),
                "to": random.choice(agents),
                "type": random.choice(TYPES),
            }
            for _ in range(random.randint(size, 3 * size))
        ],
        "agent_tasks": {agent: random.randint(0, 9) for agent in agents},
    }
