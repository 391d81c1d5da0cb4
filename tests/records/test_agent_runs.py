"""Runs of agents that review papers: with a trace, with an evaluation alone, of Claude Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.files import write_lines
from tests.records import export_files as files
from tests.records.log_files import write_texts
from tests.shared_data import FOLDER, needs_shared_data

REAL = FOLDER / "traces" / "agents_eval_peerread_mas"


def _evaluate(score: float, said: str, **parts: float | None) -> dict[str, Any]:
    return {
        "composite_score": score,
        "recommendation": said,
        "metric_scores": parts,
        "tier1_score": 0.25,
        "tier2_score": None,
        "evaluation_complete": True,
        "single_agent_mode": False,
        "engine_type": "mas",
    }


def _write_run(
    folder: Path,
    evaluation: dict[str, Any] | None = None,
    trace: dict[str, Any] | None = None,
    paper: str = "1105.1072",
) -> None:
    folder.mkdir(parents=True)
    about = {"paper_id": paper, "engine_type": "mas", "execution_id": f"exec_{folder.name}"}
    write_texts(folder / "metadata.json", about, indent=2)
    if evaluation is not None:
        write_texts(folder / "evaluation.json", evaluation, indent=2)
    if trace is not None:
        write_texts(folder / "trace.json", trace, indent=2)


def test_agent_traces_have_their_review_beside(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        write_texts(folder / "trace.json", files.AGENT_TRACE)
        write_texts(folder / "metadata.json", {"paper_id": name, "engine_type": "mas"}, indent=2)
        write_texts(folder / "review.json", {"review": {"comments": "Good"}}, indent=2)
        write_texts(folder / "evaluation.json", {"composite_score": 0.5, "metric_scores": {"x": 1}})
    table = cal.read(tmp_path)
    assert table["id"].to_list() == ["a", "b"]
    record = table.to_dicts()[0]
    assert (record["answer"], record["score_composite_score"], record["score_x"]) == (
        "Good",
        0.5,
        1,
    )
    assert len(json.loads(record["trace"])["agent_interactions"]) == 1


def _write_runs(root: Path) -> None:
    mas = root / "runs" / "mas"
    _write_run(mas / "a", _evaluate(0.9, "accept", time_taken=1.0), files.AGENT_TRACE)
    _write_run(mas / "b", _evaluate(0.5, "weak_reject", time_taken=0.5))
    _write_run(mas / "c", _evaluate(0.7, "reject"), paper="unknown")
    _write_run(mas / "d", _evaluate(0.3, "reject"), paper="unknown")
    _write_run(root / "runs" / "cc" / "e", _evaluate(0.1, "reject"))
    (mas / "f").mkdir()
    write_texts(mas / "f" / "metadata.json", {"paper_id": "x"}, indent=2)  # not evaluated


@pytest.mark.parametrize("named", ["runs/mas", "runs", "", "runs/mas/*"])
def test_every_evaluated_run_is_read(tmp_path: Path, named: str) -> None:
    _write_runs(tmp_path)
    table = cal.read(f"{tmp_path}/{named}" if "*" not in named else f"{tmp_path}/runs/mas/[a-d]")
    names = ["a", "b", "c", "d"] if "mas" in named else ["a", "b", "c", "d", "e"]
    assert sorted(table["execution_id"].to_list()) == sorted(
        ["x1", *(f"exec_{name}" for name in names[1:])]
    )
    ids = dict(zip(table["execution_id"], table["id"], strict=True))
    assert (ids["exec_b"], ids["exec_c"], ids["exec_d"]) == ("1105.1072", "exec_c", "exec_d")


def test_the_scores_of_the_tool_lead(tmp_path: Path) -> None:
    _write_runs(tmp_path)
    score = cal.score(tmp_path / "runs" / "mas", profile="agents")
    stated = {each.name: each for each in score.inputs[0].stated}
    assert all(each.leads for each in stated.values())
    assert (stated["composite_score"].value, stated["composite_score"].n) == (0.6, 4)
    assert stated["composite_score"].ours == "agent_composite"
    assert stated["composite_score"].measured == score["agent_composite"].value
    assert (stated["time_taken"].value, stated["time_taken"].n) == (0.75, 2)
    assert "tier2_score" not in stated
    assert not any(each.stated for each in score.inputs[1:])
    notices = str(score.notices)
    assert "1 of 4 recommendations" in notices
    assert "--set missing=renormalize" in notices
    assert "P 1.4" in notices
    text = str(score)
    assert text.index("state of themselves") < text.index("agent_composite ")
    one = cal.score(tmp_path / "runs" / "mas" / "b" / "evaluation.json", profile="agents")
    [figure] = [each for each in one.inputs[0].stated if each.name == "composite_score"]
    assert (figure.value, figure.n) == (0.5, 1)


SESSION: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-opus-4-6"},
    {
        "type": "assistant",
        "parent_tool_use_id": None,
        "message": {"content": [{"type": "tool_use", "id": "c1", "name": "Agent", "input": {}}]},
    },
    {"type": "system", "subtype": "task_started", "tool_use_id": "c1", "description": "Look"},
    {
        "type": "assistant",
        "parent_tool_use_id": "c1",
        "message": {
            "content": [
                {"type": "tool_use", "id": "c2", "name": "Read", "input": {"file": "a.py"}},
                {"type": "tool_use", "id": "c3", "name": "Bash", "input": {"command": "ls"}},
            ]
        },
    },
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "c3", "is_error": True}]},
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 1500,
        "num_turns": 3,
        "result": "A review.",
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 7},
    },
]


def test_a_session_of_claude_code_is_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "cc" / "solo"
    folder.mkdir(parents=True)
    path = write_lines(folder / "stream.jsonl", SESSION)
    alone = write_lines(tmp_path / "session.jsonl", SESSION)
    for named in (path, tmp_path / "runs", alone):
        [record] = cal.read(named).to_dicts()
        assert (record["model"], record["answer"]) == ("claude-opus-4-6", "A review.")
        assert (record["cost_usd"], record["duration_seconds"]) == (0.25, 1.5)
        assert (record["prompt_tokens"], record["completion_tokens"]) == (10, 4)
        assert record["cache_read_tokens"] == 7
        trace = json.loads(record["trace"])
        assert [(c["tool_name"], c["agent_id"], c["success"]) for c in trace["tool_calls"]] == [
            ("Agent", "lead", True),
            ("Read", "Look", True),
            ("Bash", "Look", False),
        ]
        assert trace["agent_tasks"] == {"lead": 1, "Look": 2}
    cut = write_lines(tmp_path / "cut.jsonl", SESSION[:-1])
    assert "did not finish" in str(cal.score(cut, metrics=["path_convergence"]).notices)


def test_a_session_beside_an_evaluation_is_the_same_run(tmp_path: Path) -> None:
    _write_run(tmp_path / "a", _evaluate(0.5, "weak_reject"))
    write_lines(tmp_path / "a" / "stream.jsonl", SESSION)
    [record] = cal.read(tmp_path).to_dicts()
    assert (record["score_composite_score"], record["answer"]) == (0.5, "A review.")


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    _write_runs(tmp_path)
    empty = tmp_path / "runs" / "cc" / "20260303_empty"
    empty.mkdir()
    (empty / "stream.jsonl").write_bytes(b"")
    sweep = tmp_path / "sweeps" / "20260303"
    sweep.mkdir(parents=True)
    composition = {"include_researcher": True, "include_analyst": False}
    entries = [{"composition": composition, "result": _evaluate(0.5, "weak_reject")}] * 2
    entries.append({"composition": {"include_researcher": False}, "result": _evaluate(0.4, "x")})
    (sweep / "results.json").write_text(json.dumps(entries), encoding="utf-8")
    cut = tmp_path / "runs" / "mas" / "cut"
    _write_run(cut, _evaluate(0.5, "weak_reject"))
    (cut / "evaluation.json").write_text('{"composite_score": 0.5,', encoding="utf-8")
    notices = str(cal.score(tmp_path, profile="agents").notices)
    assert "1 run is not read, of which these files are damaged" in notices
    assert "cut/evaluation.json" in notices
    assert "1 run left empty files, and none of them is read: 20260303_empty" in notices
    assert "1 sweep is not read" in notices
    table = cal.read(tmp_path / "sweeps")
    assert table["variant"].to_list() == ["researcher", "researcher", "manager only"]
    assert table["run"].to_list() == [1, 2, 1]
    assert table["score_composite_score"].to_list() == [0.5, 0.5, 0.4]


def test_the_composition_of_agents_is_the_variant(tmp_path: Path) -> None:
    _write_run(tmp_path / "a", _evaluate(0.5, "weak_reject"))
    given = {"include_researcher": True, "include_analyst": True, "paper_id": "1"}
    about = {"paper_id": "1", "engine_type": "mas", "execution_id": "e", "cli_args": given}
    write_texts(tmp_path / "a" / "metadata.json", about, indent=2)
    assert cal.read(tmp_path)["variant"].to_list() == ["researcher+analyst"]


@needs_shared_data
def test_the_runs_that_the_tool_left() -> None:
    score = cal.score(REAL, profile="agents")
    folders = [each for each in REAL.iterdir() if (each / "evaluation.json").is_file()]
    scores = [
        json.loads((each / "evaluation.json").read_text(encoding="utf-8"))["composite_score"]
        for each in folders
    ]
    assert score.records == len(folders)
    stated = {each.name: each for each in score.inputs[0].stated}
    assert stated["composite_score"].value == pytest.approx(sum(scores) / len(scores))
    assert score["task_distribution_balance"].value is not None
