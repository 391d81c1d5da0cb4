"""Small logs of coding agents, in the shapes that the agents and their benchmarks write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ZEROTH, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z"


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def make_trajectory(agent: str = "codex", model: str | None = "gpt-5-mini") -> dict[str, Any]:
    calls = [
        {"tool_call_id": "1", "function_name": "Edit", "arguments": {"file_path": "a.py"}},
        {"tool_call_id": "2", "function_name": "Bash", "arguments": {"command": "make"}},
    ]
    results = [
        {"source_call_id": "1", "content": "ok"},
        {"source_call_id": "2", "content": "no", "extra": {"tool_result_is_error": True}},
    ]
    copied = {"source": "agent", "message": "Before.", "is_copied_context": True}
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": "s-1",
        "agent": {"name": agent, "version": "1.0", "model_name": model},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Fix it."},
            {"step_id": 2, **copied, "metrics": {"prompt_tokens": 7_000}},
            {
                "step_id": 3,
                "source": "agent",
                "message": [{"type": "text", "text": "I edit."}],
                "timestamp": ZEROTH,
                "tool_calls": calls,
                "observation": {"results": results},
                "metrics": {"prompt_tokens": 400, "cached_tokens": 200, "completion_tokens": 20},
            },
            {
                "step_id": 4,
                "source": "agent",
                "message": "Done.",
                "timestamp": LATER,
                "metrics": {"prompt_tokens": 600, "cached_tokens": 400, "completion_tokens": 30},
            },
        ],
    }


def make_trial(
    task: str,
    run: int,
    reward: float | None,
    *,
    agent: str = "codex",
    model: str | None = "openai/gpt-5-mini",
    exception: str | None = None,
) -> dict[str, Any]:
    provider, _, name = (model or "").partition("/")
    return {
        "task_name": task,
        "trial_name": f"{task}__{run}",
        "source": "mini",
        "config": {"agent": {"name": agent, "model_name": model}},
        "agent_info": {
            "name": agent,
            "version": "1.0",
            "model_info": {"name": name, "provider": provider} if model else None,
        },
        "agent_result": {
            "n_input_tokens": 1_000,
            "n_cache_tokens": 600,
            "n_output_tokens": 50,
            "cost_usd": 0.25,
        },
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": exception
        and {"exception_type": exception, "exception_message": "too slow"},
        "agent_execution": {"started_at": ZEROTH, "finished_at": LATER},
    }


def write_job(
    folder: Path, trials: Iterable[Mapping[str, Any]], stats: Mapping[str, Any] | None = None
) -> Path:
    """A job of Harbor: its own result, and a folder for each trial."""
    count = 0
    for trial in trials:
        count += 1
        place = folder / f"trial-{count}"
        write_json(place / "result.json", trial)
        write_json(place / "agent" / "trajectory.json", make_trajectory())
    write_json(
        folder / "result.json", {"n_total_trials": count, "stats": {"evals": {}, **(stats or {})}}
    )
    return folder
