"""Logs that the tools write when they are run, scored here: their own numbers come out.

Each has an environment of its own: `make test-logs`. A `write_….py` runs in it, without a network or
a model, and prints what the tool found.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

import calipers as cal
from calipers.scores.result import Group
from tests.runs.suites_at_hand import ROOT

HERE = Path(__file__).parent
TIME = 600  # seconds that a tool may take on a busy machine
TEXTS = ("input", "answer", "reference")

pytestmark = pytest.mark.long

Write = Callable[..., dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Have a tool write its log to the test's folder; returns what it says of it."""

    def run(tool: str, environment: str) -> dict[str, Any]:
        place = ROOT / f".venv-logs-{environment}"
        if environment in ("codex", "promptfoo"):
            python, installed = which("python3"), place / "node_modules" / ".bin" / environment
        else:
            python = str(place / "bin" / "python")
            installed = Path(python)
        if python is None or not installed.exists():
            pytest.skip(f"not installed: {environment} (make test-logs)")
        command = [python, str(HERE / f"write_{tool}.py"), str(tmp_path)]
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=False, timeout=TIME
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    return run


def score(path: Path, format_: str, **options: Any) -> Group:
    """Measure a log, which is known for what it is."""
    result = cal.score(path, **options)
    assert {each.format for each in result.inputs} == {format_}
    [group] = result.groups
    return group


def value(group: Group, metric: str) -> float | None:
    return group.metrics[metric].value


def test_inspect(tmp_path: Path, write: Write) -> None:
    theirs = write("inspect", "inspect")
    for name in ("once", "twice"):
        ours = score(tmp_path / name, "Inspect").metrics["accuracy"]
        assert ours.value == theirs[name]["accuracy"]
        assert ours.stderr == pytest.approx(theirs[name]["stderr"], rel=1e-12)
    [log] = (tmp_path / "twice").iterdir()
    table = cal.read(log)
    assert sorted(set(table["run"])) == [1, 2]
    assert set(table["prompt_tokens"]) == {10}
    assert table["cot"][0] == "The sum of both is\n1"


def test_lm_eval(tmp_path: Path, write: Write) -> None:
    theirs = write("lm_eval", "lm-eval")
    for task, metric in (("sums", "exact_match"), ("choices", "acc")):
        [path] = (tmp_path / "results").glob(f"*/samples_{task}_*.jsonl")
        ours = score(path, "lm-eval").metrics["accuracy"]
        assert ours.value == theirs[task][metric]
        assert ours.stderr == pytest.approx(theirs[task][f"{metric}_stderr"], rel=1e-12)


def test_promptfoo(tmp_path: Path, write: Write) -> None:
    theirs = write("promptfoo", "promptfoo")
    for kind, format_ in (("json", "promptfoo"), ("jsonl", "promptfoo"), ("csv", "promptfoo CSV")):
        group = score(tmp_path / f"output.{kind}", format_)
        assert group.records == 40
        assert value(group, "pass_rate") == theirs["pass_rate"]
        assert value(group, "score_same") == theirs["pass_rate"]
    assert len(set(cal.read(tmp_path / "output.json")["tier"])) == 2


def test_deepeval(tmp_path: Path, write: Write) -> None:
    theirs = write("deepeval", "deepeval")
    [run] = (tmp_path / "run").glob("test_run_*.json")
    for path in (run, tmp_path / "dumped.json", tmp_path / ".deepeval" / ".latest_run_full.json"):
        group = score(path, "DeepEval")
        assert value(group, "pass_rate") == theirs["pass_rate"]
        assert value(group, "score_closeness") == pytest.approx(theirs["mean"], rel=1e-12)
    first = cal.read(run).to_dicts()[0]
    assert (first["input"], first["answer"], first["reference"]) == ("0 + 0", "1", "0")
    assert (first["id"], first["model"]) == ("sum 0", "adder")
    assert json.loads(first["trace"])["tool_calls"] == [{"tool_name": "add", "args": {"a": 0}}]


def test_ragas(tmp_path: Path, write: Write) -> None:
    theirs = write("ragas", "ragas")
    for kind in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"ragas.{kind}"
        group = score(path, "Ragas")
        for name, mean in theirs["means"].items():
            assert value(group, f"score_{name}") == pytest.approx(mean, rel=1e-9)
        first = cal.read(path).to_dicts()[0]
        assert [first[name] for name in TEXTS] == ["0 + 0", "The sum is 1", "The sum is 0"]


def test_mlflow(tmp_path: Path, write: Write) -> None:
    theirs = write("mlflow", "mlflow")
    for name, format_ in (
        ("traces.jsonl", "MLflow traces"),
        ("trace_files.jsonl", "MLflow trace files"),
    ):
        group = score(tmp_path / name, format_)
        assert value(group, "score_exact") == theirs["traces"]
        rows = cal.read(tmp_path / name)
        assert sorted(zip(rows["input"], rows["answer"], strict=True))[:2] == [
            *(("0 + 0", "1"), ("1 + 1", "2")),
        ]
    group = score(tmp_path / "eval_results_table.json", "MLflow")
    assert value(group, "score_same") == theirs["table"]


def test_langsmith(tmp_path: Path, write: Write) -> None:
    theirs = write("langsmith", "clients")
    for kind in ("jsonl", "csv"):
        path = tmp_path / f"experiment.{kind}"
        group = score(path, "LangSmith")
        assert value(group, "score_same") == theirs["mean"]
        first = cal.read(path).sort("input").to_dicts()[0]
        assert [first[name] for name in TEXTS] == ["0 + 0", "1", "0"]


def test_braintrust(tmp_path: Path, write: Write) -> None:
    theirs = write("braintrust", "clients")
    group = score(tmp_path / "experiment.jsonl", "Braintrust")
    assert value(group, "score_same") == theirs["mean"]
    first = cal.read(tmp_path / "experiment.jsonl").sort("input").to_dicts()[0]
    assert [first[name] for name in TEXTS] == ["0 + 0", "1", "0"]
    assert first["model"] == "adder"


def test_mini_swe_agent(tmp_path: Path, write: Write) -> None:
    theirs = write("mini_swe_agent", "agents")
    found = {each["id"]: each for each in cal.read(tmp_path, source="SWE-agent").to_dicts()}
    for name, numbers in theirs.items():
        if name == "version":
            continue
        ours = found[name]
        assert (ours["exit_status"], ours["cost_usd"]) == (numbers["status"], numbers["cost"])
        assert (ours["model_calls"], ours["model"]) == (numbers["calls"], "written")
        assert (ours["answer"] or "", ours["input"]) == (numbers["answer"], "Fix the bug.")
        assert len(json.loads(ours["trace"])["tool_calls"]) == numbers["calls"]
    assert [found[name]["error"] for name in ("a__b-1", "a__b-2")] == [None, "LimitsExceeded"]


def test_swe_bench(tmp_path: Path, write: Write) -> None:
    theirs = write("swe_bench", "agents")
    table = cal.read(tmp_path / theirs["file"], source="SWE-bench")
    assert (table.height, table["passed"].sum()) == (theirs["submitted"], theirs["resolved"])
    assert table["error"].drop_nulls().len() == theirs["error"]
    assert set(table["model"]) == {"tiny"}
    one = score(next((tmp_path / "logs").rglob("report.json")), "SWE-bench")
    assert value(one, "score_FAIL_TO_PASS") == 1
    assert cal.read(tmp_path / "predictions.jsonl")["id"].len() == theirs["submitted"]


def test_helm(tmp_path: Path, write: Write) -> None:
    for run, theirs in write("helm", "helm")["runs"].items():
        folder = tmp_path / "out" / "runs" / "tiny" / run
        assert value(score(folder, "HELM"), "accuracy") == theirs["plain"]
        if "perturbed" in theirs:
            groups = cal.score(folder, by="perturbation").groups
            found = {each.by["perturbation"]: value(each, "accuracy") for each in groups}
            assert found == {None: theirs["plain"], "lowercase": theirs["perturbed"]}
        first = cal.read(folder).to_dicts()[0]
        assert (first["model"], first["target"] in {"Even", "Odd"}) == ("simple/halves", True)


def test_phoenix(tmp_path: Path, write: Write) -> None:
    theirs = write("phoenix", "phoenix")
    for kind in ("csv", "jsonl", "parquet"):
        rows = cal.read(tmp_path / f"spans.{kind}").sort("input").to_dicts()
        score(tmp_path / f"spans.{kind}", "Phoenix")
        assert len(rows) == theirs["spans"] / 2
        assert [rows[0][name] for name in ("input", "answer", "model")] == ["0 + 0", "1", "adder"]
        assert {(row["prompt_tokens"], row["completion_tokens"]) for row in rows} == {(10, 5)}
        assert all(0 < row["duration_seconds"] < TIME for row in rows)


def test_langfuse(tmp_path: Path, write: Write) -> None:
    theirs = write("langfuse", "langfuse")
    assert value(score(tmp_path / "traces.jsonl", "Langfuse"), "score_same") == theirs["mean"]
    for name in ("traces.jsonl", "observations.json", "observations_v2.json"):
        score(tmp_path / name, "Langfuse")
        rows = cal.read(tmp_path / name).sort("input").to_dicts()
        assert [rows[0][name] for name in ("input", "answer", "model")] == ["0 + 0", "1", "adder"]
        numbers = ("prompt_tokens", "completion_tokens", "cost_usd", "latency_ms")
        assert {tuple(row[name] for name in numbers) for row in rows} == {(10, 5, 0.03, 1500)}


def test_weave(tmp_path: Path, write: Write) -> None:
    theirs = write("weave", "weave")
    for name in ("references", "examples"):
        path = tmp_path / f"{name}.jsonl"
        group = score(path, "Weave")
        assert group.records == theirs["sums"] * theirs["trials"]
        assert value(group, "score_same_correct") == theirs["same"]
        assert value(group, "score_close") == pytest.approx(theirs["close"], rel=1e-12)
        rows = cal.read(path)
        assert rows["id"].n_unique() == theirs["sums"]
        assert rows["model"].str.starts_with("adder:").all()
    first = rows.sort("input").to_dicts()[0]
    assert [first[name] for name in TEXTS] == ["0 + 0", "1", "0"]


def test_agents_of_frameworks(tmp_path: Path, write: Write) -> None:
    found = write("frameworks", "frameworks")
    for framework in ("langgraph", "openai-agents"):
        theirs = found[framework]
        path = tmp_path / f"{framework}.jsonl"
        score(path, "OpenTelemetry")
        rows = cal.read(path).to_dicts()
        assert len(rows) == 3
        for row in rows:
            assert (row["input"], row["answer"]) == ("20 + 22", "The sum is 42.")
            assert all(row[name] == theirs[name] for name in ("prompt_tokens", "completion_tokens"))
            trace = json.loads(row["trace"])
            [call] = trace["tool_calls"]
            assert (call["tool_name"], call["args"]) == ("add", {"a": 20, "b": 22})
            assert (call["agent_id"], trace["agent_tasks"]) == ("adder", {"adder": 1})


def test_pydantic_ai(tmp_path: Path) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 (where it is installed)
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )
    from pydantic_ai.models.test import TestModel  # noqa: PLC0415

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))

    def add(first: int, second: int) -> int:
        return first + second

    agent = pydantic_ai.Agent(TestModel(custom_output_text="42"), name="adder", tools=[add])
    agent.instrument = pydantic_ai.InstrumentationSettings(tracer_provider=provider)

    usages = [asyncio.run(agent.run("20 + 22")).usage for _ in range(3)]
    path = tmp_path / "spans.jsonl"
    spans = (span.to_json(indent=None) for span in kept.get_finished_spans())
    path.write_text("".join(f"{each}\n" for each in spans), encoding="utf-8")
    rows = cal.read(path).to_dicts()
    assert [row["prompt_tokens"] for row in rows] == [each.input_tokens for each in usages]
    assert [row["completion_tokens"] for row in rows] == [each.output_tokens for each in usages]
    assert {(row["input"], row["answer"]) for row in rows} == {("20 + 22", "42")}
    calls = [json.loads(row["trace"])["tool_calls"] for row in rows]
    assert [[call["tool_name"] for call in each] for each in calls] == [["add"]] * 3


def test_pydantic_evals(tmp_path: Path, write: Write) -> None:
    theirs = write("pydantic_evals", "coding")
    for name, report in theirs["reports"].items():
        path = tmp_path / name
        found = score(path, "pydantic-evals")
        assert value(found, "score_near") == pytest.approx(report["near"])
        assert value(found, "completion_tokens_mean") == report["tokens"]
        assert (found.records, found.errors) == (
            report["cases"] + report["failures"],
            report["failures"],
        )
        first = cal.read(path).to_dicts()[0]
        assert (first["id"], first["model"], first["passed"]) == ("a", theirs["model"], True)


def test_codex(tmp_path: Path, write: Write) -> None:
    theirs = write("codex", "codex")
    assert theirs["written"] == "ok"
    events = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    used = next(e["usage"] for e in map(json.loads, events) if e["type"] == "turn.completed")
    [rollout] = (tmp_path / "sessions").rglob("rollout-*.jsonl")
    for path in (tmp_path / "events.jsonl", rollout, tmp_path / "sessions"):
        found = score(path, "Codex")
        [record] = cal.read(path).to_dicts()
        assert record["answer"] == "Done."
        cached = used["cached_input_tokens"]
        assert value(found, "prompt_tokens_mean") == used["input_tokens"] - cached
        assert value(found, "completion_tokens_mean") == used["output_tokens"]
        assert record["cache_read_tokens"] == cached
        assert record["reasoning_tokens"] == used["reasoning_output_tokens"]
        [call] = json.loads(record["trace"])["tool_calls"]
        assert call["success"] is True
    assert (record["input"], record["model"]) == (theirs["task"], "gpt-5-mini")
    assert record["agent_version"] == theirs["version"]


def test_harbor(tmp_path: Path, write: Write) -> None:
    if not any((ROOT / ".venv-logs-coding").glob("lib/*/site-packages/harbor")):
        pytest.skip("not installed: Harbor needs Python 3.12 (make test-logs)")
    theirs = write("harbor", "coding")
    for agent, figures in theirs["jobs"].items():
        found = score(tmp_path / "jobs" / agent, "Harbor", errors="fail")
        assert value(found, "pass_rate") == pytest.approx(figures["mean"])
        assert value(found, "pass_at_2") == pytest.approx(figures["pass_at_2"])
    ranking = cal.rank(tmp_path / "jobs", metrics=["pass_rate"], cluster="repository")
    assert len(ranking.metrics[0].systems) == len(theirs["jobs"])
    found = score(next(tmp_path.rglob("trajectory.json")), "ATIF")
    assert value(found, "prompt_tokens_mean") == 400
