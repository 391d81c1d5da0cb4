"""Coding agents: trials, sessions and rollouts as records, with what they state of themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.logs.log import Log
from calipers.records.sources import open_sources
from calipers.support.errors import DataError
from tests.commands import run
from tests.records.agent_files import (
    LATER,
    ZEROTH,
    make_trajectory,
    make_trial,
    write_job,
    write_json,
    write_lines,
)

TASKS = ("django__django-11099", "django__django-11100", "sphinx-doc__sphinx-7", "a/b/c")


def read_one(path: Path) -> dict[str, Any]:
    [record] = cal.read(path).to_dicts()
    return {**record, "trace": json.loads(record["trace"])} if "trace" in record else record


def test_a_trial_is_a_record_with_what_its_trajectory_tells(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", [make_trial(TASKS[0], 1, 1.0)])
    found = read_one(job)
    expected = {
        "id": TASKS[0],
        "repository": "django/django",
        "model": "openai/gpt-5-mini",
        "variant": "codex",
        "passed": True,
        "score_reward": 1.0,
        "prompt_tokens": 400.0,  # without those that were cached
        "cache_read_tokens": 600.0,
        "completion_tokens": 50.0,
        "cost_usd": 0.25,
        "duration_seconds": 30.0,
        "input": "Fix it.",
        "answer": "Done.",
        "turns": 2.0,
        "files_changed": 1.0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["trace"]["tool_calls"][1] == {
        "tool_name": "Bash",
        "args": {"command": "make"},
        "timestamp": ZEROTH,
        "success": False,
    }


def test_a_reward_is_a_pass_only_where_all_of_the_job_are_0_or_1(tmp_path: Path) -> None:
    whole = write_job(tmp_path / "a", [make_trial(TASKS[0], 1, 1), make_trial(TASKS[1], 1, 0)])
    parts = write_job(tmp_path / "b", [make_trial(TASKS[0], 1, 1), make_trial(TASKS[1], 1, 0.5)])
    assert cal.read(whole)["passed"].to_list() == [True, False]
    table = cal.read(parts)
    assert table["score_reward"].to_list() == [1.0, 0.5]
    assert "passed" not in table.columns or table["passed"].is_null().all()


def test_a_trial_without_a_reward_failed_to_run_and_a_rated_one_did_not(tmp_path: Path) -> None:
    trials = [
        make_trial(TASKS[0], 1, None, exception="EnvironmentStartTimeoutError"),
        make_trial(TASKS[0], 2, 0.0, exception="AgentTimeoutError"),
    ]
    table = cal.read(write_job(tmp_path / "job", trials))
    assert table["error"].to_list() == ["EnvironmentStartTimeoutError: too slow", None]
    assert table["exit_status"].to_list() == ["EnvironmentStartTimeoutError", "AgentTimeoutError"]
    assert table["passed"].to_list() == [None, False]


def test_an_agent_without_a_model_is_the_model(tmp_path: Path) -> None:
    found = read_one(
        write_job(tmp_path / "job", [make_trial(TASKS[3], 1, 1, agent="oracle", model=None)])
    )
    assert found["model"] == "oracle"
    assert found["id"] == TASKS[3]
    assert found.get("repository") is None


def test_the_mean_that_a_job_states_stands_beside_ours(tmp_path: Path) -> None:
    dead = make_trial(TASKS[1], 1, None, exception="SandboxBuildFailedError")
    trials = [make_trial(TASKS[0], 1, 1), make_trial(TASKS[2], 1, 0), dead]
    eval_ = {"n_trials": 2, "n_errors": 1, "metrics": [{"mean": 1 / 3}]}
    stats = {"evals": {"codex__gpt-5-mini__mini": eval_}, "cost_usd": 0.75}
    job = write_job(tmp_path / "job", trials, stats)
    metrics = ("pass_rate", "sum(cost_usd)")
    plain = cal.score(job, metrics=metrics).inputs
    counted = cal.score(job, metrics=metrics, errors="fail").inputs
    assert _list_equal(plain) == {"pass_rate": False, "sum(cost_usd)": False}
    assert _list_equal(counted)["pass_rate"] is True


def _list_equal(inputs: Iterable[Any]) -> dict[str | None, bool | None]:
    return {figure.ours: figure.equal for each in inputs for figure in each.stated}


def test_each_agent_of_a_job_has_its_own_mean(tmp_path: Path) -> None:
    trials = [
        make_trial(TASKS[n], 1, reward, agent=agent, model=model)
        for agent, model, rewards in (
            ("codex", "openai/o3", (1.0, 0.0)),
            ("terminus", "openai/o3", (1.0, 1.0)),
        )
        for n, reward in enumerate(rewards)
    ]
    means = {"codex__o3__mini": 0.5, "terminus__o3__mini": 1.0}
    evals = {
        name: {"n_trials": 2, "n_errors": 0, "metrics": [{"mean": mean}]}
        for name, mean in means.items()
    }
    job = write_job(tmp_path / "job", trials, {"evals": evals})
    stated = [f for each in cal.score(job, metrics=["pass_rate"]).inputs for f in each.stated]
    assert {figure.name: (figure.measured, figure.equal) for figure in stated} == {
        f"{name}/mean": (mean, True) for name, mean in means.items()
    }


def test_a_job_with_trials_to_come_says_so(tmp_path: Path) -> None:
    trials = [make_trial(TASKS[0], 1, 1.0)]
    for pending in (0, 2):
        job = write_job(tmp_path / f"job{pending}", trials, {"n_pending_trials": pending})
        notices = str(cal.score(job, metrics=["pass_rate"]).notices)
        assert ("did not finish" in notices) is bool(pending)


def test_a_job_alone_says_to_name_its_folder(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", [make_trial(TASKS[0], 1, 1)])
    with pytest.raises(DataError, match="the summary of a job"):
        cal.read(job / "result.json")


def test_a_folder_of_jobs_is_ranked_in_one_command(tmp_path: Path) -> None:
    draw = random.Random(7)
    chances = {("codex", "GPT-4o"): 0.1, ("claude-code", "claude-10"): 0.9, ("codex", "o3"): 0.5}
    for (agent, model), chance in chances.items():
        trials = [
            make_trial(f"owner{n % 4}__repo-{n}", k, float(draw.random() < chance), agent=agent)
            | {"config": {"agent": {"model_name": model}}}
            for n in range(20)
            for k in range(2)
        ]
        write_job(tmp_path / "jobs" / f"{agent}-{model}", trials)
    done = run(
        *("rank", str(tmp_path / "jobs"), "--cluster", "repository", "--format", "json"),
        *("--metric", "pass_rate", "--metric", "cost_of_pass", "--metric", "pass_hat_2"),
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [found["metric"], *(each["metric"] for each in found["further"])]
    assert names == ["pass_rate", "cost_of_pass", "pass_hat_2"]
    first = found["systems"][0]
    assert (first["name"], first["rank"]) == ("claude-10, claude-code", 1)


def test_agents_that_cost_nothing_or_never_pass_do_not_stop_the_ranking(tmp_path: Path) -> None:
    for agent, model, rewards in (
        ("oracle", None, (1.0, 1.0, 1.0)),
        ("codex", "o3", (1.0, 0.0, 1.0)),
        ("codex", "o10", (1.0, 0.0, 0.0)),
        ("codex", "o1", (0.0, 0.0, 0.0)),
    ):
        trials = [
            make_trial(f"a__b-{n}", 1, reward, agent=agent, model=model)
            | ({"agent_result": None} if model is None else {})
            for n, reward in enumerate(rewards)
        ]
        write_job(tmp_path / "jobs" / f"{agent}-{model}", trials)
    for place in (tmp_path / "jobs" / "oracle-None").rglob("trajectory.json"):
        place.unlink()
    ranking = cal.rank(tmp_path / "jobs", metrics=["pass_rate", "cost_of_pass"])
    passes, costs = ranking.metrics
    assert len(passes.systems) == 4
    assert [each.by["model"] for each in costs.systems] == ["o3", "o10"]
    assert "cost_of_pass: not ranked for want of a value" in str(ranking.notices)


def test_other_files_called_result_are_no_trials(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"id": "a", "answer": "4"})
    with pytest.raises(DataError, match="folder without Parquet"):
        cal.read(tmp_path)


def test_a_bare_trajectory_sums_its_steps_where_it_has_no_final_metrics(tmp_path: Path) -> None:
    found = read_one(write_json(tmp_path / "trajectory.json", make_trajectory()))
    assert found["prompt_tokens"] == 400  # of the steps of its own
    assert found["cache_read_tokens"] == 600
    final = {"total_prompt_tokens": 900, "total_cached_tokens": 100, "total_cost_usd": 0.5}
    path = write_json(tmp_path / "b.json", {**make_trajectory(), "final_metrics": final})
    again = read_one(path)
    assert (again["prompt_tokens"], again["cost_usd"]) == (800, 0.5)
    [log] = cal.score(path, metrics=["sum(cost_usd)"]).inputs
    stated = {each.name: (each.value, each.equal) for each in log.stated}
    assert stated["final_metrics/total_cost_usd"] == (0.5, True)


@pytest.mark.parametrize(
    "damage",
    [
        {"steps": [None, 3, {"source": []}, {"source": "agent", "tool_calls": {"a": 1}}]},
        {"steps": [{"source": "agent", "message": 7, "observation": [], "metrics": "many"}]},
        {"agent": "codex", "final_metrics": [1], "new_member": {"deep": [{}]}},
        {"steps": [{"source": "agent", "tool_calls": [{"function_name": None}, {}]}]},
    ],
)
def test_odd_members_of_a_trajectory_are_no_traceback(tmp_path: Path, damage: Any) -> None:
    path = write_json(tmp_path / "trajectory.json", {**make_trajectory(), **damage})
    assert cal.read(path).height == 1


def make_session(**common: Any) -> list[dict[str, Any]]:
    """A session: a message in two lines, the last of which counts, and an agent beside it."""
    line = {"sessionId": "s-1", "parentUuid": "p", "version": "2.1.0", **common}
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "a.py"}}
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}
    said = {"id": "m1", "model": "claude-10", "stop_reason": None}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    return [
        {"type": "file-history-snapshot", "snapshot": {}},
        {**line, "type": "user", "isMeta": True, "message": {"content": "Put in."}},
        {**line, "type": "user", "timestamp": ZEROTH, "message": {"content": "Fix it."}},
        {
            **line,
            "type": "assistant",
            "timestamp": ZEROTH,
            "message": {**said, "content": [], "usage": {**usage, "output_tokens": 1}},
        },
        {
            **line,
            "type": "assistant",
            "timestamp": ZEROTH,
            "message": {**said, "content": [edit], "usage": {**usage, "output_tokens": 40}},
        },
        {**line, "type": "user", "timestamp": LATER, "message": {"content": [failed]}},
        {
            **line,
            "type": "assistant",
            "isSidechain": True,
            "message": {
                "id": "m2",
                "model": "claude-2",
                "content": [{"type": "text", "text": "Side."}],
                "usage": {"input_tokens": 3, "output_tokens": 2},
            },
        },
        {
            **line,
            "type": "assistant",
            "timestamp": LATER,
            "message": {
                "id": "m3",
                "model": "claude-10",
                "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "Done."}],
                "usage": {"input_tokens": 1, "output_tokens": None},
            },
        },
        {**line, "type": "something-new", "payload": [1]},
    ]


def test_a_session_counts_each_message_once(tmp_path: Path) -> None:
    found = read_one(write_lines(tmp_path / "s-1.jsonl", make_session()))
    expected = {
        "id": "s-1",
        "model": "claude-10",
        "variant": "claude-code",
        "input": "Fix it.",
        "answer": "Done.",
        "finish_reason": "stop",
        "turns": 2.0,
        "prompt_tokens": 14.0,
        "completion_tokens": 42.0,
        "cache_read_tokens": 90.0,
        "cache_write_tokens": 5.0,
        "duration_seconds": 30.0,
        "files_changed": 0.0,  # the only edit failed
    }
    assert {name: found[name] for name in expected} == expected
    [call] = found["trace"]["tool_calls"]
    assert (call["success"], call["duration"]) == (False, 30.0)
    assert [each["model"] for each in json.loads(found["usage"])] == ["claude-10", "claude-2"]


def make_stream(name: str, **result: Any) -> list[dict[str, Any]]:
    message = {"id": "m", "model": "claude-10", "content": [{"type": "text", "text": "Hm."}]}
    return [
        {"type": "system", "subtype": "init", "session_id": name, "tools": [], "model": "claude"},
        {"type": "assistant", "session_id": name, "message": {**message, "usage": {}}},
        {
            "type": "result",
            "subtype": "success",
            "session_id": name,
            "is_error": False,
            "num_turns": 1,
            "duration_ms": 1500,
            "result": "4",
            "total_cost_usd": 0.5,
            "modelUsage": {"claude-10": {"inputTokens": 2, "outputTokens": 57, "costUSD": 0.5}},
            **result,
        },
    ]


def test_a_stream_has_its_totals_from_its_result(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "out.jsonl", make_stream("a"))
    found = read_one(path)
    names = ("id", "answer", "prompt_tokens", "completion_tokens", "cost_usd", "duration_seconds")
    assert [found[name] for name in names] == ["a", "4", 2, 57, 0.5, 1.5]
    [log] = cal.score(path, metrics=["sum(cost_usd)"]).inputs
    assert [(each.name, each.equal) for each in log.stated] == [("total_cost_usd", True)]


def test_each_stream_in_a_file_is_a_record_and_says_how_it_ended(tmp_path: Path) -> None:
    broken = make_stream("b", is_error=True, result="API Error: 403")
    spent = make_stream("c", is_error=True, subtype="error_max_turns", result=None)
    path = write_lines(tmp_path / "out.jsonl", [*make_stream("a"), *broken, *spent])
    table = cal.read(path)
    assert table["id"].to_list() == ["a", "b", "c"]
    assert table["error"].to_list() == [None, "API Error: 403", None]
    assert table["exit_status"].to_list()[2] == "error_max_turns"
    array = write_json(tmp_path / "out.json", make_stream("a"))
    assert read_one(array)["answer"] == "4"


def test_streams_of_other_agents_are_not_taken_for_those_of_claude_code(tmp_path: Path) -> None:
    other = {"type": "system", "subtype": "init", "session_id": "x", "apiKeySource": "login"}
    path = write_lines(tmp_path / "out.jsonl", [other, {"type": "user", "session_id": "x"}])
    assert cal.read(path).columns == ["type", "subtype", "session_id", "apiKeySource"]


def make_rollout() -> list[dict[str, Any]]:
    def line(kind: str, at: str = ZEROTH, **payload: Any) -> dict[str, Any]:
        return {"timestamp": at, "type": kind, "payload": payload}

    put_in = {"type": "input_text", "text": "<environment_context>x</environment_context>"}
    patch = "*** Begin Patch\n*** Add File: a.py\n*** Update File: b.py\n*** End Patch"
    used = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9}
    counted = {"total_token_usage": {**used, "reasoning_output_tokens": 4}}
    return [
        line("session_meta", id="c-1", cli_version="0.142.5"),
        line("turn_context", model="gpt-5-mini"),
        line(
            *("response_item",),
            type="message",
            role="user",
            content=[put_in, {"type": "input_text", "text": "Add it."}],
        ),
        line(
            *("response_item",),
            type="function_call",
            name="shell",
            call_id="1",
            arguments='{"a": 1}',
        ),
        line(
            *("response_item", LATER),
            type="function_call_output",
            call_id="1",
            output='{"output": "", "metadata": {"exit_code": 2, "duration_seconds": 0.5}}',
        ),
        line(
            *("response_item", LATER),
            type="custom_tool_call",
            name="apply_patch",
            call_id="2",
            input=patch,
        ),
        line(
            *("response_item", LATER),
            type="custom_tool_call_output",
            call_id="2",
            output="Exit code: 0\nok",
        ),
        line("event_msg", LATER, type="token_count", info=None),
        line("event_msg", LATER, type="token_count", info=counted),
        line("event_msg", LATER, type="token_count", info=counted),
        line("event_msg", LATER, type="agent_message", message="Done."),
        line("newer_line", LATER, type=[1]),
    ]


def test_a_rollout_counts_its_tokens_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "2026" / "01" / "rollout-x.jsonl", make_rollout())
    found = read_one(tmp_path)
    expected = {
        "id": "c-1",
        "model": "gpt-5-mini",
        "variant": "codex",
        "input": "Add it.",
        "answer": "Done.",
        "turns": 1.0,
        "prompt_tokens": 40.0,
        "cache_read_tokens": 60.0,
        "completion_tokens": 9.0,
        "reasoning_tokens": 4.0,
        "duration_seconds": 30.0,
        "files_changed": 2.0,
    }
    assert {name: found[name] for name in expected} == expected
    calls = [(each["success"], each["duration"]) for each in found["trace"]["tool_calls"]]
    assert calls == [(False, 0.5), (True, 0.0)]
    assert path.is_file()


def test_events_of_codex_are_a_record(tmp_path: Path) -> None:
    done = "item.completed"
    command = {"id": "1", "type": "command_execution", "command": "ls", "exit_code": 1}
    change = {"id": "2", "type": "file_change", "changes": [{"path": "a"}], "status": "completed"}
    path = write_lines(
        tmp_path / "events.jsonl",
        [
            {"type": "thread.started", "thread_id": "c-2"},
            {"type": done, "item": command},
            {"type": done, "item": change},
            {"type": done, "item": {"id": "3", "type": "agent_message", "text": "4"}},
            {"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 2}},
            {
                "type": "turn.completed",
                "usage": {
                    "input_tokens": 20,
                    "cached_input_tokens": 8,
                    "cache_write_input_tokens": 12,
                },
            },
            {"type": "turn.failed", "error": {"message": "limit"}},
        ],
    )
    found = read_one(path)
    assert (found["cache_read_tokens"], found["cache_write_tokens"]) == (8, 12)
    names = ("id", "model", "answer", "prompt_tokens", "files_changed", "error")
    assert [found[name] for name in names] == ["c-2", "codex", "4", 9, 1, "limit"]
    assert [each["success"] for each in found["trace"]["tool_calls"]] == [False, True]


def make_case(name: str, *, holds: bool | None, **more: Any) -> dict[str, Any]:
    assertions = {} if holds is None else {"equal": {"name": "equal", "value": holds}}
    return {
        "name": name,
        "inputs": {"q": name},
        "expected_output": "4",
        "output": "4",
        "metadata": {"area": "sums"},
        "attributes": {},
        "metrics": {"output_tokens": 7},
        "scores": {"near": {"value": 0.5}},
        "labels": {},
        "assertions": assertions,
        "task_duration": 2.0,
        "evaluator_failures": [],
        **more,
    }


def test_a_report_of_pydantic_evals_is_a_record_for_each_case(tmp_path: Path) -> None:
    dead = {"name": "d", "inputs": "d", "metadata": None, "error_message": "RuntimeError: no"}
    report = {
        "name": "answer",
        "cases": [
            make_case("a [1/2]", holds=True, source_case_name="a"),
            make_case("a [2/2]", holds=False, source_case_name="a"),
            make_case("c", holds=True, evaluator_failures=[{"name": "judge"}]),
            make_case("e", holds=None),
        ],
        "failures": [dead],
        "analyses": [{"type": "scalar", "title": "accuracy", "value": 0.5}],
        "experiment_metadata": {"model": "openai:GPT-4o"},
    }
    path = write_json(tmp_path / "report.json", report)
    table = cal.read(path)
    assert table.select("id", "run", "passed").rows() == [
        ("a", 1.0, True),
        ("a", 2.0, False),
        ("c", None, None),
        ("e", None, None),
        ("d", None, None),
    ]
    assert table["error"].to_list()[-1] == "RuntimeError: no"
    assert table["model"].unique().to_list() == ["openai:GPT-4o"]
    assert table["score_near"].to_list()[0] == 0.5
    assert table["input"].to_list()[0] == '{"q": "a [1/2]"}'
    [log] = cal.score(path, metrics=["pass_rate"]).inputs
    assert [(each.name, each.value) for each in log.stated] == [("accuracy", 0.5)]


def test_trials_of_terminal_bench_have_their_agent_from_the_run(tmp_path: Path) -> None:
    def trial(task: str, number: int, mode: str = "", **resolved: bool | None) -> dict[str, Any]:
        return {
            "trial_name": f"{task}.{number}-of-2.r",
            "task_id": task,
            "instruction": "Do it.",
            "failure_mode": mode or "unset",
            "total_input_tokens": 5,
            **resolved,
            "parser_results": {"one": "passed", "two": "failed"},
            "agent_started_at": ZEROTH,
            "agent_ended_at": LATER,
        }

    trials = [
        trial("chess", 1, is_resolved=True),
        trial("chess", 2, "agent_timeout", is_resolved=False),
        trial("git", 1, "agent_installation_failed", is_resolved=None),
        trial("git", 2, is_resolved=True),
    ]
    stated = {"n_resolved": 2, "n_unresolved": 2, "accuracy": 0.5, "pass_at_k": {"2": 1.0}}
    folder = tmp_path / "run"
    write_json(folder / "results.json", {"id": "x", "results": trials, **stated})
    write_json(folder / "run_metadata.json", {"agent_name": "terminus", "model_name": "o3"})
    table = cal.read(folder)
    assert table.select("id", "run", "model", "variant", "passed").rows() == [
        ("chess", 1.0, "o3", "terminus", True),
        ("chess", 2.0, "o3", "terminus", False),
        ("git", 1.0, "o3", "terminus", None),
        ("git", 2.0, "o3", "terminus", True),
    ]
    assert table["error"].to_list()[2] == "agent_installation_failed"
    assert table["duration_seconds"].to_list()[0] == 30.0
    [log] = cal.score(folder, metrics=["pass_rate", "pass_at_2"], errors="fail").inputs
    assert {each.name: each.equal for each in log.stated} == {"accuracy": True, "pass_at_2": True}
    one = write_json(folder / "chess" / "chess.1" / "results.json", trials[0])
    assert cal.read(one)["variant"].to_list() == ["terminus"]


def test_reports_of_swe_bench_name_the_repository_and_what_they_state(tmp_path: Path) -> None:
    names = ["django__django-1", "sympy__sympy-2", "sympy__sympy-3"]
    report = {
        "submitted_ids": names,
        "resolved_ids": names[:1],
        "error_ids": [names[2]],
        "resolved_instances": 1,
        "submitted_instances": 3,
    }
    path = write_json(tmp_path / "GPT-4o.run.json", report)
    assert cal.read(path)["repository"].to_list() == ["django/django", *["sympy/sympy"] * 2]
    [alone] = cal.score(path, metrics=["pass_rate"]).inputs
    [counted] = cal.score(path, metrics=["pass_rate"], errors="fail").inputs
    assert [each.stated[0].equal for each in (alone, counted)] == [False, True]


def test_a_folder_of_the_harness_of_swe_bench_is_its_instances(tmp_path: Path) -> None:
    for number, name in enumerate(("django__django-1", "sympy__sympy-2")):
        report = {name: {"patch_successfully_applied": True, "resolved": number == 0}}
        write_json(tmp_path / "logs" / "run" / "GPT-4o" / name / "report.json", report)
    table = cal.read(tmp_path / "logs")
    assert table["passed"].to_list() == [True, False]
    assert table["model"].to_list() == ["GPT-4o", "GPT-4o"]


def test_predictions_of_swe_bench_count_the_files_of_their_patch(tmp_path: Path) -> None:
    patch = "diff --git a/x.py b/x.py\n+1\ndiff --git a/y.py b/y.py\n"
    row = {"instance_id": "a__b-1", "model_patch": patch, "model_name_or_path": "o3"}
    path = write_lines(tmp_path / "preds.jsonl", [row, {**row, "model_patch": None}])
    table = cal.read(path)
    assert table["files_changed"].to_list() == [2, None]
    assert table["repository"].to_list() == ["a/b", "a/b"]


_DAMAGED: dict[str, list[Any]] = {
    "Harbor": [
        {
            "task_name": ["a"],
            "trial_name": 3,
            "agent_info": [],
            "config": None,
            "verifier_result": {"rewards": {"reward": "x"}},
            "step_results": [4],
        }
    ],
    "Codex": [
        {"timestamp": "x", "type": "session_meta", "payload": {}},
        {"type": "event_msg", "payload": [1]},
        {"timestamp": 5, "type": "response_item", "payload": {"type": "function_call", "name": []}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": 7}}},
    ],
    "Claude Code": [
        {"type": "user", "sessionId": "s", "parentUuid": None, "message": "hi"},
        {
            "type": "assistant",
            "message": {
                "content": [{"type": "tool_use", "id": [1], "name": {}}, {"type": "text"}, 5],
                "model": 7,
                "usage": {"input_tokens": "many"},
                "id": {},
            },
        },
    ],
    "pydantic-evals": [
        {
            "name": "r",
            "failures": {"a": 1},
            "analyses": 7,
            "cases": [{"name": 5, "metadata": 7, "scores": [1], "assertions": {"a": 3}}, None],
        }
    ],
    "Terminal-Bench": [
        {"results": [{"task_id": 5, "trial_name": None, "is_resolved": "x", "parser_results": [1]}]}
    ],
}


@pytest.mark.parametrize("name", _DAMAGED)
def test_odd_values_of_known_members_are_no_traceback_and_no_pass(
    tmp_path: Path, name: str
) -> None:
    lines = _DAMAGED[name]
    path = tmp_path / ("log.json" if len(lines) == 1 else "log.jsonl")
    write_json(path, lines[0]) if len(lines) == 1 else write_lines(path, lines)
    [source] = open_sources(path)
    assert isinstance(source, Log)
    assert source.format.name == name
    table = cal.read(path)
    assert table.height
    assert True not in (table["passed"].to_list() if "passed" in table.columns else [])


def test_doctor_names_the_log(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s-1.jsonl", make_session())
    assert "a log of Claude Code" in run("doctor", str(path)).stdout
    assert pl.DataFrame(cal.read(path)).height == 1


def test_scores_whose_names_say_little_do_not_take_the_place_of_others(tmp_path: Path) -> None:
    scores = {"*": 0.1, "🤖": 0.9, "质量": 0.3, "a b": 0.6, "a_b": 0.7, "Über-all": 0.5}
    case = make_case("a", holds=True)
    case["scores"] = {name: {"name": name, "value": each} for name, each in scores.items()}
    log = tmp_path / "report.json"
    log.write_text(json.dumps({"name": "m", "cases": [case], "failures": [], "analyses": []}))
    (record,) = cal.read(log, source="pydantic-evals").to_dicts()
    found = {name: each for name, each in record.items() if name in map("score_{}".format, scores)}
    assert found == {f"score_{name}": each for name, each in scores.items() if name != "Über-all"}
    assert record["score_Über_all"] == 0.5


def test_a_session_with_one_time_has_no_duration(tmp_path: Path) -> None:
    at = {"timestamp": "2026-01-01T00:00:00Z"}
    log = tmp_path / "rollout-2026.jsonl"
    lines = [{**at, "type": "session_meta", "payload": {"id": "*", "cli_version": "0.142.0"}}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (record,) = cal.read(log, source="Codex").to_dicts()
    assert record.get("duration_seconds") is None
    assert record.get("latency_ms") is None
