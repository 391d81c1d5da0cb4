"""Have Harbor's own models write jobs as a run of it leaves them: `write_harbor.py FOLDER`."""

import json
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from harbor.metrics.mean import Mean
from harbor.models.agent.context import AgentContext
from harbor.models.job.result import JobResult, JobStats
from harbor.models.task.id import LocalTaskId
from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from harbor.models.trial.config import AgentConfig, TaskConfig, TrialConfig
from harbor.models.trial.result import (
    AgentInfo,
    ExceptionInfo,
    ModelInfo,
    TimingInfo,
    TrialResult,
)
from harbor.models.verifier.result import VerifierResult
from harbor.utils.pass_at_k import compute_pass_at_k_by_evals

TASKS = ("django__django-11099", "sympy__sympy-12", "hello-world")
AGENTS = {"codex": ("openai", "gpt-5-mini"), "claude-code": ("anthropic", "claude-10")}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def make_trial(agent: str, task: str, run: int) -> TrialResult:
    provider, model = AGENTS[agent]
    broken = agent == "codex" and task == "hello-world" and run == 1
    reward = float((len(agent) + len(task) + run) % 3 > 0)
    exception = ExceptionInfo(
        exception_type="EnvironmentStartTimeoutError",
        exception_message="slow",
        exception_traceback="",
        occurred_at=BEGIN,
    )
    return TrialResult(
        task_name=task,
        trial_name=f"{task}__{run}",
        trial_uri=f"file://{task}",
        task_id=LocalTaskId(path=Path("tasks") / task),
        source="mini",
        task_checksum="c",
        config=TrialConfig(
            task=TaskConfig(path=Path("tasks") / task),
            agent=AgentConfig(name=agent, model_name=f"{provider}/{model}"),
        ),
        agent_info=AgentInfo(
            name=agent, version="1.0", model_info=ModelInfo(name=model, provider=provider)
        ),
        agent_result=AgentContext(
            n_input_tokens=1000, n_cache_tokens=600, n_output_tokens=50, cost_usd=0.25
        ),
        verifier_result=None if broken else VerifierResult(rewards={"reward": reward}),
        exception_info=exception if broken else None,
        started_at=BEGIN,
        finished_at=BEGIN + timedelta(seconds=100),
        agent_execution=TimingInfo(started_at=BEGIN, finished_at=BEGIN + timedelta(seconds=30)),
    )


def make_trajectory(agent: str) -> Trajectory:
    calls = [ToolCall(tool_call_id="1", function_name="Edit", arguments={"file_path": "a.py"})]
    seen = Observation(results=[ObservationResult(source_call_id="1", content="ok")])
    used = Metrics(prompt_tokens=1000, cached_tokens=600, completion_tokens=50)
    said = {"source": "agent", "metrics": used}
    return Trajectory(
        session_id="s",
        agent=Agent(name=agent, version="1.0", model_name=AGENTS[agent][1]),
        steps=[
            Step(step_id=1, source="user", message="Fix it."),
            Step(step_id=2, message="Done.", tool_calls=calls, observation=seen, **said),
        ],
        final_metrics=FinalMetrics(total_cost_usd=0.25),
    )


def main(folder: Path) -> None:
    found = {}
    for agent in AGENTS:
        job = folder / "jobs" / agent
        trials = [make_trial(agent, task, run) for task in TASKS for run in range(2)]
        for trial in trials:
            place = job / trial.trial_name
            (place / "agent").mkdir(parents=True)
            (place / "result.json").write_text(trial.model_dump_json(indent=4), encoding="utf-8")
            told = json.dumps(make_trajectory(agent).to_json_dict(), indent=2)
            (place / "agent" / "trajectory.json").write_text(told, encoding="utf-8")
        stats = JobStats.from_trial_results(trials, n_total_trials=len(trials))
        rewards = [each.verifier_result and each.verifier_result.rewards for each in trials]
        mean = Mean().compute(rewards)
        chances = compute_pass_at_k_by_evals(trials)
        for name, each in stats.evals.items():
            each.metrics = [mean]
            each.pass_at_k = chances.get(name, {})
        result = JobResult(id=uuid4(), started_at=BEGIN, n_total_trials=len(trials), stats=stats)
        text = result.model_dump_json(indent=4, exclude={"trial_results"})
        (job / "result.json").write_text(text, encoding="utf-8")
        found[agent] = {**mean, "pass_at_2": next(iter(chances.values()), {}).get(2)}
    print(json.dumps({"version": version("harbor"), "jobs": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
