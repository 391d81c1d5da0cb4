"""Harbor: a trial's `result.json`, with the trajectory of its agent beside it, in folders of jobs.

A job's own `result.json` has no records, and states figures of its trials. A reward is a pass where
every reward of the job is 0 or 1. A trial without a reward failed to run; one that was rated in
spite of an exception counts, with the exception's name as its `exit_status`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from calipers.records.logs.atif import read_trajectory
from calipers.records.logs.coding_agents import measure_seconds, name_repository, read_tokens
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import (
    as_mapping,
    as_number,
    as_truth,
    has_keys,
    list_objects,
    read_text,
    read_whole,
    sum_usage,
)
from calipers.records.logs.shape import (
    find_value,
    make_duration_fields,
    name_scores,
    sum_numbers,
)
from calipers.support.errors import DataError
from calipers.support.plugins import register

_RESULT, _REWARD = "result.json", "reward"
_TRAJECTORIES = ("agent/trajectory.json", "steps/*/agent/trajectory.json")
_OF_MEAN = ("pass_rate", "score_reward")  # ours of the mean reward
_KEPT_JOBS = 256  # whose rewards are remembered while their trials are read
_is_trial = has_keys("task_name", "trial_name", "agent_info")
_is_job = has_keys("n_total_trials", "stats")


def _read_trial(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    trial = as_mapping(read_whole(path))
    task, rewards = read_text(trial.get("task_name")), _read_rewards(trial)
    failed = _find_exception(trial)
    told = {name: value for name, value in _read_trajectories(path.parent).items() if value}
    took = _measure_agent(trial)
    yield (
        {
            "id": task,
            "run": read_text(trial.get("trial_name")),
            "repository": name_repository(task),
            "dataset": read_text(trial.get("source")),
            **told,
            **_name_system(trial),
            **_read_usage(trial),
            **make_duration_fields(told.get("duration_seconds") if took is None else took),
            "trial_seconds": measure_seconds(trial.get("started_at"), trial.get("finished_at")),
            "passed": _find_passed(path.parent, rewards),
            "exit_status": read_text(failed.get("exception_type")),
            "error": None if rewards else _describe_error(failed),
            **name_scores(rewards),
        },
        1.0,
    )


def _read_rewards(trial: Mapping[str, Any]) -> dict[str, float]:
    given = as_mapping(find_value(trial, "verifier_result.rewards"))
    numbers = {str(name): as_number(value) for name, value in given.items()}
    found = {name: value for name, value in numbers.items() if value is not None}
    return {_REWARD: next(iter(found.values()))} if len(found) == 1 else found


def _find_exception(trial: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the exception of the trial, or the first of its steps; nothing if there was none."""
    steps = (step.get("exception_info") for step in list_objects(trial.get("step_results")))
    return next(filter(None, map(as_mapping, (trial.get("exception_info"), *steps))), {})


def _describe_error(failed: Mapping[str, Any]) -> str:
    said = (read_text(failed.get(f"exception_{part}")) for part in ("type", "message"))
    return ": ".join(filter(None, said)) or "the trial has no reward"


def _name_system(trial: Mapping[str, Any]) -> Record:
    """Return the model with the agent as its variant; the agent alone is the model."""
    agent = as_mapping(trial.get("agent_info"))
    name, about = read_text(agent.get("name")), as_mapping(agent.get("model_info"))
    given, provider = read_text(about.get("name")), read_text(about.get("provider"))
    model = read_text(find_value(trial, "config.agent.model_name"))
    if model is None and given is not None:
        model = f"{provider}/{given}" if provider else given
    return {
        "model": model or name,
        "variant": name if model else None,
        "agent_version": read_text(agent.get("version")),
    }


def _read_usage(trial: Mapping[str, Any]) -> Record:
    """Return the tokens and the cost of the trial, or of its steps together; known ones only."""
    whole = as_mapping(trial.get("agent_result"))
    steps = list_objects(trial.get("step_results"))
    several = [whole] if whole else [as_mapping(step.get("agent_result")) for step in steps]
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for result in several:
        for model, used in as_mapping(result.get("model_usage")).items():
            by_model.setdefault(str(model), []).append(as_mapping(used))
    parts = sum_usage({model: _count_tokens(used) for model, used in by_model.items()})
    totals = {name: total for name, total in _count_tokens(several).items() if total is not None}
    return {**{name: parts[name] for name in ("usage",) if name in parts}, **totals}


def _count_tokens(used: list[Mapping[str, Any]]) -> dict[str, float | None]:
    cached = sum_numbers(used, "n_cache_tokens")
    return {
        **read_tokens(sum_numbers(used, "n_input_tokens"), cached),
        "completion_tokens": sum_numbers(used, "n_output_tokens"),
        "cost_usd": sum_numbers(used, "cost_usd"),
    }


def _measure_agent(trial: Mapping[str, Any]) -> float | None:
    """Return the seconds that the agent worked, in all steps."""
    steps = [result.get("agent_execution") for result in list_objects(trial.get("step_results"))]
    times = [as_mapping(part) for part in (trial.get("agent_execution"), *steps)]
    found = [measure_seconds(part.get("started_at"), part.get("finished_at")) for part in times]
    known = [seconds for seconds in found if seconds is not None]
    return sum(known) if known else None


def _read_trajectories(folder: Path) -> Record:
    """Return what the trajectory of the agent tells; of several steps, what the last one does."""
    found = sorted(path for pattern in _TRAJECTORIES for path in folder.glob(pattern))
    return read_trajectory(found[-1]).make_record() if found else {}


def _find_passed(folder: Path, rewards: Mapping[str, float]) -> bool | None:
    """Return whether the trial passed; None where a reward of its job is neither 0 nor 1."""
    if set(rewards) != {_REWARD} or as_truth(rewards[_REWARD]) is None:
        return None
    job = folder.absolute().parent
    files = (path for path in (job, job / _RESULT) if path.exists())
    changed = tuple(path.stat().st_mtime_ns for path in files)  # a job rewrites its own result
    return as_truth(rewards[_REWARD]) if _is_binary(job, changed) else None


@lru_cache(maxsize=_KEPT_JOBS)
def _is_binary(job: Path, _changed: tuple[int, ...]) -> bool:
    """Return True if every reward of the trials in a folder is 0 or 1."""
    for path in job.glob(f"*/{_RESULT}"):
        trial = as_mapping(read_whole(path))
        rewards = _read_rewards(trial) if _is_trial(trial) else {}
        if any(as_truth(value) is None for value in rewards.values()):
            return False
    return True


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield what the job states of this trial's agent, and of all its trials."""
    file = path.absolute().parent.parent / _RESULT
    if not file.is_file():
        return
    stats = _read_stats(file, file.stat().st_mtime_ns)
    evals = as_mapping(stats.get("evals"))
    trial = as_mapping(read_whole(path))
    name, by = _name_eval(trial)
    yield from _list_of_eval(
        file.parent, name, as_mapping(evals.get(name)), by if len(evals) > 1 else ()
    )
    if (cost := as_number(stats.get("cost_usd"))) is not None:
        yield Figure(name="stats/cost_usd", value=cost, ours=("sum(cost_usd)",), folder=file.parent)


def _is_unfinished(path: Path) -> bool:
    """Return True if the job has trials that are running, or have not begun."""
    file = path.absolute().parent.parent / _RESULT
    stats = _read_stats(file, file.stat().st_mtime_ns) if file.is_file() else {}
    return any(as_number(stats.get(f"n_{kind}_trials")) for kind in ("running", "pending"))


@lru_cache(maxsize=_KEPT_JOBS)
def _read_stats(file: Path, _changed: int) -> Mapping[str, Any]:
    return as_mapping(as_mapping(read_whole(file)).get("stats"))


def _name_eval(trial: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Return what a job calls the trials of an agent, a model and a dataset, and their fields."""
    agent, dataset = as_mapping(trial.get("agent_info")), read_text(trial.get("source"))
    parts = (agent.get("name"), find_value(agent, "model_info.name"), dataset or "adhoc")
    system = _name_system(trial)
    by = (*((name, system[name]) for name in ("model", "variant")), ("dataset", dataset))
    return "__".join(str(part) for part in parts if part is not None), by


def _list_of_eval(
    job: Path, name: str, stats: Mapping[str, Any], by: tuple[tuple[str, Any], ...]
) -> Iterator[Figure]:
    """Yield the means of an agent's rewards, and its pass@k."""
    trials, failed = as_number(stats.get("n_trials")), as_number(stats.get("n_errors"))
    count = None if trials is None else int(trials)
    reason = "Harbor counts a trial without a reward as 0, as --errors fail does" if failed else ""
    found: list[tuple[str, Any, int | None, tuple[str, ...]]] = []
    for metric in list_objects(stats.get("metrics")):
        for kind, value in metric.items():
            found.append((str(kind), value, count, _OF_MEAN if kind == "mean" else ()))
    for k, value in as_mapping(stats.get("pass_at_k")).items():
        found.append((f"pass_at_{k}", value, None, (f"pass_at_{k}",)))
    for kind, value, n, ours in found:
        if (number := as_number(value)) is not None:
            place = f"{name}/{kind}"
            yield Figure(name=place, value=number, n=n, ours=ours, reason=reason, folder=job, by=by)


def _refuse_job(document: Any, path: Path) -> None:
    if _is_job(document) and "evals" in as_mapping(as_mapping(document).get("stats")):
        raise DataError(
            f"{path}: the summary of a job of Harbor, whose records are its trials",
            fix=f"name the folder: {path.parent}",
        )


register(
    LogReader(
        name="Harbor",
        fits=_is_trial,
        records=_read_trial,
        unfinished=_is_unfinished,
        stated=_list_stated,
        find=find_files(*(f"{'*/' * depth}{_RESULT}" for depth in range(4)), fits=_is_trial),
        refuse=_refuse_job,
    )
)
